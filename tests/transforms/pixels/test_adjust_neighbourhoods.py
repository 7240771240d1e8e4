"""Medians, CLAHE, downscaling, filters and dropouts of a batch, on every kind of kernel."""

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from kernels import every_slot, use_schedule, use_slot
from references.dropouts import fill_channels, fill_grid, fill_holes
from torch import Tensor
from visops import _native
from visops.pixels.adjust import adjust_pixels
from visops.transforms.chain.pixel_kinds import PixelKind

from transforms.chains import photo
from transforms.pixels.amounts import filled, picture

SIZES = [(1, 1), (1, 37), (41, 1), (2, 3), (29, 50)]
SIDES = [1, 3, 5, 7, 9, 31]
NAN = float("nan")


def adjusted(kind: PixelKind, images: Tensor, amounts: list[float], *more: Any) -> Tensor:
    """Images after operations of a kind, of which `more` has each one's numbers."""
    return adjust_pixels(images, [kind] * len(images), amounts, filled(*more))


def same_bits(found: Tensor, expected: Tensor) -> bool:
    """Whether all bits are equal, but for NaN's."""
    pair = [t.contiguous().nan_to_num(7.0).numpy().tobytes() for t in (found, expected)]
    return pair[0] == pair[1] and bool((found.isnan() == expected.isnan()).all())


def by_the_core(kind: PixelKind, image: Tensor, amount: float, more: Sequence[float]) -> Tensor:
    """Return what chains make of an image on the CPU."""
    out = image.clone().contiguous()
    name = {torch.uint8: "uint8", torch.float32: "float32"}[image.dtype]
    _native.run_operation(int(kind), amount, filled(more), out.data_ptr(), name, *out.shape)
    return out


def median(image: Tensor, side: int) -> np.ndarray:
    """Medians one by one; NaN is sorted behind all numbers."""
    radius = side // 2
    wide = np.pad(image.numpy(), ((0, 0), (radius, radius), (radius, radius)), "edge")
    windows = np.lib.stride_tricks.sliding_window_view(wide, (side, side), axis=(1, 2))
    return np.sort(windows.reshape(*image.shape, -1), -1)[..., side * side // 2]


@pytest.mark.matrix
@every_slot
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("size", SIZES)
def test_medians(size: tuple[int, int], dtype: torch.dtype, slot: str) -> None:
    """Each image of a batch has a side of its own."""
    for channels in (1, 2):
        image = picture(size, channels, dtype)
        with use_slot(slot):
            batch = image.repeat(len(SIDES), 1, 1, 1)
            found = adjusted(PixelKind.MEDIAN_BLUR, batch, [float(side) for side in SIDES])
        for own, side in zip(found, SIDES, strict=True):
            assert np.array_equal(own.numpy(), median(image, side)), side


@every_slot
def test_medians_of_nan_and_signed_zeros(slot: str) -> None:
    """In large squares, NaN is behind all numbers; in small ones, it has the CPU's place."""
    image = picture((23, 30), 1, torch.float32) - 0.25
    generator = torch.Generator().manual_seed(1)
    draw = torch.rand(image.shape, generator=generator)
    image[draw < 0.5] = -0.0
    image[draw < 0.3] = 0.0
    image[draw < 0.2] = NAN
    image[draw < 0.1] = -torch.tensor(NAN)
    image[draw < 0.05] = -float("inf")
    image[:, 15:, 20:] = NAN
    for side in (3, 5, 7, 9, 11):
        expected = by_the_core(PixelKind.MEDIAN_BLUR, image, side, [])
        with use_slot(slot):
            found = adjusted(PixelKind.MEDIAN_BLUR, image[None], [side])[0]
        assert same_bits(found, expected), side
        if side > 5:
            assert np.array_equal(found.numpy(), median(image, side), equal_nan=True)
            assert found.isnan().any()
            assert not found.isnan().all()


@pytest.mark.matrix
@every_slot
@pytest.mark.parametrize("size", [(1, 1), (1, 40), (33, 1), (24, 40), (29, 50)])
def test_clahe_is_opencv_s(size: tuple[int, int], slot: str) -> None:
    """Images have tiles and limits of their own; the largest have up to five channels."""
    clips, tiles = [0.0, 1.0, 3.5, 40.0, 1e30], [[8, 8], [1, 1], [3, 5], [40, 2], [1, 7]]
    for channels in (1, 2, 5) if size == (29, 50) else (2,):
        image = picture(size, channels, torch.uint8)
        with use_slot(slot):
            batch = image.repeat(len(clips), 1, 1, 1)
            found = adjusted(PixelKind.CLAHE, batch, clips, *tiles)
            floats = adjusted(PixelKind.CLAHE, batch / 255, clips, *tiles)
        for own, clip, (rows, columns) in zip(found, clips, tiles, strict=True):
            peer = cv2.createCLAHE(min(clip, 1e5), (columns, rows))
            expected = np.stack([peer.apply(plane) for plane in image.numpy()])
            assert np.array_equal(own.numpy(), expected), (clip, rows, columns)
        assert torch.equal(floats, found.float() * torch.tensor(1 / 255, dtype=torch.float32))


@every_slot
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_clahe_of_colours(dtype: torch.dtype, slot: str) -> None:
    """All kinds of colours have the bits of chains on the CPU."""
    levels = torch.arange(0, 256, 15, dtype=torch.uint8)
    colours = torch.cartesian_prod(levels, levels, levels).T.reshape(3, 54, 108)
    batch = torch.stack((colours, photo()[:, 90:144, 100:208], colours.flip(0)))
    batch = batch if dtype == torch.uint8 else batch / 255 * 1.2 - 0.1
    clips, tiles = [2.0, 0.0, 9.0], [[4, 3], [8, 8], [1, 1]]
    expected = [
        by_the_core(PixelKind.CLAHE, image, clip, own)
        for image, clip, own in zip(batch, clips, tiles, strict=True)
    ]
    with use_slot(slot):
        found = adjusted(PixelKind.CLAHE, batch, clips, *tiles)
    assert same_bits(found, torch.stack(expected))


def downscaled(side: int, factor: float) -> list[int]:
    small = max(round(side * factor), 1)
    near = [min(int(i * (1 / (side / small))), small - 1) for i in range(side)]
    return [min(int(i * (1 / factor)), side - 1) for i in near]


@pytest.mark.matrix
@every_slot
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("size", SIZES)
def test_downscaling(size: tuple[int, int], dtype: torch.dtype, slot: str) -> None:
    factors = [0.1, 0.25, 0.37, 0.5, 0.9, 1.0, 1e-6]
    image = picture(size, 3, dtype)
    with use_slot(slot):
        found = adjusted(PixelKind.DOWNSCALE, image.repeat(len(factors), 1, 1, 1), factors)
    for own, factor in zip(found, factors, strict=True):
        rows, columns = (downscaled(n, factor) for n in size)
        assert torch.equal(own, image[:, rows][:, :, columns]), factor


@pytest.mark.matrix
@every_slot
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("size", SIZES)
def test_small_filters(size: tuple[int, int], dtype: torch.dtype, slot: str) -> None:
    """Each image has a motion, an emboss or a sharpening of its own, with the bits of chains."""
    kinds = [PixelKind.MOTION_BLUR] * 4 + [PixelKind.EMBOSS, PixelKind.SHARPEN]
    amounts = [3.0, 7.0, 33.0, 5.0, 0.6, 0.8]
    numbers = [[0.0], [30.0, 0.2, 1.0, -1.0], [200.0, -1.0], [90.0, 1.0, -0.4], [0.7], [0.9]]
    image = picture(size, 2, dtype)
    expected = [
        by_the_core(kind, image, amount, own)
        for kind, amount, own in zip(kinds, amounts, numbers, strict=True)
    ]
    with use_slot(slot):
        batch = image.repeat(len(kinds), 1, 1, 1)
        found = adjust_pixels(batch, kinds, amounts, filled(*numbers))
    assert same_bits(found, torch.stack(expected))
    if min(size) > 2:
        kernel = np.full((3, 3), -0.8)
        kernel[1, 1] = 0.2 + 0.8 * (8 + 0.9)
        wanted = cv2.filter2D(image[0].numpy(), -1, kernel)
        if dtype == torch.float32:
            assert np.abs(found[5, 0].numpy() - wanted.clip(0, 1)).max() < 1e-5
        else:
            assert np.abs(found[5, 0].int().numpy() - wanted).max() <= 1


def mirrored(count: int, radius: int) -> np.ndarray:
    """How often the window around each of a side's pixels has each of them: [count, count]."""
    period = max(2 * (count - 1), 1)
    at = np.abs(np.arange(count)[:, None] + np.arange(-radius, radius + 1)) % period
    at = np.minimum(at, period - at) if count > 1 else at * 0
    return (at[:, :, None] == np.arange(count)).sum(1)


@pytest.mark.matrix
@every_slot
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("size", SIZES)
def test_box_blurs(size: tuple[int, int], dtype: torch.dtype, slot: str) -> None:
    """Each image of a batch has a side of its own, with the bits of chains."""
    sides = [3, 1, 5, 7, 31, 131]
    image = picture(size, 2, dtype)
    with use_slot(slot):
        batch = image.repeat(len(sides), 1, 1, 1)
        found = adjusted(PixelKind.BOX_BLUR, batch, [float(side) for side in sides])
    for own, side in zip(found, sides, strict=True):
        assert same_bits(own, by_the_core(PixelKind.BOX_BLUR, image, side, []))
        rows, columns = (mirrored(n, side // 2) for n in size)
        means = rows @ image.numpy().astype(np.float64) @ columns.T / side**2
        distance = np.abs(own.numpy() - means)
        assert distance.max() < (0.5001 if dtype == torch.uint8 else 1e-5), side


@pytest.mark.matrix
@every_slot
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("size", SIZES)
def test_unsharp_masks(size: tuple[int, int], dtype: torch.dtype, slot: str) -> None:
    """Each image of a batch has numbers of its own, with the bits of chains."""
    shares = [0.5, 0.0, 1.0, 0.3, 0.9]
    more = [[3.0, 0.0, 10.0], [5.0], [7.0, 1.7, 0.0], [21.0, 0.0, 30.0], [1.0, 0.4, 5.0]]
    image = picture(size, 2, dtype)
    if dtype == torch.float32:
        image = image * 1.3 - 0.1
    with use_slot(slot):
        batch = image.repeat(len(shares), 1, 1, 1)
        found = adjusted(PixelKind.UNSHARP_MASK, batch, shares, *more)
    for own, share, numbers in zip(found, shares, more, strict=True):
        assert same_bits(own, by_the_core(PixelKind.UNSHARP_MASK, image, share, numbers))
    if min(size) > 2:
        assert not torch.equal(found[0], image)


@every_slot
@pytest.mark.parametrize("kind", [PixelKind.BOX_BLUR, PixelKind.UNSHARP_MASK])
def test_blurs_of_nan_and_signed_zeros(kind: PixelKind, slot: str) -> None:
    image = picture((23, 30), 2, torch.float32) - 0.25
    image[:, 3:9] = -0.0
    image[0, 15, 20] = NAN
    image[1, 5, 5] = float("inf")
    amount, more = (5.0, []) if kind == PixelKind.BOX_BLUR else (0.5, [5.0, 0.0, 10.0])
    with use_slot(slot):
        found = adjusted(kind, image[None], [amount], more)[0]
    assert same_bits(found, by_the_core(kind, image, amount, more))
    assert found.isnan().any()
    assert not found.isnan().all()


@every_slot
@pytest.mark.parametrize(
    ("kind", "amount", "more"),
    [
        (PixelKind.MEDIAN_BLUR, 4097.0, []),
        (PixelKind.MOTION_BLUR, 35.0, [20.0]),
        (PixelKind.CLAHE, 2.0, [300.0, 2.0]),
        (PixelKind.BOX_BLUR, 4097.0, []),
        (PixelKind.UNSHARP_MASK, 0.5, [4097.0, 0.0, 1.0]),
        (PixelKind.HOLES, 0.0, [0.1, 1.0, 5000.0, 0.1, 0.2, 0.1, 0.2]),
        (PixelKind.GRID_HOLES, 0.0, [0.1, 0.5, 1.0, 2.0, 5000.0, 2.0]),
    ],
)
def test_what_is_too_large_for_the_operator(
    kind: PixelKind, amount: float, more: list[float], slot: str
) -> None:
    batch = picture((3, 4), 1, torch.uint8)
    with use_slot(slot), pytest.raises(RuntimeError, match="must be"):
        adjusted(kind, batch, [amount], more)


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
