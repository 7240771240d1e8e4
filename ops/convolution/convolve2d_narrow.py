"""Narrow, tall images, which lie down to be convolved.

Kernels and transforms take many columns at once, and would leave most of each vector empty. The
CPU's kernel of the direct method does that itself, and keeps the order of sums. On other devices
the direct method leaves images standing where sums by columns would have other bits.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from .convolve2d_autograd import convolve2d as _direct
from .convolve2d_problem import Problem

_Pair = tuple[int, int]

_NARROW = 16  # columns; with more, copying costs what it saves
# Rows times kernel elements from which two copies take less time than they save.
_WORTH_COPIES = 1 << 13


def is_narrow(size: _Pair, kernel: _Pair) -> bool:
    """Whether the image of a result of this size should lie down."""
    height, width = size
    return width <= _NARROW < height and height * kernel[0] * kernel[1] >= _WORTH_COPIES


def transposes(size: _Pair, kernel: _Pair, dtype: torch.dtype) -> bool:
    """Whether the CPU's kernel of the direct method does: see convolve2d_plan.cpp."""
    height, width = size
    small = dtype.itemsize < 4 and not dtype.is_floating_point
    return width <= (16 if small else 8) and height > 16 and kernel[1] <= 64


def _keeps_order(dtype: torch.dtype, kernel: _Pair) -> bool:
    """Whether sums over the kernel have the same bits by rows and by columns."""
    return min(kernel) == 1 or not (dtype.is_floating_point or dtype.is_complex)


def lying(pair: _Pair) -> _Pair:
    """Return height and width of the image after it lay down."""
    return pair[1], pair[0]


def _is_known_narrow(size: _Pair, kernel: Tensor) -> bool:
    if torch.compiler.is_compiling() or torch._C._is_tracing():  # graphs keep sizes open
        return False
    return is_narrow(size, (kernel.shape[-2], kernel.shape[-1]))


def convolve_rows(
    image: Tensor,
    kernel: Tensor,
    start: _Pair,
    size: _Pair,
    boundary: str,
    fill: Tensor | None,
    flip: bool,
) -> Tensor:
    """Call the direct method's operator, on other devices lying down where bits allow it."""
    shape = kernel.shape[-2], kernel.shape[-1]
    lies = not image.is_cpu and _is_known_narrow(size, kernel) and _keeps_order(image.dtype, shape)
    if not lies:
        return _direct(image, kernel, start, size, boundary, fill, flip)
    down = image.mT.contiguous(), kernel.mT, lying(start), lying(size)
    return _direct(*down, boundary, fill, flip).mT.contiguous()


def lying_if_narrow(method: Callable[[Problem], Tensor]) -> Callable[[Problem], Tensor]:
    """Return the method, to which narrow images are given lying down."""

    def call(p: Problem) -> Tensor:
        if not _is_known_narrow(p.size, p.kernel):
            return method(p)
        down = p._replace(
            image=p.image.mT.contiguous(),
            kernel=p.kernel.mT,
            start=lying(p.start),
            size=lying(p.size),
        )
        return method(down).mT.contiguous()

    return call
