"""Dropouts of a batch by adjust_pixels(), on every kind of kernel."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from kernels import every_slot, use_schedule, use_slot
from references.dropouts import fill_channels, fill_grid, fill_holes
from visops.pixels.adjust import adjust_pixels
from visops.transforms.chain.pixel_kinds import PixelKind

from transforms.adjust_cases import filled, picture

VALUE, PIXELS, COLOURS = 0.0, 1.0, 2.0
Fill = Callable[[np.ndarray, float, list[float]], np.ndarray]
FILLS: dict[PixelKind, Fill] = {
    PixelKind.DROP_CHANNELS: fill_channels,
    PixelKind.HOLES: fill_holes,
    PixelKind.GRID_HOLES: fill_grid,
}
# Operations: fill, and the numbers behind it.
Case = tuple[float, list[float]]
CHANNELS: list[Case] = [
    (0.4, [1, 1, 0.1]),
    (300.0, [0, 5, 0.8]),
    (-1.0, [2, 2, 0.47]),
    (0.0, [0, 0, 0.3]),
]
HOLES: list[Case] = [
    (0.3, [0.2, 1, 1, 0.3, 0.6, 0.2, 0.5, VALUE]),
    (200.0, [0.7, 5, 9, 1, 40, 2, 30, VALUE]),
    (0.0, [0.25, 3, 6, 0.2, 0.7, 0.3, 0.8, PIXELS]),  # they overlap
    (0.0, [0.9, 4, 4, 5, 20, 5, 90, COLOURS]),
    (0.5, [0.11, 0, 0, 0.2, 0.7, 0.3, 0.8, VALUE]),
    (0.0, [0.6, 8, 8, 0.0, 0.1, 0, 2, PIXELS]),  # small ones, and none
]
GRIDS: list[Case] = [
    (0.3, [0.2, 0.5, 1, 0, 0, 0, 0, 0, VALUE]),
    (0.0, [0.4, 0.7, 1, 1, 4, 9, 0, 0, PIXELS]),
    (0.0, [0.6, 0.4, 1, 2, 3, 5, 0, 0, COLOURS]),
    (90.0, [0.8, 0.6, 0, 2, 2, 4, 3, 1, VALUE]),
    (0.0, [0.3, 0.9, 0, 2, 4, 3, 2, 30, PIXELS]),  # pushed together at the rim
    (0.0, [0.5, 0.5, 0, 2, 4, 3, 40, 2, COLOURS]),
    (0.0, [0.7, 1.0, 1, 2, 60, 70, 0, 0, PIXELS]),  # cells without pixels
    (0.0, [0.1, 1.0, 1, 1, 90, 99, 0, 0, PIXELS]),  # no cell
]
CASES: dict[PixelKind, list[Case]] = {
    PixelKind.DROP_CHANNELS: CHANNELS,
    PixelKind.HOLES: HOLES,
    PixelKind.GRID_HOLES: GRIDS,
}


@pytest.mark.matrix
@every_slot
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("size", [(1, 1), (1, 37), (41, 1), (29, 50)])
@pytest.mark.parametrize("kind", FILLS, ids=lambda kind: kind.name)
def test_dropouts(kind: PixelKind, size: tuple[int, int], dtype: torch.dtype, slot: str) -> None:
    """Each image of a batch has a dropout of its own, with others between them."""
    cases = CASES[kind]
    amounts = [amount for fill, _ in cases for amount in (fill, 0.0)]
    numbers = filled(*(own for _, more in cases for own in (more, ())))
    for channels in (1, 4):
        image = picture(size, channels, dtype)
        count = 2 * len(cases)
        kinds = [kind, PixelKind.INVERT] * len(cases)
        with use_slot(slot):
            found = adjust_pixels(image.repeat(count, 1, 1, 1), kinds, amounts, numbers)
        inverted = 255 - image if dtype == torch.uint8 else 1 - image
        for i, (fill, own) in enumerate(cases):
            expected = FILLS[kind](image.numpy(), fill, filled(own))
            assert found[2 * i].numpy().tobytes() == expected.tobytes(), (i, own)
            assert torch.equal(found[2 * i + 1], inverted)


def test_orders_of_blocks_do_not_matter() -> None:
    """A pixel of several holes belongs to the last, whichever block comes first."""
    image = picture((29, 50), 3, torch.uint8)
    fill, more = HOLES[2]
    expected = fill_holes(image.numpy(), fill, more)
    for seed in (1, 2, 3):
        with use_slot("cuda_emulated"), use_schedule(seed):
            found = adjust_pixels(image[None], [PixelKind.HOLES], [fill], filled(more))
        assert np.array_equal(found[0].numpy(), expected)
