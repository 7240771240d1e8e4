"""Rotated boxes of every kind, and thresholds for them."""

import math
from collections.abc import Callable, Iterator

import numpy as np

NAN, INF, PI = float("nan"), float("inf"), math.pi

Rng = np.random.Generator


def turned_boxes(rng: Rng, count: int) -> np.ndarray:
    """In all directions, a few around each place."""
    position = rng.uniform(0, 4.0 * max(count, 1) ** 0.5, (count, 2))
    return np.c_[position, rng.uniform(2, 12, (count, 2)), rng.uniform(-7, 7, count)]


def clustered_boxes(rng: Rng, count: int) -> np.ndarray:
    """As from a detector: some ten boxes around each object."""
    objects = turned_boxes(rng, count // 10 + 1)[rng.integers(0, count // 10 + 1, count)]
    return objects + rng.normal(0, 1, (count, 5)) * [0.5, 0.5, 0.3, 0.3, 0.1]


def thin_boxes(rng: Rng, count: int) -> np.ndarray:
    """Like ships and vehicles in a row, seen from above."""
    position = rng.normal(0, 3, (count, 2))
    size = np.c_[rng.uniform(20, 60, count), rng.uniform(1, 4, count)]
    return np.c_[position, size, 0.7 + rng.normal(0, 0.05, count)]


def grid_boxes(rng: Rng, count: int) -> np.ndarray:
    """Whole numbers and quarter turns: edges and corners that touch and coincide."""
    quarters = rng.integers(-4, 5, count) * (PI / 2)
    return np.c_[rng.integers(-3, 4, (count, 2)), rng.integers(1, 5, (count, 2)), quarters]


def mixed_boxes(rng: Rng, count: int) -> np.ndarray:
    size = 10.0 ** rng.uniform(-3, 3, (count, 1)) * rng.uniform(0.5, 2, (count, 2))
    return np.c_[rng.uniform(-10, 10, (count, 2)), size, rng.uniform(-4, 4, count)]


def odd_boxes(rng: Rng, count: int) -> np.ndarray:
    boxes = clustered_boxes(rng, count)
    for i in rng.permutation(count)[: count // 2]:
        values = [NAN, INF, -INF] if rng.random() < 0.5 else [0.0, -1.0, -0.0]
        column = rng.integers(0, 5) if values[0] != 0 else rng.integers(2, 4)
        boxes[i, column] = values[rng.integers(0, 3)]
    return boxes


BOXES: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "turned": turned_boxes,
    "clusters": clustered_boxes,
    "thin": thin_boxes,
    "grid": grid_boxes,
    "mixed": mixed_boxes,
    "odd": odd_boxes,
}


def thresholds(rng: Rng, overlaps: np.ndarray) -> Iterator[float]:
    """Thresholds that no overlap is close to."""
    for threshold in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, *rng.uniform(0, 1, 4)):
        if not (abs(overlaps - threshold) < 1e-12).any():
            yield float(threshold)
