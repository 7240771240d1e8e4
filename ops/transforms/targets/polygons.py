"""Moves polygons with their images, and clips them.

Coordinates are measured from pixel corners, as those of boxes. Clipping follows I. E. Sutherland
and G. W. Hodgman, "Reentrant polygon clipping", CACM 17(1), 1974: what a cut leaves of a polygon in
several parts stays one polygon, whose parts are joined along the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..sample.leaf import Leaf
from .coordinates import NEAR, with_unit_w
from .options import Geometry, TargetOptions, canvas_windows

__all__ = ["area", "clip", "cut_out", "finish_polygons", "move_polygons", "project"]

Polygons = list[np.ndarray]


def move_polygons(leaf: Leaf, geometry: Geometry, options: TargetOptions) -> None:
    """Move a leaf's polygons; unless boxes are kept, clip them first, as boxes are."""
    if options.boxes != "keep":
        _change_all(leaf, _clipped, geometry.source())
    samples = leaf.samples()
    matrices, centres = geometry.matrix, geometry.centres()
    moved = [
        [_moved(polygons, matrices[i], centres[i]) for polygons in objects]
        for i, objects in enumerate(samples)
    ]
    leaf.value = moved[0] if leaf.batch is None else moved


def finish_polygons(leaf: Leaf, sizes: np.ndarray, options: TargetOptions) -> None:
    """Clip a leaf's polygons to the final images, unless boxes are kept."""
    if options.boxes != "keep":
        _change_all(leaf, _clipped, canvas_windows(sizes))


def _change_all(
    leaf: Leaf, change: Callable[[Polygons, Sequence[float]], Polygons], windows: np.ndarray
) -> None:
    """Change each object's polygons, given its image's window."""
    changed = [
        [change(polygons, window) for polygons in objects]
        for objects, window in zip(leaf.samples(), windows.tolist(), strict=True)
    ]
    leaf.value = changed[0] if leaf.batch is None else changed


def _clipped(polygons: Polygons, window: Sequence[float]) -> Polygons:
    """Clip an object's polygons; those without area left are gone."""
    return [part for points in polygons if (part := clip(points, window)) is not None]


def clip(points: np.ndarray, window: Sequence[float]) -> np.ndarray | None:
    """Return what lies in a window x1, y1, x2, y2 of a polygon [K, 2]; None: nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from visops.transforms.targets.polygons import clip
    >>> clip(np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]]), (0, 0, 2, 9)).tolist()
    [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 4.0]]
    """
    low, high = points.min(0), points.max(0)
    x1, y1, x2, y2 = window
    if low[0] >= x1 and low[1] >= y1 and high[0] <= x2 and high[1] <= y2:
        return points
    for axis, edge, sign in ((0, x1, 1.0), (0, x2, -1.0), (1, y1, 1.0), (1, y2, -1.0)):
        points = _cut(points, sign * (points[:, axis] - edge), axis, edge)
        if len(points) < 3:
            return None
    return points if area(points) > 0.0 else None


def _cut(
    points: np.ndarray, distance: np.ndarray, axis: int | None = None, edge: float = 0.0
) -> np.ndarray:
    """Keep the part of a polygon [K, D] with a distance [K] of at least 0 from a line.

    `axis` and `edge` say that there, a coordinate has this value.
    """
    inside = distance >= 0.0
    if inside.all():
        return points
    if not inside.any():
        return points[:0]
    after, next_distance = np.roll(points, -1, 0), np.roll(distance, -1)
    crossing = inside != np.roll(inside, -1)
    share = distance / np.where(crossing, distance - next_distance, 1.0)
    crossings = points + share[:, None] * (after - points)
    if axis is not None:
        crossings[:, axis] = edge
    both = np.stack((points, crossings), 1).reshape(-1, points.shape[1])
    return both[np.stack((inside, crossing), 1).reshape(-1)]


def area(points: np.ndarray) -> float:
    """Return the area of a polygon [K, 2]."""
    x, y = (points - points[0]).T
    return abs(float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum())) / 2.0


def _moved(polygons: Polygons, matrix: np.ndarray, centre: np.ndarray) -> Polygons:
    moved = [project(points, matrix, centre) for points in polygons]
    return [points for points in moved if len(points) > 0]


def project(points: np.ndarray, matrix: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Move a polygon [K, 2] by a matrix [3, 3]; what is behind the horizon is cut off."""
    affine = bool((matrix[2] == (0.0, 0.0, 1.0)).all())
    if not affine:
        matrix = with_unit_w(matrix[None], centre[None])[0]
    x, y = points[:, 0], points[:, 1]
    rows = [m[0] * x + m[1] * y + m[2] for m in matrix[: 2 if affine else 3]]
    moved = np.stack(rows, -1)
    if affine:
        return moved
    moved = _cut(moved, moved[:, 2] - NEAR)
    return moved[:, :2] / moved[:, 2:]  # type: ignore[no-any-return]


def cut_out(leaf: Leaf, windows: np.ndarray) -> None:
    """Cut windows [B, 4] out of a leaf's polygons, which may leave up to four parts of each."""
    _change_all(leaf, _without, windows)


def _without(polygons: Polygons, window: Sequence[float]) -> Polygons:
    results = []
    x1, y1, x2, y2 = window
    far = np.inf
    around = ((-far, -far, x1, far), (x2, -far, far, far), (x1, -far, x2, y1), (x1, y2, x2, far))
    for points in polygons:
        if x1 >= x2 or y1 >= y2 or clip(points, window) is None:
            results.append(points)
        else:
            results += [part for side in around if (part := clip(points, side)) is not None]
    return results
