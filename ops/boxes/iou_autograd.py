"""How pairwise overlaps run under torch: fake kernels, gradients and vmap.

The backward operators return the gradient of the first set of boxes. The second set's is the same
with the roles swapped. Second derivatives differentiate the formula,
written with torch's operators: iou_formulas.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._torch.differentiable import Differentiable
from .._torch.fake_checks import check_same_device, register_fake, require
from .._torch.vmap_calls import one_call_each
from .iou_formulas import computed_in, overlap, rotated_overlap

__all__ = ["box_iou", "box_iou_rotated", "result_dtype"]

box_iou = Differentiable("box_iou")
_box_iou_backward = Differentiable("box_iou_backward")
box_iou_rotated = Differentiable("box_iou_rotated")
_box_iou_rotated_backward = Differentiable("box_iou_rotated_backward")

_FUNCTIONS = {
    "iou": "box_iou",
    "iof": "box_iou",
    "iof2": "box_iou",
    "generalized": "generalized_box_iou",
    "distance": "distance_box_iou",
    "complete": "complete_box_iou",
}
_ROTATED = ("iou", "iof", "iof2")
_SWAPPED = {"iof": "iof2", "iof2": "iof"}  # the others are symmetric


def _check(op: str, boxes1: Tensor, boxes2: Tensor, numbers: int) -> None:
    """Check shapes and devices as csrc/torch/boxes/iou.cpp does for real tensors."""
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        require(
            boxes.dim() == 2 and boxes.shape[1] == numbers,
            lambda name=name, boxes=boxes: (  # type: ignore[misc]
                f"visops.{op}: {name} has shape {list(boxes.shape)}, must be [N, {numbers}]"
            ),
        )
    check_same_device(op, "boxes1", boxes1, "boxes2", boxes2)


def _check_kind(op: str, kind: str) -> None:
    require(
        kind in _FUNCTIONS,
        lambda: (
            f"visops.{op}: kind is '{kind}', must be iou, iof, iof2, generalized, distance or "
            "complete"
        ),
    )


def _check_rotated_kind(op: str, kind: str) -> None:
    require(kind in _ROTATED, lambda: f"visops.{op}: kind is '{kind}', must be iou, iof or iof2")


def _check_grad(op: str, grad: Tensor, boxes1: Tensor, boxes2: Tensor) -> None:
    shape = (boxes1.shape[0], boxes2.shape[0])
    require(
        grad.dim() == 2 and grad.shape[0] == shape[0] and grad.shape[1] == shape[1],
        lambda: f"visops.{op}: grad has shape {list(grad.shape)}, must be {list(shape)}",
    )
    check_same_device(op, "boxes1", boxes1, "grad", grad)


def result_dtype(boxes1: Tensor, boxes2: Tensor) -> torch.dtype:
    """Return the dtype of overlaps of boxes of these dtypes."""
    return torch.float64 if torch.float64 in (boxes1.dtype, boxes2.dtype) else torch.float32


def _empty_result(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    shape = (boxes1.shape[0], boxes2.shape[0])
    return boxes1.new_empty(shape, dtype=result_dtype(boxes1, boxes2))


@register_fake("box_iou")
def _box_iou_fake(boxes1: Tensor, boxes2: Tensor, kind: str = "iou", eps: float = 1e-7) -> Tensor:
    _check_kind("box_iou", kind)
    _check(_FUNCTIONS[kind], boxes1, boxes2, 4)
    return _empty_result(boxes1, boxes2)


@register_fake("box_iou_backward")
def _box_iou_backward_fake(
    grad: Tensor, boxes1: Tensor, boxes2: Tensor, kind: str, eps: float
) -> Tensor:
    _check_kind("box_iou_backward", kind)
    _check("box_iou_backward", boxes1, boxes2, 4)
    _check_grad("box_iou_backward", grad, boxes1, boxes2)
    return torch.empty_like(boxes1, memory_format=torch.contiguous_format)


@register_fake("box_iou_rotated")
def _box_iou_rotated_fake(boxes1: Tensor, boxes2: Tensor, kind: str = "iou") -> Tensor:
    _check_rotated_kind("box_iou_rotated", kind)
    _check("box_iou_rotated", boxes1, boxes2, 5)
    return _empty_result(boxes1, boxes2)


@register_fake("box_iou_rotated_backward")
def _box_iou_rotated_backward_fake(
    grad: Tensor, boxes1: Tensor, boxes2: Tensor, kind: str = "iou"
) -> Tensor:
    _check_rotated_kind("box_iou_rotated_backward", kind)
    _check("box_iou_rotated_backward", boxes1, boxes2, 5)
    _check_grad("box_iou_rotated_backward", grad, boxes1, boxes2)
    return torch.empty_like(boxes1, memory_format=torch.contiguous_format)


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


box_iou.register(setup_context=_setup, backward=_box_iou_vjp, vmap=one_call_each(box_iou))
_box_iou_backward.register(
    setup_context=_backward_setup,
    backward=_box_iou_backward_vjp,
    vmap=one_call_each(_box_iou_backward),
)
box_iou_rotated.register(
    setup_context=_setup,
    backward=_box_iou_rotated_vjp,
    vmap=one_call_each(box_iou_rotated),
)
_box_iou_rotated_backward.register(
    setup_context=_backward_setup,
    backward=_box_iou_rotated_backward_vjp,
    vmap=one_call_each(_box_iou_rotated_backward),
)
