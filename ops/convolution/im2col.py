"""Windows of images as columns of a matrix, and back: the public functions.

The schemas are in csrc/library.cpp, the checks of arguments in csrc/torch/convolution/im2col.cpp;
fake kernels, gradients and vmap are in im2col_autograd.py.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.call import call_operator
from .._torch.options import check_word
from .im2col_autograd import col2im as _col2im
from .im2col_autograd import im2col as _im2col
from .spatial_arguments import one_per_dimension, padding_of_each_side, spatial_dims

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
    layout: Literal["unfold", "patches"] = "unfold",
    device: _Device = None,
) -> Array:
    """Windows of an image as columns of a matrix, which turns a convolution into a matrix product.

    A window of `kernel_size` elements moves over the last dimensions of `input`, one for each
    number in `kernel_size`, 1 to 4. Element ``k`` of the window at position ``o`` is
    ``input[o * stride + k * dilation - padding]``, or `fill_value` outside the input.

    Parameters
    ----------
    input : Tensor or ndarray ``[*S]``, ``[C, *S]`` or ``[N, C, *S]``
        Any dtype, including bool, integers, halves and complex. With layout "patches" any number
        of dimensions may precede those of size ``S``. Any strides; if the last dimension is not
        contiguous, a copy is made.
    kernel_size : int or sequence of int
        Elements of the window. An integer stands for the last two dimensions, or for the only one.
    stride : int or sequence of int
        Elements of the input from one position of the window to the next.
    padding : int, sequence of int, "same" or "valid", optional
        Elements of `fill_value` on each side. "same" needs stride 1 and keeps the input's size; an
        odd number puts the extra element after the input, as torch does, but before it with layout
        "patches". None means 0, but "same" with layout "patches".
    dilation : int or sequence of int
        Elements of the input from one element of the window to the next.
    fill_value : number
        The value outside the input; its dtype must be able to hold it.
    layout : {"unfold", "patches"}
        How the result is laid out.
    device : optional
        For arrays: where to compute. They are copied there, and the result back.

    Returns
    -------
    Tensor or ndarray
        Contiguous, with the dtype of `input`. ``K`` is the product of `kernel_size`, ``L`` the
        number of positions; ``P`` are the positions and ``k`` the `kernel_size` of each dimension.

        - "unfold": ``[K, L]``, ``[C * K, L]`` or ``[N, C * K, L]``. For two dimensions these are
          the values of ``torch.nn.functional.unfold``.
        - "patches": ``[..., *P, *k]``, by default ``data.shape + kernel.shape`` with element
          ``K // 2`` of each window at its position: a padded
          ``numpy.lib.stride_tricks.sliding_window_view`` that owns its memory.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, a window larger than the padded input, numbers above 2^31 - 1, and a
        result larger than memory.
    TypeError, ValueError
        For arguments of a wrong type or length, numbers out of range, "same" with a stride, and a
        `fill_value` that the dtype can't hold.

    See Also
    --------
    col2im : The adjoint.

    Notes
    -----
    Differentiable any number of times with respect to `input`; the gradient is :func:`col2im`.
    The name and the method are from K. Chellapilla, S. Puri, P. Simard, "High Performance
    Convolutional Neural Networks for Document Processing", 2006.

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
    """Add columns back to the image that they came from: the adjoint of im2col.

    An element of the result is the sum of all columns that :func:`im2col` would copy it to:
    ``(im2col(x) * y).sum() == (x * col2im(y)).sum()``. Results are bit-identical on every
    instruction set, at every thread count, and on CPU and CUDA: sums start at 0 and go by ascending
    index of the window's element.

    Parameters
    ----------
    input : Tensor or ndarray
        What :func:`im2col` returns, in the same layout: ``[C * K, L]`` or ``[N, C * K, L]``; with
        layout "patches" ``[..., *P, *k]``. Any dtype with sums: halves are summed in float32,
        integers wrap, bool is "or".
    output_size : int or sequence of int
        The image's last dimensions. An integer stands for all of them.
    kernel_size : int or sequence of int
        Elements of the window. An integer stands for each dimension of `output_size`, or for two
        if that is an integer too.
    stride, padding, dilation, layout
        As for :func:`im2col`.
    device : optional
        For arrays: where to compute. They are copied there, and the result back.

    Returns
    -------
    Tensor or ndarray ``[C, *output_size]`` or ``[N, C, *output_size]``
        With layout "patches" ``[..., *output_size]``. Contiguous, with the dtype of `input`. For
        two dimensions these are the values of ``torch.nn.functional.fold``, rounded as above.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For columns that can't come from an image of that size, numbers above 2^31 - 1, and dtypes
        without sums.
    TypeError, ValueError
        For arguments of a wrong type or length, and numbers out of range.

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
    check_word(op, "layout", layout, ("unfold", "patches"))
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
    """Return the number as an element of that dtype; None for zero, the operator's default."""
    if isinstance(value, (np.generic, np.ndarray, Tensor)) and value.ndim == 0:
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
    if isinstance(value, int) and not -(2**63) <= value < 2**64:  # torch takes no larger ones
        value = float(value)
    return torch.full((), value, dtype=dtype, device="cpu")


def _holds(dtype: torch.dtype, value: complex) -> bool:
    """Whether the dtype can hold a number; floating dtypes may round it."""
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
