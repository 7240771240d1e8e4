"""Images extended beyond their borders: the part that a convolution reads, as a tensor."""

from typing import Any

import torch
from torch import Tensor

from .._torch.numbers import is_symbol
from .convolve2d_problem import Number, Problem, fill_tensor
from .im2col_autograd import im2col


def _piece(image: Tensor, dim: int, first: int, last: int, boundary: str) -> Tensor:
    """Return positions [first, last) along `dim`, some of which lie outside the image."""
    size: Any = image.shape[dim]
    index = torch.arange(first, last, device=image.device)
    period: Any = {"wrap": size, "symm": 2 * size}.get(boundary, max(2 * size - 2, 1))
    if is_symbol(size):  # ONNX takes tensors, but no open sizes in place of numbers
        size, period = (
            torch.scalar_tensor(n, dtype=torch.int64, device=image.device) for n in (size, period)
        )
    if boundary == "replicate":
        index = index.clamp(min=0)
        index = torch.where(index < size, index, size - 1)
    else:
        index = index.remainder(period)
        if boundary == "mirror":
            index = torch.minimum(index, 2 * size - 2 - index)
        elif boundary == "symm":
            index = torch.minimum(index, 2 * size - 1 - index)
    return image.index_select(dim, index)


def extended_along(image: Tensor, dim: int, first: int, last: int, boundary: str) -> Tensor:
    """Return positions [first, last) along `dim` of an image extended without end.

    The boundary is one of convolve2d's, "wrap" or "symm"; or, for filter2d, "replicate", or
    "mirror", which doesn't repeat the border pixel.
    """
    size = image.shape[dim]
    inside = max(first, 0), min(last, size)
    if inside == (first, last):
        return image.narrow(dim, first, last - first)
    if inside[0] >= inside[1]:
        return _piece(image, dim, first, last, boundary)
    # The inner part is copied in long runs, unlike a gather by index.
    parts = [image.narrow(dim, inside[0], inside[1] - inside[0])]
    if first < 0:
        parts.insert(0, _piece(image, dim, first, 0, boundary))
    if last > size:
        parts.append(_piece(image, dim, size, last, boundary))
    return torch.cat(parts, dim)


def extended(p: Problem) -> Problem:
    """Return the same convolution of an image that contains everything read from it.

    "fill" is left as it is: it needs no memory for what lies outside.
    """
    if p.boundary == "fill":
        return p
    image = p.image
    for dim, start, size, kernel in zip(
        (-2, -1), p.start, p.size, p.kernel.shape[-2:], strict=True
    ):
        first = start - kernel + 1 if p.flip else start
        image = extended_along(image, dim, first, first + size + kernel - 1, p.boundary)
    # Everything lies inside now, so the result is the "valid" part.
    last = p.kernel.shape[-2] - 1, p.kernel.shape[-1] - 1
    return p._replace(image=image, start=last if p.flip else (0, 0), boundary="fill", fill=0)


def windows(
    image: Tensor,
    first: tuple[int, int],
    last: tuple[int, int],
    size: tuple[int, int],
    step: tuple[int, int],
    fill: Number,
    layout: str,
) -> Tensor:
    """Return windows of the image in rows and columns [first, last), with `fill` outside it.

    Layout "patches" gives ``[..., rows, columns, *size]``; "unfold" of an image ``[N, 1, H, W]``
    gives ``[N, size elements, rows * columns]``.
    """
    before, after = [], []
    for dim, begin, end in zip((-2, -1), first, last, strict=True):
        extent = image.shape[dim]
        before.append(max(0, -begin))
        after.append(max(0, end - extent))
        begin, end = max(0, begin), min(extent, end)
        image = image.narrow(dim, begin, end - begin)
    value = fill_tensor(fill, image.dtype)
    return im2col(image, size, step, before + after, [1, 1], value, layout)
