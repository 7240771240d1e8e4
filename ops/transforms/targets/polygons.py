"""Moves polygons with their images, and clips them.

Coordinates are measured from pixel corners, as those of boxes. Clipping follows I. E. Sutherland
and G. W. Hodgman, "Reentrant polygon clipping", CACM 17(1), 1974: what a cut leaves of a polygon in
several parts stays one polygon, whose parts are joined along the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..sample.leaf import Leaf
from ..sample.polygons import Objects, points_of, with_points
from .coordinates import NEAR, with_unit_w
from .options import Geometry, TargetOptions, canvas_windows

__all__ = ["area", "clip", "clip_each", "cut_out", "finish_polygons", "move_polygons", "project"]

Polygons = list[np.ndarray]


def move_polygons(leaf: Leaf, geometry: Geometry, options: TargetOptions) -> None:
    """Move a leaf's polygons; unless boxes are kept, clip them first, as boxes are."""
    if options.boxes != "keep":
        _clip_all(leaf, geometry.source())
    samples = leaf.samples()
    matrices, centres = geometry.matrix, geometry.centres()
    moved = [_moved_objects(objects, matrices[i], centres[i]) for i, objects in enumerate(samples)]
    leaf.value = moved[0] if leaf.batch is None else moved


def finish_polygons(leaf: Leaf, sizes: np.ndarray, options: TargetOptions) -> None:
    """Clip a leaf's polygons to the final images, unless boxes are kept."""
    if options.boxes != "keep":
        _clip_all(leaf, canvas_windows(sizes))


def _change_all(
    leaf: Leaf, change: Callable[[Polygons, Sequence[float]], Polygons], windows: np.ndarray
) -> None:
    """Change each object's polygons, given its image's window."""
    changed = [
        [change(polygons, window) for polygons in objects]
        for objects, window in zip(leaf.samples(), windows.tolist(), strict=True)
    ]
    leaf.value = changed[0] if leaf.batch is None else changed


def _clip_all(leaf: Leaf, windows: np.ndarray) -> None:
    """Clip each object's polygons to its image's window; those without area left are gone."""
    clipped = []
    for objects, window in zip(leaf.samples(), windows.tolist(), strict=True):
        parts = iter(clip_each([points for polygons in objects for points in polygons], window))
        # zip() asks the polygons first, so that no part of the next object is lost.
        each = [[part for _, part in zip(polygons, parts, strict=False)] for polygons in objects]
        clipped.append([[part for part in polygons if part is not None] for polygons in each])
    leaf.value = clipped[0] if leaf.batch is None else clipped


def clip_each(polygons: Polygons, window: Sequence[float]) -> list[np.ndarray | None]:
    """Clip polygons as `clip` does, all of them at once.

    Examples
    --------
    >>> import numpy as np
    >>> from visops.transforms.targets.polygons import clip_each
    >>> triangle = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> [p if p is None else p.tolist() for p in clip_each([triangle, triangle - 9], (0, 0, 2, 9))]
    [[[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 4.0]], None]
    """
    if not polygons:
        return []
    points = np.concatenate(polygons)
    counts = np.array([len(p) for p in polygons])
    x1, y1, x2, y2 = window
    for axis, edge, sign in ((0, x1, 1.0), (0, x2, -1.0), (1, y1, 1.0), (1, y2, -1.0)):
        distance = sign * (points[:, axis] - edge)
        if (distance >= 0.0).all():
            continue
        points, kept = _cut(points, distance, counts, axis, edge)
        owners = np.repeat(np.arange(len(counts)), counts * 2)[kept]
        counts = np.bincount(owners, minlength=len(counts))
        if (counts < 3).any():  # no polygon any more
            points = points[(counts >= 3)[owners]]
            counts = np.where(counts >= 3, counts, 0)
    ends, some = np.cumsum(counts).tolist(), _areas(points, counts) > 0.0
    each = zip(ends, counts.tolist(), some.tolist(), strict=True)
    return [points[end - count : end] if any_left else None for end, count, any_left in each]


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
    return clip_each([points], window)[0]


def _cut(
    points: np.ndarray,
    distance: np.ndarray,
    counts: np.ndarray,
    axis: int | None = None,
    edge: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Keep the part of polygons with a distance of at least 0 from a line.

    Parameters
    ----------
    points : ndarray ``[P, D]``
        Those of all polygons, one after another.
    distance : ndarray ``[P]``
    counts : ndarray ``[N]``
        How many points each polygon has.
    axis, edge
        Say that there, a coordinate has this value.

    Returns
    -------
    points : ndarray ``[Q, D]``
    kept : ndarray of bool ``[2 P]``
        Which are kept of each point and of the crossing behind it.
    """
    after = _after(counts)
    inside = distance >= 0.0
    crossing = inside != inside[after]
    share = distance / np.where(crossing, distance - distance[after], 1.0)
    crossings = points + share[:, None] * (points[after] - points)
    if axis is not None:
        crossings[:, axis] = edge
    both = np.stack((points, crossings), 1).reshape(-1, points.shape[1])
    kept = np.stack((inside, crossing), 1).reshape(-1)
    return both[kept], kept


def _after(counts: np.ndarray) -> np.ndarray:
    """Return the place of the point that follows each one: the first follows the last."""
    ends, some = np.cumsum(counts), counts > 0
    after = np.arange(1, counts.sum() + 1)
    after[ends[some] - 1] = (ends - counts)[some]
    return after


def area(points: np.ndarray) -> float:
    """Return the area of a polygon [K, 2]."""
    return float(_areas(points, np.array([len(points)]))[0])


def _areas(points: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the areas [N] of polygons with as many points each, one after another in [P, 2]."""
    areas, some = np.zeros(len(counts)), counts > 0
    if some.any():
        starts = (np.cumsum(counts) - counts)[some]
        x, y = (points - np.repeat(points[starts], counts[some], 0)).T
        after = _after(counts)
        areas[some] = np.abs(np.add.reduceat(x * y[after] - x[after] * y, starts)) / 2.0
    return areas


def _moved_objects(objects: Objects, matrix: np.ndarray, centre: np.ndarray) -> Objects:
    if (matrix[2] == (0.0, 0.0, 1.0)).all():  # all points at once
        return with_points(objects, project(points_of(objects), matrix, centre))
    return [_moved(polygons, matrix, centre) for polygons in objects]


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
    moved, _ = _cut(moved, moved[:, 2] - NEAR, np.array([len(moved)]))
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
