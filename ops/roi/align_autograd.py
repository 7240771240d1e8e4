"""RoIAlign on one map for torch: fake kernels, gradients, vmap.

Means are linear in the map, and so are maxima for given samples. So the gradient of a map's
gradient is the operator itself, and all derivatives are among these seven operators.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import GRADIENT, operator
from .._torch.fakes import contiguous_like, empty_maps, prefers_channels_last
from .._torch.vmap_calls import one_call_each


def empty_bins(maps: Tensor, boxes: Tensor, output_size: Sequence[Any]) -> Tensor:
    """Return the fake bins of all boxes on these maps."""
    shape = (boxes.shape[0], maps.shape[1], *output_size)
    return empty_maps(maps, shape, prefers_channels_last(maps))


def _roi_align_fake(
    input: Tensor, boxes: Tensor, output_size: Sequence[Any], *options: Any
) -> Tensor:
    return empty_bins(input, boxes, output_size)


def _backward_input_fake(
    grad: Tensor, boxes: Tensor, input_size: Sequence[Any], *options: Any
) -> Tensor:
    return empty_maps(grad, input_size, options[-1])


def _max_fake(
    input: Tensor, boxes: Tensor, output_size: Sequence[Any], *options: Any
) -> tuple[Tensor, Tensor]:
    values = empty_bins(input, boxes, output_size)
    return values, torch.empty_like(values, dtype=torch.int64)


def _max_at_fake(
    input: Tensor, index: Tensor, boxes: Tensor, output_size: Sequence[Any], *options: Any
) -> Tensor:
    return empty_bins(input, boxes, output_size)


def _max_backward_input_fake(
    grad: Tensor, index: Tensor, boxes: Tensor, input_size: Sequence[Any], *options: Any
) -> Tensor:
    return empty_maps(grad, input_size, options[-1])


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """For `roi_align` and `roi_align_max`."""
    input, boxes, _, *ctx.options = inputs
    # Linear in the input: only the boxes' gradient needs it.
    saved = [boxes, input if ctx.needs_input_grad[1] else None]
    if isinstance(output, (tuple, list)):
        saved.append(output[1])
        ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*saved)
    ctx.input_size, ctx.channels_last = input.shape, prefers_channels_last(input)


def _vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    boxes, input = ctx.saved_tensors
    grad_input = grad_boxes = None
    if ctx.needs_input_grad[0]:
        grad_input = backward_input(grad, boxes, ctx.input_size, *ctx.options, ctx.channels_last)
    if ctx.needs_input_grad[1]:
        grad_boxes = backward_boxes(grad, input, boxes, *ctx.options)
    return grad_input, grad_boxes, None, None, None, None


def _max_vjp(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    boxes, input, index = ctx.saved_tensors
    grad_input = grad_boxes = None
    if ctx.needs_input_grad[0]:
        grad_input = _max_backward_input(
            grad, index, boxes, ctx.input_size, *ctx.options, ctx.channels_last
        )
    if ctx.needs_input_grad[1]:
        grad_boxes = _max_backward_boxes(grad, index, input, boxes, *ctx.options)
    return grad_input, grad_boxes, None, None, None, None


def _max_at_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, index, boxes, _, *ctx.options = inputs
    ctx.save_for_backward(index, boxes, input if ctx.needs_input_grad[2] else None)
    ctx.input_size, ctx.channels_last = input.shape, prefers_channels_last(input)


def _max_at_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    index, boxes, input = ctx.saved_tensors
    grad_input = grad_boxes = None
    if ctx.needs_input_grad[0]:
        grad_input = _max_backward_input(
            grad, index, boxes, ctx.input_size, *ctx.options, ctx.channels_last
        )
    if ctx.needs_input_grad[2]:
        grad_boxes = _max_backward_boxes(grad, index, input, boxes, *ctx.options)
    return grad_input, None, grad_boxes, None, None, None, None


def _backward_input_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, boxes, _, *ctx.options, _ = inputs
    ctx.save_for_backward(boxes, grad if ctx.needs_input_grad[1] else None)
    ctx.output_size = grad.shape[2:]


def _backward_input_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    # <u, pool^T g> = <pool u, g>, so its derivatives are those of pooling u.
    boxes, grad = ctx.saved_tensors
    of_grad = of_boxes = None
    if ctx.needs_input_grad[0]:
        of_grad = roi_align(grad_grad, boxes, ctx.output_size, *ctx.options)
    if ctx.needs_input_grad[1]:
        of_boxes = backward_boxes(grad, grad_grad, boxes, *ctx.options)
    return of_grad, of_boxes, None, None, None, None, None


def _max_backward_input_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, index, boxes, _, *ctx.options, _ = inputs
    ctx.save_for_backward(index, boxes, grad if ctx.needs_input_grad[2] else None)
    ctx.output_size = grad.shape[2:]


def _max_backward_input_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    index, boxes, grad = ctx.saved_tensors
    of_grad = of_boxes = None
    if ctx.needs_input_grad[0]:
        of_grad = _max_at(grad_grad, index, boxes, ctx.output_size, *ctx.options)
    if ctx.needs_input_grad[2]:
        of_boxes = _max_backward_boxes(grad, index, grad_grad, boxes, *ctx.options)
    return of_grad, None, of_boxes, None, None, None, None, None


def not_differentiable_again(op: str) -> Callable[..., Any]:
    """Return the backward of an operator that computes the boxes' gradient: it raises."""

    def refuse(ctx: Any, *_: Any) -> None:
        raise RuntimeError(
            f"visops.{op}: the gradient with respect to the boxes can't be differentiated again; "
            "detach it, or the boxes, if you don't need that"
        )

    return refuse


def folds_channels(
    call: Callable[..., Tensor],
    info: Any,
    in_dims: Any,
    *arguments: Any,
    of_gradient: bool = False,
) -> tuple[Tensor, int]:
    """Turn calls on mapped maps into one call on a map of all channels.

    The size of a forward call is that of its bins; of a gradient, [N, C, H, W] of the map.
    """
    maps, boxes, size, *options = arguments
    if in_dims[1] is not None:
        return one_call_each(call, info, in_dims, *arguments)
    count = info.batch_size
    wide = maps.movedim(in_dims[0], 1).flatten(1, 2)
    if of_gradient:
        size = (size[0], size[1] * count, *size[2:])
    result = call(wide, boxes, size, *options)
    return result.unflatten(1, (count, result.shape[1] // count)), 1


folds_channels_of_gradient = functools.partial(folds_channels, of_gradient=True)

roi_align = operator(
    "roi_align",
    fake=_roi_align_fake,
    setup_context=_setup,
    backward=_vjp,
    vmap=folds_channels,
    onnx="roi",
)
backward_input = operator(
    "roi_align_backward_input",
    fake=_backward_input_fake,
    setup_context=_backward_input_setup,
    backward=_backward_input_vjp,
    vmap=folds_channels_of_gradient,
)
backward_boxes = operator(
    "roi_align_backward_boxes",
    fake=contiguous_like(2),
    backward=not_differentiable_again("roi_align"),
    vmap=one_call_each,
)
roi_align_max = operator(
    "roi_align_max",
    fake=_max_fake,
    setup_context=_setup,
    backward=_max_vjp,
    vmap=one_call_each,
    onnx="roi",
    documented_as="roi_align",
    note="Takes the maximum of a bin's samples; also returns where it was.",
)
_max_at = operator(
    "roi_align_max_at",
    fake=_max_at_fake,
    setup_context=_max_at_setup,
    backward=_max_at_vjp,
    vmap=one_call_each,
    onnx=GRADIENT,
)
_max_backward_input = operator(
    "roi_align_max_backward_input",
    fake=_max_backward_input_fake,
    setup_context=_max_backward_input_setup,
    backward=_max_backward_input_vjp,
    vmap=one_call_each,
)
_max_backward_boxes = operator(
    "roi_align_max_backward_boxes",
    fake=contiguous_like(3),
    backward=not_differentiable_again("roi_align"),
    vmap=one_call_each,
)
