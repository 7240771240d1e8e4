"""Kernels that are the product of a column and a row: convolved along one dimension at a time."""

import math

import numpy as np
import torch
from torch import Tensor

from .convolve2d_narrow import convolve_rows
from .convolve2d_problem import Problem, fill_tensor

# A kernel counts as a product if it differs from one by at most this many eps of its norm. A
# product of two rounded factors, rounded and normalised, is off by one or two.
_ROUNDINGS = 4

_SMALL = 225  # elements of kernels that are looked at as plain numbers first

_HALVES = (torch.float16, torch.bfloat16)

Factors = tuple[Tensor, Tensor]  # [..., kh, 1] and [..., 1, kw]


def factors_of(kernel: Tensor) -> Factors | None:
    """Return the column and row whose product is the kernel, on the CPU; None if there are none.

    Integers must be an exact product of integers. Floating kernels may differ from the product by
    4 eps of their norm, where eps is of the dtype of sums: float32 for float16 and bfloat16. The
    factors have that dtype too. Reads the kernel's values.
    """
    if _has_a_minor(kernel):
        return None
    wide = kernel.detach().cpu().to(_wide(kernel)).numpy()
    exact = wide.dtype == np.int64
    kh, kw = wide.shape[-2:]
    sums = torch.float32 if kernel.dtype in _HALVES else kernel.dtype
    with np.errstate(all="ignore"):
        found = [_factors_of_one(k, sums, exact) for k in wide.reshape(-1, kh, kw)]
    column = np.zeros((len(found), kh), wide.dtype)
    row = np.zeros((len(found), kw), wide.dtype)
    for i, factors in enumerate(found):
        if factors is None:
            return None
        column[i], row[i] = factors
    shape = wide.shape[:-2]
    return (
        torch.from_numpy(column.reshape(*shape, kh, 1)).to(sums),
        torch.from_numpy(row.reshape(*shape, 1, kw)).to(sums),
    )


def _has_a_minor(kernel: Tensor) -> bool:
    """Whether two rows and two columns of a small kernel show that it isn't a product.

    False leaves the question open. Most kernels are no product, and plain numbers say so sooner
    than a dozen calls to NumPy.
    """
    if kernel.dim() != 2 or not kernel.is_floating_point() or kernel.numel() > _SMALL:
        return False
    rows = kernel.detach().tolist()
    top, left = rows[0], rows[0][0]
    # What 4 eps of the norm, in every element, may add to a minor is below 17 eps of its square.
    eps = torch.finfo(torch.float32 if kernel.dtype in _HALVES else kernel.dtype).eps
    allowed = 2 * 17 * eps * sum(x * x for row in rows for x in row)
    return any(
        abs(left * x - row[0] * y) > allowed
        for row in rows[1:]
        for x, y in zip(row, top, strict=True)
    )


def _factors_of_one(
    kernel: np.ndarray, dtype: torch.dtype, exact: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the column and row through the largest element, which are the factors of a product."""
    i, j = divmod(int(np.abs(kernel).argmax()), kernel.shape[1])
    pivot = kernel[i, j]
    if pivot == 0:
        return kernel[:, j], kernel[i]
    if exact:
        row = kernel[i] // np.gcd.reduce(kernel[i])
        column = kernel[:, j] // row[j]
        return (column, row) if np.array_equal(column[:, None] * row, kernel) else None
    column, row = kernel[:, j], kernel[i] / pivot
    error = kernel - column[:, None] * row
    allowed = _ROUNDINGS * torch.finfo(dtype).eps
    # NaN and infinities compare as false.
    if np.vdot(error, error).real <= allowed**2 * np.vdot(kernel, kernel).real < math.inf:
        return column, row
    return None


def convolve_separable(p: Problem, factors: Factors) -> Tensor:
    """Return the convolution with the row and then with the column.

    float16 and bfloat16 are computed in float32.
    """
    dtype = p.image.dtype
    image = p.image.float() if dtype in _HALVES else p.image
    column, row = (f.to(image.device, image.dtype) for f in factors)
    height = image.shape[-2]
    fill = fill_tensor(p.fill, image.dtype)
    lines = convolve_rows(
        image, row, (0, p.start[1]), (height, p.size[1]), p.boundary, fill, p.flip
    )
    start = p.start[0], 0
    if fill is not None:
        # Rows outside the image hold only `fill`: there, the row's sum is the same everywhere.
        sums = factors[1].to(_wide(fill)).sum(-1, keepdim=True)
        outside = (sums * fill.to(sums.dtype)).to(fill.dtype)  # [..., 1, 1]
        if outside.numel() == 1:
            fill = outside.reshape(1)
        else:  # one for each kernel
            beyond = column.shape[-2] - 1
            rows = outside.to(image.device).expand(*lines.shape[:-2], beyond, lines.shape[-1])
            lines = torch.cat([rows, lines, rows], -2)
            start, fill = (start[0] + beyond, 0), None
    return convolve_rows(lines, column, start, p.size, p.boundary, fill, p.flip).to(dtype)


def _wide(values: Tensor) -> torch.dtype:
    """Return the dtype that factors are found in; integers modulo 2^64."""
    if values.is_complex():
        return torch.complex128
    return torch.float64 if values.is_floating_point() else torch.int64
