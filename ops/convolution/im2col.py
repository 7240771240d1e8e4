"""Windows of images as columns of a matrix, and back: the public functions.

The schemas are in csrc/library.cpp, the arguments' checks in csrc/torch/convolution/im2col.cpp, fake kernels,
gradients and vmap in im2col_autograd.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.call import call_operator
from .im2col_autograd import col2im as _col2im
from .im2col_autograd import im2col as _im2col
from .spatial_arguments import one_per_dimension, padding_of_each_side, spatial_dims

__all__ = ["col2im", "im2col"]

Array = TypeVar("Array", Tensor, np.ndarray)
_Device = torch.device | str | None
_Sizes = int | Sequence[int]


def im2col(
    input: Array,
    kernel_size: _Sizes,
    *,
    stride: _Sizes = 1,
    padding: _Sizes | str | None = None,
    dilation: _Sizes = 1,
    fill_value: complex = 0,
    layout: str = "unfold",
    device: _Device = None,
) -> Array:
    """Windows of an image as columns of a matrix: a convolution is then a product of matrices.

    A window of `kernel_size` elements is placed over the last dimensions of `input`, as many as
    `kernel_size` has, 1 to 4. Element ``k`` of the window at place ``o`` is
    ``input[o * stride + k * dilation - padding]``, and `fill_value` outside of the input.

    Parameters
    ----------
    input : Tensor or ndarray ``[*S]``, ``[C, *S]`` or ``[N, C, *S]``
        Of any dtype, also bool, integers, halves and complex. With layout "patches" any
        number of dimensions may precede those of size ``S``. Any strides; where the last dimension
        is not contiguous, a copy is made.
    kernel_size : int or sequence of int
        Elements of the window. An integer is for the last two dimensions, or for one where there
        is only one.
    stride : int or sequence of int
        Elements from one place of the window to the next.
    padding : int, sequence of int, "same" or "valid", optional
        Elements of `fill_value` on each side. "same" is for stride 1: as many as leave the size of
        the input, of an odd number the one more after it, as torch does; with layout "patches"
        before it. None is 0, and "same" with layout "patches".
    dilation : int or sequence of int
        Elements from one element of the window to the next.
    fill_value : number
        What lies outside of the input; one that its dtype holds.
    layout : {"unfold", "patches"}
        How the result is laid out.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    Tensor or ndarray
        Of the dtype of `input`, contiguous. ``K`` is the product of `kernel_size`, ``L`` the
        number of places, ``P`` places and ``k`` `kernel_size` in each dimension.

        - "unfold": ``[K, L]``, ``[C * K, L]`` or ``[N, C * K, L]``. For two dimensions these are
          the values of ``torch.nn.functional.unfold``.
        - "patches": ``[..., *P, *k]``, by default ``data.shape + kernel.shape`` with element
          ``K // 2`` of each window at its place: a padded
          ``numpy.lib.stride_tricks.sliding_window_view`` that owns its memory.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, a window larger than the padded input, a result larger than memory.
    TypeError, ValueError
        For arguments of a wrong type, wrong numbers of them, numbers out of range, "same" with a
        stride, a `fill_value` that the dtype doesn't hold.

    See Also
    --------
    col2im : The adjoint.

    Notes
    -----
    Differentiable as often as one likes with respect to `input`; the gradient is
    :func:`col2im`. The name and the method are those of K. Chellapilla, S. Puri, P. Simard, "High
    Performance Convolutional Neural Networks for Document Processing", 2006.

    Examples
    --------
    >>> import torch, visops
    >>> image = torch.arange(9).view(3, 3)
    >>> visops.im2col(image, 2)
    tensor([[0, 1, 3, 4],
            [1, 2, 4, 5],
            [3, 4, 6, 7],
            [4, 5, 7, 8]])
    >>> visops.im2col(image, (3, 3), layout="patches", fill_value=-1)[0, 1]
    tensor([[-1, -1, -1],
            [ 0,  1,  2],
            [ 3,  4,  5]])
    """
    op = "im2col"

    def call(input: Tensor) -> Tensor:
        window = _window(op, input.dim(), kernel_size, stride, padding, dilation, layout)
        return _im2col(input, *window, _fill(op, fill_value, input.dtype), layout)

    return call_operator(op, call, device, {"input": input})  # type: ignore[no-any-return]


def col2im(
    input: Array,
    output_size: _Sizes,
    kernel_size: _Sizes,
    *,
    stride: _Sizes = 1,
    padding: _Sizes | str | None = None,
    dilation: _Sizes = 1,
    layout: str = "unfold",
    device: _Device = None,
) -> Array:
    """Add columns back to the image that they were taken from: the adjoint of im2col.

    An element of the result is the sum of all columns that :func:`im2col` would copy it to:
    ``(im2col(x) * y).sum() == (x * col2im(y)).sum()``. Results are bit-identical on every
    instruction set, at every thread count, and on CPU and CUDA: sums begin with 0 and go by rising
    index of the window's element.

    Parameters
    ----------
    input : Tensor or ndarray
        What :func:`im2col` returns, in the same layout: ``[C * K, L]`` or ``[N, C * K, L]``; with
        layout "patches" ``[..., *P, *k]``. Of any dtype with sums: those of halves are computed in
        float32, integers wrap, those of bool are "or".
    output_size : int or sequence of int
        Of the image: its last dimensions. An integer is for all of them.
    kernel_size : int or sequence of int
        Elements of the window. An integer is for as many dimensions as `output_size` has, for two
        where that is an integer too.
    stride, padding, dilation, layout
        As for :func:`im2col`.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    Tensor or ndarray ``[C, *output_size]`` or ``[N, C, *output_size]``
        With layout "patches" ``[..., *output_size]``. Of the dtype of `input`, contiguous. For two
        dimensions these are the values of ``torch.nn.functional.fold``, rounded as above.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For columns that are not of an image of that size, and dtypes without sums.
    TypeError, ValueError
        For arguments of a wrong type, wrong numbers of them, numbers out of range.

    See Also
    --------
    im2col : The adjoint, and the gradient.

    Examples
    --------
    >>> import torch, visops
    >>> columns = visops.im2col(torch.ones(1, 3, 3), 2)
    >>> visops.col2im(columns, (3, 3), 2)
    tensor([[[1., 2., 1.],
             [2., 4., 2.],
             [1., 2., 1.]]])
    """
    op = "col2im"

    def call(input: Tensor) -> Tensor:
        dims = len(output_size) if isinstance(output_size, Sequence) else 2
        if isinstance(kernel_size, Sequence):
            dims = spatial_dims(op, kernel_size, dims)
        sizes = one_per_dimension(op, "output_size", output_size, dims)
        window = _window(op, dims, kernel_size, stride, padding, dilation, layout, dims)
        return _col2im(input, sizes, *window, layout)

    return call_operator(op, call, device, {"input": input})  # type: ignore[no-any-return]


def _window(
    op: str,
    input_dims: int,
    kernel_size: _Sizes,
    stride: _Sizes,
    padding: _Sizes | str | None,
    dilation: _Sizes,
    layout: str,
    dims: int | None = None,
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return kernel size, stride, padding before and after, and dilation of each dimension."""
    if layout not in ("unfold", "patches"):
        raise ValueError(f"visops.{op}: layout is {layout!r}, must be 'unfold' or 'patches'")
    if dims is None:
        dims = spatial_dims(op, kernel_size, input_dims)
    kernel = one_per_dimension(op, "kernel_size", kernel_size, dims)
    steps = one_per_dimension(op, "stride", stride, dims)
    spread = one_per_dimension(op, "dilation", dilation, dims)
    if padding is None:
        padding = "same" if layout == "patches" else 0
    centre = layout == "patches"
    before, after = padding_of_each_side(op, padding, kernel, steps, spread, centre=centre)
    return kernel, steps, before + after, spread


def _fill(op: str, value: Any, dtype: torch.dtype) -> Tensor | None:
    """Return the number as an element of that dtype; None for zero, which is the operator's."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (int, float, complex)):
        raise TypeError(f"visops.{op}: fill_value is {value!r}, must be a number")
    if value == 0 and not str(value).startswith("-"):
        return None
    if not _holds(dtype, value):
        name = str(dtype).removeprefix("torch.")
        raise ValueError(
            f"visops.{op}: fill_value is {value!r}, must be a number that {name} holds"
        )
    return torch.full((), value, dtype=dtype)


def _holds(dtype: torch.dtype, value: complex) -> bool:
    """Whether a number can be of that dtype, rounded where it is floating."""
    if isinstance(value, complex):
        parts = torch.finfo(dtype) if dtype.is_complex else None
        return parts is not None and all(
            _fits(part, parts.max) for part in (value.real, value.imag)
        )
    if dtype.is_floating_point or dtype.is_complex:
        return _fits(value, torch.finfo(dtype).max)
    if isinstance(value, float) and not value.is_integer():
        return False
    if dtype == torch.bool:
        return value in (0, 1)
    return torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max


def _fits(value: float, most: float) -> bool:
    return abs(value) <= most or not math.isfinite(value)
