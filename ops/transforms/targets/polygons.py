"""Moves polygons with their images, and clips them.

Coordinates are measured from pixel corners, as those of boxes. What a cut leaves of a polygon in
several parts stays one polygon, whose parts are joined along the edge:
csrc/core/chain/moving.cpp.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ... import _native
from ..sample.leaf import Leaf
from ..sample.polygons import Objects, grouped, split_points
from .options import Geometry, TargetOptions, canvas_windows
from .rows import NEAR, with_unit_w

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
        parts = clip_each([points for polygons in objects for points in polygons], window)
        each = grouped(parts, map(len, objects))
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
    points, counts = _native.clip_polygons(*_together(polygons), window)
    return [part if len(part) else None for part in split_points(points, counts.tolist())]


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


def _together(polygons: Polygons) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of polygons, one after another, and how many each has."""
    return np.concatenate(polygons), np.array([len(points) for points in polygons])


def area(points: np.ndarray) -> float:
    """Return the area of a polygon [K, 2]."""
    return float(_native.polygon_areas(points, np.array([len(points)]))[0])


def _moved_objects(objects: Objects, matrix: np.ndarray, centre: np.ndarray) -> Objects:
    flat = [points for polygons in objects for points in polygons]
    if not flat:
        return [[] for _ in objects]
    each = grouped(_project(flat, matrix, centre), map(len, objects))
    return [[part for part in polygons if len(part)] for polygons in each]


def project(points: np.ndarray, matrix: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Move a polygon [K, 2] by a matrix [3, 3]; what is behind the horizon is cut off."""
    return _project([points], matrix, centre)[0]


def _project(polygons: Polygons, matrix: np.ndarray, centre: np.ndarray) -> Polygons:
    if not (matrix[2] == (0.0, 0.0, 1.0)).all():
        matrix = with_unit_w(matrix[None], centre[None])[0]
    points, counts = _native.move_polygons(*_together(polygons), matrix, NEAR)
    return split_points(points, counts.tolist())


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
