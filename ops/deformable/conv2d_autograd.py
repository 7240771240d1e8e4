"""Deformable convolution within torch: fake kernels, gradients, vmap, autocast."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.autocast import autocast_dtype, cast_to
from .._torch.declaring import Refused, operator
from .._torch.fakes import empty_maps, layer_flops, prefers_channels_last
from .._torch.vmap_calls import into_batch, one_call_each

_NAME = "deform_conv2d"


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
    # A valid offset has the result's height and width, which needs no arithmetic.
    size = (input.shape[0], weight.shape[0], *offset.shape[2:])
    return empty_maps(input, size, prefers_channels_last(input))


def _backward_input_fake(
    grad: Tensor, offset: Tensor, weight: Tensor, input_size: Sequence[Any], *rest: Any
) -> Tensor:
    return empty_maps(grad, input_size, rest[-1])


def _backward_offset_fake(
    grad: Tensor, input: Tensor, offset: Tensor, *rest: Any
) -> tuple[Tensor, Tensor]:
    mask = rest[-1]
    of_mask = offset.new_empty(0) if mask is None else mask.new_empty(mask.shape)
    return offset.new_empty(offset.shape), of_mask


def _backward_samples_fake(
    grad: Tensor, input: Tensor, offset: Tensor, weight: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    *options, channels_last = rest
    of_offset, of_mask = _backward_offset_fake(grad, input, offset, weight, *options)
    return empty_maps(grad, input.shape, channels_last), of_offset, of_mask


def _backward_weight_fake(
    grad: Tensor, input: Tensor, offset: Tensor, weight_size: Sequence[Any], *rest: Any
) -> Tensor:
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
    needs_offset = needs[1] or needs[7]
    if needs[0] and needs_offset:
        of_input, of_offset, of_mask = _backward_samples(
            grad, input, offset, weight, *ctx.options, mask, ctx.channels_last
        )
    elif needs[0]:
        of_input = _backward_input(
            grad, offset, weight, ctx.input_size, *ctx.options, mask, ctx.channels_last
        )
    elif needs_offset:
        of_offset, of_mask = _backward_offset(grad, input, offset, weight, *ctx.options, mask)
    if needs[2]:
        of_weight = _backward_weight(grad, input, offset, ctx.weight_size, *ctx.options, mask)
    if ctx.has_bias and needs[3]:
        of_bias = grad.sum((0, 2, 3))
    of_offset = of_offset if needs[1] else None
    of_mask = of_mask if mask is not None and needs[7] else None
    return of_input, of_offset, of_weight, of_bias, None, None, None, of_mask


def _reject(ctx: Any, *_: Tensor) -> None:
    raise RuntimeError(
        f"visops.{_NAME}: its gradients can't be differentiated again; detach them where that is "
        "not needed"
    )


def _vmap(call: Any, info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
    """Let entries become more images of one call.

    Where others than input, offset and mask are mapped, such as weights, each entry has a call of
    its own.
    """
    batched = (0, 1, 7)
    if any(isinstance(dim, int) for i, dim in enumerate(in_dims) if i not in batched):
        return one_call_each(call, info, in_dims, *arguments)
    folded = list(arguments)
    for i in batched:
        if arguments[i] is not None:
            folded[i] = into_batch(arguments[i], in_dims[i], info.batch_size)
    return call(*folded).unflatten(0, (info.batch_size, -1)), 0


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
    """Cast as for torch's convolutions, but offsets and masks to float32: they are locations."""
    dtype = autocast_dtype(input)
    if dtype is not None:
        input, weight, bias = (cast_to(tensor, dtype) for tensor in (input, weight, bias))  # type: ignore[assignment]
        offset, mask = (cast_to(tensor, torch.float32) for tensor in (offset, mask))  # type: ignore[assignment]
    return input, offset, weight, bias, stride, padding, dilation, mask


_deform_conv2d = operator(
    _NAME,
    fake=_fake,
    setup_context=_setup,
    backward=_vjp,
    vmap=_vmap,
    autocast=_with_autocast,
    flops=layer_flops,
    onnx=Refused("ONNX has DeformConv from opset 19 on, and this table writes opset 18"),
)


def _gradient(part: str, fake: Callable[..., Any]) -> Callable[..., Any]:
    return operator(
        f"{_NAME}_backward_{part}",
        fake=fake,
        backward=_reject,
        vmap=one_call_each,
        flops=layer_flops,
    )


_backward_input = _gradient("input", _backward_input_fake)
_backward_offset = _gradient("offset", _backward_offset_fake)
_backward_samples = _gradient("samples", _backward_samples_fake)
_backward_weight = _gradient("weight", _backward_weight_fake)


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
