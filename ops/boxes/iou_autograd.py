"""How pairwise overlaps run under torch: fake kernels, gradients and vmap.

The backward operators return the gradient of the first set of boxes. The second set's is the same
with the roles swapped. Second derivatives differentiate the formula,
written with torch's operators, below.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import operator
from .._torch.fakes import contiguous_like
from .._torch.vmap_calls import one_call_each

# The formulas of overlaps in torch's operators, for boxes that broadcast.
#
# They are what the kernels compute for all pairs: for second derivatives, and for boxes one to one.


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b; where b is 0, the quotient and its gradient are 0."""
    return a / torch.where(b == 0, math.inf, b)


def computed_in(boxes1: Tensor, boxes2: Tensor) -> torch.dtype:
    """Return the dtype that overlaps of upright boxes are computed in."""
    single = all(b.is_floating_point() and b.dtype != torch.float64 for b in (boxes1, boxes2))
    return torch.float32 if single else torch.float64


def area(sides: Tensor) -> Tensor:
    """Return width times height."""
    return sides[..., 0] * sides[..., 1]


def intersection(a: Tensor, b: Tensor) -> Tensor:
    """Return the area that boxes have in common."""
    sides = torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])
    return area(torch.relu(sides))  # clamp(min=0), whose gradient depends on torch's version


def hull_sides(a: Tensor, b: Tensor) -> Tensor:
    """Return width and height of the smallest box around two."""
    return torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])


def overlap(a: Tensor, b: Tensor, kind: str, eps: float) -> Tensor:
    """NOTE [ Pairs of boxes ] in csrc/core/boxes/iou.h, for boxes of one floating dtype.

    Boxes [..., 4] broadcast.
    """
    inter = intersection(a, b)
    if kind in ("iof", "iof2"):
        own = a if kind == "iof" else b
        return _quotient(inter, area(own[..., 2:] - own[..., :2]))
    both = area(a[..., 2:] - a[..., :2]) + area(b[..., 2:] - b[..., :2]) - inter
    iou = _quotient(inter, both)
    if kind == "iou":
        return iou
    sides = torch.relu(hull_sides(a, b))
    if kind == "generalized":
        hull = area(sides)
        return iou - _quotient(hull - both, hull)
    distance = iou - _quotient(centre_distance(a, b), (sides**2).sum(-1) + eps)
    if kind == "distance":
        return distance
    v = aspect_difference(a, b)
    alpha = _quotient(v, 1 - iou + v + eps).detach()
    return distance - alpha * v


def centre_distance(a: Tensor, b: Tensor) -> Tensor:
    """Return the squared distance of the boxes' centres."""
    between = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
    return (between**2).sum(-1)


def aspect_difference(a: Tensor, b: Tensor) -> Tensor:
    """Return what complete IoU calls v: how much the shapes differ, from 0 to 1."""
    return 4 / math.pi**2 * (_angle(a) - _angle(b)) ** 2


def _angle(boxes: Tensor) -> Tensor:
    """Return arctan(w / h), with finite derivatives for h = 0; for points, 0 without any."""
    sides = boxes[..., 2:] - boxes[..., :2]
    point = (sides == 0).all(-1, keepdim=True)
    width, height = torch.where(point, sides.new_tensor([0.0, 1.0]), sides).unbind(-1)
    sign = torch.where(height < 0, -1.0, 1.0).to(height.dtype)
    return torch.atan2(sign * width, sign * height)


def _clip(at: Tensor, step: Tensor, half: Tensor, outward: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the range of t with at + t * step in [-half, half], and a weight.

    The weight is for edges on the border; see NOTE [ Rotated gradient ] in
    csrc/core/boxes/iou.h.
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


def rotated_overlap(boxes1: Tensor, boxes2: Tensor, kind: str = "iou") -> Tensor:
    """Return the overlaps of float64 rotated boxes [..., 5], which broadcast.

    By the divergence theorem, the intersection's area is half the integral of p . n along its
    border. The border consists of each box's edges within the other; on an edge, p . n is constant.
    """
    a, b = boxes1.unbind(-1), boxes2.unbind(-1)
    right, left, top, bottom = _edges_within(a, b)
    twice = (right + left) * a[2] / 2 + (top + bottom) * a[3] / 2  # p from a's centre
    right, left, top, bottom = _edges_within(b, a)
    dx, dy = b[0] - a[0], b[1] - a[1]
    along = torch.cos(b[4]) * dx + torch.sin(b[4]) * dy
    across = torch.cos(b[4]) * dy - torch.sin(b[4]) * dx
    twice = twice + (right + left) * b[2] / 2 + (right - left) * along
    twice = twice + (top + bottom) * b[3] / 2 + (top - bottom) * across
    inter = twice / 2
    own = a[2] * a[3]
    whole = {"iou": own + b[2] * b[3] - inter, "iof": own, "iof2": b[2] * b[3]}[kind]
    iou = _quotient(inter, whole)
    return torch.where(_is_inert(boxes1) | _is_inert(boxes2), 0.0, iou)


def _is_inert(boxes: Tensor) -> Tensor:
    return ~((boxes[..., 2:4] > 0).all(-1) & boxes.isfinite().all(-1))


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
