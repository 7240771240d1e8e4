"""Nearest warps that turn by about 90 degrees: rows become columns, in tiles."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import visops

SHAPES = [(1, 1), (7, 90), (32, 64), (101, 75), (130, 33)]
TURNS = list(itertools.product((1.0, -1.0), (1.0, -1.0)))


def picture(shape: tuple[int, ...], dtype: str = "uint8") -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.integers(0, 120, shape).astype(dtype)


def warped(image: np.ndarray, m: np.ndarray, size: tuple[int, int], fill: float) -> np.ndarray:
    """Pixel by pixel at the nearest integers; `m` maps the output to the image."""
    y, x = np.mgrid[: size[0], : size[1]]
    column = np.floor(m[0, 0] * x + (m[0, 1] * y + m[0, 2]) + 0.5).astype(int)
    row = np.floor(m[1, 0] * x + (m[1, 1] * y + m[1, 2]) + 0.5).astype(int)
    height, width = image.shape[:2]
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    out = np.full((*size, *image.shape[2:]), fill, image.dtype)
    out[inside] = image[row[inside], column[inside]]
    return out


def turn(across: float, down: float, shape: tuple[int, ...], shift: tuple[int, int]) -> np.ndarray:
    """Maps that fill the output, if not shifted."""
    x = 0.0 if across > 0 else shape[1] - 1.0
    y = 0.0 if down > 0 else shape[0] - 1.0
    return np.array([[0.0, across, x + shift[0]], [down, 0.0, y + shift[1]]])


@pytest.mark.matrix
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("channels", [None, 1, 2, 3, 4, 5, 8])
def test_arrays(shape: tuple[int, int], channels: int | None) -> None:
    full = shape if channels is None else (*shape, channels)
    for dtype in ("uint8", "int16", "float32"):
        image = picture(full, dtype)
        strided = picture((*shape, 2 * (channels or 1)), dtype)[..., ::2].reshape(full)
        for (across, down), shift in itertools.product(TURNS, ((0, 0), (3, -40), (-9, 2))):
            m = turn(across, down, shape, shift)
            for size in (shape[::-1], (shape[1] + 5, shape[0] + 41)):
                options: dict[str, Any] = {"mode": "nearest", "inverse_map": True, "fill": 7}
                expected = warped(image, m, size, 7)
                assert np.array_equal(visops.warp_affine(image, m, size, **options), expected)
                whole = np.zeros((size[0], size[1] + 3, *full[2:]), dtype)
                out = whole[:, 1:-2]  # rows that don't touch
                visops.warp_affine(image[::-1], m, size, out=out, **options)
                assert np.array_equal(out, warped(image[::-1], m, size, 7))
                found = visops.warp_affine(strided, m, size, **options)
                assert np.array_equal(found, warped(strided, m, size, 7))


@pytest.mark.matrix
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_layouts_of_batches(channels: int) -> None:
    formats = (torch.contiguous_format, torch.channels_last)
    image = picture((2, 70, 99, channels))
    pixels = torch.from_numpy(image).permute(0, 3, 1, 2)
    window = torch.tensor([[9.0, 3.0, 80.0, 66.0], [0.0, 0.0, 99.0, 70.0]])
    erase = torch.tensor([[[5, 9, 40, 33]], [[0, 0, 70, 1]]])
    for (across, down), source, target in itertools.product(TURNS, formats, formats):
        m = turn(across, down, (70, 99), (2, -5))
        moved = visops.augment(
            pixels.contiguous(memory_format=source),
            torch.from_numpy(m),
            (103, 71),
            mode="nearest",
            inverse_map=True,
            fill=9.0,
            window=window,
            erase=erase,
            erase_value=3.0,
            out_dtype=torch.uint8,
            memory_format=target,
        )
        assert moved.is_contiguous(memory_format=target)
        for i in range(2):
            x1, y1, x2, y2 = map(int, window[i].tolist())
            clipped = m - [[0, 0, x1], [0, 0, y1]]
            expected = warped(image[i, y1:y2, x1:x2], clipped, (103, 71), 9)
            x1, y1, x2, y2 = erase[i, 0].tolist()
            expected[y1:y2, x1:x2] = 3
            assert np.array_equal(moved[i].permute(1, 2, 0).numpy(), expected)


@pytest.mark.parametrize("error", [0.0, 6e-17, 1e-7, 1e-3, 2e-3, 4e-3, -4e-3, 0.02])
def test_turns_that_are_not_exact(error: float) -> None:
    """Where an error adds up to half a pixel, the nearest pixel is another one. No ties."""
    image = picture((97, 120))
    for across, down in TURNS:
        for shift in (0.0, 0.2, 0.26, -0.4):
            m = turn(across, down, (97, 120), (0, 0))
            m += [[error, 2 * error, shift + 0.0013], [error, -error, 0.0013 - shift]]
            found = visops.warp_affine(image, m, (120, 97), mode="nearest", inverse_map=True)
            assert np.array_equal(found, warped(image, m, (120, 97), 0))


def test_sines_of_an_angle_are_a_turn() -> None:
    image = picture((200, 200, 3))
    angle = np.deg2rad(90.0)
    m = np.array([[np.cos(angle), -np.sin(angle), 199.0], [np.sin(angle), np.cos(angle), 0.0]])
    found = visops.warp_affine(image, m, (200, 200), mode="nearest")
    assert np.array_equal(found, np.rot90(image, -1))


@pytest.mark.parametrize("shift", [3e9, -1e19, 1e300])
def test_far_beyond_the_image(shift: float) -> None:
    image = picture((40, 50))
    for across, down in TURNS:
        for m in (
            [[0.0, across, shift], [down, 0.0, 3.0]],
            [[0.0, across, 3.0], [down, 0.0, shift]],
        ):
            found = visops.warp_affine(
                image, np.array(m), (50, 40), mode="nearest", inverse_map=True, fill=9
            )
            assert np.array_equal(found, np.full((50, 40), 9, np.uint8))
