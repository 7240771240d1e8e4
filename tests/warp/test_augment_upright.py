"""Upright antialias has the default kernels' bits wherever CUDA's kernel takes another way."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import SLOTS, use_schedule, use_slot
from torch import Tensor

from warp.affine_cases import random_image

pytestmark = pytest.mark.skipif(
    "cuda_emulated" not in SLOTS, reason="a build without the emulation"
)

MODES = ("bilinear", "bicubic", "lanczos")
DTYPES = (torch.uint8, torch.float16, torch.float32, torch.float64)

# The image's shape, the steps from output to source along y and x and where they begin, and the
# output's size. Then how the image lies in memory, and options.
Border = tuple[
    tuple[int, int, int], tuple[float, float], tuple[float, float], tuple[int, int], str, Any
]
BORDERS: dict[str, Border] = {
    "whole words": ((3, 40, 96), (4.8, 8.5), (1.9, 3.8), (8, 11), "planar", {}),
    "interleaved words": ((3, 40, 96), (4.8, 8.5), (1.9, 3.8), (8, 11), "interleaved", {}),
    "rows of odd length": ((3, 31, 61), (2.5, 3.5), (0.7, 1.2), (12, 17), "planar", {}),
    "interleaved rows of odd length": ((3, 31, 61), (2.5, 3.5), (0, 0), (12, 17), "cropped", {}),
    "rows that begin within a word": ((1, 20, 64), (2, 2), (0.5, 0.5), (10, 32), "offset", {}),
    "every other element": ((2, 20, 30), (2, 2), (0.5, 0.5), (10, 15), "apart", {}),
    "three of four channels": ((3, 20, 30), (2, 2), (0.5, 0.5), (10, 15), "of four", {}),
    "five channels": ((5, 20, 30), (2.5, 2.2), (0, 0), (8, 13), "interleaved", {}),
    "flipped": ((3, 50, 70), (-3.1, -2.7), (48, 68), (16, 25), "planar", {}),
    "more rows than a tile": ((1, 90, 20), (2.3, 1.9), (0.6, 0.4), (39, 10), "planar", {}),
    "more pairs of rows than are found at once": (
        *((1, 700, 6), (31, 2), (15, 0.5), (22, 3), "planar"),
        {"padding_mode": "replicate"},
    ),
    "enlarged along y": ((3, 12, 80), (0.3, 4.1), (-0.4, 1.5), (40, 19), "planar", {}),
    "one source row for all": ((1, 12, 40), (0.0, 3.0), (5.2, 1.0), (20, 13), "planar", {}),
    "steps of one row": ((1, 30, 40), (1.0, 3.0), (0.0, 1.0), (29, 13), "planar", {}),
    "a tile in pieces": ((3, 9, 900), (1.5, 13.7), (0.3, 6.0), (6, 66), "interleaved", {}),
    "pixels in several walks": ((3, 5, 1900), (1.2, 640.0), (0, 300.0), (4, 3), "interleaved", {}),
    "half outside": ((3, 30, 40), (2.2, 2.4), (-20.0, -30.0), (20, 70), "planar", {"fill": 9.0}),
    "outside": ((3, 30, 40), (2.2, 2.4), (-200.0, -300.0), (20, 70), "planar", {"fill": 9.0}),
    "a window": ((3, 40, 60), (3.0, 3.0), (0, 0), (13, 20), "planar", {"window": [7.2, 5, 41, 33]}),
    "one pixel": ((1, 1, 1), (1.5, 1.5), (0.0, 0.0), (2, 70), "planar", {}),
    "one column": ((3, 40, 1), (2.5, 1.0), (0.0, 0.0), (16, 2), "planar", {}),
    "columns folded at both ends": (
        *((3, 9, 14), (2.0, 3.0), (0.0, -21.0), (5, 20), "planar"),
        {"padding_mode": "reflect"},
    ),
    "columns from the other end": (
        *((3, 9, 333), (2.0, 3.0), (0.0, -9.0), (5, 117), "interleaved"),
        {"padding_mode": "circular"},
    ),
}


def lying(image: Tensor, how: str) -> Tensor:
    """[C, H, W] -> [1, C, H, W], the same elements, elsewhere in memory."""
    channels, height, width = image.shape
    if how == "interleaved":
        return image[None].contiguous(memory_format=torch.channels_last)
    if how == "offset":
        room = torch.zeros(image.numel() + 3, dtype=image.dtype)[3:]
        return room.view(1, *image.shape).copy_(image[None])
    if how == "apart":
        return torch.zeros(1, channels, height, 2 * width, dtype=image.dtype)[..., ::2].copy_(image)
    if how in ("of four", "cropped"):
        more, left = (4 - channels, 0) if how == "of four" else (0, 1)
        room = torch.zeros(1, height, width + left, channels + more, dtype=image.dtype)
        return room[:, :, left:, :channels].permute(0, 3, 1, 2).copy_(image)
    return image[None]


def same_bits_as_default(image: Tensor, matrix: Any, size: Any, **options: Any) -> None:
    def call() -> Tensor:
        return visops.augment(
            image, matrix, size, antialias=True, inverse_map=True, layout="CHW", **options
        )

    with use_slot("default"):
        expected = call()
    with use_slot("cuda_emulated"), use_schedule(3):
        torch.testing.assert_close(call(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("border", BORDERS)
def test_borders(border: str, dtype: torch.dtype) -> None:
    shape, step, start, size, how, options = BORDERS[border]
    image = lying(random_image(np.random.default_rng(1), (1, *shape), dtype)[0], how)
    matrix = [[step[1], 0.0, start[1]], [0.0, step[0], start[0]]]
    for mode in MODES:
        same_bits_as_default(image, matrix, size, mode=mode, **options)
        # uint8 is filtered in integers, but not with another padding.
        if dtype == torch.uint8 and "padding_mode" not in options:
            folded = {"padding_mode": "replicate", **options}
            same_bits_as_default(image, matrix, size, mode=mode, **folded)


@pytest.mark.parametrize("value", [math.inf, math.nan])
@pytest.mark.parametrize("mode", MODES)
def test_taps_of_weight_zero_count(mode: str, value: float) -> None:
    """Taps at the filter's ends may weigh nothing, but nothing times infinity is not nothing."""
    image = torch.rand(1, 3, 41, 37, generator=torch.Generator().manual_seed(0))
    image[0, 1, ::7, ::5] = value
    for dtype in (torch.float16, torch.float32):
        for step in (1.5, 2.0, 4.8):
            matrix = [[step, 0.0, 0.0], [0.0, step, 0.0]]
            same_bits_as_default(image.to(dtype), matrix, (9, 8), mode=mode)
