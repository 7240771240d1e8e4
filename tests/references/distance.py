"""Distances to the nearest pixel outside of a mask: all of them, one by one, in float64."""

from collections.abc import Sequence

import numpy as np


def length(metric: str, steps: Sequence[np.ndarray]) -> np.ndarray:
    parts = [np.abs(step) for step in steps]
    if metric == "taxicab":
        return np.asarray(sum(parts))
    if metric == "chessboard":
        return np.asarray(np.max(parts, axis=0))
    return np.sqrt(np.asarray(sum(part * part for part in parts)))


def distance_transform(
    mask: np.ndarray, metric: str = "euclidean", spacing: Sequence[float] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Distances, and the place of the nearest pixel outside: the first in raster order."""
    spacing = spacing or [1.0] * mask.ndim
    pixels = np.indices(mask.shape)
    distances = np.full(mask.shape, np.inf)
    positions = np.full((mask.ndim, *mask.shape), -1)
    for site in np.argwhere(mask == 0):  # in raster order
        steps = [s * (axis - at) for s, axis, at in zip(spacing, pixels, site, strict=True)]
        found = length(metric, steps)
        nearer = found < distances
        distances[nearer] = found[nearer]
        for axis, at in enumerate(site):
            positions[axis][nearer] = at
    return distances, positions


def distance_at(metric: str, spacing: Sequence[float], positions: np.ndarray) -> np.ndarray:
    """How far each pixel is from the place that was found for it."""
    pixels = np.indices(positions.shape[1:])
    steps = [s * (axis - at) for s, axis, at in zip(spacing, pixels, positions, strict=True)]
    return np.where(positions[0] >= 0, length(metric, steps), np.inf)
