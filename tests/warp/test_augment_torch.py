"""The augmentation within torch, its gradients, and the candidates that CUDA's gradients test."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import SLOTS, take_tally, use_slot
from references.affine import random_matrix
from references.augment import destination_to_source
from torch import Tensor
from torch.autograd import forward_ad, gradcheck

from warp.affine_cases import FLOATING, LAYOUTS, random_image
from warp.augment_cases import name_of, random_color, random_perspective

OPS = torch.ops.visops
SIZE = (9, 66)


def sample(dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """An image [2, 3, 10, 12], matrices [2, 3, 3] and colours [2, 2, 3, 4]."""
    rng = np.random.default_rng(seed)
    image = random_image(rng, (2, 3, 10, 12), dtype)
    matrices = [random_perspective(rng, 10, 12, SIZE, scale=(0.5, 2.0)) for _ in range(2)]
    colors = [random_color(rng, 2, 3) for _ in range(2)]
    return image, torch.from_numpy(np.stack(matrices)), torch.from_numpy(np.stack(colors))


def options(color: Tensor | None) -> tuple[Any, ...]:
    """The operators' last arguments, none with its default."""
    window = torch.tensor([[1.5, 0.0, 9.0, 8.0]], dtype=torch.float64).expand(2, 4).contiguous()
    erase = torch.tensor([[[1, 2, 30, 4]], [[0, 0, 5, 5]]])
    sampling = ("bicubic", "constant", [0.5], True, window)
    return (*sampling, color, True, [0.4], [0.2, 0.3, 0.4], erase, [7.0], False, True)


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [(torch.uint8, "contiguous"), (torch.float32, "channels_last"), (torch.bfloat16, "transposed")],
    ids=str,
)
def test_opcheck_of_out(dtype: torch.dtype, layout: str) -> None:
    image, matrix, color = sample(dtype)
    image = LAYOUTS[layout](image)
    # A part of the second image, so that the list is ragged in sizes and strides.
    images = [image[0], LAYOUTS["contiguous"](image)[1, :, 2:, 1:]]
    out = torch.empty(2, 3, *SIZE, dtype=dtype)
    torch.library.opcheck(OPS.augment_out, (image, matrix, *options(color), out))
    torch.library.opcheck(OPS.augment_list_out, (images, matrix, *options(color), out))


def test_compile_lists_and_out() -> None:
    def into(first: Tensor, second: Tensor, matrix: Tensor, out: Tensor) -> Tensor:
        visops.augment([first, second], matrix, SIZE, out=out, antialias=True)
        return visops.augment([second, first], matrix, SIZE, out_dtype=torch.float16) + 1

    torch._dynamo.reset()
    compiled = torch.compile(into, fullgraph=True, backend="aot_eager")
    image, matrix, _ = sample(torch.uint8)
    images = (image[0], image[1, :, 3:, :8].contiguous())
    outs = [torch.zeros(2, 3, *SIZE) for _ in range(2)]
    results = [f(*images, matrix, out) for f, out in zip((into, compiled), outs, strict=True)]
    assert torch.equal(*results)
    assert torch.equal(*outs)
    assert outs[0].abs().max() > 0


def test_a_color_that_is_not_there_has_no_gradient() -> None:
    grad, image = (torch.empty(1, 3, 4, 4) for _ in range(2))
    options: tuple[Any, ...] = ("nearest", "constant", [0.0], False, None, None)
    options += (False, [], [], None, [0.0])
    wanted = (True, False, False, False, True)
    with pytest.raises(RuntimeError, match=r"^visops\.augment_backward: color is None, it has"):
        torch.ops.visops.augment_backward(grad, image, torch.eye(2, 3), *options, *wanted)


def test_out_of_saved_tensors_is_noticed() -> None:
    image, matrix, _ = sample()
    out = torch.rand(2, 3, *SIZE)
    product = torch.rand(2, 3, *SIZE, requires_grad=True) * out
    visops.augment(image, matrix, SIZE, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_defaults_of_the_operators() -> None:
    """They are the public function's."""
    image, matrix, _ = sample(torch.uint8)
    expected = visops.augment(image, matrix, SIZE)
    assert torch.equal(OPS.augment(image, matrix, SIZE), expected)
    assert torch.equal(OPS.augment_list(list(image), matrix, SIZE), expected)


CANDIDATES_SIZE = (128, 160)
Matrix = list[list[float]]


def horizon(across: float, down: float, position: float) -> Matrix:
    """A map whose w is 0 on a line through the output, which goes down or across it."""
    a, b = 3 * across / CANDIDATES_SIZE[1], 3 * down / CANDIDATES_SIZE[0]
    return [[0.6, 0, 0], [0, 0.6, 0], [a, b, -3 * position * (across + down)]]


# Destination to source.
MAPS: dict[str, Matrix] = {
    "rotation": [[0.8, 0.6, 0.3], [-0.6, 0.8, 60], [0, 0, 1]],
    "reduction": [[2, 0, -80], [0, 2, -64], [0, 0, 1]],
    "enlargement": [[0.02, 0.01, 20], [0.003, 0.02, 20], [0, 0, 1]],
    "shear": [[30, 28, -3000], [0.1, 1, 0], [0, 0, 1]],
    "far": [[1, 0, 1e6], [0, 1, 1e6], [0, 0, 1]],
    "saturated": [[3e8, 1e8, -2e10], [1e7, 4e8, -3e10], [0, 0, 1]],
    "horizon": horizon(0.8, 0.6, 0.5),
    "upright horizon": horizon(1, 0, 0.5),
    "level horizon": horizon(0, 1, 0.4),
}


def image_gradient(matrix: Matrix, size: Any, channels: int, options: dict[str, Any]) -> Tensor:
    """By augment where the map is perspective or antialiased, else by warp_affine."""
    rng = np.random.default_rng(0)
    shape = (1, channels, *CANDIDATES_SIZE)
    image = torch.from_numpy(rng.standard_normal(shape).astype(np.float32)).requires_grad_()
    if matrix[2] == [0, 0, 1] and not options.get("antialias"):
        result = visops.warp_affine(image, matrix[:2], size, inverse_map=True, **options)
    else:
        result = visops.augment(image, matrix, size, inverse_map=True, layout="CHW", **options)
    incoming = torch.from_numpy(rng.standard_normal(tuple(result.shape)).astype(np.float32))
    return torch.autograd.grad(result, image, incoming)[0]


def candidates(
    matrix: Matrix, size: Any = CANDIDATES_SIZE, channels: int = 1, **options: Any
) -> tuple[int, Tensor]:
    """How many candidates the emulated kernel tests, once its bits are compared; the gradient."""
    with use_slot("default"):
        expected = image_gradient(matrix, size, channels, options)
    with use_slot("cuda_emulated"):
        take_tally()
        actual = image_gradient(matrix, size, channels, options)
        count = take_tally()
    assert torch.equal(actual.view(torch.int32), expected.view(torch.int32))
    return count, actual


@pytest.mark.skipif(
    "cuda_emulated" not in SLOTS, reason="only test builds (VISOPS_EMULATION=1) count candidates"
)
@pytest.mark.parametrize("padding_mode", ["constant", "replicate"])
@pytest.mark.parametrize("name", MAPS)
def test_few_candidates(name: str, padding_mode: str) -> None:
    """Testing every output pixel in every tile would take 20 a pixel; in every pixel, 10,000."""
    count, gradient = candidates(MAPS[name], padding_mode=padding_mode)
    pixels = 2 * CANDIDATES_SIZE[0] * CANDIDATES_SIZE[1]
    assert count <= 7 * pixels
    # The two weights of a saturated coordinate cancel where both are of the border.
    none = name == "saturated" or (name == "far" and padding_mode == "constant")
    assert bool(gradient.any()) != none


@pytest.mark.skipif(
    "cuda_emulated" not in SLOTS, reason="only test builds (VISOPS_EMULATION=1) count candidates"
)
@pytest.mark.parametrize("name", ["reduction", "horizon"])
def test_few_candidates_of_filters(name: str) -> None:
    count, gradient = candidates(MAPS[name], antialias=True)
    assert count <= 7 * 2 * CANDIDATES_SIZE[0] * CANDIDATES_SIZE[1]
    assert gradient.any()


@pytest.mark.skipif(
    "cuda_emulated" not in SLOTS, reason="only test builds (VISOPS_EMULATION=1) count candidates"
)
@pytest.mark.parametrize("padding_mode", ["reflect", "circular"])
@pytest.mark.parametrize("name", ["rotation", "far", "level horizon"])
def test_few_candidates_where_padding_folds(name: str, padding_mode: str) -> None:
    """A group of output pixels across a seam meets tiles on both sides, and all between."""
    count, gradient = candidates(MAPS[name], padding_mode=padding_mode)
    assert count <= 9 * 2 * CANDIDATES_SIZE[0] * CANDIDATES_SIZE[1]
    assert gradient.any()


@pytest.mark.skipif(
    "cuda_emulated" not in SLOTS, reason="only test builds (VISOPS_EMULATION=1) count candidates"
)
@pytest.mark.parametrize(
    ("size", "channels"), [((3, 8300), 1), ((1100, 5), 2), (CANDIDATES_SIZE, 6)], ids=str
)
def test_sizes_that_loop(size: tuple[int, int], channels: int) -> None:
    """More runs than a list of groups holds, more bands and channels than are done at once."""
    scale_x, scale_y = CANDIDATES_SIZE[1] / size[1], CANDIDATES_SIZE[0] / size[0]
    matrix: Matrix = [[scale_x, 0, 0.4], [0, scale_y, 0.2], [0, 0, 1]]
    for mode in ("bilinear", "bicubic"):
        _, gradient = candidates(matrix, size, channels, mode=mode, padding_mode="replicate")
        assert gradient.any()
        _, gradient = candidates(matrix, size, channels, mode=mode, antialias=True)
        assert gradient.any()


@pytest.mark.skipif(
    "cuda_emulated" not in SLOTS, reason="only test builds (VISOPS_EMULATION=1) count candidates"
)
@pytest.mark.parametrize(
    ("name", "mode", "most"),
    [
        ("rotation", "nearest", 0.5),
        ("rotation", "bilinear", 4.0),
        ("rotation", "bicubic", 6.6),
        ("shift", "bilinear", 4.5),
        ("doubled", "bilinear", 2.1),
        ("reduced", "bicubic", 2.1),
    ],
)
def test_candidates_by_the_inverse_map(name: str, mode: str, most: float) -> None:
    """Hardly more than the taps, of which bilinear has 4 a pixel and bicubic 16; fewer by tiles.

    Where its candidates are staged, bilinear looks at 3 x 3 of them, whatever their taps are.
    """
    maps: dict[str, Matrix] = {
        "rotation": MAPS["rotation"],
        "shift": [[1, 0, 0.3], [0, 1, 0.2], [0, 0, 1]],
        "doubled": [[0.5, 0, 0.3], [0, 0.5, 0.2], [0, 0, 1]],
        "reduced": [[2, 0, 0.3], [0, 2, 0.2], [0, 0, 1]],
    }
    count, gradient = candidates(maps[name], mode=mode)
    assert 0.9 * most <= count / (2 * CANDIDATES_SIZE[0] * CANDIDATES_SIZE[1]) <= most
    assert gradient.any()


def random_map(rng: np.random.Generator) -> Matrix:
    """Some that the inverse serves, some that it doesn't; axes almost upright, and exactly."""
    scale = np.exp(rng.uniform(-3.5, 4.5, 2))
    shear = rng.choice([0, 1e-9, 1e-3, 0.3, 1]) * rng.standard_normal((2, 2))
    turn = [np.eye(2), np.array([[0, -1], [1, 0]]), np.eye(2) * [1, -1]][rng.integers(3)]
    linear = scale[:, None] * (turn + shear)
    middle = np.array([CANDIDATES_SIZE[1], CANDIDATES_SIZE[0]]) / 2
    offset = middle - linear @ middle + rng.uniform(-9, 9, 2) * rng.integers(0, 2)
    return [*np.c_[linear, offset].tolist(), [0, 0, 1]]


@pytest.mark.skipif(
    "cuda_emulated" not in SLOTS, reason="only test builds (VISOPS_EMULATION=1) count candidates"
)
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_bits_of_many_maps(mode: str) -> None:
    rng = np.random.default_rng(5)
    some = 0
    for number in range(60):
        size = [(33, 47), (20, 300), (150, 7)][number % 3]
        padding = ("constant", "replicate")[number % 2]
        matrix, channels = random_map(rng), 1 + number % 5
        some += bool(candidates(matrix, size, channels, mode=mode, padding_mode=padding)[1].any())
    assert some > 40


GRADIENTS_SIZE = (5, 6)
HEIGHT, WIDTH = 5, 6
WINDOW = [1.3, 0.6, 4.9, 4.3]
# Kinks: where a tap changes, and where the window's edge begins and ends.
BENDS = np.array([*range(-30, 40), *(np.arange(-60, 80) / 2), 0.8, 0.1, 4.4, 3.8])


def clear_of_kinks(matrix: np.ndarray, size: Any = GRADIENTS_SIZE) -> bool:
    """Whether no pixel's source is at a kink, where numerical derivatives are wrong."""
    m = destination_to_source(matrix, inverse_map=False, convention="integer")
    y, x = np.indices(size)
    u, v, w = m @ np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    coordinates = np.stack([u / w, v / w]).ravel()
    return bool(np.abs(coordinates[:, None] - BENDS).min() > 1e-4)


def draw(rng: np.random.Generator, *, perspective: bool, scale: tuple[float, float]) -> np.ndarray:
    while True:
        if perspective:
            matrix = random_perspective(rng, HEIGHT, WIDTH, GRADIENTS_SIZE, scale=scale)
        else:
            matrix = random_matrix(rng, HEIGHT, WIDTH, GRADIENTS_SIZE, scale=scale)
        if clear_of_kinks(matrix):
            return matrix


def problem(
    seed: int,
    *,
    perspective: bool = False,
    steps: int = 1,
    shared: bool = False,
    channels: int = 2,
    scale: tuple[float, float] = (0.5, 2.0),
) -> tuple[Tensor, Tensor, Tensor]:
    """Float64 image [2, C, 5, 6], matrices and colours that require gradients."""
    rng = np.random.default_rng(seed)
    image = random_image(rng, (2, channels, HEIGHT, WIDTH), torch.float64)
    matrices = np.stack([draw(rng, perspective=perspective, scale=scale) for _ in range(2)])
    colors = np.stack([random_color(rng, steps, channels) for _ in range(2)])
    matrix = torch.from_numpy(matrices[0] if shared else matrices)
    color = torch.from_numpy(colors[0, 0] if shared else colors)
    return image.requires_grad_(), matrix.requires_grad_(), color.requires_grad_()


def check(tensors: Any, **options: Any) -> None:
    image, matrix, color = tensors

    def function(image: Tensor, matrix: Tensor, color: Tensor) -> Tensor:
        return visops.augment(
            image,
            matrix,
            GRADIENTS_SIZE,
            color=color,
            fill=[0.5, -1.0, 2.0][: image.shape[1]],
            out_dtype=torch.float64,
            layout="CHW",
            **options,
        )

    assert gradcheck(function, (image, matrix, color), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["constant", "reflect"])
def test_gradcheck_of_the_window(padding_mode: str, mode: str) -> None:
    """The edge's width is not constant, but shifts and turns leave it alone."""
    image, matrix, color = problem(2)
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "window": WINDOW}
    angle = torch.tensor([0.3, -1.2], dtype=torch.float64)
    shift = torch.tensor([[0.37, 0.21], [2.13, -0.77]], dtype=torch.float64)

    def function(image: Tensor, angle: Tensor, shift: Tensor, color: Tensor) -> Tensor:
        matrix = visops.get_affine_matrix((2.5, 2.0), angle.rad2deg(), shift)
        return visops.augment(
            image, matrix, GRADIENTS_SIZE, color=color, fill=0.5, out_dtype=torch.float64, **options
        )

    leaves = (image, angle.requires_grad_(), shift.requires_grad_(), color)
    assert gradcheck(function, leaves, eps=1e-7, atol=1e-5)
    # With a constant matrix, any width will do.
    check((image, matrix.detach(), color), **options)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_matrix_gradient_of_antialias(mode: Any) -> None:
    """Under shifts, where the widths are constant."""
    image, _, _ = problem(4)
    image = image.detach()
    shift = torch.tensor([[0.37, 0.21], [1.13, -0.77]], dtype=torch.float64, requires_grad=True)
    linear = torch.tensor([[0.4, 0.1], [-0.05, 0.3]], dtype=torch.float64)
    for padding_mode in ("constant", "symmetric"):

        def function(shift: Tensor, padding_mode: Any = padding_mode) -> Tensor:
            matrix = torch.cat([linear.expand(2, 2, 2), shift[..., None]], dim=2)
            return visops.augment(
                image,
                matrix,
                GRADIENTS_SIZE,
                mode=mode,
                antialias=True,
                padding_mode=padding_mode,
                fill=0.5,
                out_dtype=torch.float64,
            )

        assert gradcheck(function, (shift,), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("inverse_map", [False, True])
def test_gradcheck_of_affine_maps_in_nine_elements(inverse_map: bool) -> None:
    """The last row is 0, 0, w, and still has a gradient."""
    image, matrix, color = problem(5)
    row = torch.tensor([[[0.0, 0.0, 1.0]]], dtype=torch.float64).expand(2, 1, 3)
    full = 1.7 * torch.cat([matrix.detach(), row], 1)
    full = full.inverse() if inverse_map else full
    check((image, full.requires_grad_(), color), inverse_map=inverse_map)


@pytest.mark.parametrize("listed", [False, True])
def test_shared_parameters_collect_from_all_samples(listed: bool) -> None:
    image, matrix, color = problem(8, shared=True)
    images: Any = list(image) if listed else image
    grads = []
    for m, c in ((matrix, color), (matrix.expand(2, 2, 3), color.expand(2, 1, 2, 3))):
        result = visops.augment(images, m, GRADIENTS_SIZE, color=c, mode="bicubic", layout="CHW")
        grads.append(torch.autograd.grad(result.square().sum(), (matrix, color, image)))
    for got, wanted in zip(*grads, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_no_gradient_of_nearest_to_the_matrix() -> None:
    image, matrix, color = problem(10)
    result = visops.augment(image, matrix, GRADIENTS_SIZE, color=color, mode="nearest")
    grads = torch.autograd.grad(result.sum(), (image, matrix, color))
    assert torch.equal(grads[1], torch.zeros_like(matrix))
    assert grads[0].abs().max() > 0
    assert grads[2].abs().max() > 0


@pytest.mark.parametrize("dtype", FLOATING, ids=name_of)
@pytest.mark.parametrize("out_dtype", FLOATING, ids=name_of)
def test_dtypes(out_dtype: torch.dtype, dtype: torch.dtype) -> None:
    image, matrix, color = problem(11)
    low = image.detach().to(dtype).requires_grad_()
    low_matrix = matrix.detach().to(dtype).requires_grad_()
    low_color = color.detach().to(dtype).requires_grad_()
    result = visops.augment(low, low_matrix, GRADIENTS_SIZE, color=low_color, out_dtype=out_dtype)
    grads = torch.autograd.grad(result.sum(), (low, low_matrix, low_color))
    assert [g.dtype for g in grads] == [dtype] * 3
    assert [g.shape for g in grads] == [low.shape, low_matrix.shape, low_color.shape]
    exact = [t.detach().double().requires_grad_() for t in (low, low_matrix, low_color)]
    wide = visops.augment(
        exact[0], exact[1], GRADIENTS_SIZE, color=exact[2], out_dtype=torch.float64
    )
    for got, wanted in zip(grads, torch.autograd.grad(wide.sum(), exact), strict=True):
        largest = float(wanted.abs().max())
        allowed = (torch.finfo(dtype).eps + 1e-5) * largest
        torch.testing.assert_close(got.double(), wanted, rtol=0, atol=allowed)


def test_uint8_images_and_results() -> None:
    """uint8 images pass gradients to matrix and colour; uint8 results have none."""
    image = torch.randint(0, 256, (2, 2, HEIGHT, WIDTH), dtype=torch.uint8)
    _, matrix, color = problem(12)
    grads = []
    for given in (image, image / 255):
        result = visops.augment(given, matrix, GRADIENTS_SIZE, color=color, layout="CHW")
        grads.append(torch.autograd.grad(result.square().sum(), (matrix, color)))
    for got, wanted in zip(*grads, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    result = visops.augment(
        image, matrix, GRADIENTS_SIZE, color=color, out_dtype=torch.uint8, layout="CHW"
    )
    assert not result.requires_grad


def test_only_what_is_needed_is_computed() -> None:
    image, matrix, color = problem(14)
    for needs in itertools.product([False, True], repeat=3):
        leaves = [
            t.detach().requires_grad_(n) for t, n in zip((image, matrix, color), needs, strict=True)
        ]
        wanted: list[tuple[bool, ...]] = []

        class Record(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                if func is torch.ops.visops.augment_backward.default:
                    wanted.append(tuple(args[-3:]))  # noqa: B023
                return func(*args, **(kwargs or {}))

        result = visops.augment(leaves[0], leaves[1], GRADIENTS_SIZE, color=leaves[2])
        assert result.requires_grad == any(needs)
        if any(needs):
            with Record():
                result.sum().backward()
            assert wanted == [needs]
        assert [leaf.grad is not None for leaf in leaves] == list(needs)


def test_gradients_without_channels_take_no_time() -> None:
    """However many pixels the result has, none of them holds a number."""
    image = torch.empty(1, 0, 3, 8, requires_grad=True)
    matrix = torch.tensor([[[3.5, 0.1, 0.6], [0.3, 3.7, -0.9], [0.001, 0, 1]]], requires_grad=True)
    color = torch.empty(1, 2, 0, 1, requires_grad=True)
    result = visops.augment(image, matrix, (12, 2**31 - 1), color=color, antialias=True)
    leaves = (image, matrix, color)
    for leaf, grad in zip(leaves, torch.autograd.grad(result.sum(), leaves), strict=True):
        assert torch.equal(grad, torch.zeros_like(leaf))


def test_second_derivatives_and_forward_mode_are_refused() -> None:
    image, matrix, color = problem(15)
    result = visops.augment(image, matrix, GRADIENTS_SIZE, color=color)
    (grad,) = torch.autograd.grad(result.square().sum(), image, create_graph=True)
    with pytest.raises(RuntimeError, match=r"^visops\.augment: its gradients can't be different"):
        torch.autograd.grad(grad.square().sum(), image)
    with forward_ad.dual_level():
        for images in (image, list(image)):
            dual = forward_ad.make_dual(image.detach(), torch.ones_like(image))
            given = dual if images is image else list(dual)
            with pytest.raises(NotImplementedError, match="jvp"):
                visops.augment(given, matrix.detach(), GRADIENTS_SIZE, layout="CHW")
