"""Affine matrices made and composed, fitted to points, and points and boxes moved by them."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table
from references.affine import random_matrix
from torch import Tensor
from torch.autograd import gradcheck

NAN, INF = float("nan"), float("inf")


def reference(center: Any, angle: float, translate: Any, scale: float, shear: Any) -> np.ndarray:
    """T C R S SHy SHx C^-1, one matrix after the other."""
    a, sx, sy = np.radians([angle, *shear])

    def shift(x: float, y: float) -> np.ndarray:
        return np.array([[1, 0, x], [0, 1, y], [0, 0, 1]])

    rotate = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    shear_x = np.array([[1, -np.tan(sx), 0], [0, 1, 0], [0, 0, 1]])
    shear_y = np.array([[1, 0, 0], [-np.tan(sy), 1, 0], [0, 0, 1]])
    product = shift(*translate) @ shift(*center) @ rotate @ np.diag([scale, scale, 1])
    product = product @ shear_y @ shear_x @ np.linalg.inv(shift(*center))
    return product[:2]  # type: ignore[no-any-return]


def parameters(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "center": rng.uniform(-50, 50, 2).tolist(),
        "angle": float(rng.uniform(-400, 400)),
        "translate": rng.uniform(-50, 50, 2).tolist(),
        "scale": float(rng.uniform(0.2, 3)),
        "shear": rng.uniform(-60, 60, 2).tolist(),
    }


def test_definition() -> None:
    rng = np.random.default_rng(0)
    samples = [parameters(rng) for _ in range(20)]
    expected = np.stack([reference(**sample) for sample in samples])
    for sample, matrix in zip(samples, expected, strict=True):
        result = visops.get_affine_matrix(**sample)
        assert result.dtype == torch.float64
        np.testing.assert_allclose(result, matrix, rtol=0, atol=1e-11)
    stacked = {name: np.array([s[name] for s in samples]) for name in samples[0]}
    array = visops.get_affine_matrix(**stacked)
    assert isinstance(array, np.ndarray)
    np.testing.assert_allclose(array, expected, rtol=0, atol=1e-11)
    tensor = visops.get_affine_matrix(**{k: torch.from_numpy(v) for k, v in stacked.items()})
    np.testing.assert_allclose(tensor, expected, rtol=0, atol=1e-11)


def test_agrees_with_torchvision() -> None:
    functional = pytest.importorskip("torchvision.transforms.functional")
    rng = np.random.default_rng(1)
    for _ in range(10):
        sample = parameters(rng)
        forward = functional._get_inverse_affine_matrix(**sample, inverted=False)
        result = visops.get_affine_matrix(**sample)
        np.testing.assert_allclose(result.flatten(), forward, rtol=1e-12, atol=1e-11)


def test_rotation_matrix_is_opencv_s() -> None:
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(4)
    for _ in range(10):
        center = rng.uniform(-500, 500, 2).astype(np.float32).tolist()  # theirs has float32
        angle, scale = rng.uniform((-400, 0.1), (400, 3)).tolist()
        result = visops.get_rotation_matrix2d(center, angle, scale)
        expected = cv2.getRotationMatrix2D(center, angle, scale)
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-11)


def test_rotation_matrix_is_kornia_s() -> None:
    geometry = pytest.importorskip("kornia.geometry")
    torch.manual_seed(0)
    center, angle = torch.rand(5, 2).double() * 99, torch.rand(5).double() * 800 - 400
    scale = torch.rand(5, 2).double() + 0.1
    expected = geometry.get_rotation_matrix2d(center, angle, scale)
    result = visops.get_rotation_matrix2d(center, angle, scale)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-10)


def test_scales_of_x_and_y() -> None:
    rng = np.random.default_rng(5)
    for _ in range(10):
        sample = parameters(rng)
        factors = rng.uniform(0.2, 3, 2)
        stretch = np.diag([*factors, 1])
        # Before the rotation, after the shear: what `scale` multiplies in the definition.
        one = np.vstack([reference(sample["center"], 0, (0, 0), 1, sample["shear"]), [0, 0, 1]])
        turn = np.vstack(
            [reference((0, 0), sample["angle"], sample["translate"], 1, (0, 0)), [0, 0, 1]]
        )
        to, back = np.eye(3), np.eye(3)
        to[:2, 2], back[:2, 2] = sample["center"], -np.array(sample["center"])
        expected = (to @ turn @ stretch @ back @ one)[:2]
        sample["scale"] = tuple(factors)
        np.testing.assert_allclose(visops.get_affine_matrix(**sample), expected, rtol=0, atol=1e-11)
        for pair in (torch.tensor(factors)[None], tuple(torch.tensor(factors)[:, None])):
            batched = visops.get_affine_matrix(**{**sample, "scale": pair})
            assert batched.shape == (1, 2, 3)
            np.testing.assert_allclose(batched[0], expected, rtol=0, atol=1e-11)
    assert visops.get_affine_matrix((0, 0), 0, scale=(3, 1)).tolist() == [[3, 0, 0], [0, 1, 0]]
    # A tensor [2] still has one factor for each of two samples.
    assert visops.get_affine_matrix((0, 0), 0, scale=torch.tensor([3.0, 1.0])).shape == (2, 2, 3)


def test_equal_scales_have_the_bits_of_one() -> None:
    both = visops.get_affine_matrix((31, 17), 33.3, scale=(2, 2))
    assert torch.equal(both, visops.get_affine_matrix((31, 17), 33.3, scale=2))


def test_numbers_follow_an_image() -> None:
    image = np.zeros((4, 4, 3), np.uint8)
    points = [[0, 0], [9, 0], [0, 9], [9, 10]]
    calls: list[Any] = [
        lambda like: visops.get_affine_matrix((1, 2), 30, like=like),
        lambda like: visops.get_rotation_matrix2d((1, 2), 30, like=like),
        lambda like: visops.affine_from_points(points, points, like=like),
        lambda like: visops.similarity_from_points(points, points, like=like),
        lambda like: visops.homography_from_points(points, points, like=like),
        lambda like: visops.letterbox((3, 4), 8, like=like),
    ]
    for call in calls:
        array, tensor = call(image), call(torch.zeros(1))
        assert isinstance(array, np.ndarray)
        assert isinstance(tensor, Tensor)
        assert torch.equal(call(None), tensor)
        np.testing.assert_array_equal(array, tensor.numpy())
        assert call(torch.zeros(1, device="meta")).device.type == "meta"
        with pytest.raises(
            TypeError, match=r"^visops\.\w+: like is a list, must be a torch.Tensor"
        ):
            call([1])
    # What is not a number decides itself.
    angle = torch.tensor(30.0)
    assert isinstance(visops.get_affine_matrix((1, 2), angle, like=image), Tensor)


@pytest.mark.parametrize("turns", range(-9, 10))
def test_quarter_turns_are_exact(turns: int) -> None:
    cos, sin = [(1, 0), (0, 1), (-1, 0), (0, -1)][turns % 4]
    linear = torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)
    exact = visops.get_affine_matrix((31.5, 23.5), turns * 90)
    assert torch.equal(exact[:, :2], linear)
    batched = visops.get_affine_matrix((31.5, 23.5), torch.tensor([turns * 90.0]))
    assert torch.equal(batched[0], exact)
    assert not np.signbit(exact.numpy()[exact.numpy() == 0]).any()
    image = torch.rand(3, 48, 64)
    if turns % 2 == 0:
        result = visops.warp_affine(image, exact)
        assert torch.equal(result, torch.rot90(image, -turns, (1, 2)))


def test_mixed_arguments_broadcast() -> None:
    angle = torch.tensor([10.0, 20.0, 30.0])
    x = torch.tensor([1.0, 2.0, 3.0])
    result = visops.get_affine_matrix((x, 5), angle, translate=torch.tensor([1.0, 2.0]), scale=2)
    assert result.shape == (3, 2, 3)
    for i in range(3):
        one = visops.get_affine_matrix((i + 1, 5), float(angle[i]), translate=(1, 2), scale=2)
        torch.testing.assert_close(result[i], one, rtol=0, atol=1e-12)
    assert visops.get_affine_matrix((0, 0), torch.tensor(3.0)).shape == (2, 3)
    assert isinstance(visops.get_affine_matrix(np.array([1, 2]), 3), np.ndarray)
    assert visops.get_affine_matrix((0, 0), torch.zeros(0)).shape == (0, 2, 3)


def test_gradients() -> None:
    def leaf(*values: Any) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, requires_grad=True)

    arguments = (
        leaf([1.0, 2.0], [3.0, 4.0]),
        leaf(90.0, -33.0),  # also where cosine and sine are exact
        leaf([5.0, 6.0], [7.0, 8.0]),
        leaf(0.5, 2.0),
        leaf([10.0, 0.0], [-20.0, 30.0]),
    )
    assert gradcheck(visops.get_affine_matrix, arguments)
    matrix = visops.get_affine_matrix(*arguments).detach().requires_grad_()
    assert gradcheck(visops.invert_affine, (matrix,))
    assert gradcheck(visops.compose_affine, (matrix, matrix.detach().flip(0).requires_grad_()))


def test_inverse() -> None:
    rng = np.random.default_rng(2)
    matrices = rng.normal(size=(3, 5, 2, 3))
    full = np.concatenate([matrices, np.broadcast_to([0, 0, 1], (3, 5, 1, 3))], axis=-2)
    expected = np.linalg.inv(full)[..., :2, :]
    np.testing.assert_allclose(visops.invert_affine(matrices), expected, rtol=1e-9, atol=1e-9)
    back = visops.invert_affine(visops.invert_affine(torch.from_numpy(matrices)))
    np.testing.assert_allclose(back, matrices, rtol=1e-9, atol=1e-9)
    exact = visops.invert_affine(torch.tensor([[0.0, -1.0, 7.0], [1.0, 0.0, 0.0]]))
    assert exact.tolist() == [[0, 1, 0], [-1, 0, 7]]


def test_composition() -> None:
    rng = np.random.default_rng(3)
    first, second, third = rng.normal(size=(3, 4, 2, 3))

    def full(matrix: np.ndarray) -> np.ndarray:
        return np.concatenate([matrix, np.broadcast_to([0, 0, 1], (4, 1, 3))], axis=-2)

    expected = (full(third) @ full(second) @ full(first))[:, :2]
    result = visops.compose_affine(first, second, third)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(visops.compose_affine(first), first)
    shared = visops.compose_affine(first, second[0])
    np.testing.assert_allclose(shared[1], visops.compose_affine(first[1], second[0]))
    inverse = visops.invert_affine(first)
    identity = np.broadcast_to([[1, 0, 0], [0, 1, 0]], (4, 2, 3))
    np.testing.assert_allclose(visops.compose_affine(first, inverse), identity, atol=1e-12)


def test_homographies() -> None:
    rng = np.random.default_rng(6)
    first, second = rng.normal(size=(2, 4, 5, 3, 3))
    affine = rng.normal(size=(5, 2, 3))
    inverse = visops.invert_affine(first)
    np.testing.assert_allclose(inverse, np.linalg.inv(first), rtol=1e-9, atol=1e-9)
    composed = visops.compose_affine(first, second)
    np.testing.assert_allclose(composed, second @ first, rtol=0, atol=1e-12)
    full = np.concatenate([affine, np.broadcast_to([0, 0, 1], (5, 1, 3))], axis=-2)
    mixed = visops.compose_affine(first, affine)
    np.testing.assert_allclose(mixed, full @ first, rtol=0, atol=1e-12)
    np.testing.assert_allclose(visops.compose_affine(affine, first), first @ full, atol=1e-12)
    inverse = visops.invert_affine(full)
    np.testing.assert_array_equal(inverse[:, 2], np.broadcast_to([0, 0, 1], (5, 3)))
    np.testing.assert_allclose(inverse[:, :2], visops.invert_affine(affine), rtol=1e-12)
    matrix = torch.from_numpy(first[0]).requires_grad_()
    assert gradcheck(visops.invert_affine, (matrix,))
    assert gradcheck(visops.compose_affine, (matrix, torch.from_numpy(affine).requires_grad_()))


def test_one_warp_of_the_composition_is_both_warps() -> None:
    image = torch.rand(1, 8, 9)
    flip = torch.tensor([[-1.0, 0.0, 8.0], [0.0, 1.0, 0.0]])
    shift = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]])
    twice = visops.warp_affine(visops.warp_affine(image, flip), shift)
    assert torch.equal(visops.warp_affine(image, visops.compose_affine(flip, shift)), twice)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_types_in_types_out(dtype: torch.dtype) -> None:
    matrix = torch.tensor([[2.0, 0.0, 1.0], [0.0, 4.0, 1.0]], dtype=dtype)
    assert visops.invert_affine(matrix).dtype == dtype
    assert visops.compose_affine(matrix, matrix).dtype == dtype
    assert visops.compose_affine(matrix, matrix.double()).dtype == torch.float64
    assert visops.get_affine_matrix((0, 0), matrix[:, 0]).dtype == torch.float64
    if dtype != torch.bfloat16:
        array = visops.invert_affine(matrix.numpy())
        assert isinstance(array, np.ndarray)
        assert array.dtype == matrix.numpy().dtype
    matrices: tuple[Any, ...] = (matrix.float().numpy(), matrix)
    assert isinstance(visops.compose_affine(*matrices), np.ndarray)
    nested: Any = [[2, 0, 1], [0, 4, 1]]
    assert visops.invert_affine(nested).dtype == torch.float64
    swapped = np.array([[2, 0, 1], [0, 4, 1]], ">f4")[::-1, ::-1][::-1, ::-1]
    assert visops.invert_affine(swapped)[0, 0] == 0.5


@table(
    (ValueError, "compose_affine: got no matrix, at least one is needed", visops.compose_affine),
    (
        ValueError,
        "compose_affine: matrices[1] has batch dimensions [3], which don't fit",
        lambda: visops.compose_affine(torch.zeros(2, 2, 3), torch.zeros(3, 2, 3)),
    ),
    (
        ValueError,
        "compose_affine: tensors are on cpu and meta, must be on the same device",
        lambda: visops.compose_affine(torch.zeros(2, 3), torch.zeros(2, 3, device="meta")),
    ),
)
def test_bad_input(error: Any, message: str, call: Any) -> None:
    check(error, message, call)


def test_where_values_cannot_be_looked_at() -> None:
    """Bad samples become NaN under vmap and compile, as they do on CUDA; good ones stay."""
    matrices = torch.tensor([[[2.0, 0, 0], [0, 2, 0]], [[1.0, 2, 0], [2, 4, 0]]])
    inverse = torch.vmap(visops.invert_affine)(matrices)
    assert inverse[0].tolist() == [[0.5, 0, 0], [0, 0.5, 0]]
    assert inverse[1].isnan().all()
    scaled = torch.vmap(lambda s: visops.get_affine_matrix((0, 0), 0, scale=s))
    assert scaled(torch.tensor([1.0, 0.0])).isnan().any((1, 2)).tolist() == [False, True]
    assert visops.invert_affine(matrices.to("meta")).shape == (2, 2, 3)


def test_vmap_over_no_matrices() -> None:
    for rows in (2, 3):
        assert torch.vmap(visops.invert_affine)(torch.empty(0, rows, 3)).shape == (0, rows, 3)


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


def test_points_agree_with_opencv() -> None:
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
    convention: Any
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


def test_types_of_points() -> None:
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


def test_gradients_of_points() -> None:
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
