"""Multi-scale deformable attention as its definition reads: Python loops in float64."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

Shapes = Sequence[tuple[int, int]]


def bilinear(level: np.ndarray, x: float, y: float) -> np.ndarray:
    """level [H, W, d] -> [d] at a place where pixel centres are integers; 0 outside."""
    result = np.zeros(level.shape[2])
    if not (math.isfinite(x) and math.isfinite(y)):
        return result
    for row in range(math.floor(y), math.floor(y) + 2):
        for column in range(math.floor(x), math.floor(x) + 2):
            if 0 <= row < level.shape[0] and 0 <= column < level.shape[1]:
                weight = (1 - abs(x - column)) * (1 - abs(y - row))
                result += weight * level[row, column]
    return result


def nearest(level: np.ndarray, u: float, v: float) -> np.ndarray:
    """level [H, W, d] -> [d] at the clamped pixel."""
    height, width, channels = level.shape
    if not (math.isfinite(u) and math.isfinite(v)) or level.size == 0:
        return np.zeros(channels)
    column = min(max(math.floor(u * width + 0.5), 0), width - 1)
    row = min(max(math.floor(v * height + 0.5), 0), height - 1)
    return np.asarray(level[row, column], np.float64)


def levels_of(value: np.ndarray, shapes: Shapes) -> Iterator[np.ndarray]:
    """[S, d] -> each level, [H, W, d]."""
    start = 0
    for height, width in shapes:
        yield value[start : start + height * width].reshape(height, width, value.shape[1])
        start += height * width


def attend(
    value: np.ndarray,
    shapes: Shapes,
    locations: np.ndarray,
    weights: np.ndarray,
    *,
    points: Sequence[int],
    method: str = "default",
) -> np.ndarray:
    """value [B, S, h, d], locations [B, Q, h, N, 2], weights [B, Q, h, N] -> [B, Q, h * d]."""
    batch, _, heads, channels = value.shape
    queries = locations.shape[1]
    result = np.zeros((batch, queries, heads, channels))
    level_of = [level for level, count in enumerate(points) for _ in range(count)]
    for b in range(batch):
        for h in range(heads):
            levels = list(levels_of(value[b, :, h].astype(np.float64), shapes))
            for q in range(queries):
                for n, level in enumerate(level_of):
                    u, v = (float(position) for position in locations[b, q, h, n])
                    height, width = shapes[level]
                    if method == "discrete":
                        sample = nearest(levels[level], u, v)
                    else:
                        sample = bilinear(levels[level], u * width - 0.5, v * height - 0.5)
                    result[b, q, h] += float(weights[b, q, h, n]) * sample
    return result.reshape(batch, queries, heads * channels)
