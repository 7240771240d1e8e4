"""Maps that shift and flip copy whole runs: with the bits of a transposed image, turned back."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import visops
from roi.align_cases import same_bits

pytestmark = pytest.mark.matrix

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
