"""The arguments of convolve2d and correlate2d, read by SciPy's rules, as one kind of problem."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import SIGNED
from .._torch.fakes import broadcast_shapes, is_known
from .._torch.numbers import is_symbol
from .._torch.unsupported_inputs import require_plain
from .im2col_autograd import im2col

Number = int | float | complex

# SciPy's words and their synonyms.
_BOUNDARIES = {
    "fill": "fill",
    "pad": "fill",
    "wrap": "wrap",
    "circular": "wrap",
    "symm": "symm",
    "symmetric": "symm",
}
_SUPPORTED = frozenset(
    {
        torch.uint8,
        torch.int8,
        torch.uint16,
        torch.int16,
        torch.uint32,
        torch.int32,
        torch.uint64,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    }
)


class Problem(NamedTuple):
    """A part of a convolution (`flip`) or correlation of the endlessly extended image.

    ``out[i, j]`` is the sum over ``m, n`` of ``kernel[m, n]`` times the extended image at
    ``start + (i, j) - (m, n)``, or ``+`` for a correlation.
    """

    op: str  # the public function, for errors
    image: Tensor  # [..., H, W]
    kernel: Tensor  # [..., kh, kw], of the same dtype
    start: tuple[int, int]
    size: tuple[int, int]  # of the output
    boundary: str  # fill, wrap or symm
    fill: Number  # what the dtype holds; 0 where the boundary takes none
    flip: bool

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading dimensions of the output."""
        images, kernels = self.image.shape[:-2], self.kernel.shape[:-2]
        if not kernels or not images:
            return tuple(images or kernels)
        return broadcast_shapes(images, kernels)


def of_one_size(p: Problem) -> Problem:
    """Return the problem with plain numbers for sizes that torch.compile keeps as symbols.

    Methods that cut the image into parts make as many steps as there are, in a graph of that size.
    A number of images that depends on values has no plain number.
    """
    if not torch.compiler.is_compiling():
        return p
    for shape in (p.image.shape, p.kernel.shape):
        for extent in shape:
            if is_known(extent):
                plain_number(extent)
    start = plain_number(p.start[0]), plain_number(p.start[1])
    return p._replace(start=start, size=(plain_number(p.size[0]), plain_number(p.size[1])))


def plain_number(symbol: int) -> int:
    """Return a symbol's number, to which the graph is then specialised; int() keeps the symbol."""
    return len(range(symbol)) if symbol >= 0 else -len(range(-symbol))


def as_convolution(p: Problem) -> Problem:
    """Return a correlation as the convolution with the rotated kernel."""
    if p.flip:
        return p
    kh, kw = p.kernel.shape[-2:]
    start = p.start[0] + kh - 1, p.start[1] + kw - 1
    return p._replace(kernel=turned(p.kernel), start=start, flip=True)


def turned(plane: Tensor) -> Tensor:
    """Return planes rotated by half a turn."""
    if plane.dtype not in SIGNED:
        return plane.flip(-2, -1)
    # torch 2.11 can't flip these.
    return plane.view(SIGNED[plane.dtype]).flip(-2, -1).view(plane.dtype)


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name without torch's prefix, which NumPy uses too."""
    return str(dtype).removeprefix("torch.")


def result_dtype(op: str, in1: Tensor, in2: Tensor) -> torch.dtype:
    """Return the dtype of the result, to which both inputs are converted.

    Raises
    ------
    ValueError
        For dtypes without a convolution.
    """
    if in1.dtype == in2.dtype and in1.dtype in _SUPPORTED:
        return in1.dtype
    given = f"in1 has dtype {dtype_name(in1.dtype)} and in2 {dtype_name(in2.dtype)}"
    try:
        dtype = torch.promote_types(in1.dtype, in2.dtype)
    except RuntimeError:
        raise ValueError(
            f"visops.{op}: {given}, which torch has no common dtype for; convert one of them"
        ) from None
    if dtype not in _SUPPORTED:
        raise ValueError(
            f"visops.{op}: {given}, the result's dtype would be {dtype_name(dtype)}; must "
            "be an integer, float16, bfloat16, float32, float64, complex64 or complex128"
        )
    return dtype


def _one_number(op: str, value: Any) -> Number:
    """Return `value`, a number or an array of one element, as a Python number."""
    found = value
    if isinstance(found, Sequence) and not isinstance(found, str) and len(found) == 1:
        found = found[0]
    if isinstance(found, (np.ndarray, np.generic)):
        found = found.item() if found.size == 1 else found
    elif isinstance(found, Tensor):
        found = found.item() if found.numel() == 1 else found
    if isinstance(found, (int, float, complex)):
        return found
    raise TypeError(f"visops.{op}: fillvalue is {value!r}, must be a number")


def fill_number(op: str, value: Any, dtype: torch.dtype) -> Number:
    """Return `value` cast to `dtype` as SciPy does: integers drop fractions, nothing else is lost.

    Raises
    ------
    TypeError
        What is no number.
    ValueError
        Numbers that the dtype does not hold.
    """
    if type(value) is int and value == 0:
        return 0
    number = _one_number(op, value)
    if isinstance(number, complex):
        if not dtype.is_complex:
            raise ValueError(
                f"visops.{op}: fillvalue is {value!r}, must be real as the result is "
                f"{dtype_name(dtype)}"
            )
        return number
    if dtype.is_floating_point or dtype.is_complex:
        return float(number)
    limits = torch.iinfo(dtype)
    if math.isfinite(number) and limits.min <= (whole := int(number)) <= limits.max:
        return whole
    raise ValueError(
        f"visops.{op}: fillvalue is {value!r}, must be within [{limits.min}, {limits.max}] as the "
        f"result is {dtype_name(dtype)}"
    )


def _unused(op: str, value: Any) -> Number:
    _one_number(op, value)
    return 0


def fill_tensor(fill: Number, dtype: torch.dtype) -> Tensor | None:
    """Return the fill as operators take it: one CPU element, or None for 0."""
    return None if fill == 0 else torch.tensor([fill], dtype=dtype, device="cpu")


def _check_shapes(op: str, in1: Tensor, in2: Tensor) -> None:
    for name, tensor in (("in1", in1), ("in2", in2)):
        if tensor.dim() < 2:
            raise ValueError(
                f"visops.{op}: {name} has shape {list(tensor.shape)}, must be [..., height, width]"
            )
    if in1.dim() == 2 or in2.dim() == 2:
        return
    try:
        broadcast_shapes(in1.shape[:-2], in2.shape[:-2])
    except RuntimeError:
        raise ValueError(
            f"visops.{op}: in2 has shape {list(in2.shape)}, dimensions before the last two must "
            f"broadcast with those of in1, {list(in1.shape)}"
        ) from None


def _is_swapped(op: str, in1: Tensor, in2: Tensor) -> bool:
    """Whether in2 is the image of a "valid" convolution."""
    pairs = list(zip(in1.shape[-2:], in2.shape[-2:], strict=True))
    if all(a >= b for a, b in pairs):
        return False
    if all(b >= a for a, b in pairs):
        return True
    raise ValueError(
        f"visops.{op}: in1 has shape {list(in1.shape)} and in2 {list(in2.shape)}, for mode 'valid' "
        "one must be at least as large as the other in both of the last dimensions"
    )


def _position(mode: str, image: int, kernel: int, flip: bool) -> tuple[int, int]:
    """Return start and size of the output along one dimension."""
    last = kernel - 1
    if mode == "full":
        return (0 if flip else -last), image + last
    if mode == "same":
        return (last // 2 if flip else -(last // 2)), image
    return (last if flip else 0), image - last


def problem(
    op: str, in1: Tensor, in2: Tensor, mode: str, boundary: str, fillvalue: Any, *, flip: bool
) -> tuple[Problem, bool]:
    """Return the problem, and whether its result must be rotated by half a turn.

    That is so for a correlation whose inputs were swapped.

    Raises
    ------
    TypeError, ValueError
        By SciPy's rules; RuntimeError for tensors on two devices.
    """
    if not isinstance(mode, str) or mode not in ("full", "same", "valid"):
        raise ValueError(f"visops.{op}: mode is {mode!r}, must be 'full', 'same' or 'valid'")
    if not isinstance(boundary, str) or boundary not in _BOUNDARIES:
        raise ValueError(
            f"visops.{op}: boundary is {boundary!r}, must be 'fill' (or 'pad'), 'wrap' (or "
            "'circular') or 'symm' (or 'symmetric')"
        )
    boundary = _BOUNDARIES[boundary]
    if in1.device != in2.device:
        raise RuntimeError(
            f"visops.{op}: in2 is on {in2.device}, in1 is on {in1.device}; all tensors must be on "
            "one device"
        )
    require_plain(op, in1=in1, in2=in2)
    _check_shapes(op, in1, in2)
    dtype = result_dtype(op, in1, in2)
    # Where it is not used, it may be a number that the dtype can't hold, as in SciPy.
    fill = fill_number(op, fillvalue, dtype) if boundary == "fill" else _unused(op, fillvalue)
    swapped = mode == "valid" and _is_swapped(op, in1, in2)
    image, kernel = (in2, in1) if swapped else (in1, in2)
    if image.dtype != kernel.dtype:
        image, kernel = image.to(dtype), kernel.to(dtype)
    if not flip and dtype.is_complex:
        kernel = kernel.conj().resolve_conj()
    (top, height), (left, width) = (
        _position(mode, image.shape[dim], kernel.shape[dim], flip) for dim in (-2, -1)
    )
    if height < 0 or width < 0:
        raise ValueError(
            f"visops.{op}: in1 has shape {list(in1.shape)} and in2 {list(in2.shape)}, one of them "
            "must have elements for mode 'full'"
        )
    if 0 in kernel.shape[-2:]:
        fill = 0  # sums of no products are 0, even if the fill is infinite
    if boundary != "fill" and 0 in image.shape[-2:] and 0 not in (height, width):
        raise ValueError(
            f"visops.{op}: in1 has shape {list(in1.shape)} and in2 {list(in2.shape)}, an image "
            f"without elements can't be continued with boundary '{boundary}'"
        )
    found = Problem(op, image, kernel, (top, left), (height, width), boundary, fill, flip)
    return found, swapped and not flip


# Images extended beyond their borders: the part that a convolution reads, as a tensor.


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
