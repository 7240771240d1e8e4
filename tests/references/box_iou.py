"""Pairwise overlaps, straight from their definitions, number by number.

Every step is one operation on NumPy scalars of one type, in the order of torchvision's formulas, so
results can be compared bit for bit, except for the arctangent, which is the C library's. Where a
denominator is 0, the quotient is 0; torchvision has NaN.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

KINDS = ("iou", "generalized", "distance", "complete")

Numbers = Sequence[Any]


def quotient(a: Any, b: Any) -> Any:
    return type(b)(0) if b == 0 else a / b


def overlap(a: Numbers, b: Numbers, kind: str = "iou", eps: float = 1e-7) -> Any:
    """The overlap of boxes x1, y1, x2, y2, which are scalars of one NumPy type."""
    number = type(a[0])
    zero, one, two = number(0), number(1), number(2)
    area_a = (a[2] - a[0]) * (a[3] - a[1])
    area_b = (b[2] - b[0]) * (b[3] - b[1])
    width = np.maximum(zero, np.minimum(a[2], b[2]) - np.maximum(a[0], b[0]))
    height = np.maximum(zero, np.minimum(a[3], b[3]) - np.maximum(a[1], b[1]))
    inter = width * height
    union = area_a + area_b - inter
    iou = quotient(inter, union)
    if kind == "iou":
        return iou
    # The smallest box around both.
    width = np.maximum(zero, np.maximum(a[2], b[2]) - np.minimum(a[0], b[0]))
    height = np.maximum(zero, np.maximum(a[3], b[3]) - np.minimum(a[1], b[1]))
    if kind == "generalized":
        hull = width * height
        return iou - quotient(hull - union, hull)
    x = (a[0] + a[2]) / two - (b[0] + b[2]) / two
    y = (a[1] + a[3]) / two - (b[1] + b[3]) / two
    distance = iou - quotient(x * x + y * y, width * width + height * height + number(eps))
    if kind == "distance":
        return distance
    difference = angle(a) - angle(b)
    v = number(4 / math.pi**2) * (difference * difference)
    alpha = quotient(v, one - iou + v + number(eps))
    return distance - alpha * v


def angle(box: Numbers) -> Any:
    """Arctangent of width / height: pi / 2 if the height is 0, and 0 if both are."""
    width, height = box[2] - box[0], box[3] - box[1]
    return width if width == 0 and height == 0 else np.arctan(width / height)


def overlaps(
    boxes1: np.ndarray, boxes2: np.ndarray, kind: str = "iou", eps: float = 1e-7
) -> np.ndarray:
    """Overlaps [N, M] of boxes [N, 4] and [M, 4], computed in their common floating dtype."""
    result = np.empty((len(boxes1), len(boxes2)), boxes1.dtype)
    with np.errstate(all="ignore"):
        for i, a in enumerate(boxes1):
            for j, b in enumerate(boxes2):
                result[i, j] = overlap(list(a), list(b), kind, eps)
    return result
