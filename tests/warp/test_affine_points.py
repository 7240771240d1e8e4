"""affine_from_points, transform_points, transform_boxes."""

import numpy as np
import pytest
import torch
import visops
from references.affine import random_matrix
from torch import Tensor
from torch.autograd import gradcheck

TRIANGLE = [[0.0, 0.0], [10.0, 1.0], [2.0, 20.0]]


def apply(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    return points @ matrix[:, :2].T + matrix[:, 2]  # type: ignore[no-any-return]


def test_three_points_exactly() -> None:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(-50, 50, (2, 20, 3, 2)).astype(np.float64)
    matrices = visops.affine_from_points(src, dst)
    assert isinstance(matrices, np.ndarray)
    for matrix, s, d in zip(matrices, src, dst, strict=True):
        np.testing.assert_allclose(apply(matrix, s), d, rtol=0, atol=1e-10)
        np.testing.assert_array_equal(visops.affine_from_points(s, d), matrix)
    turn = visops.affine_from_points([[0, 0], [9, 0], [0, 9]], [[9, 0], [9, 9], [0, 0]])
    assert turn.tolist() == [[0, -1, 9], [1, 0, 0]]


def test_agrees_with_opencv() -> None:
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(1)
    for _ in range(10):
        src, dst = rng.uniform(0, 500, (2, 3, 2)).astype(np.float32)
        expected = cv2.getAffineTransform(src, dst)
        result = visops.affine_from_points(src.astype(np.float64), dst.astype(np.float64))
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-7)


def test_least_squares() -> None:
    rng = np.random.default_rng(2)
    for count in (4, 5, 50):
        src = rng.uniform(0, 500, (3, count, 2))
        dst = rng.uniform(0, 500, (3, count, 2))
        result = visops.affine_from_points(src, dst)
        for s, d, matrix in zip(src, dst, result, strict=True):
            design = np.column_stack([s, np.ones(count)])
            expected = np.linalg.lstsq(design, d, rcond=None)[0].T
            np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-8)
    matrix = random_matrix(rng, 100, 100, (100, 100))
    exact = visops.affine_from_points(src, apply(matrix, src))
    np.testing.assert_allclose(exact, np.broadcast_to(matrix, (3, 2, 3)), rtol=0, atol=1e-9)


def test_one_template_for_all_samples() -> None:
    """[N, 2] beside [B, N, 2], as in aligning faces to a template."""
    rng = np.random.default_rng(3)
    template = torch.from_numpy(rng.uniform(0, 100, (5, 2)))
    faces = torch.from_numpy(rng.uniform(0, 500, (7, 5, 2)))
    result = visops.affine_from_points(faces, template)
    assert result.shape == (7, 2, 3)
    torch.testing.assert_close(result, visops.affine_from_points(faces, template.expand(7, 5, 2)))
    back = visops.affine_from_points(template, faces)
    torch.testing.assert_close(back[2], visops.affine_from_points(template, faces[2]))


def test_points_move_as_the_image_does() -> None:
    image = torch.zeros(1, 40, 50)
    points = torch.tensor([[12.0, 7.0], [30.0, 31.0], [45.0, 3.0]])
    for x, y in points.int().tolist():
        image[0, y, x] = 1
    for convention, center in (("integer", (24.5, 19.5)), ("half_pixel", (25.0, 20.0))):
        matrix = visops.get_affine_matrix(center, 180)
        moved = visops.warp_affine(image, matrix, convention=convention)
        half = 0.5 if convention == "half_pixel" else 0.0
        expected = visops.transform_points(points + half, matrix) - half
        assert sorted(moved[0].nonzero().flip(1).tolist()) == sorted(expected.int().tolist())
    whole = torch.tensor([[0.0, 0.0, 50.0, 40.0]])
    assert torch.equal(visops.transform_boxes(whole, matrix), whole)


def test_values_and_broadcasting() -> None:
    rng = np.random.default_rng(4)
    matrices = np.stack([random_matrix(rng, 50, 50, (50, 50)) for _ in range(3)])
    points = rng.uniform(-100, 100, (3, 8, 2))
    result = visops.transform_points(points, matrices)
    for p, m, r in zip(points, matrices, result, strict=True):
        np.testing.assert_allclose(r, apply(m, p), rtol=0, atol=1e-11)
    assert visops.transform_points(points[0], matrices).shape == (3, 8, 2)
    assert visops.transform_points(points, matrices[0]).shape == (3, 8, 2)
    assert visops.transform_points(points[:, :0], matrices).shape == (3, 0, 2)
    boxes = np.concatenate([points, points + rng.uniform(0, 50, points.shape)], axis=-1)
    moved = visops.transform_boxes(boxes, matrices)
    for b, m, r in zip(boxes, matrices, moved, strict=True):
        corners = np.stack([b[:, [0, 1]], b[:, [2, 1]], b[:, [2, 3]], b[:, [0, 3]]])
        corners = apply(m, corners)
        np.testing.assert_allclose(r[:, :2], corners.min(0), rtol=0, atol=1e-11)
        np.testing.assert_allclose(r[:, 2:], corners.max(0), rtol=0, atol=1e-11)
    assert visops.transform_boxes(boxes[:, :0], matrices).shape == (3, 0, 4)
    assert visops.transform_boxes(boxes[None], matrices).shape == (1, 3, 8, 4)


def test_types_in_types_out() -> None:
    matrix = visops.get_affine_matrix((3, 4), 30)
    for dtype in (torch.float16, torch.float32, torch.float64):
        points = torch.rand(5, 2).to(dtype)
        assert visops.transform_points(points, matrix).dtype == dtype
        array = visops.transform_points(points.numpy(), matrix)
        assert isinstance(array, np.ndarray)
        assert array.dtype == points.numpy().dtype
        triangle = torch.tensor(TRIANGLE).to(dtype)
        assert visops.affine_from_points(triangle, triangle).dtype == dtype
    assert (
        visops.transform_boxes(torch.zeros(2, 4, dtype=torch.int64), matrix).dtype == torch.float64
    )
    assert isinstance(visops.transform_points(points, matrix.numpy()), Tensor)
    assert isinstance(visops.affine_from_points(TRIANGLE, np.array(TRIANGLE)), np.ndarray)
    with_grad = matrix.clone().requires_grad_()
    assert isinstance(visops.transform_points(np.zeros((1, 2)), with_grad), np.ndarray)


def test_gradients() -> None:
    rng = np.random.default_rng(5)

    def leaf(*shape: int) -> Tensor:
        return torch.from_numpy(rng.uniform(-5, 5, shape)).requires_grad_()

    for count in (3, 6):
        assert gradcheck(visops.affine_from_points, (leaf(2, count, 2), leaf(2, count, 2)))
    assert gradcheck(visops.transform_points, (leaf(2, 4, 2), leaf(2, 2, 3)))
    assert gradcheck(visops.transform_boxes, (leaf(2, 4, 4), leaf(2, 2, 3)))


def line(count: int, *, dtype: torch.dtype = torch.float64) -> Tensor:
    steps = torch.arange(count, dtype=torch.float64)[:, None]
    return (torch.tensor([0.3, 700.1]) + steps * torch.tensor([0.7, -0.1])).to(dtype)


@pytest.mark.parametrize("count", [3, 4, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_collinear_points_are_named(count: int, dtype: torch.dtype) -> None:
    """Also where rounding to the dtype has moved them off the line a little."""
    good = torch.rand(count, 2, dtype=dtype) * 100
    src = torch.stack([good, good, line(count, dtype=dtype)])
    message = r"^visops\.affine_from_points: src\[2\] is collinear: its points lie on one line$"
    with pytest.raises(ValueError, match=message):
        visops.affine_from_points(src, src)
    with pytest.raises(ValueError, match=r"points: src is collinear"):
        visops.affine_from_points(torch.zeros(count, 2), good)
    unseen = torch.vmap(visops.affine_from_points)(src, src)
    assert unseen.isnan().any((1, 2)).tolist() == [False, False, True]
    # A thin triangle is still one.
    thin = src[2].clone()
    thin[1, 1] += 0.01
    assert torch.isfinite(visops.affine_from_points(thin, good)).all()


def test_compile() -> None:
    def chain(src: Tensor, dst: Tensor) -> Tensor:
        matrix = visops.affine_from_points(src, dst)
        moved = visops.transform_points(src, matrix)
        return visops.transform_boxes(torch.cat([moved, moved + 1], -1), matrix)

    torch._dynamo.reset()
    compiled = torch.compile(chain, fullgraph=True, backend="aot_eager")
    for count in (3, 5):
        src, dst = torch.rand(2, 2, count, 2, dtype=torch.float64)
        torch.testing.assert_close(compiled(src, dst), chain(src, dst))


@pytest.mark.cuda
def test_cuda_does_not_look() -> None:
    src = torch.tensor([TRIANGLE, [[0.0, 0], [1, 1], [2, 2]]], device="cuda")
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        matrices = visops.affine_from_points(src, src)
        visops.transform_points(src, matrices)
        visops.invert_affine(matrices)
        visops.get_affine_matrix((1, 2), src[:, 0, 0], scale=src[:, 1, 0])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert matrices.isnan().any(-1).any(-1).tolist() == [False, True]
