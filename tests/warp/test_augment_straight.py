"""Maps that copy: whole runs, windows, bytes, with the bits of pixel by pixel."""

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

SIZE = (3, 301)  # three segments, the last one short

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

PADDINGS = ("constant", "reflect", "symmetric", "replicate", "circular")
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
                    SIZE,
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
def test_images_narrower_than_what_is_padded(size: tuple[int, int], padding: str) -> None:
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


@pytest.mark.matrix
def test_views_of_any_strides() -> None:
    image = torch.arange(2 * 3 * 40 * 300, dtype=torch.float32).reshape(2, 3, 40, 300)
    flip = torch.tensor([[-1.0, 0, 99], [0, 1, 0]])
    for view in (image[..., ::3], image.flip(3)[..., :100], image[:, :, ::2, 100:200], image.mT):
        size = view.shape[2], 100
        found = visops.augment(view, flip, size, inverse_map=True)
        part = view[..., :100]
        expected = torch.zeros(*view.shape[:3], 100)
        expected[..., 100 - part.shape[-1] :] = part.flip(3)
        assert torch.equal(found, expected)


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
def test_bits(dtype: torch.dtype, mode: str, slot: str) -> None:
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
