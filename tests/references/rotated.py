"""Rotated boxes in exact arithmetic: polygons of fractions, clipped one by the other.

A box is centre x, centre y, width, height, and an angle in radians that takes (1, 0) to
(cos, sin). Irrational sines and cosines are fractions too, right to 2^-160: areas computed from
them are off by some 1e-45, times the size of the boxes. Nothing else is rounded.

The kernels clip one box's edges by the other box in float64. Here a polygon goes through four half
planes, another way to the same area (Sutherland and Hodgman, "Reentrant polygon clipping", 1974).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from .nms import by_score

BITS = 160

Point = tuple[Fraction, Fraction]
Polygon = list[Point]


class Rectangle(NamedTuple):
    """A box whose angle is given by its cosine and sine."""

    x: Fraction
    y: Fraction
    width: Fraction
    height: Fraction
    cosine: Fraction
    sine: Fraction


def exact(x: Any, y: Any, width: Any, height: Any, cosine: Any, sine: Any) -> Rectangle:
    """A rectangle of exact numbers: integers, or fractions such as ``Fraction(3, 5)``."""
    return Rectangle(*(Fraction(v) for v in (x, y, width, height, cosine, sine)))


def rectangle(box: Sequence[Any]) -> Rectangle:
    """A rectangle of finite floats cx, cy, w, h, angle, each taken exactly."""
    x, y, width, height, angle = (Fraction(float(v)) for v in box)
    return Rectangle(x, y, width, height, *cosine_and_sine(angle))


def is_inert(box: Sequence[Any]) -> bool:
    """Whether a box overlaps nothing, whatever is around it: its size is 0 or unreasonable."""
    x, y, width, height, angle = (float(v) for v in box)
    reasonable = all(abs(v) <= 1e150 for v in (x, y, math.hypot(width, height) / 2))
    least = min(width / 2, height / 2, width * height)
    return not (reasonable and math.isfinite(angle) and width > 0 and least >= 1e-290)


@functools.cache
def cosine_and_sine(angle: Fraction) -> tuple[Fraction, Fraction]:
    """Within 2^-160: Taylor's series of the angle less whole turns."""
    # Fixed point: numbers are integers, times 2^-bits.
    bits = BITS + 20 + max(0, math.frexp(float(angle))[1])
    turn = 2 * pi(bits)
    rest = (angle.numerator << bits) // angle.denominator
    rest -= (rest + turn // 2) // turn * turn  # [-pi, pi]
    sums = [0, 0]
    term, n = 1 << bits, 0
    while term:
        sums[n % 2] += (1, 1, -1, -1)[n % 4] * term
        n += 1
        term = ((abs(rest) * term) >> bits) // n
    rounded = [Fraction(s >> (bits - BITS), 1 << BITS) for s in sums]
    return rounded[0], rounded[1] if rest >= 0 else -rounded[1]


@functools.cache
def pi(bits: int) -> int:
    """Pi times 2^bits, by Machin's formula."""

    def arctangent(inverse: int) -> int:  # of 1 / inverse
        power, total, n = (1 << (bits + 20)) // inverse, 0, 1
        while power:
            total += (power if n % 4 == 1 else -power) // n
            power //= inverse**2
            n += 2
        return total

    return (16 * arctangent(5) - 4 * arctangent(239)) >> 20


def corners(box: Rectangle) -> Polygon:
    """Counter-clockwise in coordinates whose y points up."""
    half = box.width / 2, box.height / 2
    offsets = [(sx * half[0], sy * half[1]) for sx, sy in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    return [
        (box.x + x * box.cosine - y * box.sine, box.y + x * box.sine + y * box.cosine)
        for x, y in offsets
    ]


def area(polygon: Polygon) -> Fraction:
    total = Fraction(0)
    for i, (x, y) in enumerate(polygon):
        before = polygon[i - 1]
        total += before[0] * y - x * before[1]
    return total / 2


def clipped(polygon: Polygon, a: Point, b: Point) -> Polygon:
    """The part of a convex polygon left of the line from a to b, or on it."""

    def side(p: Point) -> Fraction:
        return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])

    sides = [side(p) for p in polygon]
    result = []
    for i, (p, s) in enumerate(zip(polygon, sides, strict=True)):
        before, s_before = polygon[i - 1], sides[i - 1]
        if (s > 0 > s_before) or (s < 0 < s_before):
            t = s_before / (s_before - s)
            result.append((before[0] + t * (p[0] - before[0]), before[1] + t * (p[1] - before[1])))
        if s >= 0:
            result.append(p)
    return result


def intersection(a: Rectangle, b: Rectangle) -> Fraction:
    """The area of the intersection; widths and heights are not negative."""
    distance = (a.x - b.x) ** 2 + (a.y - b.y) ** 2
    # Circles about them: (r + s)^2 <= 2 (r^2 + s^2).
    if 2 * distance > a.width**2 + a.height**2 + b.width**2 + b.height**2:
        return Fraction(0)
    polygon, others = corners(a), corners(b)
    for i, corner in enumerate(others):
        if polygon:
            polygon = clipped(polygon, others[i - 1], corner)
    return area(polygon)


def iou(a: Rectangle, b: Rectangle) -> Fraction:
    """Intersection over union; 0 for two boxes without area."""
    both = intersection(a, b)
    union = area(corners(a)) + area(corners(b)) - both
    return both / union if union > 0 else Fraction(0)


def ious(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """IoU [N, M] of boxes [N, 5] and [M, 5], rounded once; 0 where one is inert."""
    result = np.zeros((len(boxes), len(others)))
    first, second = ([None if is_inert(b) else rectangle(b) for b in bs] for bs in (boxes, others))
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            if boxes is others and j < i:  # exact, hence symmetric
                result[i, j] = result[j, i]
            elif a and b:
                result[i, j] = float(iou(a, b))
    return result


def nms_rotated(
    overlaps: np.ndarray,
    scores: np.ndarray,
    iou_threshold: float,
    idxs: np.ndarray | None = None,
    max_output: int | None = None,
    score_threshold: float | None = None,
) -> list[int]:
    """Indices of kept boxes, from their ious() [N, N]; boxes with different ids never meet."""
    left = by_score(scores)
    if score_threshold is not None:
        least = scores.dtype.type(score_threshold)
        left = [i for i in left if scores[i] > least]
    kept: list[int] = []
    while left and (max_output is None or len(kept) < max_output):
        best = left.pop(0)
        kept.append(best)
        over = overlaps[best] > iou_threshold
        if idxs is not None:
            over &= idxs == idxs[best]
        left = [i for i in left if not over[i]]
    return kept
