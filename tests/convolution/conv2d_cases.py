"""Convolutions of networks that tests share: shapes, options and elements."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Case:
    """`weight` is [out, in of a group, height, width]; padding is y, x or top .. right."""

    input: tuple[int, int, int, int]
    weight: tuple[int, int, int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def options(self) -> tuple[list[int], list[int], list[int], int]:
        return list(self.stride), list(self.padding), list(self.dilation), self.groups

    @property
    def sides(self) -> tuple[int, int, int, int]:
        """Top, bottom, left, right."""
        if len(self.padding) == 4:
            return self.padding  # type: ignore[return-value]
        (y, x) = self.padding
        return y, y, x, x


# Strips of 1 to 12 output channels, rows longer and shorter than a tile, steps with and without
# common divisors, kernels that reach beyond the image, more padding than image.
CASES = {
    "3x3": Case((2, 3, 9, 11), (8, 3, 3, 3), padding=(1, 1)),
    "1x1": Case((2, 5, 6, 7), (4, 5, 1, 1)),
    "wide": Case((1, 2, 3, 130), (3, 2, 2, 5), padding=(1, 2)),
    "valid": Case((1, 4, 8, 60), (7, 4, 3, 3)),
    "stem": Case((1, 3, 17, 19), (12, 3, 7, 7), stride=(2, 2), padding=(3, 3)),
    "steps": Case((1, 2, 14, 15), (5, 2, 3, 2), stride=(2, 3), dilation=(3, 2), padding=(2, 1)),
    "shared steps": Case((1, 2, 16, 15), (2, 2, 3, 3), stride=(4, 2), dilation=(2, 4)),
    "skipping": Case((1, 2, 11, 9), (3, 2, 2, 2), stride=(5, 4)),
    "groups": Case((2, 6, 7, 8), (9, 2, 3, 3), padding=(1, 1), groups=3),
    "depthwise": Case((1, 5, 8, 9), (5, 1, 3, 3), padding=(1, 1), groups=5),
    "four sides": Case((1, 2, 6, 7), (3, 2, 4, 2), padding=(1, 2, 0, 1)),
    "beyond": Case((1, 1, 2, 3), (2, 1, 5, 6), padding=(4, 5)),
    "much padding": Case((1, 2, 3, 2), (2, 2, 2, 3), padding=(7, 9)),
    "one pixel": Case((3, 7, 1, 1), (6, 7, 1, 1)),
    "column": Case((1, 3, 40, 1), (11, 3, 5, 1), padding=(2, 0)),
}

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
COMPLEX = (torch.complex64, torch.complex128)
INTEGERS = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint16, torch.uint32, torch.uint64),
)


def elements(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    """Numbers over all of an integer type's range, so that sums wrap; around 0 for others."""
    rng = np.random.default_rng(seed)
    if dtype in INTEGERS:
        limits = torch.iinfo(dtype)
        of_numpy = np.uint64 if dtype == torch.uint64 else np.int64
        whole = rng.integers(limits.min, limits.max, shape, of_numpy)
        return torch.from_numpy(whole).to(dtype)
    values = torch.from_numpy(rng.standard_normal(shape))
    if dtype.is_complex:
        values = torch.complex(values, torch.from_numpy(rng.standard_normal(shape)))
    return values.to(dtype)


def operands(case: Case, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Input, weight and bias."""
    return (
        elements(case.input, dtype, 0),
        elements(case.weight, dtype, 1),
        elements(case.weight[:1], dtype, 2),
    )


def channels_last(tensor: Tensor) -> Tensor:
    return tensor.to(memory_format=torch.channels_last)


def strided(tensor: Tensor) -> Tensor:
    """Every second element of a larger tensor, in every dimension."""
    larger = torch.full([2 * n for n in tensor.shape], 7).to(tensor.dtype)
    view = larger[tuple(slice(None, None, 2) for _ in tensor.shape)]
    return view.copy_(tensor)


LAYOUTS: dict[str, Any] = {
    "contiguous": lambda t: t,
    "channels_last": channels_last,
    "strided": strided,
    "transposed": lambda t: t.mT.contiguous().mT,
}

# The dtype of sums: its eps bounds errors relative to the sum of magnitudes; the result is then
# rounded once more.
SUMMED_IN = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


def assert_near(found: Tensor, exact: Tensor, magnitude: Tensor, terms: int) -> None:
    """Check what the docstring promises; `magnitude` is the sum of the terms' magnitudes."""
    eps = torch.finfo(SUMMED_IN.get(found.dtype, found.dtype)).eps
    half_unit = torch.finfo(found.dtype).eps / 2
    smallest = torch.finfo(found.dtype).tiny
    wide = torch.complex128 if found.is_complex() else torch.float64
    bound = (terms + 1) * eps * magnitude + half_unit * exact.abs() + smallest
    assert found.shape == exact.shape
    assert bool(((found.to(wide) - exact).abs() <= bound).all())


def wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def by_torch(case: Case, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """torch's result in float64 or complex128, with padding applied beforehand."""
    top, bottom, left, right = case.sides
    padded = F.pad(wide(input), (left, right, top, bottom))
    bias = None if bias is None else wide(bias)
    return F.conv2d(padded, wide(weight), bias, case.stride, 0, case.dilation, case.groups)


def exact_sums(case: Case, *tensors: Tensor) -> tuple[Tensor, Tensor]:
    """The values, and the sums of their terms' magnitudes."""
    return by_torch(case, *tensors), by_torch(case, *(wide(t).abs() for t in tensors)).abs()


def both_gradients(case: Case, grad: Tensor, input: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """The gradients of input and weight by torch in float64, not conjugated."""
    leaves = [wide(t).clone().requires_grad_() for t in (input, weight)]
    found = torch.autograd.grad(by_torch(case, *leaves), leaves, wide(grad).conj())
    return tuple(g.conj().resolve_conj() for g in found)
