"""Deformable convolution within torch: fake kernels, gradients, vmap, autocast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.autocast import autocast_dtype, cast_to, register_autocast
from .._torch.channels_last import empty_maps, prefers_channels_last
from .._torch.differentiable import Differentiable
from .._torch.fake_checks import check_pair, check_shape, register_fake, require
from .._torch.vmap_calls import into_batch, one_call_each

__all__ = ["deform_conv2d"]

_NAME = "deform_conv2d"
_deform_conv2d = Differentiable(_NAME)
_backward_input = Differentiable(f"{_NAME}_backward_input")
_backward_offset = Differentiable(f"{_NAME}_backward_offset")
_backward_weight = Differentiable(f"{_NAME}_backward_weight")

# The limit of all sizes in csrc/core/deformable/place.h. The input's are checked there alone: a
# limit here would be one that users of torch.export must state.
_MOST = 2**30


def _check_arguments(
    op: str,
    input_size: Sequence[Any],
    weight_size: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
) -> list[Any]:
    """Check as csrc/torch/deformable/conv2d.cpp, which fake tensors bypass; return result size."""
    for name, numbers in (("stride", stride), ("padding", padding), ("dilation", dilation)):
        require(len(numbers) == 2, f"visops.{op}: {name} has {len(numbers)} numbers, must have 2")
    shape, weight = list(input_size), list(weight_size)
    require(len(shape) == 4, f"visops.{op}: input has shape {shape}, must be [N, C, H, W]")
    require(
        len(weight) == 4,
        f"visops.{op}: weight has shape {weight}, must be [out channels, in channels / groups, "
        "height, width]",
    )
    for size in shape:
        require(size >= 0, f"visops.{op}: input has shape {shape}, sizes must be >= 0")
    for size in weight:
        require(size >= 1, f"visops.{op}: weight has shape {weight}, sizes must be >= 1")
    channels = shape[1]
    message = (
        f"visops.{op}: weight has shape {weight}, its second size must divide the input's "
        f"channels, {channels}"
    )
    require(channels >= 1, message)
    require(channels % weight[1] == 0, message)
    groups = channels // weight[1]
    require(
        weight[0] % groups == 0,
        f"visops.{op}: weight has {weight[0]} output channels, must be a multiple of groups, "
        f"{groups}",
    )
    sizes = [shape[0], weight[0]]
    for i, axis in enumerate(("height", "width")):
        size, kernel = shape[2 + i], weight[2 + i]
        for name, value, least in (
            ("stride", stride[i], 1),
            ("padding", padding[i], 0),
            ("dilation", dilation[i], 1),
        ):
            message = f"visops.{op}: {name} is {value}, must be >= {least} and <= {_MOST}"
            require(value >= least, message)
            require(value <= _MOST, message)
        require(
            kernel <= _MOST,
            f"visops.{op}: weight has kernel {axis} {kernel}, must be >= 1 and <= {_MOST}",
        )
        padded, reach = size + 2 * padding[i], (kernel - 1) * dilation[i] + 1
        dilated = f" ({reach} with dilation)" if dilation[i] != 1 else ""
        require(
            reach <= padded,
            f"visops.{op}: weight has kernel {axis} {kernel}{dilated}, must be <= the padded "
            f"input's {axis} {padded}",
        )
        sizes.append((padded - reach) // stride[i] + 1)
    return sizes


def _check_offset(
    op: str,
    offset: Tensor,
    mask: Tensor | None,
    channels: Any,
    weight_size: Sequence[Any],
    sizes: Sequence[Any],
) -> None:
    taps = weight_size[2] * weight_size[3]
    message = (
        f"visops.{op}: offset has shape {list(offset.shape)}, must be [{sizes[0]}, 2 * offset "
        f"groups * {taps}, {sizes[2]}, {sizes[3]}]"
    )
    require(offset.dim() == 4, message)
    for i in (0, 2, 3):
        require(offset.shape[i] == sizes[i], message)
    require(offset.shape[1] >= 2 * taps, message)
    require(offset.shape[1] % (2 * taps) == 0, message)
    groups = offset.shape[1] // (2 * taps)
    require(
        channels % groups == 0,
        f"visops.{op}: offset has shape {list(offset.shape)} for {groups} offset groups, which "
        f"must divide the input's channels, {channels}",
    )
    if mask is not None:
        expected = [sizes[0], groups * taps, sizes[2], sizes[3]]
        check_shape(op, "mask", mask, expected, str(expected))


@register_fake(_NAME)
def _fake(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[Any] = (1, 1),
    padding: Sequence[Any] = (0, 0),
    dilation: Sequence[Any] = (1, 1),
    mask: Tensor | None = None,
) -> Tensor:
    sizes = _check_arguments(_NAME, input.shape, weight.shape, stride, padding, dilation)
    check_pair(_NAME, "input", input, "weight", weight)
    _check_offset(_NAME, offset, mask, input.shape[1], weight.shape, sizes)
    if bias is not None:
        check_shape(_NAME, "bias", bias, weight.shape[:1], str([weight.shape[0]]))
        check_pair(_NAME, "input", input, "bias", bias)
    return empty_maps(input, sizes, prefers_channels_last(input))


@register_fake(f"{_NAME}_backward_input")
def _backward_input_fake(
    grad: Tensor,
    offset: Tensor,
    weight: Tensor,
    input_size: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    mask: Tensor | None,
    channels_last: bool,
) -> Tensor:
    op = f"{_NAME}_backward_input"
    sizes = _check_arguments(op, input_size, weight.shape, stride, padding, dilation)
    check_pair(op, "grad", grad, "weight", weight)
    _check_offset(op, offset, mask, input_size[1], weight.shape, sizes)
    check_shape(op, "grad", grad, sizes, str(sizes))
    return empty_maps(grad, input_size, channels_last)


@register_fake(f"{_NAME}_backward_offset")
def _backward_offset_fake(
    grad: Tensor,
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    op = f"{_NAME}_backward_offset"
    sizes = _check_arguments(op, input.shape, weight.shape, stride, padding, dilation)
    check_pair(op, "input", input, "weight", weight)
    _check_offset(op, offset, mask, input.shape[1], weight.shape, sizes)
    check_pair(op, "input", input, "grad", grad)
    check_shape(op, "grad", grad, sizes, str(sizes))
    of_mask = offset.new_empty(0) if mask is None else mask.new_empty(mask.shape)
    return offset.new_empty(offset.shape), of_mask


@register_fake(f"{_NAME}_backward_weight")
def _backward_weight_fake(
    grad: Tensor,
    input: Tensor,
    offset: Tensor,
    weight_size: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    mask: Tensor | None,
) -> Tensor:
    op = f"{_NAME}_backward_weight"
    sizes = _check_arguments(op, input.shape, weight_size, stride, padding, dilation)
    _check_offset(op, offset, mask, input.shape[1], weight_size, sizes)
    check_pair(op, "input", input, "grad", grad)
    check_shape(op, "grad", grad, sizes, str(sizes))
    return grad.new_empty(weight_size)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, offset, weight, bias, *ctx.options, mask = inputs
    needs_input, needs_offset, needs_weight = ctx.needs_input_grad[:3]
    needs_offset = needs_offset or ctx.needs_input_grad[7]
    ctx.save_for_backward(
        input if needs_offset or needs_weight else None,
        offset,
        weight if needs_input or needs_offset else None,
        mask,
    )
    ctx.input_size, ctx.weight_size = input.shape, weight.shape
    ctx.channels_last = prefers_channels_last(input)
    ctx.has_bias = bias is not None


def _vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    input, offset, weight, mask = ctx.saved_tensors
    of_input = of_offset = of_weight = of_bias = of_mask = None
    needs = ctx.needs_input_grad
    if needs[0]:
        of_input = _backward_input(
            grad, offset, weight, ctx.input_size, *ctx.options, mask, ctx.channels_last
        )
    if needs[1] or needs[7]:
        of_offset, of_mask = _backward_offset(grad, input, offset, weight, *ctx.options, mask)
    if needs[2]:
        of_weight = _backward_weight(grad, input, offset, ctx.weight_size, *ctx.options, mask)
    if ctx.has_bias and needs[3]:
        of_bias = grad.sum((0, 2, 3))
    of_offset = of_offset if needs[1] else None
    of_mask = of_mask if mask is not None and needs[7] else None
    return of_input, of_offset, of_weight, of_bias, None, None, None, of_mask


def _refuse(ctx: Any, *_: Tensor) -> None:
    raise RuntimeError(
        f"visops.{_NAME}: its gradients can't be differentiated again; detach them where that is "
        "not needed"
    )


def _folding(call: Callable[..., Any], tensors: Sequence[int]) -> Callable[..., Any]:
    """Return a vmap rule: entries become more images of one call.

    `tensors` are the arguments with a batch dimension. Where others are mapped, such as weights,
    each entry has a call of its own.
    """
    each = one_call_each(call)

    def rule(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        others = [d for i, d in enumerate(in_dims) if i not in tensors and _is_mapped(d)]
        if others:
            return each(info, in_dims, *arguments)
        folded = list(arguments)
        for i in tensors:
            if arguments[i] is not None:
                folded[i] = into_batch(arguments[i], in_dims[i], info.batch_size)
        return call(*folded).unflatten(0, (info.batch_size, -1)), 0

    return rule


def _is_mapped(dim: Any) -> bool:
    return isinstance(dim, int)


_deform_conv2d.register(
    setup_context=_setup, backward=_vjp, vmap=_folding(_deform_conv2d, (0, 1, 7))
)
_backward_input.register(backward=_refuse, vmap=one_call_each(_backward_input))
_backward_offset.register(backward=_refuse, vmap=one_call_each(_backward_offset))
_backward_weight.register(backward=_refuse, vmap=one_call_each(_backward_weight))


def _with_autocast(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    mask: Tensor | None = None,
) -> tuple[Any, ...]:
    """Cast as for torch's convolutions, but offsets and masks to float32: they are places."""
    dtype = autocast_dtype(input)
    if dtype is not None:
        input, weight, bias = (cast_to(tensor, dtype) for tensor in (input, weight, bias))  # type: ignore[assignment]
        offset, mask = (cast_to(tensor, torch.float32) for tensor in (offset, mask))  # type: ignore[assignment]
    return input, offset, weight, bias, stride, padding, dilation, mask


register_autocast(_NAME, _with_autocast)


def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    *options: Any,
) -> Tensor:
    """Call the operator, with arguments cast where autocast is on: its formulas see them then."""
    arguments = _with_autocast(input, offset, weight, bias, *options, mask)  # type: ignore[call-arg]
    return _deform_conv2d(*arguments)  # type: ignore[no-any-return]
