"""COCO's run lengths, pixel by pixel and count by count; polygons, point by point."""

import itertools
import math
from collections.abc import Sequence

import numpy as np


def counts_of(mask: np.ndarray) -> list[int]:
    """Lengths of runs of 0s and 1s in turn, down the columns of a mask [H, W]."""
    counts, value = [0], False
    for x in range(mask.shape[1]):
        for y in range(mask.shape[0]):
            if (mask[y, x] != 0) != value:
                counts.append(0)
                value = not value
            counts[-1] += 1
    return counts


def mask_of(counts: Sequence[int], height: int, width: int) -> np.ndarray:
    """The mask [H, W] of some counts."""
    values = [k % 2 == 1 for k, count in enumerate(counts) for _ in range(count)]
    mask = np.zeros((height, width), bool)
    for at, value in enumerate(values):
        mask[at % height, at // height] = value
    return mask


def text_of(counts: Sequence[int]) -> bytes:
    """COCO's text: differences to the count two before, five bits a character."""
    text = bytearray()
    for k, count in enumerate(counts):
        number = count - counts[k - 2] if k > 2 else count
        while True:
            bits, number = number % 32, number // 32
            is_last = number == (-1 if bits >= 16 else 0)
            text.append(48 + bits + (0 if is_last else 32))
            if is_last:
                break
    return bytes(text)


def overlap(a: np.ndarray, b: np.ndarray, crowd: bool) -> float:
    """Intersection over union, or over the area of `a`; 0 without an intersection."""
    common = int((a & b).sum())
    whole = int(a.sum()) if crowd else int((a | b).sum())
    return common / whole if common else 0.0


def _line(xs: int, ys: int, xe: int, ye: int) -> list[tuple[int, int]]:
    """The points of a side, a step of the longer direction apart."""
    dx, dy = abs(xe - xs), abs(ye - ys)
    if dx == dy == 0:
        return [(xs, ys)]
    back = xs > xe if dx >= dy else ys > ye
    if back:
        xs, ys, xe, ye = xe, ye, xs, ys
    points = []
    for step in range(max(dx, dy) + 1):
        if dx >= dy:
            points.append((xs + step, math.trunc(ys + (ye - ys) / dx * step + 0.5)))
        else:
            points.append((math.trunc(xs + (xe - xs) / dy * step + 0.5), ys + step))
    return points[::-1] if back else points


def polygon(corners: np.ndarray, height: int, width: int) -> np.ndarray:
    """The mask of a polygon [K, 2], by COCO's rule."""
    grid = [(math.trunc(5 * x + 0.5), math.trunc(5 * y + 0.5)) for x, y in corners.tolist()]
    points = [p for a, b in zip(grid, grid[1:] + grid[:1], strict=True) for p in _line(*a, *b)]
    flips = np.zeros(height * width + 1, int)
    for (u0, v0), (u1, v1) in itertools.pairwise(points):
        left = min(u0, u1)
        if u0 == u1 or left % 5 != 2 or not 0 <= left // 5 < width:
            continue
        row = math.ceil(min(max((min(v0, v1) + 0.5) / 5 - 0.5, 0), height))
        flips[left // 5 * height + row] += 1
    inside = np.cumsum(flips[:-1]) % 2 == 1
    return inside.reshape(width, height).T
