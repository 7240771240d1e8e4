"""Pieces of CUDA's im2col and col2im, whole or not: the bits of the CPU's kernels."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from contract.calls import same_bits
from kernels import use_slot
from torch import Tensor

DTYPES = [torch.uint8, torch.bool, torch.float16, torch.float32, torch.float64, torch.complex64]

# Size, kernel, stride, padding, dilation. A thread has four places, or pixels, of a row.
PROBLEMS: dict[str, tuple[tuple[int, int], int | tuple[int, int], int, int, int]] = {
    "whole pieces": ((9, 16), 3, 1, 1, 1),
    "a place more": ((9, 17), 3, 1, 1, 1),
    "a place less": ((9, 15), 3, 1, 1, 1),
    "no padding": ((9, 18), 3, 1, 0, 1),
    "padding alone": ((2, 2), 3, 1, 5, 1),
    "one pixel": ((1, 1), 1, 1, 0, 1),
    "one place": ((5, 5), 5, 1, 0, 1),
    "three places": ((5, 7), 5, 1, 0, 1),
    "steps of two": ((9, 16), 3, 2, 1, 1),
    "steps of three": ((11, 31), (2, 4), 3, 2, 2),
    "apart": ((12, 20), 3, 1, 2, 2),
    "far apart": ((12, 20), 2, 1, 9, 9),
    "a wide kernel": ((3, 40), (1, 17), 1, 8, 1),
}


def same_on_cuda(images: Tensor, problem: str, layout: str) -> None:
    size, kernel, stride, padding, dilation = PROBLEMS[problem]
    options: dict[str, Any] = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "layout": layout,
    }
    found = []
    for slot in ("default", "cuda_emulated"):
        with use_slot(slot):
            columns = visops.im2col(images, kernel, fill_value=1, **options)
            found.append((columns, visops.col2im(columns, size, kernel, **options)))
    for one, other in zip(*found, strict=True):
        assert same_bits(one, other)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pieces(dtype: torch.dtype, problem: str) -> None:
    size = PROBLEMS[problem][0]
    numbers = torch.from_numpy(np.random.default_rng(0).uniform(-2, 200, (2, 3, *size)).clip(0))
    images = numbers.to(dtype)
    if dtype.is_floating_point:
        images[0, 0, 0, 0], images[1, 2, -1, -1], images[0, 1, -1, 0] = torch.inf, torch.nan, -0.0
    for layout in ("unfold", "patches"):
        same_on_cuda(images, problem, layout)


@pytest.mark.parametrize("problem", ["whole pieces", "a place more", "steps of two"])
def test_strides_and_offsets(problem: str) -> None:
    height, width = PROBLEMS[problem][0]
    big = torch.arange(2.0 * 4 * (height + 3) * (2 * width + 5)).view(2, 4, height + 3, -1)
    same_on_cuda(big[:, 1:, 2 : 2 + height, 3 : 3 + width], problem, "unfold")
    same_on_cuda(big[:, ::2, 2 : 2 + height, 1 : 1 + 2 * width : 2], problem, "unfold")
    same_on_cuda(big[:0, :, :height, :width], problem, "unfold")
