"""Moves rotated boxes, the formats XYWHR, CXCYWHR and XYXYXYXY of tv_tensors.BoundingBoxes.

NOTE on rotated boxes. Corners go round the box: x1, y1 is the top left one before the box is
turned, then top right, bottom right, bottom left. Angles are in degrees, counter-clockwise as seen
in the picture. A map that shears makes a parallelogram of a box; the result is the smallest
rectangle around it that has a side along its longer side, as in torchvision. A mirrored box goes
round the other way, so its corners are renamed 2, 1, 4, 3. A clipped box is the smallest one with
the same directions around what is left of it. All of this runs in float64 on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ..sample.leaf import Leaf
from .options import Geometry, TargetOptions, canvas_windows
from .polygons import area, clip, project
from .rows import note_shares, numbers, scale_area

__all__ = [
    "ROTATED",
    "clamp_rotated",
    "convert_rotated",
    "cover_rotated",
    "move_rotated",
    "numbers_on_cpu",
    "rotated_corners",
    "rotated_sides",
]

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


def convert_rotated(value: Any, form: str, new: str) -> Any:
    """Return one sample's boxes in another rotated format."""
    return _rows_of_corners(rotated_corners(numbers_on_cpu(value), form), new)


def move_rotated(
    leaf: Leaf, areas: Sequence[Leaf], geometry: Geometry, options: TargetOptions
) -> None:
    """Move a leaf's boxes and scale their areas; unless they are kept, clip them first."""
    if options.boxes != "keep":
        _clip_leaf(leaf, areas, geometry.source())
    results, factors = [], []
    for value, matrix, centre in zip(
        leaf.samples(), geometry.matrix, geometry.centres(), strict=True
    ):
        corners = rotated_corners(numbers_on_cpu(value), leaf.format)
        moved = [_moved(box, matrix, centre) for box in corners]
        boxes = np.array([box for box, _ in moved]).reshape(-1, 4, 2)
        results.append(_rows_of_corners(boxes, leaf.format))
        factors += [factor for _, factor in moved]
    leaf.value = results[0] if leaf.batch is None else results
    for own in areas:
        scale_area(own, np.array(factors))


def _moved(corners: np.ndarray, matrix: np.ndarray, centre: np.ndarray) -> tuple[Any, float]:
    """Return a moved box [4, 2], and by how much area grows at its centre."""
    x, y, w = matrix @ np.array([*corners.mean(0), 1.0])
    side = matrix[2] @ np.array([*centre, 1.0])  # of the horizon
    points = project(corners, matrix, centre)
    if len(points) == 0 or w * side <= 0.0:
        nothing = np.zeros((4, 2)) if len(points) == 0 else _around(points, np.eye(2))
        return nothing, 0.0
    jacobian = (matrix[:2, :2] - np.outer((x / w, y / w), matrix[2, :2])) / w
    return _around(points, _axes(corners, jacobian)), abs(float(np.linalg.det(jacobian)))


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
    results, shares = [], []
    for value, window in zip(leaf.samples(), windows.tolist(), strict=True):
        corners = rotated_corners(numbers_on_cpu(value), leaf.format)
        clipped = corners.copy()
        for index, box in enumerate(corners):
            rest = clip(box, window)
            if rest is not box:
                axes = _axes(box, np.eye(2))
                clipped[index] = np.zeros((4, 2)) if rest is None else _around(rest, axes)
            shares.append(_share(rest, box))
        results.append(_rows_of_corners(clipped, leaf.format))
    _note(leaf, areas, shares)
    leaf.value = results[0] if leaf.batch is None else results


def _share(rest: np.ndarray | None, box: np.ndarray) -> float:
    if rest is None:
        return 0.0
    whole = area(box)
    return 1.0 if rest is box or whole == 0.0 else area(rest) / whole


def _note(leaf: Leaf, areas: Sequence[Leaf], shares: Sequence[float]) -> None:
    note_shares(leaf, np.array(shares))
    for own in areas:
        scale_area(own, np.array(shares))


def clamp_rotated(leaf: Leaf, areas: Sequence[Leaf], sizes: np.ndarray) -> None:
    """Clip boxes to the final images."""
    _clip_leaf(leaf, areas, canvas_windows(sizes))


def cover_rotated(leaf: Leaf, areas: Sequence[Leaf], covers: np.ndarray) -> None:
    """Note how much of boxes is left beside windows [B, 4]; hidden ones lose their size."""
    shares, results = [], []
    for value, window in zip(leaf.samples(), covers.tolist(), strict=True):
        corners = rotated_corners(numbers_on_cpu(value), leaf.format).copy()
        for index, box in enumerate(corners):
            hidden = clip(box, window)
            shares.append(1.0 if hidden is None else 1.0 - _share(hidden, box))
            if shares[-1] <= 0.0:
                corners[index] = 0.0
        results.append(_rows_of_corners(corners, leaf.format))
    _note(leaf, areas, shares)
    leaf.value = results[0] if leaf.batch is None else results
