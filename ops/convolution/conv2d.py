"""The convolution of neural networks: the public function.

The schemas are in csrc/library.cpp, the checks of arguments in csrc/torch/convolution/conv2d.cpp;
fake kernels, gradients, vmap and autocast are in conv2d_autograd.py.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .._torch.call import call_operator
from .._torch.fakes import prefers_channels_last
from .._torch.numbers import as_index
from .._torch.options import check_word
from .._torch.unsupported_inputs import require_plain
from .conv2d_autograd import conv2d as _implicit
from .conv2d_autograd import result_size, with_autocast
from .im2col_autograd import im2col as _im2col
from .spatial_arguments import one_per_dimension, padding_of_each_side

Array = TypeVar("Array", Tensor, np.ndarray)
_Device = torch.device | str | None
_Sizes = int | Sequence[int]

_METHODS = ("auto", "implicit", "im2col", "torch")
# torch.matmul and F.conv2d have no kernels for these.
_NOT_MULTIPLIED = (torch.uint16, torch.uint32, torch.uint64)


def _most_channels() -> dict[torch.dtype, int]:
    """Return the most input channels of a group for which "implicit" is faster than oneDNN.

    Only for dtypes that oneDNN supports on this processor; for others torch writes out the matrix
    of im2col. With more channels the winner depends on the sizes of image and kernel, by some 15
    percent.
    """
    most = {torch.float32: 64, torch.complex64: 32}
    if torch.backends.mkldnn.is_available():
        for dtype, name in ((torch.bfloat16, "bf16"), (torch.float16, "fp16")):
            if getattr(torch.ops.mkldnn, f"_is_mkldnn_{name}_supported")():
                most[dtype] = 1
    return most


_MOST_CHANNELS = _most_channels()


def conv2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: _Sizes = 1,
    padding: _Sizes | str = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
    *,
    method: Literal["auto", "implicit", "im2col", "torch"] = "auto",
    explain: Callable[[str], Any] | None = None,
    device: _Device = None,
) -> Array:
    """Convolution of a neural network: ``torch.nn.functional.conv2d`` for every dtype.

    ``out[n, m, y, x] = bias[m] + sum over c, v, u of weight[m, c, v, u] * input[n, c, y * stride +
    v * dilation - padding, x * stride + u * dilation - padding]``, with 0 outside the input, and
    input channels ``c`` of the output channel's group.

    Parameters
    ----------
    input : Tensor or ndarray ``[N, C, H, W]`` or ``[C, H, W]``
        float16, bfloat16 (summed in float32), float32, float64, complex or integers (which wrap).
    weight : Tensor or ndarray ``[M, C / groups, kernel height, kernel width]``
        Of the dtype of `input`.
    bias : Tensor or ndarray ``[M]``, optional
        Of the dtype of `input`.
    stride : int or pair of int
        Pixels of the input from one output to the next: y, x.
    padding : int, pair of int, "same" or "valid"
        Rows and columns of 0 on each side. "same" needs stride 1 and keeps the input's size; an odd
        number of rows or columns puts the extra one below or right. "valid" is 0.
    dilation : int or pair of int
        Pixels of the input from one element of the kernel to the next.
    groups : int
        Splits the channels into this many equal parts: output channels of the i-th part see only
        the input channels of the i-th part.
    method : {"auto", "implicit", "im2col", "torch"}
        How it is computed:

        - "implicit": a matrix product that reads the columns of im2col from a block of the image,
          without that matrix in memory: ``torch.ops.visops.conv2d``.
        - "im2col": :func:`im2col`, then ``torch.matmul``.
        - "torch": ``torch.nn.functional.conv2d``, i.e. oneDNN or cuDNN.
        - "auto": the fastest by measurement. "torch" on CUDA, for float32 that is channels_last or
          has more than 64 input channels a group, for complex64 with more than 32, and for halves
          that the processor multiplies; otherwise "implicit".
    explain : callable, optional
        Called with one line, the method used and why: ``explain=print``.
    device : optional
        For arrays: where to compute. They are copied there, and the result back.

    Returns
    -------
    Tensor or ndarray ``[N, M, height, width]`` or ``[M, height, width]``
        Has the dtype of `input`, and is channels_last if `input` is. ``height = (H + 2 * padding -
        dilation * (kernel height - 1) - 1) // stride + 1``.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, dtypes or devices, a kernel larger than the padded input, and a result
        larger than memory.
    TypeError, ValueError
        For arguments of a wrong type or length, numbers out of range, unknown words, and "same"
        with a stride.

    See Also
    --------
    convolve2d : SciPy's convolution of single planes.

    Notes
    -----
    Differentiable any number of times with respect to `input`, `weight` and `bias`. Works with
    ``torch.compile``, :func:`torch.vmap` and autocast, which casts as for torch's convolution.

    Floating sums are those of a matrix product: fused with products where the processor can, in an
    order that depends on method, instruction set and device. An "implicit" result differs from the
    exact one by at most ``K * eps`` times the sum of its terms' magnitudes, usually far less, plus
    half a unit in the last place (``K`` products a sum; ``eps`` of the dtype summed in). Its bits
    do not depend on the number of threads. Integers are exact, modulo their size.

    The method is that of K. Chellapilla, S. Puri, P. Simard, "High Performance Convolutional Neural
    Networks for Document Processing", 2006, without its matrix.

    Examples
    --------
    >>> import torch, visops
    >>> image = torch.arange(16, dtype=torch.uint8).view(1, 4, 4)
    >>> weight = torch.ones(1, 1, 3, 3, dtype=torch.uint8)
    >>> visops.conv2d(image, weight, padding="same", explain=print)
    visops.conv2d: method 'implicit': torch has no convolution of uint8
    tensor([[[10, 18, 24, 18],
             [27, 45, 54, 39],
             [51, 81, 90, 63],
             [42, 66, 72, 50]]], dtype=torch.uint8)
    """
    op = "conv2d"
    check_word(op, "method", method, _METHODS)
    if explain is not None and not callable(explain):
        raise TypeError(f"visops.{op}: explain is {explain!r}, must be callable")
    options = _Options(stride, padding, dilation, groups)

    def call(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _convolve(input, weight, bias, options, method, explain)

    tensors = {"input": input, "weight": weight, "bias": bias}
    return call_operator(op, call, device, tensors, optional=("bias",))  # type: ignore[no-any-return]


class _Options:
    """Steps as pairs; the padding of each side needs the kernel's size."""

    def __init__(self, stride: Any, padding: Any, dilation: Any, groups: Any) -> None:
        op = "conv2d"
        self.stride = one_per_dimension(op, "stride", stride, 2)
        self.dilation = one_per_dimension(op, "dilation", dilation, 2)
        self.padding = padding
        try:
            self.groups = as_index(groups)
        except TypeError:
            raise TypeError(f"visops.{op}: groups is {groups!r}, must be an integer") from None
        if self.groups < 1:
            raise ValueError(f"visops.{op}: groups is {groups}, must be >= 1")

    def sides(self, weight: Tensor) -> tuple[list[int], list[int]]:
        """Return padding before (y, x) and after."""
        kernel = weight.shape[2:] if weight.dim() == 4 else (1, 1)
        return padding_of_each_side("conv2d", self.padding, kernel, self.stride, self.dilation)


def _convolve(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    options: _Options,
    method: str,
    explain: Callable[[str], Any] | None,
) -> Tensor:
    require_plain("conv2d", input=input, weight=weight, bias=bias)
    single = input.dim() == 3
    if input.dim() not in (3, 4):
        raise RuntimeError(
            f"visops.conv2d: input has shape {list(input.shape)}, must be [N, C, H, W] or [C, H, W]"
        )
    images = input[None] if single else input
    images, weight, bias = with_autocast(images, weight, bias)  # type: ignore[assignment]
    before, after = options.sides(weight)
    if method == "auto":
        method, reason = _choose(images, weight)
    else:
        _require_method(method, images.dtype)
        reason = "asked for"
    if explain is not None:
        explain(f"visops.conv2d: method {method!r}: {reason}")
    sides = before if before == after else [before[0], after[0], before[1], after[1]]
    arguments = (options.stride, sides, options.dilation, options.groups)
    if method == "implicit":
        result = _implicit(images, weight, bias, *arguments)
    else:
        compiling = torch.compiler.is_compiling()  # sizes may be symbols; torch checks too
        if method == "torch" and weight.dim() == 4 and weight.shape[1] == 0:
            # Torch's own result has the wrong shape, [N, 0, height, width].
            result = _implicit(images, weight, bias, *arguments)
        elif method == "torch":
            # Torch would take a tensor on meta beside real ones, and return what nobody computed.
            if any(t is not None and t.device != images.device for t in (weight, bias)):
                _check(images, weight, bias, *arguments)
            try:
                result = _by_torch(images, weight, bias, options, before, after)
            except (RuntimeError, TypeError, ValueError):
                if not compiling:
                    _check(images, weight, bias, *arguments)
                raise
        else:
            if not compiling:
                _check(images, weight, bias, *arguments)
            result = _by_im2col(images, weight, bias, options, sides, before + after)
    return result[0] if single else result


def _check(images: Tensor, weight: Tensor, bias: Tensor | None, *arguments: Any) -> None:
    """Let the operator check the arguments of methods that don't call it, on no images."""
    with torch.no_grad():
        _implicit(images[:0], weight, bias, *arguments)


def _choose(input: Tensor, weight: Tensor) -> tuple[str, str]:
    """Return the fastest method by measurement, and the reason."""
    dtype = input.dtype
    name = _name(dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        return "implicit", f"torch has no convolution of {name}"
    channels = weight.shape[1] if weight.dim() == 4 else 0
    if channels == 0:
        return "implicit", "no input channels, for which torch's result has the wrong shape"
    device = input.device.type
    if device != "cpu":
        return "torch", f"{name} on {device}"
    if dtype not in _MOST_CHANNELS:
        return "implicit", f"oneDNN has no {name} here"
    if dtype == torch.float32 and prefers_channels_last(input):
        return "torch", f"{name}, channels_last, which oneDNN takes as it lies"
    most = _MOST_CHANNELS[dtype]
    if channels <= most:
        return "implicit", f"{name} with {channels} input channels a group, <= {most}"
    return "torch", f"{name} with {channels} input channels a group, > {most}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _require_method(method: str, dtype: torch.dtype) -> None:
    exact = not (dtype.is_floating_point or dtype.is_complex)
    if (method == "torch" and exact) or (method == "im2col" and dtype in _NOT_MULTIPLIED):
        function = "F.conv2d" if method == "torch" else "torch.matmul"
        raise RuntimeError(
            f"visops.conv2d: method is {method!r} and input has dtype {_name(dtype)}, which "
            f"{function} does not take; use 'implicit'"
        )


def _by_torch(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    options: _Options,
    before: list[int],
    after: list[int],
) -> Tensor:
    channels_last = prefers_channels_last(input)
    if not channels_last:
        weight = weight.contiguous()  # of a channels_last weight torch's result would be so too
    if before != after:
        input = functional.pad(input, (before[1], after[1], before[0], after[0]))
        before = [0, 0]
    result = functional.conv2d(
        input, weight, bias, options.stride, before, options.dilation, options.groups
    )
    # A copy where torch chose another layout: its meta kernel does, and few others.
    return result.contiguous(
        memory_format=torch.channels_last if channels_last else torch.contiguous_format
    )


def _by_im2col(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    options: _Options,
    sides: list[int],
    padding: list[int],
) -> Tensor:
    kernel = list(weight.shape[2:])
    columns = _im2col(input, kernel, options.stride, padding, options.dilation, None, "unfold")
    parts = weight.reshape(options.groups, weight.shape[0] // options.groups, -1)
    columns = columns.reshape(input.shape[0], options.groups, parts.shape[2], columns.shape[-1])
    size = result_size(input.shape, weight.shape, options.stride, sides, options.dilation)
    result = torch.matmul(parts, columns).reshape(size)
    if prefers_channels_last(input):
        result = result.contiguous(memory_format=torch.channels_last)
    return result if bias is None else result + bias[:, None, None]
