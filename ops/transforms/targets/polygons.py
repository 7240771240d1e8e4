"""Moves polygons with their images, and clips them.

Coordinates are measured from pixel corners, as those of boxes. What a cut leaves of a polygon in
several parts stays one polygon, whose parts are joined along the edge:
csrc/core/chain/moving.cpp.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ... import _native
from ..sample.leaf import Leaf
from ..sample.polygons import Objects, grouped, split_points
from .options import Geometry, TargetOptions, canvas_windows
from .rows import NEAR, note_shares, numbers, scale_area, with_unit_w

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


# Moves rotated boxes, the formats XYWHR, CXCYWHR and XYXYXYXY of tv_tensors.BoundingBoxes.
#
# NOTE on rotated boxes. Corners go round the box: x1, y1 is the top left one before the box is
# turned, then top right, bottom right, bottom left. Angles are in degrees, counter-clockwise as
# seen in the picture. A map without shear moves the four corners, also those of annotations that
# are no exact rectangles, such as DOTA's. A map that shears makes a parallelogram of a box; the
# result is the smallest rectangle around it that has a side along its longer side, as in
# torchvision. A mirrored box goes round the other way, so its corners are renamed 2, 1, 4, 3. A
# clipped box is the smallest one with the same directions around what is left of it. That box
# sticks out again, so what is left is kept beside it (`Leaf.outlines`): shares are measured on it,
# and the next clip starts from it. All of this runs in float64 on the CPU.

ROTATED = ("XYWHR", "CXCYWHR", "XYXYXYXY")


def numbers_on_cpu(value: Any) -> np.ndarray:
    """Return boxes as a float64 array."""
    rows = numbers(value)
    return rows.detach().cpu().numpy() if isinstance(rows, Tensor) else rows


def rotated_corners(rows: np.ndarray, form: str) -> np.ndarray:
    """Return corners [R, 4, 2] of rows [R, 5 or 8]."""
    if form == "XYXYXYXY":
        return rows.reshape(-1, 4, 2)
    position, (width, height, angle) = rows[:, :2], rows[:, 2:].T
    turn = np.deg2rad(angle)
    cos, sin = np.cos(turn), np.sin(turn)
    along = width[:, None] * np.stack((cos, -sin), -1)
    down = height[:, None] * np.stack((sin, cos), -1)
    first = position - (along + down) / 2 if form == "CXCYWHR" else position
    return np.stack((first, first + along, first + along + down, first + down), 1)


def _rows_of_corners(corners: np.ndarray, form: str) -> np.ndarray:
    """Undo `rotated_corners`, for rectangles."""
    if form == "XYXYXYXY":
        return corners.reshape(-1, 8)
    along, down = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1]
    position = (corners[:, 0] + corners[:, 2]) / 2 if form == "CXCYWHR" else corners[:, 0]
    angle = np.rad2deg(np.arctan2(-along[:, 1], along[:, 0]))
    sides = (np.linalg.norm(along, axis=1), np.linalg.norm(down, axis=1))
    return np.concatenate((position, np.stack((*sides, angle), -1)), 1)


def rotated_sides(rows: np.ndarray, form: str) -> np.ndarray:
    """Return widths and heights, [R, 2]."""
    return _rows_of_corners(rotated_corners(rows, form), "CXCYWHR")[:, 2:4]


def convert_rotated(leaf: Leaf, new: str) -> None:
    """Give a leaf's boxes another rotated format."""
    shapes = [outlines_of(leaf, value) for value in leaf.samples()]
    boxes = [rotated_corners(numbers_on_cpu(value), leaf.format) for value in leaf.samples()]
    leaf.format = new
    _store(leaf, boxes, shapes)


def move_rotated(
    leaf: Leaf, areas: Sequence[Leaf], geometry: Geometry, options: TargetOptions
) -> None:
    """Move a leaf's boxes and scale their areas; unless they are kept, clip them first."""
    if options.boxes != "keep":
        _clip_leaf(leaf, areas, geometry.source())
    boxes: list[Any] = []
    outlines: list[list[np.ndarray] | None] = []
    factors: list[float] = []
    for (corners, shapes), matrix, centre in zip(
        _shapes(leaf), geometry.matrix, geometry.centres(), strict=True
    ):
        moved = [_moved(*own, matrix, centre) for own in zip(corners, shapes, strict=True)]
        boxes.append([box for box, _, _ in moved])
        outlines.append(None if options.boxes == "keep" else [shape for _, shape, _ in moved])
        factors += [factor for *_, factor in moved]
    _store(leaf, boxes, outlines)
    for own in areas:
        scale_area(own, np.array(factors))


def _shapes(leaf: Leaf) -> list[tuple[np.ndarray, Sequence[np.ndarray]]]:
    """Return each sample's corners [N, 4, 2], and the polygon [K, 2] that is left of each box."""
    found: list[tuple[np.ndarray, Sequence[np.ndarray]]] = []
    for value in leaf.samples():
        corners = rotated_corners(numbers_on_cpu(value), leaf.format)
        found.append((corners, outlines_of(leaf, value) or list(corners)))
    return found


def outlines_of(leaf: Leaf, value: Any) -> list[np.ndarray] | None:
    """Return what is left of the boxes of one of a leaf's samples; None: all of them."""
    return next((outlines for own, outlines in leaf.outlines if own is value), None)


def joined_outlines(
    leaf: Leaf, parts: Sequence[Sequence[Any]], joined: Sequence[Any]
) -> tuple[tuple[Any, list[np.ndarray]], ...]:
    """Return what is left of boxes that were joined: `joined` holds the samples of each part."""
    found = []
    for values, whole in zip(parts, joined, strict=True):
        shapes = [outlines_of(leaf, value) for value in values]
        if any(own is not None for own in shapes):
            pairs = zip(values, shapes, strict=True)
            own = [
                shape
                for value, kept in pairs
                for shape in kept or rotated_corners(numbers_on_cpu(value), leaf.format)
            ]
            found.append((whole, own))
    return tuple(found)


def _store(leaf: Leaf, boxes: Sequence[Any], outlines: Sequence[list[np.ndarray] | None]) -> None:
    """Set a leaf's boxes to corners, a sequence of [4, 2] a sample, and what is left of them."""
    values = [_rows_of_corners(np.array(own).reshape(-1, 4, 2), leaf.format) for own in boxes]
    leaf.value = values[0] if leaf.batch is None else values
    pairs = zip(values, outlines, strict=True)
    leaf.outlines = tuple((value, own) for value, own in pairs if own is not None)


def _moved(
    corners: np.ndarray, outline: np.ndarray, matrix: np.ndarray, centre: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return a moved box [4, 2], its outline, and by how much area grows at its centre."""
    x, y, w = matrix @ np.array([*corners.mean(0), 1.0])
    side = matrix[2] @ np.array([*centre, 1.0])  # of the horizon
    points = project(outline, matrix, centre)
    if len(points) == 0:
        return np.zeros((4, 2)), np.zeros((4, 2)), 0.0
    if w * side <= 0.0:
        return _around(points, np.eye(2)), points, 0.0
    jacobian = (matrix[:2, :2] - np.outer((x / w, y / w), matrix[2, :2])) / w
    growth = float(np.linalg.det(jacobian))
    if _keeps_shapes(matrix, jacobian):
        box = project(corners, matrix, centre)[[1, 0, 3, 2] if growth < 0.0 else slice(None)]
    else:
        box = _around(points, _axes(corners, jacobian))
    return box, points, abs(growth)


def _keeps_shapes(matrix: np.ndarray, linear: np.ndarray) -> bool:
    """Return whether a map turns, mirrors, shifts and scales, but neither shears nor narrows."""
    products = linear.T @ linear
    size = products.trace() / 2
    off = products - size * np.eye(2)
    return not matrix[2, :2].any() and bool(np.abs(off).max() <= 1e-9 * size)


def _axes(corners: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Return the unit vectors along and down a moved box, as rows."""
    along, down = linear @ (corners[1] - corners[0]), linear @ (corners[3] - corners[0])
    if np.linalg.det(linear) < 0.0:
        along = -along
    width, height = np.linalg.norm(along), np.linalg.norm(down)
    if max(width, height) == 0.0:
        return np.eye(2)
    x, y = along / width if width >= height else np.array([down[1], -down[0]]) / height
    return np.array([[x, y], [-y, x]])


def _around(points: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Return the smallest box [4, 2] with these directions around points [K, 2]."""
    positions = points @ axes.T
    (u1, v1), (u2, v2) = positions.min(0), positions.max(0)
    return np.array([[u1, v1], [u2, v1], [u2, v2], [u1, v2]]) @ axes


def _clip_leaf(leaf: Leaf, areas: Sequence[Leaf], windows: np.ndarray) -> None:
    """Clip boxes to windows [B, 4], and note what is left of them."""
    boxes: list[Any] = []
    outlines: list[list[np.ndarray] | None] = []
    shares: list[float] = []
    for (corners, shapes), window in zip(_shapes(leaf), windows.tolist(), strict=True):
        clipped, rests = corners.copy(), list(shapes)
        for index, outline in enumerate(shapes):
            rest = clip(outline, window)
            shares.append(_share(rest, outline))
            if rest is not outline:
                rests[index] = np.zeros((4, 2)) if rest is None else rest
                axes = _axes(corners[index], np.eye(2))
                clipped[index] = _around(rests[index], axes)
        boxes.append(clipped)
        outlines.append(rests)
    _note(leaf, areas, shares)
    _store(leaf, boxes, outlines)


def _share(rest: np.ndarray | None, whole: np.ndarray) -> float:
    if rest is None:
        return 0.0
    size = area(whole)
    return 1.0 if rest is whole or size == 0.0 else area(rest) / size


def _note(leaf: Leaf, areas: Sequence[Leaf], shares: Sequence[float]) -> None:
    note_shares(leaf, np.array(shares))
    for own in areas:
        scale_area(own, np.array(shares))


def clamp_rotated(leaf: Leaf, areas: Sequence[Leaf], sizes: np.ndarray) -> None:
    """Clip boxes to the final images."""
    _clip_leaf(leaf, areas, canvas_windows(sizes))


def cover_rotated(leaf: Leaf, areas: Sequence[Leaf], covers: np.ndarray) -> None:
    """Note how much of boxes is left beside windows [B, 4]; hidden ones lose their size."""
    boxes: list[Any] = []
    outlines: list[list[np.ndarray] | None] = []
    shares: list[float] = []
    for (corners, shapes), window in zip(_shapes(leaf), covers.tolist(), strict=True):
        left = corners.copy()
        for index, outline in enumerate(shapes):
            hidden = clip(outline, window)
            shares.append(1.0 if hidden is None else 1.0 - _share(hidden, outline))
            if shares[-1] <= 0.0:
                left[index] = 0.0
        boxes.append(left)
        outlines.append(list(shapes))
    _note(leaf, areas, shares)
    _store(leaf, boxes, outlines)
