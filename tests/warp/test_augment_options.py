"""The augmentation's options, errors and small batches past the dispatcher; maps that copy runs."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import SLOTS, use_slot
from roi.align_cases import same_bits
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from visops.warp.augment_arguments import SHARED, AugmentOptions
from visops.warp.augment_direct import augment_direct

from warp.augment_cases import (
    GOOD,
    IDENTITY,
    INF,
    NAN,
    SINGULAR,
    SIZE,
    images,
    tensor,
)


def arguments(name: str) -> list[torch.Argument]:
    return list(getattr(torch.ops.visops, name).default._schema.arguments)


@pytest.mark.parametrize("name", ["augment", "augment_list"])
def test_options_are_those_of_the_forms_that_allocate(name: str) -> None:
    options = arguments(name)[3:]  # images, matrix, size
    assert [a.name for a in options] == list(AugmentOptions._fields)
    defaults = [AugmentOptions._field_defaults[a.name] for a in options]
    assert [a.default_value for a in options] == defaults


@pytest.mark.parametrize(
    ("name", "before"), [("augment_out", 2), ("augment_list_out", 2), ("augment_backward", 3)]
)
def test_shared_options_are_those_of_the_other_forms(name: str, before: int) -> None:
    options = arguments(name)[before : before + SHARED]
    assert [a.name for a in options] == list(AugmentOptions._fields[:SHARED])
    assert not any(a.has_default_value() for a in options)


def test_vmap_takes_calls_that_leave_options_out() -> None:
    images = torch.rand(3, 2, 1, 4, 5)
    matrix = torch.eye(2, 3, dtype=torch.float64)
    op = torch.ops.visops.augment
    mapped = torch.vmap(lambda each: op(each, matrix, [4, 5]))(images)
    assert torch.equal(mapped, torch.stack([op(each, matrix, [4, 5]) for each in images]))


def test_nothing_is_written_before_an_error() -> None:
    bad = images(*GOOD[:2], (4, 4, 4))
    out = torch.full((3, 3, *SIZE), -7.0)
    with pytest.raises(RuntimeError, match=r"images\[2\]"):
        visops.augment(bad, IDENTITY, SIZE, out=out)
    late = [IDENTITY, IDENTITY, SINGULAR]
    with pytest.raises(RuntimeError, match=r"matrix\[2\]"):
        visops.augment(images(*GOOD), late, SIZE, out=out)
    assert (out == -7.0).all()


def test_in_place() -> None:
    image = torch.zeros(1, 1, 8, 8)
    for out in (image, image[:, :, 1:, 1:], image.transpose(2, 3)):
        with pytest.raises(
            RuntimeError, match=r"^visops\.augment: out shares memory with image; an augmentation"
        ):
            visops.augment(image, IDENTITY, out.shape[2:], out=out)
    other = torch.zeros(1, 5, 5)
    with pytest.raises(
        RuntimeError, match=r"^visops\.augment: out shares memory with images\[1\]; an augmentation"
    ):
        visops.augment([other, image[0]], IDENTITY, (4, 8), out=image.view(2, 1, 4, 8))


def test_infinite_fill_is_allowed() -> None:
    """NaN and infinities are values like others for floating images."""
    moved = [[1, 0, 3], [0, 1, 0]]
    for fill in (NAN, INF, -INF):
        for antialias in (False, True):
            result = visops.augment(
                tensor(), moved, (4, 5), fill=fill, antialias=antialias, erase_value=NAN
            )
            assert torch.equal(result[..., 3:], tensor()[..., 3:])
            expected = torch.full_like(result[..., :3], fill)
            torch.testing.assert_close(result[..., :3], expected, equal_nan=True)


@pytest.mark.cuda
def test_cuda() -> None:
    image = torch.rand(2, 3, 4, 5, device="cuda")
    with pytest.raises(
        RuntimeError, match=r"^visops\.augment: matrix is on cpu, image is on cuda:0"
    ):
        visops.augment(image, torch.tensor(IDENTITY), (4, 5))
    with pytest.raises(
        RuntimeError, match=r"^visops\.augment: images\[1\] is on cpu, images\[0\] is on cuda:0"
    ):
        visops.augment([image[0], image[1].cpu()], IDENTITY, (4, 5))
    # Values of CUDA tensors are not looked at: such a sample is `fill`.
    for bad in (SINGULAR, [[NAN, 0.0, 0.0], [0.0, 1.0, 0.0]]):
        matrices = torch.tensor([IDENTITY, bad], device="cuda")
        result = visops.augment(image, matrices, (4, 5), fill=[1, 2, 3])
        assert torch.equal(result[0], image[0])
        assert result[1].mean((1, 2)).tolist() == [1, 2, 3]
    window = torch.tensor([[0, 0, 5, 4.0], [3, 0, NAN, 4]], device="cuda")
    result = visops.augment(image, IDENTITY, (4, 5), fill=9, window=window)
    assert (result[1] == 9).all()


class Seen(TorchDispatchMode):
    """Counts calls of the operator."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.visops.augment.default
        return func(*args, **(kwargs or {}))


def forms() -> list[tuple[torch.Tensor, torch.Tensor, dict[str, Any]]]:
    """Images, matrices and options of every kind that the short way takes."""
    image = torch.randint(0, 256, (2, 3, 12, 10), generator=torch.Generator().manual_seed(0))
    turned = torch.tensor([[0.9, 0.2, 1.0], [-0.3, 1.1, 0.5]], dtype=torch.float64)
    tilted = torch.cat([turned, torch.tensor([[0.01, 0.0, 1.0]], dtype=torch.float64)])
    each = torch.stack([turned, turned * 1.25])
    color = torch.rand(2, 2, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    full: dict[str, Any] = {
        "color": color,
        "clamp": True,
        "mean": [0.1, 0.2, 0.3],
        "std": 0.5,
        "window": [[1, 2, 9, 11], [0, 0, 10, 12]],
        "erase": [[[1, 1, 4, 4]], [[0, 0, 0, 0]]],
        "erase_value": [1.0, 2.0, 3.0],
        "fill": [5.0, 6.0, 7.0],
    }
    u8 = image.to(torch.uint8)
    return [
        (u8, turned, {"mode": "nearest", "fill": 255, "out_dtype": torch.uint8}),
        (u8, each, full),
        (u8[..., ::2, 1:], tilted.float(), {"padding_mode": "reflect", "inverse_map": True}),
        (image.double(), each, {"mode": "bicubic", "out_dtype": torch.float64}),
        (image.half(), turned, {"antialias": True, "convention": "half_pixel"}),
        (image.bfloat16(), turned, {"memory_format": torch.channels_last}),
    ]


@pytest.mark.matrix
def test_values_and_strides_are_the_operators() -> None:
    for image, matrix, options in forms():
        for size in ((7, 9), (200, 150)):  # without and with the interpreter's lock
            result = visops.augment(image, matrix, size, **options)
            with Seen() as seen:
                expected = visops.augment(image, matrix, size, **options)
            assert seen.count == 1
            assert result.stride() == expected.stride()
            assert result.dtype == expected.dtype
            assert torch.equal(result, expected)


def direct(image: Any, matrix: Any, size: Any = (4, 4)) -> torch.Tensor | None:
    tail: Any = (None, None, False, [], [], None, [0.0], False, False)
    return augment_direct(image, matrix, size, "bilinear", "constant", [0.0], False, *tail)


def test_what_is_unusual_is_left_to_the_operator() -> None:
    image, matrix = torch.rand(1, 1, 4, 4), torch.eye(2, 3)
    assert direct(image, matrix) is not None
    for other in (
        image.int(),
        image[0],
        image[:0],
        image.to_sparse(),
        image.to("meta"),
        torch.nn.Parameter(image),
        torch._neg_view(image),
    ):
        assert direct(other, matrix) is None
    for other in (
        torch.zeros(2, 3),
        torch.full((2, 3), torch.nan),
        torch.eye(4),
        torch.eye(3).int(),
    ):
        assert direct(image, other) is None
    for size in (4, (4,), (4.0, 4), (-1, 4), (0, 4), (1 << 20, 1 << 20), (1 << 10, 1 << 10)):
        assert direct(image, matrix, size) is None
    with torch.device("meta"):  # new tensors would be there
        assert direct(image, matrix) is None
    with torch.profiler.profile() as profile:
        visops.augment(image, matrix, (4, 4))
    assert "visops::augment" in {event.name for event in profile.events()}


COPIES_SIZE = (3, 301)  # three segments, the last one short

MAPS = {  # steps and offsets of columns and rows
    "as it is": (1, 1, 0, 0),
    "flip": (-1, 1, 306, 0),
    "both flips": (-1, -1, 306, 6),
    "crop": (1, 1, 5, 4),
    "before the window": (1, -1, -37, 7),
    "behind the window": (-1, 1, 351, -1),
    "a lane": (1, 1, -300, 0),
    "beside": (1, 1, 1000, 0),
    "above": (-1, 1, 306, -1000),
}

PADDINGS: tuple[Any, ...] = ("constant", "reflect", "symmetric", "replicate", "circular")
DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
FORMATS = (torch.contiguous_format, torch.channels_last)
NORMALISED: dict[str, Any] = {"mean": [0.3], "std": [0.7]}
CLAMPED: dict[str, Any] = {"clamp": True, "fill": 3.0, "erase_value": 7.0}

# With and without erased rectangles.
OPTIONS = [({}, False), (NORMALISED, True), (CLAMPED, True), (NORMALISED, False), (CLAMPED, False)]


@pytest.mark.matrix
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", MAPS)
def test_bits_are_those_of_single_pixels(name: str, channels: int) -> None:
    step_x, step_y, column, row = MAPS[name]
    straight = torch.tensor([[step_x, 0.0, column], [0.0, step_y, row]])
    turned = torch.tensor([[0.0, step_y, row], [step_x, 0.0, column]])
    erase = torch.tensor([[[10, 1, 140, 3], [250, 0, 301, 2]]])
    generator = torch.Generator().manual_seed(channels)
    every = itertools.product(DTYPES, (torch.float32, torch.uint8, torch.float16), FORMATS, FORMATS)
    taking_turns = itertools.islice(itertools.cycle(OPTIONS), channels, None)
    for (source, target, layout, output), (options, erases) in zip(
        every, taking_turns, strict=False
    ):
        image = torch.randint(0, 256, (1, channels, 7, 307), generator=generator).to(source)
        if source.is_floating_point:
            image[..., 3::17] = torch.nan
            image[..., 5::19] = -0.0
        for padding in PADDINGS:
            found, expected = (
                visops.augment(
                    given.contiguous(memory_format=layout),
                    matrix,
                    COPIES_SIZE,
                    out_dtype=target,
                    memory_format=output,
                    padding_mode=padding,
                    erase=erase if erases else None,
                    inverse_map=True,
                    **options,
                )
                for given, matrix in ((image, straight), (image.mT, turned))
            )
            assert same_bits(found, expected)


@pytest.mark.matrix
@pytest.mark.parametrize("padding", PADDINGS[1:])
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 40), (40, 5), (70, 300)])
def test_images_narrower_than_what_is_padded(size: tuple[int, int], padding: Any) -> None:
    """A row of the output takes one run of the image, or more than are kept."""
    around = (90, 200)
    numpy_mode: Any = {"replicate": "edge", "circular": "wrap"}.get(padding, padding)
    for dtype in DTYPES:
        image = torch.randint(0, 256, (1, 3, *size)).to(dtype)
        matrix = torch.tensor([[1.0, 0.0, around[1]], [0.0, 1.0, around[0]]])
        to = [side + 2 * more for side, more in zip(size, around, strict=True)]
        found = visops.augment(image, matrix, to, padding_mode=padding, out_dtype=dtype)
        sides = ((0, 0), (0, 0), (around[0],) * 2, (around[1],) * 2)
        expected = np.pad(image.float().numpy(), sides, mode=numpy_mode)
        assert torch.equal(found, torch.from_numpy(expected).to(dtype))


COPIED_SIZE = (61, 301)  # three segments, the last one short

COPYING_MAPS = {
    "flip": [[-1.0, 0.0, 300.0], [0.0, 1.0, 0.0]],
    "crop": [[1.0, 0.0, -37.0], [0.0, 1.0, -11.0]],
    "beside": [[1.0, 0.0, 1000.0], [0.0, 1.0, 0.0]],
    "turn": [[0.0, 1.0, 20.0], [-1.0, 0.0, 70.0]],
    "rotation": [[1.3, -0.4, 9.2], [0.35, 0.8, -17.7]],
    "perspective": [[1.1, 0.2, 3.0], [-0.1, 0.9, 8.0], [4e-4, -6e-4, 1.0]],
}


def picture(channels: int, memory_format: torch.memory_format) -> Tensor:
    generator = torch.Generator().manual_seed(channels)
    image = torch.randint(0, 256, (1, channels, 83, 307), generator=generator, dtype=torch.uint8)
    return image.contiguous(memory_format=memory_format)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", COPYING_MAPS)
def test_bytes_are_those_of_float32(name: str, channels: int) -> None:
    matrix = torch.tensor(COPYING_MAPS[name], dtype=torch.float64)
    window = torch.tensor([[20.0, 5.0, 280.0, 77.0]])
    erase = torch.tensor([[[10, 3, 140, 9], [250, 0, 301, 61]]])
    for source, target, padding, more in itertools.product(
        FORMATS, FORMATS, ("constant", "replicate", "reflect"), (False, True)
    ):
        image = picture(channels, source)
        options: dict[str, Any] = {"mode": "nearest", "padding_mode": padding, "fill": 2.5}
        if more:
            options |= {"window": window, "erase": erase, "erase_value": 77.0}
        moved = visops.augment(
            image, matrix, COPIED_SIZE, out_dtype=torch.uint8, memory_format=target, **options
        )
        floats = visops.augment(image.float(), matrix, COPIED_SIZE, **options)
        assert torch.equal(moved, floats.round().to(torch.uint8))  # half to even, as 2.5
        assert moved.is_contiguous(memory_format=target)


def test_last_pixel_is_not_passed() -> None:
    # Pixels of three bytes are moved by four; the last one of memory must not be.
    image = picture(3, torch.channels_last)
    flipped = visops.augment(
        image, torch.tensor([[-1.0, 0, 306], [0, -1, 82]]), (83, 307), out_dtype=torch.uint8,
        memory_format=torch.channels_last,
    )  # fmt: skip
    assert torch.equal(flipped, image.flip(2, 3))
    angle = math.radians(2.0)
    turned = torch.tensor(
        [[math.cos(angle), -math.sin(angle), 3], [math.sin(angle), math.cos(angle), -5]]
    )
    moved = visops.augment(image, turned, (83, 307), mode="nearest", out_dtype=torch.uint8)
    floats = visops.augment(image.float(), turned, (83, 307), mode="nearest")
    assert torch.equal(moved, floats.to(torch.uint8))


WINDOW_DTYPES = (torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.float32)

# Around the scales at which a vector's taps just fill a window, for vectors of 8 and of 16.
SCALES = (0.04, 0.5, 0.97, 1.0, 1.72, 1.8, 1.86, 1.93, 1.97, 1.999, 2.0, 2.3)


def matrices() -> Tensor:
    """Scales and flips with a fraction of a pixel, from destination to source."""
    rows = []
    for scale in SCALES:
        for sign in (1, -1):
            start = 0.3 if sign > 0 else 141.7
            rows.append([[sign * scale, 0, start], [0, scale, 0.6]])
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("slot", [slot for slot in SLOTS if slot != "default"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", WINDOW_DTYPES, ids=str)
def test_bits(dtype: torch.dtype, mode: Any, slot: str) -> None:
    matrix = matrices()
    image = (torch.rand(1, 2, 37, 143, dtype=torch.float64) * 255).to(dtype)
    images = image.expand(len(matrix), -1, -1, -1)

    def results() -> list[Tensor]:
        warped = visops.warp_affine(images, matrix, (11, 150), mode=mode, inverse_map=True)
        if dtype == torch.int16:
            return [warped]
        forward = torch.linalg.inv(
            torch.cat([matrix, matrix.new_tensor([[[0, 0, 1]]] * len(matrix))], 1)
        )
        return [warped, visops.augment(images, forward[:, :2], (11, 150), mode=mode)]

    with use_slot("default"):
        wanted = results()
    with use_slot(slot):
        found = results()
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
    assert wanted[0].double().std() > 1
