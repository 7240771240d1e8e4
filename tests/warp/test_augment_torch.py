"""The augmentation within torch, and the candidates that CUDA's gradients test."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import SLOTS, take_tally, use_slot
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from warp.affine_cases import LAYOUTS, random_image
from warp.augment_cases import DTYPES, random_color, random_perspective

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
    ("dtype", "layout", "gradients"),  # the gradients wanted, of image, matrix and colour
    [
        (torch.uint8, "contiguous", (False, True, False)),
        (torch.float32, "channels_last", (True, True, True)),
        (torch.bfloat16, "transposed", (True, False, True)),
    ],
    ids=str,
)
def test_opcheck(dtype: torch.dtype, layout: str, gradients: tuple[bool, ...]) -> None:
    image, matrix, color = sample(dtype)
    image = LAYOUTS[layout](image)
    # A part of the second image, so that the list is ragged in sizes and strides.
    images = [image[0], LAYOUTS["contiguous"](image)[1, :, 2:, 1:]]
    tail = options(color)
    floating = dtype.is_floating_point
    if not floating:  # the others have gradients, below
        torch.library.opcheck(OPS.augment, (image, matrix, SIZE, *tail, dtype, True))
        torch.library.opcheck(OPS.augment_list, (images, matrix, SIZE, *tail, dtype, True))
        torch.library.opcheck(OPS.augment, (image, matrix[0, :2], SIZE))
        torch.library.opcheck(OPS.augment_list, (images, matrix[0, :2], SIZE))
    out = torch.empty(2, 3, *SIZE, dtype=dtype)
    torch.library.opcheck(OPS.augment_out, (image, matrix, *tail, out))
    torch.library.opcheck(OPS.augment_list_out, (images, matrix, *tail, out))
    grad = LAYOUTS[layout](torch.rand(2, 3, *SIZE))
    torch.library.opcheck(OPS.augment_backward, (grad, image, matrix, *tail, *gradients))
    if not floating:
        return
    leaves = [t.detach().requires_grad_() for t in (image, matrix, color)]
    tail = options(leaves[2])
    torch.library.opcheck(OPS.augment, (*leaves[:2], SIZE, *tail, torch.float32, True))
    leaf_images = [i.detach().clone().requires_grad_() for i in images]
    torch.library.opcheck(OPS.augment_list, (leaf_images, leaves[1], SIZE, *tail))


def test_compile() -> None:
    compilations = 0

    def counting(graph: Any, _: Any) -> Any:
        nonlocal compilations
        compilations += 1
        return graph

    def step(image: Tensor, matrix: Tensor, color: Tensor, window: Tensor) -> Tensor:
        size = (image.shape[-2] * 2, image.shape[-1] + 1)
        result = visops.augment(
            image,
            matrix,
            size,
            color=color,
            window=window,
            mode="bilinear",
            antialias=True,
            mean=[0.4, 0.5, 0.6],
            std=0.2,
            clamp=True,
            layout="CHW",
        )
        return result + 1

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=counting)
    # A batch of 2 would be taken for the 2 rows of a matrix, which never change.
    for batch, height, width in ((5, 10, 12), (6, 11, 40), (7, 8, 9)):
        image = torch.rand(batch, 3, height, width)
        matrix = torch.tensor([[0.9, 0.2, 1.0], [-0.1, 1.1, 0.3]]).expand(batch, 2, 3)
        color = torch.eye(3, 4).expand(batch, 3, 4) * 1.1
        window = torch.tensor([1.0, 1.5, 7.0, 7.5]).expand(batch, 4)
        arguments = (image, matrix, color, window)
        assert torch.equal(compiled(*arguments), step(*arguments))
    assert compilations == 1


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


# Shapes of image, matrix, color and window (or None), and which dimensions are mapped.
VMAPS: list[tuple[Any, Any]] = [
    (((4, 2, 3, 10, 12), (4, 2, 2, 3), None, None), (0, 0, None, None)),
    (((4, 2, 3, 10, 12), (3, 3), (3, 4), (4,)), (0, None, None, None)),
    (((2, 3, 10, 12), (4, 3, 3), (4, 3, 4), (4, 4)), (None, 0, 0, 0)),
    (((2, 3, 10, 12, 4), (2, 2, 3), (2, 4, 3, 4), (2, 4)), (4, None, 1, None)),
    (((2, 3, 4, 10, 12), (2, 4, 2, 3), (2, 2, 3, 4), (2, 4, 4)), (2, 1, None, 1)),
    (((2, 3, 10, 12), (2, 3), (2, 4, 2, 3, 4), None), (None, None, 1, None)),
    (((4, 1, 3, 10, 12), (1, 2, 3), (3, 4), (1, 4)), (0, None, None, None)),
]


def vmap_arguments(shapes: Any, in_dims: Any) -> list[Tensor | None]:
    """Arguments near the identity, whichever dimension is mapped."""
    rng = np.random.default_rng(1)
    result: list[Tensor | None] = []
    centre = (None, torch.eye(3), torch.eye(3, 4), torch.tensor([0.5, 0.5, 11.0, 9.0]))
    for shape, dim, middle in zip(shapes, in_dims, centre, strict=True):
        if shape is None:
            result.append(None)
        elif middle is None:
            result.append(torch.from_numpy(rng.random(shape)))
        else:
            last = [n for d, n in enumerate(shape) if d != dim][-middle.dim() :]
            base = middle[: last[0]] if middle.dim() == 2 else middle
            order = [d for d in range(len(shape)) if d != dim]
            plain = [shape[d] for d in order] + ([] if dim is None else [shape[dim]])
            noise = torch.from_numpy(rng.normal(0, 0.1, plain))
            near = noise + (base if dim is None else base[..., None])
            result.append(near if dim is None else near.movedim(-1, dim))
    return result


def augmented(image: Tensor, matrix: Tensor, color: Tensor | None, window: Tensor | None) -> Tensor:
    return visops.augment(
        image, matrix, SIZE, color=color, window=window, fill=0.5, std=0.5, layout="CHW"
    )


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(("shapes", "in_dims"), VMAPS, ids=str)
def test_vmap(shapes: Any, in_dims: Any, listed: bool) -> None:
    tensors = vmap_arguments(shapes, in_dims)

    def function(image: Any, *rest: Any) -> Tensor:
        return augmented(list(image.unbind()) if listed else image, *rest)  # type: ignore[arg-type]

    result = torch.vmap(function, in_dims=in_dims)(*tensors)
    each = [
        function(
            *(
                t if d is None or t is None else t.select(d, i)
                for t, d in zip(tensors, in_dims, strict=True)
            )
        )
        for i in range(4)
    ]
    assert torch.equal(result, torch.stack(each))


def test_fake_and_meta_tensors_have_the_real_layout() -> None:
    for dtype, relayout in zip(DTYPES, LAYOUTS.values(), strict=False):
        image, matrix, color = sample(dtype)
        image = relayout(image)
        for memory_format in (torch.contiguous_format, torch.channels_last):
            for listed in (False, True):
                kind: dict[str, Any] = {"memory_format": memory_format, "out_dtype": dtype}

                def run(
                    i: Tensor, m: Tensor, c: Tensor, listed: bool = listed, kind: Any = kind
                ) -> Tensor:
                    return visops.augment(list(i) if listed else i, m, SIZE, color=c, **kind)

                real = run(image, matrix, color)
                meta = torch.empty_strided(image.shape, image.stride(), dtype=dtype, device="meta")
                result = run(meta, matrix.to("meta"), color.to("meta"))
                assert (result.shape, result.stride()) == (real.shape, real.stride())
                assert (result.dtype, result.device.type) == (dtype, "meta")
                with FakeTensorMode() as mode:
                    fakes: Any = [mode.from_tensor(t) for t in (image, matrix, color)]
                    fake = run(*fakes)
                assert (fake.shape, fake.stride(), fake.dtype) == (
                    real.shape,
                    real.stride(),
                    real.dtype,
                )


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
        ("rotation", "bilinear", 1.8),
        ("rotation", "bicubic", 6.6),
        ("shift", "bilinear", 2.0),
        ("doubled", "bilinear", 2.1),
        ("reduced", "bicubic", 2.1),
    ],
)
def test_candidates_by_the_inverse_map(name: str, mode: str, most: float) -> None:
    """Hardly more than the taps, of which bilinear has 4 a pixel and bicubic 16; fewer by tiles."""
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
