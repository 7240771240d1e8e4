"""How pairwise overlaps run under torch: fake kernels, gradients and vmap.

The backward operators return the gradient of the first set of boxes. The second set's is the same
with the roles swapped. Second derivatives differentiate the formula,
written with torch's operators: iou_formulas.py.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import operator
from .._torch.fakes import contiguous_like
from .._torch.vmap_calls import one_call_each
from .iou_formulas import computed_in, overlap, rotated_overlap

_SWAPPED = {"iof": "iof2", "iof2": "iof"}  # the others are symmetric


def result_dtype(boxes1: Tensor, boxes2: Tensor) -> torch.dtype:
    """Return the dtype of overlaps of boxes of these dtypes."""
    return torch.float64 if torch.float64 in (boxes1.dtype, boxes2.dtype) else torch.float32


def _fake(boxes1: Tensor, boxes2: Tensor, *options: Any) -> Tensor:
    shape = (boxes1.shape[0], boxes2.shape[0])
    return boxes1.new_empty(shape, dtype=result_dtype(boxes1, boxes2))


def _gradient(
    formula: Callable[[Tensor, Tensor], Tensor], grad: Tensor, boxes1: Tensor, boxes2: Tensor
) -> Tensor:
    """Return the backward operators' result, in a differentiable form."""
    rotated = boxes1.shape[1] == 5
    dtype = torch.float64 if rotated else computed_in(boxes1, boxes2)
    others = boxes2.to(dtype)
    vjp = torch.func.vjp(lambda boxes: formula(boxes[:, None], others[None]), boxes1.to(dtype))[1]
    (gradient,) = vjp(grad.to(dtype))
    return gradient.to(boxes1.dtype)


def _second_derivative(
    gradient: Callable[[Tensor, Tensor, Tensor], Tensor], ctx: Any, grad_grad: Tensor
) -> list[Tensor | None]:
    """Differentiate a backward operator by grad, boxes1 and boxes2."""
    tensors: list[Tensor] = list(ctx.saved_tensors)
    needed = [i for i in range(3) if ctx.needs_input_grad[i]]

    def of_needed(*values: Tensor) -> Tensor:
        every = list(tensors)
        for i, value in zip(needed, values, strict=True):
            every[i] = value
        return gradient(*every)

    vjp = torch.func.vjp(of_needed, *(tensors[i] for i in needed))[1]
    result: list[Tensor | None] = [None] * 3
    for i, value in zip(needed, vjp(grad_grad), strict=True):
        result[i] = value
    return result


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    boxes1, boxes2, *ctx.options = inputs
    ctx.save_for_backward(boxes1, boxes2)


def _by_both_sets(
    backward: Callable[..., Tensor], ctx: Any, grad: Tensor
) -> tuple[Tensor | None, ...]:
    """Return the gradients by both sets; `backward` computes that of the first."""
    boxes1, boxes2 = ctx.saved_tensors
    grad1 = grad2 = None
    if ctx.needs_input_grad[0]:
        grad1 = backward(grad, boxes1, boxes2, *ctx.options)
    if ctx.needs_input_grad[1]:
        kind, *rest = ctx.options
        grad2 = backward(grad.mT, boxes2, boxes1, _SWAPPED.get(kind, kind), *rest)
    return grad1, grad2, *(None for _ in ctx.options)


def _box_iou_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return _by_both_sets(_box_iou_backward, ctx, grad)


def _box_iou_rotated_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return _by_both_sets(_box_iou_rotated_backward, ctx, grad)


def _backward_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, boxes1, boxes2, *ctx.options = inputs
    ctx.save_for_backward(grad, boxes1, boxes2)


def _box_iou_backward_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    kind, eps = ctx.options
    formula = functools.partial(overlap, kind=kind, eps=eps)
    gradient = functools.partial(_gradient, formula)
    return *_second_derivative(gradient, ctx, grad_grad), None, None


def _box_iou_rotated_backward_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    (kind,) = ctx.options
    gradient = functools.partial(_gradient, functools.partial(rotated_overlap, kind=kind))
    return *_second_derivative(gradient, ctx, grad_grad), None


box_iou = operator(
    "box_iou",
    fake=_fake,
    setup_context=_setup,
    backward=_box_iou_vjp,
    vmap=one_call_each,
    onnx="boxes",
    note="kind: iou, iof (of boxes1), iof2 (of boxes2), generalized, distance or complete.",
)
_box_iou_backward = operator(
    "box_iou_backward",
    fake=contiguous_like(1),
    setup_context=_backward_setup,
    backward=_box_iou_backward_vjp,
    vmap=one_call_each,
)
box_iou_rotated = operator(
    "box_iou_rotated",
    fake=_fake,
    setup_context=_setup,
    backward=_box_iou_rotated_vjp,
    vmap=one_call_each,
    note="kind: iou, iof (of boxes1) or iof2 (of boxes2).",
)
_box_iou_rotated_backward = operator(
    "box_iou_rotated_backward",
    fake=contiguous_like(1),
    setup_context=_backward_setup,
    backward=_box_iou_rotated_backward_vjp,
    vmap=one_call_each,
)
