"""similarity_from_points and homography_from_points."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

SQUARE = [[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]]


def umeyama(src: np.ndarray, dst: np.ndarray, scale: bool) -> np.ndarray:
    """Umeyama's solution by a singular value decomposition, as in his paper."""
    s, d = src - src.mean(0), dst - dst.mean(0)
    u, values, vt = np.linalg.svd(d.T @ s / len(src))
    sign = np.array([1.0, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
    turn = u @ np.diag(sign) @ vt
    factor = (values * sign).sum() / (s**2).sum(1).mean() if scale else 1.0
    shift = dst.mean(0) - factor * turn @ src.mean(0)
    return np.column_stack([factor * turn, shift])


def normalising(points: np.ndarray) -> np.ndarray:
    """The matrix that makes the centre 0 and the root mean square distance from it sqrt(2)."""
    center = points.mean(0)
    factor = np.sqrt(2 / ((points - center) ** 2).sum(1).mean())
    return np.array([[factor, 0, -factor * center[0]], [0, factor, -factor * center[1]], [0, 0, 1]])


def direct_linear(src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """The direct linear transformation, row by row."""
    left, right = normalising(src), normalising(dst)
    rows = []
    for p, q in zip(src, dst, strict=True):
        x, y, _ = left @ [*p, 1]
        u, v, _ = right @ [*q, 1]
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y, -u])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y, -v])
    h = np.linalg.svd(np.array(rows))[2][-1].reshape(3, 3)
    h = np.linalg.inv(right) @ h @ left
    return h / h[2, 2]


def random_homographies(rng: np.random.Generator, count: int) -> np.ndarray:
    """Homographies that keep points from 0 to 500 well within the horizon."""
    matrices = rng.uniform(-1, 1, (count, 3, 3)) * [[1, 1, 200], [1, 1, 200], [5e-4, 5e-4, 0]]
    return matrices + np.diag([1.5, 1.5, 1.0])


def move(points: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    homogeneous = np.concatenate([points, np.ones((*points.shape[:-1], 1))], -1)
    moved = homogeneous @ np.swapaxes(matrices, -1, -2)
    return moved[..., :2] / moved[..., 2:]


@pytest.mark.parametrize("count", [2, 3, 5, 20])
@pytest.mark.parametrize("scale", [True, False])
def test_similarity(count: int, scale: bool) -> None:
    rng = np.random.default_rng(count)
    src, dst = rng.uniform(0, 500, (2, 6, count, 2))
    result = visops.similarity_from_points(src, dst, scale=scale)
    assert isinstance(result, np.ndarray)
    for s, d, matrix in zip(src, dst, result, strict=True):
        np.testing.assert_allclose(matrix, umeyama(s, d, scale), rtol=0, atol=1e-9)
    shared = visops.similarity_from_points(src, dst[0], scale=scale)
    np.testing.assert_array_equal(shared[0], result[0])
    assert shared.shape == (6, 2, 3)


def test_similarity_has_no_reflection() -> None:
    mirrored = visops.similarity_from_points(SQUARE[:3], [[-x, y] for x, y in SQUARE[:3]])
    assert torch.det(mirrored[:, :2]) >= 0


def test_similarity_agrees_with_opencv() -> None:
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(0)
    for count in (2, 5):
        turn = cv2.getRotationMatrix2D((200.0, 100.0), rng.uniform(-180, 180), 0.7)
        src = rng.uniform(0, 500, (count, 2))
        dst = src @ turn[:, :2].T + turn[:, 2]
        expected, _ = cv2.estimateAffinePartial2D(src, dst)
        result = visops.similarity_from_points(src, dst)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)  # theirs has float32
        np.testing.assert_allclose(result, turn, rtol=0, atol=1e-10)


def test_similarity_where_no_rotation_is_better() -> None:
    points = torch.tensor(SQUARE)
    collapsed = visops.similarity_from_points(points, points[:1].expand(4, 2) + 7)
    assert collapsed.tolist() == [[0, 0, 7], [0, 0, 7]]
    mirrored = points.flip(-1)
    assert visops.similarity_from_points(points, mirrored)[:, :2].tolist() == [[0, 0], [0, 0]]


def test_four_points_exactly() -> None:
    rng = np.random.default_rng(1)
    src = rng.uniform(0, 500, (50, 4, 2))
    dst = rng.uniform(0, 500, (50, 4, 2))  # any order, crossing sides too
    result = visops.homography_from_points(src, dst)
    assert isinstance(result, np.ndarray)
    np.testing.assert_allclose(move(src, result), dst, rtol=0, atol=1e-7)
    np.testing.assert_allclose(result[:, 2, 2], 1, rtol=0, atol=1e-15)
    turn = visops.homography_from_points(SQUARE, [*SQUARE[1:], SQUARE[0]])
    assert turn.tolist() == [[0, -1, 10], [1, 0, 0], [0, 0, 1]]


def test_four_points_agree_with_opencv() -> None:
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(2)
    src = 50.0 * np.array(SQUARE) + rng.uniform(-100, 100, (20, 4, 2))
    dst = 50.0 * np.array(SQUARE) + rng.uniform(-100, 100, (20, 4, 2))
    result = visops.homography_from_points(src, dst)
    for s, d, matrix in zip(src, dst, result, strict=True):
        expected = cv2.getPerspectiveTransform(s.astype(np.float32), d.astype(np.float32))
        np.testing.assert_allclose(matrix, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [5, 8, 30])
def test_more_points(count: int) -> None:
    rng = np.random.default_rng(count)
    matrices = random_homographies(rng, 6)
    src = rng.uniform(0, 500, (6, count, 2))
    exact = move(src, matrices)
    result = visops.homography_from_points(src, exact)
    scaled = matrices / matrices[:, 2:, 2:]
    np.testing.assert_allclose(result, scaled, rtol=1e-7, atol=1e-7)
    noisy = exact + rng.normal(0, 3, exact.shape)
    result = visops.homography_from_points(src, noisy)
    for s, d, matrix in zip(src, noisy, result, strict=True):
        np.testing.assert_allclose(matrix, direct_linear(s, d), rtol=1e-7, atol=1e-7)


def test_more_points_agree_with_skimage() -> None:
    transform = pytest.importorskip("skimage.transform")
    rng = np.random.default_rng(3)
    src = rng.uniform(0, 500, (9, 2))
    dst = move(src, random_homographies(rng, 1)[0]) + rng.normal(0, 2, (9, 2))
    expected = transform.ProjectiveTransform.from_estimate(src, dst).params
    result = visops.homography_from_points(src, dst)
    np.testing.assert_allclose(result, expected, rtol=1e-7, atol=1e-7)


def test_origin_at_infinity() -> None:
    """The last element is 0, so it can't be 1."""
    matrix = np.array([[1.0, 0.2, 3.0], [0.1, 1.0, 4.0], [0.01, 0.02, 0.0]])
    src = np.array(SQUARE) * 3 + 5
    for points in (src, np.concatenate([src, src + np.array([1, 2])])):
        result = visops.homography_from_points(points, move(points, matrix))
        expected = matrix / np.linalg.norm(matrix)
        sign = np.sign(result[0, 0] * expected[0, 0])
        np.testing.assert_allclose(sign * result, expected, rtol=0, atol=1e-10)


def leaf(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.uniform(-5, 5, shape)).requires_grad_()


@pytest.mark.parametrize("count", [4, 6])
def test_gradients(count: int) -> None:
    rng = np.random.default_rng(4)
    src, dst = leaf(rng, 2, count, 2), leaf(rng, count, 2)
    assert gradcheck(visops.homography_from_points, (src, dst))
    assert gradgradcheck(visops.homography_from_points, (src, dst), fast_mode=True)
    for scale in (True, False):
        assert gradcheck(
            lambda s, d, k=scale: visops.similarity_from_points(s, d, scale=k), (src, dst)
        )
    assert gradgradcheck(visops.similarity_from_points, (src, dst), fast_mode=True)


def test_gradients_where_singular_values_are_equal() -> None:
    """A grid of points: torch's own derivative of the decomposition is infinite there."""
    grid = torch.tensor([[x, y] for x in (0.0, 1, 2) for y in (0.0, 1, 2)], dtype=torch.float64)
    grid.requires_grad_()
    noisy = (grid.detach() + 0.01 * torch.sin(7 * grid.detach())).requires_grad_()
    assert gradcheck(visops.homography_from_points, (grid, grid.detach().clone().requires_grad_()))
    assert gradcheck(visops.homography_from_points, (grid, noisy))


def test_forward_derivatives() -> None:
    torch.manual_seed(0)
    src, dst, step = (torch.rand(7, 2, dtype=torch.float64) for _ in range(3))
    found: Any = torch.func.jvp(lambda s: visops.homography_from_points(s, dst), (src,), (step,))
    forward = found[1]
    jacobian = torch.func.jacrev(visops.homography_from_points)(src, dst)
    torch.testing.assert_close(forward, (jacobian * step).sum((-1, -2)))


def test_types_and_vmap() -> None:
    rng = np.random.default_rng(5)
    src = torch.from_numpy(rng.uniform(0, 9, (3, 5, 2)))
    dst = torch.from_numpy(rng.uniform(0, 9, (3, 5, 2)))
    for function in (visops.similarity_from_points, visops.homography_from_points):
        expected = function(src, dst)
        torch.testing.assert_close(torch.vmap(function)(src, dst), expected)
        assert function(src.float(), dst.float()).dtype == torch.float32
        assert function(src.float(), dst).dtype == torch.float64
        assert function(src.numpy().astype(np.float32), dst).dtype == np.float64
        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(src, dst), expected)


def line(count: int) -> Tensor:
    steps = torch.arange(count, dtype=torch.float64)[:, None]
    return torch.tensor([0.3, 700.1]) + steps * torch.tensor([0.7, -0.1], dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_degenerate_points_are_named(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    four, six = 100 * torch.rand(4, 2, dtype=dtype), 100 * torch.rand(6, 2, dtype=dtype)
    homography = visops.homography_from_points
    three_in_line = torch.cat([line(3).to(dtype), four[:1]])
    for name, (src, dst) in {"src": (three_in_line, four), "dst": (four, three_in_line)}.items():
        message = rf"points: {name}\[1\] is degenerate: three of its points lie on one line$"
        with pytest.raises(ValueError, match=message):
            homography(torch.stack([four, src]), torch.stack([four, dst]))
    unseen = torch.vmap(homography)(torch.stack([four, three_in_line]), torch.stack([four, four]))
    assert unseen.isnan().all(-1).all(-1).tolist() == [False, True]
    for bad in (line(6).to(dtype), torch.zeros(6, 2, dtype=dtype), six[:1].expand(6, 2)):
        for src, dst in ((bad, six), (six, bad), (bad, bad)):
            with pytest.raises(ValueError, match=r"points: src and dst fit no single homography"):
                homography(src, dst)
    all_but_one = torch.cat([line(5).to(dtype), six[:1]])
    with pytest.raises(ValueError, match=r"src and dst fit no single homography"):
        homography(all_but_one, 2 * all_but_one + 3)
    with pytest.raises(ValueError, match=r"similarity_from_points: src\[1\] is a single point"):
        visops.similarity_from_points(torch.stack([four, four[:1].expand(4, 2)]), four)
    moved = torch.stack([six, 2 * all_but_one])
    unseen = torch.vmap(homography)(torch.stack([six, all_but_one]), moved)
    assert unseen.isnan().all(-1).all(-1).tolist() == [False, True]
