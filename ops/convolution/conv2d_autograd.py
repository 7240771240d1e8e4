"""The networks' convolution within torch: fake kernels, gradients, vmap, autocast.

The three operators come from one trilinear form in (gradient, input, weight), each leaving one of
them out; the derivatives of each are the other two. None of them conjugates, so the formulas do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from .._torch.autocast import autocast_dtype, cast_to, register_autocast
from .._torch.channels_last import empty_maps, prefers_channels_last
from .._torch.differentiable import Differentiable
from .._torch.fake_checks import check_pair, check_shape, register_fake, require
from .._torch.vmap_calls import one_call_each

__all__ = [
    "check_arguments",
    "conv2d",
    "result_size",
    "with_autocast",
]

_conv2d = Differentiable("conv2d")
_backward_input = Differentiable("conv2d_backward_input")
_backward_weight = Differentiable("conv2d_backward_weight")

# The limit of strides, dilations, padding and kernel sizes in csrc/core/convolution/conv2d.cpp.
_MOST = 2**31 - 1


def _sides(padding: Sequence[Any]) -> list[Any]:
    """Top, bottom, left, right."""
    return list(padding) if len(padding) == 4 else [p for p in padding for _ in range(2)]


def check_arguments(
    op: str,
    input_size: Sequence[Any],
    weight_size: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    groups: Any,
) -> list[Any]:
    """Check as csrc/torch/convolution/conv2d.cpp, which fake tensors bypass; return result size."""
    for name, values in (("stride", stride), ("dilation", dilation)):
        require(len(values) == 2, f"visops.{op}: {name} has {len(values)} numbers, must have 2")
    require(
        len(padding) in (2, 4),
        f"visops.{op}: padding has {len(padding)} numbers, must have 2 (y, x) or 4 (top, bottom, "
        "left, right)",
    )
    shape = list(weight_size)
    require(
        len(input_size) == 4,
        f"visops.{op}: input has shape {list(input_size)}, must be [N, C, H, W]",
    )
    require(
        len(shape) == 4,
        f"visops.{op}: weight has shape {shape}, must be [out channels, in channels / groups, "
        "height, width]",
    )
    for name, sizes in (("input", list(input_size)), ("weight", shape)):
        for size in sizes:
            require(size >= 0, f"visops.{op}: {name} has shape {sizes}, sizes must be >= 0")
    require(groups >= 1, f"visops.{op}: groups is {groups}, must be >= 1")
    require(
        shape[0] % groups == 0,
        f"visops.{op}: weight has {shape[0]} output channels, must be a multiple of groups, "
        f"{groups}",
    )
    require(
        shape[1] * groups == input_size[1],
        f"visops.{op}: weight has shape {shape}, its second size times groups ({groups}) must be "
        f"the input's channels, {input_size[1]}",
    )
    sides = _sides(padding)
    for i, axis in enumerate(("height", "width")):
        kernel, size = shape[2 + i], input_size[2 + i]
        for name, value, least in (
            ("stride", stride[i], 1),
            ("dilation", dilation[i], 1),
            ("padding", sides[2 * i], 0),
            ("padding", sides[2 * i + 1], 0),
        ):
            message = f"visops.{op}: {name} is {value}, must be >= {least} and <= {_MOST}"
            require(value >= least, message)
            require(value <= _MOST, message)
        message = f"visops.{op}: weight has kernel {axis} {kernel}, must be >= 1 and <= {_MOST}"
        require(kernel >= 1, message)
        require(kernel <= _MOST, message)
        padded = size + sides[2 * i] + sides[2 * i + 1]
        reach = (kernel - 1) * dilation[i] + 1
        dilated = f" ({reach} with dilation)" if dilation[i] != 1 else ""
        require(
            reach <= padded,
            f"visops.{op}: weight has kernel {axis} {kernel}{dilated}, must be <= the padded "
            f"input's {axis} {padded}",
        )
    return result_size(input_size, weight_size, stride, padding, dilation)


def result_size(
    input_size: Sequence[Any],
    weight_size: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
) -> list[Any]:
    """Return the size of the forward convolution's result, for valid arguments."""
    sides = _sides(padding)
    result = [input_size[0], weight_size[0]]
    for i in range(2):
        padded = input_size[2 + i] + sides[2 * i] + sides[2 * i + 1]
        result.append((padded - dilation[i] * (weight_size[2 + i] - 1) - 1) // stride[i] + 1)
    return result


@register_fake("conv2d")
def _conv2d_fake(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[Any] = (1, 1),
    padding: Sequence[Any] = (0, 0),
    dilation: Sequence[Any] = (1, 1),
    groups: Any = 1,
    allow_tf32: bool = False,
) -> Tensor:
    op = "conv2d"
    sizes = check_arguments(op, input.shape, weight.shape, stride, padding, dilation, groups)
    check_pair(op, "input", input, "weight", weight)
    if bias is not None:
        check_shape(op, "bias", bias, weight.shape[:1], str([weight.shape[0]]))
    check_pair(op, "input", input, "bias", bias)
    return empty_maps(input, sizes, prefers_channels_last(input))


@register_fake("conv2d_backward_input")
def _backward_input_fake(
    grad: Tensor,
    weight: Tensor,
    input_size: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    groups: Any,
    channels_last: bool,
    allow_tf32: bool = False,
) -> Tensor:
    op = "conv2d_backward_input"
    sizes = check_arguments(op, input_size, weight.shape, stride, padding, dilation, groups)
    check_shape(op, "grad", grad, sizes, str(sizes))
    check_pair(op, "grad", grad, "weight", weight)
    return empty_maps(grad, input_size, channels_last)


@register_fake("conv2d_backward_weight")
def _backward_weight_fake(
    grad: Tensor,
    input: Tensor,
    weight_size: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    groups: Any,
    allow_tf32: bool = False,
) -> Tensor:
    op = "conv2d_backward_weight"
    sizes = check_arguments(op, input.shape, weight_size, stride, padding, dilation, groups)
    check_shape(op, "grad", grad, sizes, str(sizes))
    check_pair(op, "grad", grad, "input", input)
    return empty_maps(grad, weight_size, False)


def _conj(tensor: Tensor) -> Tensor:
    return tensor.conj() if tensor.is_complex() else tensor


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, weight, bias, *ctx.options, ctx.allow_tf32 = inputs
    needs_input, needs_weight = ctx.needs_input_grad[:2]
    ctx.save_for_backward(input if needs_weight else None, weight if needs_input else None)
    ctx.input_size, ctx.weight_size = input.shape, weight.shape
    ctx.channels_last = prefers_channels_last(input)
    ctx.has_bias = bias is not None


def _vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    input, weight = ctx.saved_tensors
    grad_input = grad_weight = grad_bias = None
    if ctx.needs_input_grad[0]:
        grad_input = _backward_input(
            grad,
            _conj(weight),
            ctx.input_size,
            *ctx.options,
            ctx.channels_last,
            ctx.allow_tf32,
        )
    if ctx.needs_input_grad[1]:
        grad_weight = _backward_weight(
            grad, _conj(input), ctx.weight_size, *ctx.options, ctx.allow_tf32
        )
    if ctx.has_bias and ctx.needs_input_grad[2]:
        grad_bias = grad.sum((0, 2, 3))
    return grad_input, grad_weight, grad_bias, None, None, None, None, None


def _backward_input_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, weight, _, *ctx.options, _, ctx.allow_tf32 = inputs
    needs_grad, needs_weight = ctx.needs_input_grad[:2]
    ctx.save_for_backward(grad if needs_weight else None, weight if needs_grad else None)
    ctx.weight_size = weight.shape


def _backward_input_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    grad, weight = ctx.saved_tensors
    by_grad = by_weight = None
    if ctx.needs_input_grad[0]:
        by_grad = _conv2d(grad_grad, _conj(weight), None, *ctx.options, ctx.allow_tf32)
    if ctx.needs_input_grad[1]:
        by_weight = _backward_weight(
            _conj(grad), grad_grad, ctx.weight_size, *ctx.options, ctx.allow_tf32
        )
    return by_grad, by_weight, None, None, None, None, None, None, None


def _backward_weight_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, input, _, *ctx.options, ctx.allow_tf32 = inputs
    needs_grad, needs_input = ctx.needs_input_grad[:2]
    ctx.save_for_backward(grad if needs_input else None, input if needs_grad else None)
    ctx.input_size, ctx.channels_last = input.shape, prefers_channels_last(input)


def _backward_weight_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    grad, input = ctx.saved_tensors
    by_grad = by_input = None
    if ctx.needs_input_grad[0]:
        by_grad = _conv2d(_conj(input), grad_grad, None, *ctx.options, ctx.allow_tf32)
    if ctx.needs_input_grad[1]:
        by_input = _backward_input(
            _conj(grad),
            grad_grad,
            ctx.input_size,
            *ctx.options,
            ctx.channels_last,
            ctx.allow_tf32,
        )
    return by_grad, by_input, None, None, None, None, None, None


def _folding(call: Callable[..., Any], size_at: int | None = None) -> Callable[..., Any]:
    """Return a vmap rule: maps of the first argument alone become more images of one call."""
    each = one_call_each(call)

    def rule(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        if in_dims[0] is None or any(d is not None for d in in_dims[1:3] if not _is_list(d)):
            return each(info, in_dims, *arguments)
        first, *rest = arguments
        images = first.movedim(in_dims[0], 0).flatten(0, 1)
        if size_at is not None:  # the size of the result is an argument
            size = list(rest[size_at])
            rest[size_at] = [size[0] * info.batch_size, *size[1:]]
        return call(images, *rest).unflatten(0, (info.batch_size, -1)), 0

    return rule


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


_conv2d.register(setup_context=_setup, backward=_vjp, vmap=_folding(_conv2d))
_backward_input.register(
    setup_context=_backward_input_setup,
    backward=_backward_input_vjp,
    vmap=_folding(_backward_input, size_at=1),
)
_backward_weight.register(
    setup_context=_backward_weight_setup,
    backward=_backward_weight_vjp,
    vmap=one_call_each(_backward_weight),
)


def with_autocast(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *options: Any
) -> tuple[Any, ...]:
    """Cast as torch's convolutions do within torch.autocast."""
    dtype = autocast_dtype(input)
    if dtype is None:
        return input, weight, bias, *options
    return *(cast_to(tensor, dtype) for tensor in (input, weight, bias)), *options


register_autocast("conv2d", with_autocast)


def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    """Call the operator, with arguments cast where autocast is on: its formulas see them then."""
    return _conv2d(*with_autocast(input, weight, bias, *options))  # type: ignore[no-any-return]
