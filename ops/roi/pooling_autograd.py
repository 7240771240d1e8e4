"""The other poolings of regions for torch: fake kernels, gradients, vmap.

All are linear in the map (roi_pool for given indices), so the gradient of a gradient is the pooling
itself. Boxes have no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.channels_last import empty_maps, prefers_channels_last
from .._torch.differentiable import Differentiable
from .._torch.fake_checks import PAIR, check_same_device, check_shape, register_fake, require
from .._torch.vmap_calls import one_call_each
from .align_autograd import (
    check_bins,
    check_boxes,
    empty_bins,
    folds_channels,
    same_size,
    with_channels,
)

__all__ = ["ps_roi_align", "roi_align_rotated", "roi_pool"]

roi_pool = Differentiable("roi_pool")
_pool_backward = Differentiable("roi_pool_backward")
_pool_at = Differentiable("roi_pool_at")
ps_roi_align = Differentiable("ps_roi_align")
_ps_backward = Differentiable("ps_roi_align_backward")
roi_align_rotated = Differentiable("roi_align_rotated")
_rotated_backward = Differentiable("roi_align_rotated_backward")


def _check_backward(
    op: str, grad: Tensor, boxes: Tensor, input_size: Sequence[Any], columns: int = 5
) -> None:
    check_shape(op, "boxes", boxes, (boxes.shape[0], columns), f"[K, {columns}]")
    require(
        len(input_size) == 4,
        f"visops.{op}: input_size is {list(input_size)}, must have four numbers",
    )
    require(
        grad.dim() == 4,
        f"visops.{op}: grad has shape {list(grad.shape)}, must be [N, C, H, W]",
    )
    message = f"visops.{op}: grad has shape {list(grad.shape)}, boxes has {list(boxes.shape)}"
    require(grad.shape[0] == boxes.shape[0], message)
    check_same_device(op, "grad", grad, "boxes", boxes)


@register_fake("roi_pool", output_size=PAIR)
def _pool_fake(
    input: Tensor, boxes: Tensor, output_size: Sequence[Any], *options: Any
) -> tuple[Tensor, Tensor]:
    check_boxes("roi_pool", "input", input, boxes)
    values = empty_bins(input, boxes, output_size)
    return values, torch.empty_like(values, dtype=torch.int32)


@register_fake("roi_pool_backward")
def _pool_backward_fake(
    grad: Tensor, index: Tensor, boxes: Tensor, input_size: Sequence[Any], *options: Any
) -> Tensor:
    _check_backward("roi_pool_backward", grad, boxes, input_size)
    check_shape("roi_pool_backward", "index", index, grad.shape, str(list(grad.shape)))
    check_same_device("roi_pool_backward", "grad", grad, "index", index)
    return empty_maps(grad, input_size, options[-1])


@register_fake("roi_pool_at")
def _pool_at_fake(input: Tensor, index: Tensor, boxes: Tensor, *options: Any) -> Tensor:
    check_boxes("roi_pool_at", "input", input, boxes)
    check_bins("roi_pool_at", "index", index, input.shape, boxes)
    return empty_bins(input, boxes, index.shape[2:])


@register_fake("ps_roi_align", output_size=PAIR)
def _ps_fake(input: Tensor, boxes: Tensor, output_size: Sequence[Any], *options: Any) -> Tensor:
    op = "ps_roi_align"
    check_boxes(op, "input", input, boxes)
    bins = output_size[0] * output_size[1]
    require(
        bins > 0,
        f"visops.{op}: output_size is {list(output_size)}, must be positive",
    )
    require(
        input.shape[1] % bins == 0,
        f"visops.{op}: input has {input.shape[1]} channels, must be a multiple of the "
        f"number of bins, {bins}",
    )
    shape = (boxes.shape[0], input.shape[1] // bins, *output_size)
    return empty_maps(input, shape, prefers_channels_last(input))


@register_fake("ps_roi_align_backward")
def _ps_backward_fake(
    grad: Tensor, boxes: Tensor, input_size: Sequence[Any], *options: Any
) -> Tensor:
    _check_backward("ps_roi_align_backward", grad, boxes, input_size)
    return empty_maps(grad, input_size, options[-1])


@register_fake("roi_align_rotated", output_size=PAIR)
def _rotated_fake(
    input: Tensor, boxes: Tensor, output_size: Sequence[Any], *options: Any
) -> Tensor:
    check_boxes("roi_align_rotated", "input", input, boxes, 6)
    return empty_bins(input, boxes, output_size)


@register_fake("roi_align_rotated_backward")
def _rotated_backward_fake(
    grad: Tensor, boxes: Tensor, input_size: Sequence[Any], *options: Any
) -> Tensor:
    _check_backward("roi_align_rotated_backward", grad, boxes, input_size, 6)
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

roi_pool.register(
    setup_context=_setup, backward=_pool_vjp, constants=_CONSTANTS, vmap=one_call_each(roi_pool)
)
_pool_backward.register(
    setup_context=_pool_backward_setup,
    backward=_pool_backward_vjp,
    constants=_CONSTANTS,
    vmap=one_call_each(_pool_backward),
)
_pool_at.register(
    setup_context=_pool_at_setup,
    backward=_pool_at_vjp,
    constants=_CONSTANTS,
    vmap=one_call_each(_pool_at),
)
ps_roi_align.register(
    setup_context=_setup,
    backward=_ps_vjp,
    constants=_CONSTANTS,
    vmap=folds_channels(ps_roi_align, same_size),
)
_ps_backward.register(
    setup_context=_backward_setup,
    backward=_ps_backward_vjp,
    constants=_CONSTANTS,
    vmap=folds_channels(_ps_backward, with_channels),
)
roi_align_rotated.register(
    setup_context=_setup,
    backward=_rotated_vjp,
    constants=_CONSTANTS,
    vmap=folds_channels(roi_align_rotated, same_size),
)
_rotated_backward.register(
    setup_context=_backward_setup,
    backward=_rotated_backward_vjp,
    constants=_CONSTANTS,
    vmap=folds_channels(_rotated_backward, with_channels),
)
