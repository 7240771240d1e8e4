"""Bilinear warps and `augment` have the default kernels' bits wherever CUDA takes another way."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import SLOTS, use_schedule, use_slot
from torch import Tensor

from warp.affine_cases import LAYOUTS, PADDINGS, random_image

pytestmark = pytest.mark.skipif(
    "cuda_emulated" not in SLOTS, reason="a build without the emulation"
)

DTYPES = (torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.float32)


def turned(angle: float, scale: float, centre: tuple[float, float], size: tuple[int, int]) -> Any:
    """From output to source, `scale` pixels a step; the output's middle is at `centre`, (x, y)."""
    a, b = scale * math.cos(angle), scale * math.sin(angle)
    x, y = (size[1] - 1) / 2, (size[0] - 1) / 2
    return [[a, -b, centre[0] - a * x + b * y], [b, a, centre[1] - b * x - a * y]]


# The image's shape, the output's size, the angle, the scale, and where the output's middle lies.
Border = tuple[tuple[int, int, int], tuple[int, int], float, float, tuple[float, float]]
BORDERS: dict[str, Border] = {
    "inside": ((3, 100, 120), (40, 50), 0.5, 1.0, (60, 50)),
    "the largest box that fits": ((3, 120, 120), (32, 32), math.pi / 4, 1.0, (60, 60)),
    "boxes that don't fit": ((3, 150, 160), (40, 50), 0.7, 2.5, (80, 75)),
    "some fit": ((1, 60, 700), (32, 128), 0.02, 1.45, (300, 30)),
    "at the image's border": ((3, 40, 50), (60, 70), 0.3, 1.0, (25, 20)),
    "beyond it": ((3, 20, 20), (40, 140), 0.3, 1.0, (-20, -80)),
    "more rows than a part": ((2, 90, 60), (70, 33), 3.0, 0.8, (30, 45)),
    "less than a part": ((3, 30, 30), (3, 5), 1.0, 1.0, (15, 15)),
    "enlarged": ((4, 9, 9), (50, 40), 2.0, 0.1, (4, 4)),
    "one channel": ((1, 50, 50), (34, 40), 1.2, 1.0, (25, 25)),
    "five channels": ((5, 50, 50), (34, 40), 1.2, 1.0, (25, 25)),
    "one column": ((3, 40, 1), (20, 20), 0.2, 1.0, (0, 20)),
    "one pixel": ((3, 1, 1), (5, 40), 0.2, 1.0, (0, 0)),
    "two columns": ((3, 40, 2), (20, 20), 0.2, 1.0, (0.5, 20)),
}


def same_bits_as_default(
    image: Tensor, matrix: Any, size: Any, warp: Any = visops.warp_affine, **options: Any
) -> None:
    def call() -> Tensor:
        return warp(image, matrix, size, inverse_map=True, **options)

    with use_slot("default"):
        expected = call()
    with use_slot("cuda_emulated"), use_schedule(3):
        got = call()
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
    if image.dtype.is_floating_point:
        known = ~expected.isnan()
        assert torch.equal(torch.signbit(got[known]), torch.signbit(expected[known]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("border", BORDERS)
def test_borders(border: str, dtype: torch.dtype) -> None:
    shape, size, angle, scale, centre = BORDERS[border]
    image = random_image(np.random.default_rng(2), (1, *shape), dtype)
    matrix = turned(angle, scale, centre, size)
    for layout in ("contiguous", "channels_last"):
        stored = LAYOUTS[layout](image)
        for padding_mode in PADDINGS:
            same_bits_as_default(stored, matrix, size, padding_mode=padding_mode, fill=7)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16], ids=str)
@pytest.mark.parametrize("border", BORDERS)
def test_augment(border: str, dtype: torch.dtype) -> None:
    shape, size, angle, scale, centre = BORDERS[border]
    image = random_image(np.random.default_rng(3), (1, *shape), dtype)
    matrix = turned(angle, scale, centre, size)
    window = [[0.1 * shape[2], 0.2 * shape[1], 0.9 * shape[2], 0.9 * shape[1]]]
    options: dict[str, Any] = {"layout": "CHW", "mean": 0.4, "std": 0.3}
    for layout in ("contiguous", "channels_last"):
        stored = LAYOUTS[layout](image)
        for more in ({}, {"padding_mode": "reflect"}, {"window": window, "fill": 7.0}):
            same_bits_as_default(stored, matrix, size, visops.augment, **options, **more)
    bent = [*matrix, [1e-4, -2e-4, 1.0]]
    same_bits_as_default(image, bent, size, visops.augment, layout="CHW", out_dtype=dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    image = random_image(np.random.default_rng(4), (2, 3, 50, 60), torch.uint8)
    same_bits_as_default(LAYOUTS[layout](image), turned(0.4, 1.0, (30, 25), (40, 45)), (40, 45))


@pytest.mark.parametrize("first", [0, 1, 2, 4])
@pytest.mark.parametrize("width", [60, 61, 62, 64])
def test_rows_that_are_words_and_others(width: int, first: int) -> None:
    """Bytes of photos are copied four at a time where rows, channels and images are words."""
    memory = random_image(np.random.default_rng(7), (2, 4, 50, 72), torch.uint8)
    views = {
        "rows of 72": memory[:, :3, :, first : first + width],
        "channels beside others": memory[:, 1:, :, first : first + width],
        "whole rows": memory.reshape(-1)[first:][: 6 * 50 * width].view(2, 3, 50, width),
        "channels of 3202": memory.reshape(-1)[: 6 * 3202].view(2, 3, 3202)[..., : 50 * 64],
    }
    views["channels of 3202"] = views["channels of 3202"].unflatten(-1, (50, 64))
    for image in views.values():
        for centre in ((30, 25), (20, 22), (width - 21, 27)):
            matrix = turned(0.4, 0.8, centre, (40, 45))
            same_bits_as_default(image, matrix, (40, 45))
            same_bits_as_default(image, matrix, (40, 45), visops.augment)
            window = [[first, 2.0, width, 48.0]] * 2
            same_bits_as_default(image, matrix, (40, 45), visops.augment, window=window)


@pytest.mark.parametrize("fill", [0.0, -0.0, 0.1, 1e-9, 1e30, math.inf, math.nan])
def test_fills_that_elements_do_not_hold(fill: float) -> None:
    """Beyond the border a copy of such a fill would not be the fill, nor would its blend."""
    matrix = turned(0.3, 1.0, (25, 20), (60, 70))
    for dtype in (torch.float16, torch.float32):
        image = random_image(np.random.default_rng(5), (1, 3, 40, 50), dtype)
        for fills in (fill, [1.0, fill, 2.0]):
            same_bits_as_default(image, matrix, (60, 70), fill=fills)
    image = random_image(np.random.default_rng(5), (1, 3, 40, 50), torch.uint8)
    for level in (0, 255, 0.5, 254.7):
        same_bits_as_default(image, matrix, (60, 70), fill=level)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_stays_within_its_taps(value: float) -> None:
    image = random_image(np.random.default_rng(6), (1, 3, 60, 60), torch.float32)
    image[0, 1, ::9, ::7] = value
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        same_bits_as_default(image.to(dtype), turned(0.9, 1.0, (30, 30), (50, 50)), (50, 50))
