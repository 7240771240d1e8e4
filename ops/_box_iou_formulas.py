"""What torch needs to know of pairwise overlaps: fake results, gradients, vmap.

The operators give the gradient of the first set of boxes. That of the second is the same with the
roles swapped, as every measure is symmetric. What is differentiated again is the formula itself,
written with torch's operators.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._differentiable import Differentiable

__all__ = ["box_iou"]

box_iou = Differentiable("box_iou")
_box_iou_backward = Differentiable("box_iou_backward")

_FUNCTIONS = {
    "iou": "box_iou",
    "generalized": "generalized_box_iou",
    "distance": "distance_box_iou",
    "complete": "complete_box_iou",
}


def _check(op: str, boxes1: Tensor, boxes2: Tensor, numbers: int) -> None:
    """Shapes and devices as csrc/ops/box_iou.cpp checks them: fake tensors never get there."""
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        torch._check(
            boxes.dim() == 2 and boxes.shape[1] == numbers,
            lambda name=name, boxes=boxes: (  # type: ignore[misc]
                f"visops.{op}: {name} has shape {list(boxes.shape)}, must be [N, {numbers}]"
            ),
        )
    _check_device(op, boxes1, "boxes2", boxes2)


def _check_device(op: str, boxes1: Tensor, name: str, tensor: Tensor) -> None:
    torch._check(
        tensor.device == boxes1.device,
        lambda: (
            f"visops.{op}: {name} is on {tensor.device}, boxes1 is on {boxes1.device}; "
            "all tensors must be on one device"
        ),
    )


def _check_grad(op: str, grad: Tensor, boxes1: Tensor, boxes2: Tensor) -> None:
    shape = (boxes1.shape[0], boxes2.shape[0])
    torch._check(
        grad.dim() == 2 and grad.shape[0] == shape[0] and grad.shape[1] == shape[1],
        lambda: f"visops.{op}: grad has shape {list(grad.shape)}, must be {list(shape)}",
    )
    _check_device(op, boxes1, "grad", grad)


def _result_dtype(boxes1: Tensor, boxes2: Tensor) -> torch.dtype:
    return torch.float64 if torch.float64 in (boxes1.dtype, boxes2.dtype) else torch.float32


def _empty_result(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    shape = (boxes1.shape[0], boxes2.shape[0])
    return boxes1.new_empty(shape, dtype=_result_dtype(boxes1, boxes2))


@torch.library.register_fake("visops::box_iou")
def _box_iou_fake(boxes1: Tensor, boxes2: Tensor, kind: str = "iou", eps: float = 1e-7) -> Tensor:
    _check(_FUNCTIONS.get(kind, "box_iou"), boxes1, boxes2, 4)
    return _empty_result(boxes1, boxes2)


@torch.library.register_fake("visops::box_iou_backward")
def _box_iou_backward_fake(
    grad: Tensor, boxes1: Tensor, boxes2: Tensor, kind: str, eps: float
) -> Tensor:
    _check("box_iou_backward", boxes1, boxes2, 4)
    _check_grad("box_iou_backward", grad, boxes1, boxes2)
    return torch.empty_like(boxes1, memory_format=torch.contiguous_format)


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b; 0, also for its gradient, where b is 0."""
    return a / torch.where(b == 0, math.inf, b)


def _computed_in(boxes1: Tensor, boxes2: Tensor) -> torch.dtype:
    single = all(b.is_floating_point() and b.dtype != torch.float64 for b in (boxes1, boxes2))
    return torch.float32 if single else torch.float64


def _overlap(boxes1: Tensor, boxes2: Tensor, kind: str, eps: float) -> Tensor:
    """NOTE [ Pairs of boxes ] in csrc/core/box_pair.h, for boxes of one floating dtype."""
    a, b = boxes1[:, None], boxes2[None]

    def area(sides: Tensor) -> Tensor:
        return sides[..., 0] * sides[..., 1]

    sides = torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])
    inter = area(sides.clamp(min=0))
    both = area(a[..., 2:] - a[..., :2]) + area(b[..., 2:] - b[..., :2]) - inter
    iou = _quotient(inter, both)
    if kind == "iou":
        return iou
    sides = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    sides = sides.clamp(min=0)
    if kind == "generalized":
        hull = area(sides)
        return iou - _quotient(hull - both, hull)
    between = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
    distance = iou - _quotient((between**2).sum(-1), (sides**2).sum(-1) + eps)
    if kind == "distance":
        return distance
    v = 4 / math.pi**2 * (_angle(a) - _angle(b)) ** 2
    alpha = _quotient(v, 1 - iou + v + eps).detach()
    return distance - alpha * v


def _angle(boxes: Tensor) -> Tensor:
    """Angles of the diagonals; points have one of 0, without a gradient."""
    sides = boxes[..., 2:] - boxes[..., :2]
    point = (sides == 0).all(-1, keepdim=True)
    width, height = torch.where(point, sides.new_tensor([0.0, 1.0]), sides).unbind(-1)
    return torch.atan(width / height)


def _gradient(
    overlap: Callable[[Tensor, Tensor], Tensor], grad: Tensor, boxes1: Tensor, boxes2: Tensor
) -> Tensor:
    """Return what the backward operators compute, as something to differentiate."""
    dtype = _computed_in(boxes1, boxes2)
    others = boxes2.to(dtype)
    _, vjp = torch.func.vjp(lambda boxes: overlap(boxes, others), boxes1.to(dtype))
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

    _, vjp = torch.func.vjp(of_needed, *(tensors[i] for i in needed))
    result: list[Tensor | None] = [None] * 3
    for i, value in zip(needed, vjp(grad_grad), strict=True):
        result[i] = value
    return result


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    boxes1, boxes2, *ctx.options = inputs
    ctx.save_for_backward(boxes1, boxes2)


def _box_iou_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    boxes1, boxes2 = ctx.saved_tensors
    grad1 = grad2 = None
    if ctx.needs_input_grad[0]:
        grad1 = _box_iou_backward(grad, boxes1, boxes2, *ctx.options)
    if ctx.needs_input_grad[1]:
        grad2 = _box_iou_backward(grad.mT, boxes2, boxes1, *ctx.options)
    return grad1, grad2, None, None


def _backward_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, boxes1, boxes2, *ctx.options = inputs
    ctx.save_for_backward(grad, boxes1, boxes2)


def _box_iou_backward_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    kind, eps = ctx.options
    overlap = functools.partial(_overlap, kind=kind, eps=eps)
    gradient = functools.partial(_gradient, overlap)
    return *_second_derivative(gradient, ctx, grad_grad), None, None


def _vmap_of(call: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, int]]:
    """One call after another: sets of boxes have no dimension of a batch."""

    def rule(info: Any, in_dims: Any, *arguments: Any) -> tuple[Tensor, int]:
        results = [
            call(
                *(
                    argument if dim is None else argument.select(dim, i)
                    for argument, dim in zip(arguments, in_dims, strict=True)
                )
            )
            for i in range(info.batch_size)
        ]
        return torch.stack(results), 0

    return rule


box_iou.register(setup_context=_setup, backward=_box_iou_vjp, vmap=_vmap_of(box_iou))
_box_iou_backward.register(
    setup_context=_backward_setup,
    backward=_box_iou_backward_vjp,
    vmap=_vmap_of(_box_iou_backward),
)
