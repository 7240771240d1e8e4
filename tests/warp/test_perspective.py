"""warp_perspective; points and boxes moved by homographies, and homographies fitted to points."""

from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
import visops
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

SIZE = (150, 200)
MATRIX = np.array([[0.8, 0.1, 12.0], [-0.1, 0.7, 40.0], [-2e-4, 6e-4, 1.0]])

BORDERS = {
    "constant": "BORDER_CONSTANT",
    "replicate": "BORDER_REPLICATE",
    "reflect": "BORDER_REFLECT_101",
    "symmetric": "BORDER_REFLECT",
}

FLAGS = {"bilinear": "INTER_LINEAR", "nearest": "INTER_NEAREST", "bicubic": "INTER_CUBIC"}


def photo(dtype: str = "uint8") -> np.ndarray:
    return skimage.data.astronaut()[100:300, 80:330].astype(dtype)


@pytest.mark.parametrize("mode", FLAGS)
@pytest.mark.parametrize("padding_mode", BORDERS)
@pytest.mark.parametrize("inverse_map", [False, True])
def test_agrees_with_opencv(mode: Any, padding_mode: Any, inverse_map: bool) -> None:
    cv2 = pytest.importorskip("cv2")
    if int(cv2.__version__.split(".")[0]) < 5 and mode != "nearest":
        pytest.skip("OpenCV 4 takes its weights from a table")
    for dtype in ("uint8", "uint16", "float32"):
        image = photo(dtype)
        if padding_mode == "constant" and dtype != "uint8":
            continue
        theirs = cv2.warpPerspective(
            image,
            MATRIX,
            SIZE[::-1],
            flags=getattr(cv2, FLAGS[mode]) | (cv2.WARP_INVERSE_MAP if inverse_map else 0),
            borderMode=getattr(cv2, BORDERS[padding_mode]),
            borderValue=(10, 20, 30),
        )
        ours = visops.warp_perspective(
            image,
            MATRIX,
            SIZE,
            mode=mode,
            padding_mode=padding_mode,
            fill=(10, 20, 30),
            inverse_map=inverse_map,
        )
        assert ours.dtype == image.dtype
        difference = np.abs(ours.astype(float) - theirs.astype(float))
        if mode == "nearest":  # coordinates may round to the other pixel
            assert (difference > 0).mean() < 2e-3
        else:
            assert difference.max() <= (0.2 if dtype == "float32" else 1)


def test_affine_matrices_have_warp_affine_s_pixels() -> None:
    image = photo()
    matrix = visops.get_affine_matrix((120, 90), 30, (3, 4), (1.3, 0.7), (5, 6), like=image)
    full = np.concatenate([matrix, [[0, 0, 1]]])
    expected = visops.warp_affine(image, matrix, fill=3)
    np.testing.assert_array_equal(visops.warp_perspective(image, full, fill=3), expected)
    np.testing.assert_array_equal(visops.warp_perspective(image, matrix, fill=3), expected)
    tensor = torch.from_numpy(image).permute(2, 0, 1)
    result = visops.warp_perspective(tensor, torch.from_numpy(full), fill=3)
    np.testing.assert_array_equal(result.permute(1, 2, 0).numpy(), expected)


def test_forms() -> None:
    image = photo()
    expected = visops.warp_perspective(image, MATRIX, SIZE)
    assert expected.shape == (*SIZE, 3)
    assert expected.flags.c_contiguous
    grey = visops.warp_perspective(image[..., 1], MATRIX, SIZE)
    np.testing.assert_array_equal(grey, expected[..., 1])
    assert visops.warp_perspective(image, MATRIX).shape == image.shape
    chw = torch.from_numpy(image).permute(2, 0, 1)
    assert torch.equal(
        visops.warp_perspective(chw, MATRIX, SIZE), torch.from_numpy(expected).permute(2, 0, 1)
    )
    batch = torch.stack([chw, chw.flip(-1)])
    results = visops.warp_perspective(batch, MATRIX[None], SIZE)
    assert torch.equal(results[0], visops.warp_perspective(chw, MATRIX, SIZE))
    last = visops.warp_perspective(
        batch.contiguous(memory_format=torch.channels_last), MATRIX, SIZE
    )
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last, results)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "uint16", "int32"])
def test_integers_are_exact_in_nearest(dtype: str) -> None:
    limits = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = np.random.default_rng(0).integers(*limits, (40, 50), endpoint=True)
    image = values.astype(dtype)
    fill = limits[0]
    result = visops.warp_perspective(image, MATRIX, SIZE, mode="nearest", fill=fill)
    assert result.dtype == image.dtype
    index = np.arange(1, image.size + 1, dtype=np.float64).reshape(image.shape)
    where = visops.warp_perspective(index, MATRIX, SIZE, mode="nearest").astype(int)
    expected = np.concatenate([[fill], image.ravel()]).astype(dtype)[where]
    if dtype != "int32":  # float32 coordinates
        index32 = index.astype(np.float32)
        where = visops.warp_perspective(index32, MATRIX, SIZE, mode="nearest").astype(int)
        expected = np.concatenate([[fill], image.ravel()]).astype(dtype)[where]
    np.testing.assert_array_equal(result, expected)


def test_integers_round_and_saturate() -> None:
    image = np.array([[0, 1, 65535, 65535, 0, 0]], np.uint16)
    shifted = visops.warp_perspective(image, [[1, 0, -0.5], [0, 1, 0], [0, 0, 1]], (1, 3))
    assert shifted.tolist() == [[0, 32768, 65535]]  # 0.5 to even
    cubic = visops.warp_perspective(
        image, [[1, 0, -0.5], [0, 1, 0], [0, 0, 1]], (1, 4), mode="bicubic"
    )
    assert cubic.tolist()[0][2] == 65535


def test_gradients() -> None:
    torch.manual_seed(0)
    image = torch.rand(1, 2, 5, 6, dtype=torch.float64, requires_grad=True)
    matrix = torch.tensor(
        [[1.1, 0.1, -0.3], [-0.1, 0.9, 0.4], [0.01, 0.02, 1.0]], dtype=torch.float64
    ).requires_grad_()
    assert gradcheck(lambda i, m: visops.warp_perspective(i, m, (4, 4)), (image, matrix))


def test_points_agree_with_opencv() -> None:
    cv2 = pytest.importorskip("cv2")
    points = np.random.default_rng(0).uniform(0, 200, (7, 2))
    expected = cv2.perspectiveTransform(points[None], MATRIX)[0]
    np.testing.assert_allclose(visops.transform_points(points, MATRIX), expected, atol=1e-10)
    stack = np.stack([MATRIX, 2 * MATRIX, -MATRIX])  # the scale doesn't matter
    moved = visops.transform_points(points, stack)
    assert moved.shape == (3, 7, 2)
    np.testing.assert_allclose(moved, np.broadcast_to(expected, moved.shape), atol=1e-10)


def test_points_move_as_the_image_does() -> None:
    image = torch.zeros(1, 60, 60)
    image[0, 20, 30] = 1
    (point,) = visops.transform_points(torch.tensor([[30.0, 20.0]]), MATRIX)
    warped = visops.warp_perspective(image, MATRIX, (100, 100))[0]
    x, y = (warped.sum(0) @ torch.arange(100.0), warped.sum(1) @ torch.arange(100.0))
    torch.testing.assert_close(torch.stack([x, y]) / warped.sum(), point, rtol=0, atol=0.5)


def test_points_on_the_horizon() -> None:
    matrix = torch.tensor([[1.0, 0, 0], [0, 1, 0], [1, 0, -10]])
    moved = visops.transform_points(torch.tensor([[10.0, 5], [10, 0], [11, 5]]), matrix)
    assert torch.isinf(moved[0]).all()
    assert torch.isnan(moved[1, 1])
    assert moved[2].tolist() == [11, 5]


def test_boxes() -> None:
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 100, (3, 5, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(1, 50, corner.shape)], -1)
    moved = visops.transform_boxes(boxes, MATRIX)
    for (x1, y1, x2, y2), found in zip(boxes.reshape(-1, 4), moved.reshape(-1, 4), strict=True):
        corners = np.array([[x1, y1], [x2, y1], [x2, y2], [x1, y2]])
        expected = visops.transform_points(corners, MATRIX)
        np.testing.assert_allclose(found, [*expected.min(0), *expected.max(0)], atol=1e-12)
    np.testing.assert_allclose(visops.transform_boxes(boxes, -MATRIX), moved, atol=1e-10)
    affine = MATRIX * [[1], [1], [0]] + np.diag([0, 0, 1])
    np.testing.assert_array_equal(
        visops.transform_boxes(boxes, affine), visops.transform_boxes(boxes, affine[:2])
    )


def test_boxes_across_the_horizon_have_no_bounds() -> None:
    matrix = torch.tensor([[1.0, 0, 0], [0, 1, 0], [1, 0, -10]])  # x = 10 goes to infinity
    boxes = torch.tensor([[0.0, 0, 9, 5], [0, 0, 10, 5], [5, 0, 15, 5], [11, 0, 15, 5]])
    moved = visops.transform_boxes(boxes, matrix)
    assert moved.isnan().all(-1).tolist() == [False, True, True, False]
    assert not moved[[0, 3]].isnan().any()


def test_gradients_of_points_and_boxes() -> None:
    points = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    boxes = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    matrix = torch.tensor(MATRIX, requires_grad=True)
    assert gradcheck(visops.transform_points, (points, matrix))
    assert gradcheck(visops.transform_boxes, (boxes, matrix))


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
def test_gradients_of_fits(count: int) -> None:
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
