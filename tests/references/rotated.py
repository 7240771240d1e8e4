"""Rotated boxes in exact arithmetic: polygons of fractions, clipped one by the other.

A box is centre x, centre y, width, height, and an angle in radians that takes (1, 0) to
(cos, sin). Irrational sines and cosines are fractions too, right to 2^-160: areas computed from
them are off by some 1e-45, times the size of the boxes. Nothing else is rounded.

The kernels clip one box's edges by the other box in float64. Here a polygon goes through four half
planes, another way to the same area (Sutherland and Hodgman, "Reentrant polygon clipping", 1974).
"""

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
# Points x / w, y / w as integers x, y and w > 0: no fraction is reduced, which would take longest.
Homogeneous = list[tuple[int, ...]]


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


def twice_area(polygon: Homogeneous) -> Fraction:
    total = Fraction(0)
    for (x0, y0, w0), (x1, y1, w1) in zip([polygon[-1], *polygon[:-1]], polygon, strict=True):
        total += Fraction(x0 * y1 - x1 * y0, w0 * w1)
    return total


def clipped(polygon: Homogeneous, a: Sequence[int], b: Sequence[int]) -> Homogeneous:
    """The part of a convex polygon left of the line from a to b, or on it."""
    # A point's distance from the line, times w and the distance of a and b.
    sides = [(b[0] - a[0]) * (y - a[1] * w) - (b[1] - a[1]) * (x - a[0] * w) for x, y, w in polygon]
    result: Homogeneous = []
    for i, (p, s) in enumerate(zip(polygon, sides, strict=True)):
        before, s_before = polygon[i - 1], sides[i - 1]
        if s > 0 > s_before:
            result.append(tuple(s * v - s_before * u for u, v in zip(p, before, strict=True)))
        elif s < 0 < s_before:
            result.append(tuple(s_before * u - s * v for u, v in zip(p, before, strict=True)))
        if s >= 0:
            result.append(p)
    return result


class Outline(NamedTuple):
    """A rectangle with what all its intersections need."""

    box: Rectangle
    corners: Polygon
    denominator: int  # common to the corners' coordinates

    def integers(self, scale: int) -> Homogeneous:
        """The corners times `scale`, a multiple of the denominator."""
        return [(int(x * scale), int(y * scale), 1) for x, y in self.corners]


def outline(box: Rectangle) -> Outline:
    found = corners(box)
    return Outline(box, found, math.lcm(*(v.denominator for point in found for v in point)))


def areas(a: Outline, b: Outline) -> tuple[Fraction, Fraction]:
    """The intersection's and the union's, in one unit; sides are not negative."""
    distance = (a.box.x - b.box.x) ** 2 + (a.box.y - b.box.y) ** 2
    sides = (a.box.width, a.box.height, b.box.width, b.box.height)
    # Circles about them: (r + s)^2 <= 2 (r^2 + s^2).
    if 2 * distance > sum(side**2 for side in sides):
        return Fraction(0), Fraction(1)
    scale = math.lcm(a.denominator, b.denominator)
    polygon, others = a.integers(scale), b.integers(scale)
    sum_of_areas = twice_area(polygon) + twice_area(others)
    for i, corner in enumerate(others):
        if polygon:
            polygon = clipped(polygon, others[i - 1], corner)
    both = twice_area(polygon) if polygon else Fraction(0)
    unit = 2 * scale**2
    return both / unit, (sum_of_areas - both) / unit


def intersection(a: Rectangle, b: Rectangle) -> Fraction:
    """The area of the intersection."""
    return areas(outline(a), outline(b))[0]


def iou(a: Rectangle, b: Rectangle) -> Fraction:
    """Intersection over union; 0 for two boxes without area."""
    return ratio(outline(a), outline(b))


def ratio(a: Outline, b: Outline) -> Fraction:
    both, union = areas(a, b)
    return both / union if union > 0 else Fraction(0)


def ious(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """IoU [N, M] of boxes [N, 5] and [M, 5], rounded once; 0 where one is inert."""
    result = np.zeros((len(boxes), len(others)))
    first, second = (
        [None if is_inert(b) else outline(rectangle(b)) for b in bs] for bs in (boxes, others)
    )
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            if boxes is others and j < i:  # exact, hence symmetric
                result[i, j] = result[j, i]
            elif a and b:
                result[i, j] = float(ratio(a, b))
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
