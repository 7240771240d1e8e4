"""Maps as their definition reads, in float64: an image read where a map leads, pixel by pixel."""

import math
from collections.abc import Sequence

import numpy as np


def _cubic(distance: float, a: float = -0.75) -> float:
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def _weight(mode: str, distance: float) -> float:
    return _cubic(distance) if mode == "bicubic" else max(0.0, 1.0 - abs(distance))


def _inside(i: int, n: int, padding: str) -> int | None:
    """The pixel that stands for pixel i."""
    if 0 <= i < n:
        return i
    if padding == "constant":
        return None
    names = {"replicate": "edge", "reflect": "reflect", "symmetric": "symmetric"}
    reach = max(-i, i - n + 1)
    if padding == "circular" or n == 1:
        return i % n
    padded = np.pad(np.arange(n), reach, mode=names[padding])  # type: ignore[call-overload]
    return int(padded[i + reach])


def remap(
    image: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    mode: str,
    padding: str,
    fill: Sequence[float],
) -> np.ndarray:
    """An image [C, H, W] at positions [h, w], before it is rounded."""
    channels, height, width = image.shape
    out = np.zeros((channels, *x.shape))

    def pixel(c: int, row: int, column: int) -> float:
        i, j = _inside(row, height, padding), _inside(column, width, padding)
        return fill[c] if i is None or j is None else float(image[c, i, j])

    for (row, column), px in np.ndenumerate(x):
        py = float(y[row, column])
        for c in range(channels):
            if mode == "nearest":
                out[c, row, column] = pixel(c, math.floor(py + 0.5), math.floor(px + 0.5))
                continue
            reach = 2 if mode == "bicubic" else 1
            total = 0.0
            for i in range(math.floor(py) - reach + 1, math.floor(py) + reach + 1):
                for j in range(math.floor(px) - reach + 1, math.floor(px) + reach + 1):
                    total += _weight(mode, py - i) * _weight(mode, px - j) * pixel(c, i, j)
            out[c, row, column] = total
    return out


def _spline(distance: float) -> float:
    d = abs(distance)
    if d < 1:
        return (4 - 6 * d**2 + 3 * d**3) / 6
    return (2 - d) ** 3 / 6 if d < 2 else 0.0


def displaced_positions(
    grid: np.ndarray, size: tuple[int, int], matrix: np.ndarray, spline: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Where a control grid [gh, gw, 2] and then a matrix [3, 3] lead each pixel."""
    height, width = size
    rows, columns = grid.shape[:2]
    weight = _spline if spline else (lambda d: max(0.0, 1.0 - abs(d)))
    x, y = np.zeros(size), np.zeros(size)
    for i in range(height):
        for j in range(width):
            u = i * (rows - 1) / max(height - 1, 1)
            v = j * (columns - 1) / max(width - 1, 1)
            shift = np.zeros(2)
            for k in range(math.floor(u) - 2, math.floor(u) + 4):
                for m in range(math.floor(v) - 2, math.floor(v) + 4):
                    point = grid[min(max(k, 0), rows - 1), min(max(m, 0), columns - 1)]
                    shift += weight(u - k) * weight(v - m) * point
            px, py, depth = matrix @ (j + shift[0], i + shift[1], 1.0)
            x[i, j], y[i, j] = px / depth, py / depth
    return x, y
