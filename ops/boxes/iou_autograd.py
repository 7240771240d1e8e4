"""How pairwise overlaps run under torch: fake kernels, gradients and vmap.

The backward operators return the gradient of the first set of boxes. Every measure is symmetric, so
the second set's is the same with the roles swapped. Second derivatives differentiate the formula,
written with torch's operators.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.differentiable import Differentiable
from .._torch.fake_checks import check_same_device, register_fake
from .._torch.vmap_calls import one_call_each

__all__ = ["box_iou", "box_iou_rotated"]

box_iou = Differentiable("box_iou")
_box_iou_backward = Differentiable("box_iou_backward")
box_iou_rotated = Differentiable("box_iou_rotated")
_box_iou_rotated_backward = Differentiable("box_iou_rotated_backward")

_FUNCTIONS = {
    "iou": "box_iou",
    "generalized": "generalized_box_iou",
    "distance": "distance_box_iou",
    "complete": "complete_box_iou",
}


def _check(op: str, boxes1: Tensor, boxes2: Tensor, numbers: int) -> None:
    """Check shapes and devices as csrc/torch/boxes/iou.cpp does for real tensors."""
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        torch._check(
            boxes.dim() == 2 and boxes.shape[1] == numbers,
            lambda name=name, boxes=boxes: (  # type: ignore[misc]
                f"visops.{op}: {name} has shape {list(boxes.shape)}, must be [N, {numbers}]"
            ),
        )
    check_same_device(op, "boxes1", boxes1, "boxes2", boxes2)


def _check_kind(op: str, kind: str) -> None:
    torch._check(
        kind in _FUNCTIONS,
        lambda: f"visops.{op}: kind is '{kind}', must be iou, generalized, distance or complete",
    )


def _check_grad(op: str, grad: Tensor, boxes1: Tensor, boxes2: Tensor) -> None:
    shape = (boxes1.shape[0], boxes2.shape[0])
    torch._check(
        grad.dim() == 2 and grad.shape[0] == shape[0] and grad.shape[1] == shape[1],
        lambda: f"visops.{op}: grad has shape {list(grad.shape)}, must be {list(shape)}",
    )
    check_same_device(op, "boxes1", boxes1, "grad", grad)


def _result_dtype(boxes1: Tensor, boxes2: Tensor) -> torch.dtype:
    return torch.float64 if torch.float64 in (boxes1.dtype, boxes2.dtype) else torch.float32


def _empty_result(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    shape = (boxes1.shape[0], boxes2.shape[0])
    return boxes1.new_empty(shape, dtype=_result_dtype(boxes1, boxes2))


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
def _box_iou_rotated_fake(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    _check("box_iou_rotated", boxes1, boxes2, 5)
    return _empty_result(boxes1, boxes2)


@register_fake("box_iou_rotated_backward")
def _box_iou_rotated_backward_fake(grad: Tensor, boxes1: Tensor, boxes2: Tensor) -> Tensor:
    _check("box_iou_rotated_backward", boxes1, boxes2, 5)
    _check_grad("box_iou_rotated_backward", grad, boxes1, boxes2)
    return torch.empty_like(boxes1, memory_format=torch.contiguous_format)


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b; where b is 0, the quotient and its gradient are 0."""
    return a / torch.where(b == 0, math.inf, b)


def _computed_in(boxes1: Tensor, boxes2: Tensor) -> torch.dtype:
    single = all(b.is_floating_point() and b.dtype != torch.float64 for b in (boxes1, boxes2))
    return torch.float32 if single else torch.float64


def _overlap(boxes1: Tensor, boxes2: Tensor, kind: str, eps: float) -> Tensor:
    """NOTE [ Pairs of boxes ] in csrc/core/boxes/pair.h, for boxes of one floating dtype."""
    a, b = boxes1[:, None], boxes2[None]

    def area(sides: Tensor) -> Tensor:
        return sides[..., 0] * sides[..., 1]

    sides = torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])
    inter = area(torch.relu(sides))  # clamp(min=0), whose gradient depends on torch's version
    both = area(a[..., 2:] - a[..., :2]) + area(b[..., 2:] - b[..., :2]) - inter
    iou = _quotient(inter, both)
    if kind == "iou":
        return iou
    sides = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    sides = torch.relu(sides)
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
    """Return arctan(w / h), with finite derivatives for h = 0; for points, 0 without any."""
    sides = boxes[..., 2:] - boxes[..., :2]
    point = (sides == 0).all(-1, keepdim=True)
    width, height = torch.where(point, sides.new_tensor([0.0, 1.0]), sides).unbind(-1)
    sign = torch.where(height < 0, -1.0, 1.0)
    return torch.atan2(sign * width, sign * height)


def _clip(at: Tensor, step: Tensor, half: Tensor, outward: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the range of t with at + t * step in [-half, half], and a weight.

    The weight is for edges on the border; see NOTE [ Rotated gradient ] in
    csrc/core/boxes/rotated_gradient.h.
    """
    flat = step == 0
    step = torch.where(flat, 1.0, step)
    first, second = (-half - at) / step, (half - at) / step
    low = torch.where(flat, torch.where(at.abs() > half, 1.0, -1.0), torch.minimum(first, second))
    high = torch.where(flat, 1.0, torch.maximum(first, second))
    on_border = torch.where((at > 0) == (outward > 0), 0.5, 0.0)
    return low, high, torch.where(flat & (at.abs() == half), on_border, 1.0)


def _edges_within(a: Sequence[Tensor], b: Sequence[Tensor]) -> list[Tensor]:
    """Return the lengths of a's edges at +w/2, -w/2, +h/2, -h/2 within box b."""
    cosine, sine = torch.cos(b[4]), torch.sin(b[4])
    dx, dy = a[0] - b[0], a[1] - b[1]
    x, y = cosine * dx + sine * dy, cosine * dy - sine * dx
    turn = a[4] - b[4]
    cosine, sine = torch.cos(turn), torch.sin(turn)
    along = cosine * a[2] / 2, sine * a[2] / 2
    across = -sine * a[3] / 2, cosine * a[3] / 2
    lengths = []
    for out, step, length in ((along, across, a[3]), (across, along, a[2])):
        for sign in (1, -1):
            out_x, out_y = sign * out[0], sign * out[1]
            low_x, high_x, weight_x = _clip(x + out_x, step[0], b[2] / 2, out_x)
            low_y, high_y, weight_y = _clip(y + out_y, step[1], b[3] / 2, out_y)
            low = torch.maximum(low_x, low_y).clamp(min=-1)
            high = torch.minimum(high_x, high_y).clamp(max=1)
            lengths.append(torch.relu(high - low) * length / 2 * (weight_x * weight_y))
    return lengths


def _rotated_overlap(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Return the overlaps of float64 rotated boxes.

    By the divergence theorem, the intersection's area is half the integral of p . n along its
    border. The border consists of each box's edges within the other; on an edge, p . n is constant.
    """
    a, b = boxes1[:, None].unbind(-1), boxes2[None].unbind(-1)
    right, left, top, bottom = _edges_within(a, b)
    twice = (right + left) * a[2] / 2 + (top + bottom) * a[3] / 2  # p from a's centre
    right, left, top, bottom = _edges_within(b, a)
    dx, dy = b[0] - a[0], b[1] - a[1]
    along = torch.cos(b[4]) * dx + torch.sin(b[4]) * dy
    across = torch.cos(b[4]) * dy - torch.sin(b[4]) * dx
    twice = twice + (right + left) * b[2] / 2 + (right - left) * along
    twice = twice + (top + bottom) * b[3] / 2 + (top - bottom) * across
    inter = twice / 2
    iou = _quotient(inter, a[2] * a[3] + b[2] * b[3] - inter)
    return torch.where(_is_inert(boxes1)[:, None] | _is_inert(boxes2)[None], 0.0, iou)


def _is_inert(boxes: Tensor) -> Tensor:
    return ~((boxes[:, 2:4] > 0).all(-1) & boxes.isfinite().all(-1))


def _gradient(
    overlap: Callable[[Tensor, Tensor], Tensor], grad: Tensor, boxes1: Tensor, boxes2: Tensor
) -> Tensor:
    """Return the backward operators' result, in a differentiable form."""
    rotated = boxes1.shape[1] == 5
    dtype = torch.float64 if rotated else _computed_in(boxes1, boxes2)
    others = boxes2.to(dtype)
    vjp = torch.func.vjp(lambda boxes: overlap(boxes, others), boxes1.to(dtype))[1]
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
        grad2 = backward(grad.mT, boxes2, boxes1, *ctx.options)
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
    overlap = functools.partial(_overlap, kind=kind, eps=eps)
    gradient = functools.partial(_gradient, overlap)
    return *_second_derivative(gradient, ctx, grad_grad), None, None


def _box_iou_rotated_backward_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    gradient = functools.partial(_gradient, _rotated_overlap)
    return tuple(_second_derivative(gradient, ctx, grad_grad))


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
