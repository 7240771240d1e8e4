"""Windows of CUDA's filters and convolutions, at every remainder: the bits of the CPU's kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from contract.calls import same_bits
from kernels import use_slot
from torch import Tensor
from visops.convolution.filter2d import DTYPES as FILTERED
from visops.convolution.filter2d import filter_separable

from convolution.convolve2d_cases import BOUNDARIES, DTYPES, element, values

OPS = torch.ops.visops


def same_on_cuda(function: Callable[..., Tensor], *arguments: Any, **options: Any) -> Tensor:
    found = []
    for slot in ("default", "cuda_emulated"):
        with use_slot(slot):
            found.append(function(*arguments, **options))
    assert same_bits(*found)
    return found[0]


def awkward(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Numbers among which infinities, NaN and both zeros lie, where the dtype has them."""
    numbers = rng.uniform(0 if dtype == torch.uint8 else -3, 250, shape)
    if dtype.is_floating_point:
        for value in (np.inf, -np.inf, np.nan, -0.0, 0.0):
            numbers[..., rng.integers(shape[-2]), rng.integers(shape[-1])] = value
    return torch.from_numpy(numbers).to(dtype)


# Tiles are 64 x 64; a thread has 8 neighbours of a row, then 4 of each of 4 columns. Quads of rows
# of whole quads are aligned. Low images are mirrored more than once, from 16 rows on those of 9
# taps are not.
FILTER_SIZES = [(1, 1), (2, 3), (4, 4), (15, 12), (16, 68), (9, 67), (63, 63), (64, 64), (65, 132)]


@pytest.mark.parametrize("size", FILTER_SIZES, ids=str)
@pytest.mark.parametrize("dtype", FILTERED, ids=str)
def test_taps_of_a_separable_filter(dtype: torch.dtype, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    images = awkward(rng, (2, 2, *size), dtype)
    for row, column in ((1, 1), (2, 3), (3, 2), (4, 5), (5, 4), (6, 8), (7, 9), (9, 7), (33, 32)):
        rows = rng.uniform(-0.2, 0.5, row).tolist()
        columns = rng.uniform(-0.2, 0.5, column).tolist()
        same_on_cuda(filter_separable, images, rows, columns)
        if row % 2 and column % 2:
            same_on_cuda(filter_separable, images, rows, columns, pairs=True)


def test_weights_of_zeros_keep_infinities_and_signs() -> None:
    """A weight of 0 multiplies what it meets, and nothing else does."""
    images = torch.full((1, 1, 40, 70), -0.0)
    images[0, 0, 20, 30] = float("inf")
    for taps in range(1, 10):
        weights = [0.0] * taps
        found = same_on_cuda(filter_separable, images, weights, [1.0])
        assert int(found.isnan().sum()) == taps


def test_many_channels_and_odd_addresses() -> None:
    rng = np.random.default_rng(1)
    images = awkward(rng, (23, 5, 3, 5), torch.uint8)
    same_on_cuda(filter_separable, images, [0.2, 0.3, 0.5], [0.5, 0.5])
    shifted = (
        torch.zeros(images.numel() + 1, dtype=torch.uint8)[1:].view(images.shape).copy_(images)
    )
    same_on_cuda(filter_separable, shifted, [0.2, 0.3, 0.5], [0.5, 0.5])
    empty = same_on_cuda(filter_separable, images[:0], [1.0], [0.5, 0.5])
    assert empty.shape == (0, 5, 3, 5)


# Tiles are 64 wide, and 16, 32 or 64 high.
@pytest.mark.parametrize("size", [(1, 1), (3, 31), (64, 64), (65, 68), (17, 65), (31, 33)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_kernels_of_a_convolution(dtype: torch.dtype, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    input = values(rng, (2, *size), dtype)
    if dtype.is_floating_point:
        input[0, size[0] // 2, size[1] // 2], input[1, 0, 0] = torch.inf, -0.0
    for turn, kernel_size in enumerate([(1, 1), (2, 2), (3, 3), (1, 4), (4, 5), (2, 6), (3, 9)]):
        kernel = values(rng, (2, *kernel_size), dtype)
        boundary = BOUNDARIES[turn % 3]
        fill = element(dtype) if boundary == "fill" else None
        start = [(k - 1) // 2 for k in kernel_size]
        for width in (size[1], size[1] + 3):
            same_on_cuda(
                OPS.convolve2d, input, kernel, start, [size[0], width], boundary, fill, True
            )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128], ids=str)
def test_kernels_that_are_read_in_pieces(dtype: torch.dtype) -> None:
    """Larger than shared memory: rows in pieces, then pieces of a row, the last of any width."""
    rng = np.random.default_rng(3)
    input = values(rng, (1, 3, 70), dtype)
    for kernel_size in ((70, 3), (60, 60), (2, 200), (2, 1030), (1, 5003), (2, 1025)):
        kernel = values(rng, (1, *kernel_size), dtype)
        same_on_cuda(OPS.convolve2d, input, kernel, [1, 1], [4, 37], "wrap", None, False)


def test_layouts_and_batches_of_a_convolution() -> None:
    rng = np.random.default_rng(4)
    kernel = values(rng, (3, 5), torch.float32)
    for input in (
        values(rng, (2, 3, 40, 50), torch.float32),
        values(rng, (50, 40), torch.float32).mT,
        values(rng, (40, 101), torch.float32)[:, 1::2],
        values(rng, (19, 5, 6), torch.float32),
        values(rng, (1, 40, 50), torch.float32).expand(3, 40, 50),
        values(rng, (0, 5, 6), torch.float32),
    ):
        size = list(input.shape[-2:])
        same_on_cuda(
            OPS.convolve2d,
            input,
            kernel.expand(*input.shape[:-2], 3, 5),
            [1, 2],
            size,
            "symm",
            None,
            True,
        )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
def test_quads_that_are_aligned_and_others(dtype: torch.dtype) -> None:
    """Loads begin at an aligned quad before what is needed, if every row has such quads."""
    rng = np.random.default_rng(5)
    kernel = values(rng, (2, 3, 3), dtype)
    memory = values(rng, (2, 40, 84), dtype)
    views = {
        "aligned": memory[:, :, :80],
        "aligned rows of any width": memory[:, :, :77],
        "an offset of a quad": memory[:, :, 4:],
        "an offset of an element": memory[:, :, 1:81],
        "rows of 82": memory.reshape(-1)[: 2 * 40 * 82].view(2, 40, 82)[:, :, :80],
        "images of 3322": memory.reshape(-1)[: 2 * 3322].view(2, 3322)[:, :3200].view(2, 40, 80),
        "columns apart": memory[:, :, ::2],
        "one row for all": memory[:, :1].expand(2, 40, 84),
    }
    for turn, (name, input) in enumerate(views.items()):
        for start in range(-5, 6):
            boundary = BOUNDARIES[(turn + start) % 3]
            fill = element(dtype) if boundary == "fill" else None
            size = [38, 72 if start % 2 else 75]
            found = same_on_cuda(
                OPS.convolve2d, input, kernel, [1, start], size, boundary, fill, False
            )
            assert found.shape == (2, *size), name


COPIED = [
    torch.uint8,
    torch.bool,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.complex64,
]

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


def same_columns_on_cuda(images: Tensor, problem: str, layout: str) -> None:
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
@pytest.mark.parametrize("dtype", COPIED, ids=str)
def test_pieces(dtype: torch.dtype, problem: str) -> None:
    size = PROBLEMS[problem][0]
    numbers = torch.from_numpy(np.random.default_rng(0).uniform(-2, 200, (2, 3, *size)).clip(0))
    images = numbers.to(dtype)
    if dtype.is_floating_point:
        images[0, 0, 0, 0], images[1, 2, -1, -1], images[0, 1, -1, 0] = torch.inf, torch.nan, -0.0
    for layout in ("unfold", "patches"):
        same_columns_on_cuda(images, problem, layout)


@pytest.mark.parametrize("problem", ["whole pieces", "a place more", "steps of two"])
def test_strides_and_offsets(problem: str) -> None:
    height, width = PROBLEMS[problem][0]
    big = torch.arange(2.0 * 4 * (height + 3) * (2 * width + 5)).view(2, 4, height + 3, -1)
    same_columns_on_cuda(big[:, 1:, 2 : 2 + height, 3 : 3 + width], problem, "unfold")
    same_columns_on_cuda(big[:, ::2, 2 : 2 + height, 1 : 1 + 2 * width : 2], problem, "unfold")
    same_columns_on_cuda(big[:0, :, :height, :width], problem, "unfold")
