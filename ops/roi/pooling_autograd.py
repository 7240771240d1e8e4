"""The other poolings of regions for torch: fake kernels, gradients, vmap.

All are linear in the map (roi_pool for given indices), so the gradient of a gradient is the pooling
itself. Boxes have no gradient.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import GRADIENT, Refused, operator
from .._torch.fakes import empty_maps, prefers_channels_last
from .._torch.vmap_calls import one_call_each
from .align_autograd import empty_bins, folds_channels, folds_channels_of_gradient


def _pool_fake(
    input: Tensor, boxes: Tensor, output_size: Sequence[Any], *options: Any
) -> tuple[Tensor, Tensor]:
    values = empty_bins(input, boxes, output_size)
    return values, torch.empty_like(values, dtype=torch.int32)


def _pool_backward_fake(
    grad: Tensor, index: Tensor, boxes: Tensor, input_size: Sequence[Any], *options: Any
) -> Tensor:
    return empty_maps(grad, input_size, options[-1])


def _pool_at_fake(input: Tensor, index: Tensor, boxes: Tensor, *options: Any) -> Tensor:
    return empty_bins(input, boxes, index.shape[2:])


def _ps_fake(input: Tensor, boxes: Tensor, output_size: Sequence[Any], *options: Any) -> Tensor:
    channels = input.shape[1] // (output_size[0] * output_size[1])
    shape = (boxes.shape[0], channels, *output_size)
    return empty_maps(input, shape, prefers_channels_last(input))


def _rotated_fake(
    input: Tensor, boxes: Tensor, output_size: Sequence[Any], *options: Any
) -> Tensor:
    return empty_bins(input, boxes, output_size)


def _backward_fake(grad: Tensor, boxes: Tensor, input_size: Sequence[Any], *options: Any) -> Tensor:
    return empty_maps(grad, input_size, options[-1])


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """For all three poolings."""
    input, boxes, _, *ctx.options = inputs
    saved = [boxes]
    if isinstance(output, (tuple, list)):
        saved.append(output[1])
        ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*saved)
    ctx.input_size, ctx.channels_last = input.shape, prefers_channels_last(input)


def _backward_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, boxes, _, *ctx.options, _ = inputs
    ctx.save_for_backward(boxes)
    ctx.output_size = grad.shape[2:]


def _pool_vjp(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    boxes, index = ctx.saved_tensors
    of_input = None
    if ctx.needs_input_grad[0]:
        of_input = _pool_backward(
            grad, index, boxes, ctx.input_size, *ctx.options, ctx.channels_last
        )
    return of_input, None, None, None


def _pool_backward_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, index, boxes, _, ctx.spatial_scale, _ = inputs
    ctx.save_for_backward(index, boxes)


def _pool_backward_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    of_grad = None
    if ctx.needs_input_grad[0]:
        of_grad = _pool_at(grad_grad, *ctx.saved_tensors, ctx.spatial_scale)
    return of_grad, None, None, None, None, None


def _pool_at_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, index, boxes, ctx.spatial_scale = inputs
    ctx.save_for_backward(index, boxes)
    ctx.input_size, ctx.channels_last = input.shape, prefers_channels_last(input)


def _pool_at_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    of_input = None
    if ctx.needs_input_grad[0]:
        options = (ctx.input_size, ctx.spatial_scale, ctx.channels_last)
        of_input = _pool_backward(grad, *ctx.saved_tensors, *options)
    return of_input, None, None, None


def _ps_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (boxes,) = ctx.saved_tensors
    of_input = None
    if ctx.needs_input_grad[0]:
        of_input = _ps_backward(grad, boxes, ctx.input_size, *ctx.options, ctx.channels_last)
    return of_input, None, None, None, None


def _ps_backward_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    (boxes,) = ctx.saved_tensors
    of_grad = None
    if ctx.needs_input_grad[0]:
        of_grad = ps_roi_align(grad_grad, boxes, ctx.output_size, *ctx.options)
    return of_grad, None, None, None, None, None


def _rotated_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (boxes,) = ctx.saved_tensors
    of_input = None
    if ctx.needs_input_grad[0]:
        of_input = _rotated_backward(grad, boxes, ctx.input_size, *ctx.options, ctx.channels_last)
    return of_input, None, None, None, None, None, None, None


def _rotated_backward_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    (boxes,) = ctx.saved_tensors
    of_grad = None
    if ctx.needs_input_grad[0]:
        of_grad = roi_align_rotated(grad_grad, boxes, ctx.output_size, *ctx.options)
    return of_grad, None, None, None, None, None, None, None, None


_CONSTANTS = ("boxes",)  # as in torchvision

roi_pool = operator(
    "roi_pool",
    fake=_pool_fake,
    setup_context=_setup,
    backward=_pool_vjp,
    constants=_CONSTANTS,
    vmap=one_call_each,
    onnx="roi",
)
_pool_backward = operator(
    "roi_pool_backward",
    fake=_pool_backward_fake,
    setup_context=_pool_backward_setup,
    backward=_pool_backward_vjp,
    constants=_CONSTANTS,
    vmap=one_call_each,
)
_pool_at = operator(
    "roi_pool_at",
    fake=_pool_at_fake,
    setup_context=_pool_at_setup,
    backward=_pool_at_vjp,
    constants=_CONSTANTS,
    vmap=one_call_each,
    onnx=GRADIENT,
)
ps_roi_align = operator(
    "ps_roi_align",
    fake=_ps_fake,
    setup_context=_setup,
    backward=_ps_vjp,
    constants=_CONSTANTS,
    vmap=folds_channels,
    onnx="roi",
)
_ps_backward = operator(
    "ps_roi_align_backward",
    fake=_backward_fake,
    setup_context=_backward_setup,
    backward=_ps_backward_vjp,
    constants=_CONSTANTS,
    vmap=folds_channels_of_gradient,
)
roi_align_rotated = operator(
    "roi_align_rotated",
    fake=_rotated_fake,
    setup_context=_setup,
    backward=_rotated_vjp,
    constants=_CONSTANTS,
    vmap=folds_channels,
    onnx=Refused(
        instead="pool upright boxes with roi_align, or deploy the model with AOTInductor, which "
        "takes every operator"
    ),
)
_rotated_backward = operator(
    "roi_align_rotated_backward",
    fake=_backward_fake,
    setup_context=_backward_setup,
    backward=_rotated_backward_vjp,
    constants=_CONSTANTS,
    vmap=folds_channels_of_gradient,
)
