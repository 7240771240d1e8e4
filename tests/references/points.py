"""Point samples as their definition reads: Python loops in float64."""

import math

import numpy as np


def _mirrored(x: float, low: float, high: float) -> float:
    """x folded into [low, high] by mirrors at both ends."""
    if high <= low:
        return low
    while not low <= x <= high:
        x = 2 * low - x if x < low else 2 * high - x
    return x


def _coordinate(u: float, size: int, padding: str, align_corners: bool) -> float | None:
    """Where u lies among pixel centres; None if nothing is read."""
    if not math.isfinite(u):
        return None
    x = u * (size - 1) if align_corners else u * size - 0.5
    if padding == "zeros":
        return x if -1 < x < size else None
    if padding == "reflection":
        x = _mirrored(x, 0, size - 1) if align_corners else _mirrored(x, -0.5, size - 0.5)
    return min(max(x, 0.0), size - 1.0)


def _read(plane: np.ndarray, y: int, x: int) -> float:
    inside = 0 <= y < plane.shape[0] and 0 <= x < plane.shape[1]
    return float(plane[y, x]) if inside else 0.0


def _sample(plane: np.ndarray, x: float, y: float, mode: str) -> float:
    if mode == "nearest":
        return _read(plane, round(y), round(x))  # half to even
    top, left = math.floor(y), math.floor(x)
    total = 0.0
    for row, of_row in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, of_column in ((left, 1 - (x - left)), (left + 1, x - left)):
            if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
                total += of_row * of_column * _read(plane, row, column)
    return total


def sample(
    maps: np.ndarray,
    points: np.ndarray,
    *,
    mode: str = "bilinear",
    padding: str = "zeros",
    align_corners: bool = False,
) -> np.ndarray:
    """maps [B, C, H, W], points [B, P, 2] -> [B, C, P]."""
    out = np.zeros((*maps.shape[:2], points.shape[1]))
    height, width = maps.shape[2:]
    for b, p in np.ndindex(points.shape[0], points.shape[1]):
        x = _coordinate(float(points[b, p, 0]), width, padding, align_corners)
        y = _coordinate(float(points[b, p, 1]), height, padding, align_corners)
        if x is None or y is None:
            continue
        for c in range(maps.shape[1]):
            out[b, c, p] = _sample(maps[b, c], x, y, mode)
    return out
