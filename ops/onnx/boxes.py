"""Overlaps of all pairs of boxes, by arithmetic."""

import torch

from .graph import Array, constant, node, where


def box_iou(*, boxes1: Array, boxes2: Array, kind: str, eps: float) -> Array:
    """Write the formulas, operation by operation, in the dtype that the library computes in."""
    given = (boxes1.dtype, boxes2.dtype)
    result = torch.float64 if torch.float64 in given else torch.float32
    exact = any(d == torch.float64 or not d.is_floating_point for d in given)
    dtype = torch.float64 if exact else torch.float32
    one = [boxes1.to(dtype).take(i, axis=1).unsqueeze(1) for i in range(4)]  # [N, 1]
    two = [boxes2.to(dtype).take(i, axis=1).unsqueeze(0) for i in range(4)]  # [1, M]
    return _overlap(one, two, kind, eps).to(result)


def _overlap(one: list[Array], two: list[Array], kind: str, eps: float) -> Array:
    dtype = one[0].dtype

    def lesser(i: int) -> Array:
        return where(one[i] < two[i], one[i], two[i])

    def greater(i: int) -> Array:
        return where(one[i] > two[i], one[i], two[i])

    def clamped(side: Array) -> Array:
        return node("Max", side, constant(0, dtype))

    def divided(numerator: Array, denominator: Array) -> Array:
        """Divide, with 0 for a finite number over 0."""
        return numerator / where(denominator.equals(0), float("inf"), denominator)

    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (one, two)]
    inter = clamped(lesser(2) - greater(0)) * clamped(lesser(3) - greater(1))
    if kind in ("iof", "iof2"):
        own, other = (0, two) if kind == "iof" else (1, one)
        known = other[0].equals(other[0])
        for i in (1, 2, 3):
            known = known & other[i].equals(other[i])
        return divided(inter, where(known, areas[own], float("nan")))
    both = areas[0] + areas[1] - inter
    iou = divided(inter, both)
    if kind == "iou":
        return iou
    width, height = (
        clamped(where(one[i + 2] > two[i + 2], one[i + 2], two[i + 2]) - lesser(i)) for i in (0, 1)
    )
    if kind == "generalized":
        hull = width * height
        return iou - divided(hull - both, hull)
    x, y = ((one[i] + one[i + 2]) * 0.5 - (two[i] + two[i + 2]) * 0.5 for i in (0, 1))
    distance = iou - divided(x * x + y * y, width * width + height * height + eps)
    if kind == "distance":
        return distance
    difference = _angle(one) - _angle(two)
    v = 0.4052847345693511 * (difference * difference)  # 4 / pi^2
    alpha = divided(v, 1 - iou + v + eps)
    return distance - alpha * v


def _angle(box: list[Array]) -> Array:
    """Return arctan(w / h): pi / 2 for flat boxes, 0 for points."""
    width, height = box[2] - box[0], box[3] - box[1]
    ratio = where(width.equals(0) & height.equals(0), 0.0, width / height)
    # ONNX Runtime has Atan for float32 only.
    return node("Atan", ratio.to(torch.float32)).to(box[0].dtype)
