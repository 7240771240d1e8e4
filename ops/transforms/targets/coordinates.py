"""The arithmetic of moving boxes and points by 3x3 matrices, on NumPy arrays or tensors.

Coordinates follow the half-pixel convention, in float64. Rows are [R, 2] or [R, 4]; matrices are
always NumPy arrays, [R, 3, 3] or [1, 3, 3]. CPU tensors without gradients arrive as NumPy arrays,
since for a dozen boxes NumPy takes a fraction of torch's time.

Beyond the horizon. A perspective divides by w, which is 0 along one line of the source plane: the
horizon. The side with the image's centre is in front; the other side, behind, has no place in the
picture. A box is cut along a line just in front of the horizon, and one entirely behind it becomes
0, 0, 0, 0. A point behind goes to NOWHERE, outside every picture.
"""

from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

NOWHERE = -32768.0  # representable in float16 and int16, too
NEAR = 1e-4  # least distance from the horizon, relative to that of the image's centre


def _module(rows: Any) -> ModuleType:
    return torch if isinstance(rows, Tensor) else np


def _matrix(matrix: np.ndarray, rows: Any) -> Any:
    if isinstance(rows, Tensor):
        return torch.from_numpy(matrix).to(rows.device, non_blocking=True)
    return matrix


def _is_affine(matrix: np.ndarray) -> bool:
    return bool((matrix[:, 2] == (0.0, 0.0, 1.0)).all())


def with_unit_w(matrix: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Scale matrices so that w is 1 at the sources' centres, [R, 2] x, y."""
    w = (matrix[:, 2, :2] * centres).sum(1) + matrix[:, 2, 2]
    return matrix / np.where(w == 0.0, 1.0, w)[:, None, None]


def move_points(rows: Any, matrix: np.ndarray, centres: np.ndarray) -> tuple[Any, Any]:
    """Move points.

    Parameters
    ----------
    rows : Tensor or ndarray, float64 ``[R, 2]``
        x, y.
    matrix : ndarray, float64 ``[R, 3, 3]`` or ``[1, 3, 3]``
        Source to destination.
    centres : ndarray, float64 ``[R, 2]`` or ``[1, 2]``
        x, y of the source images' centres.

    Returns
    -------
    Tensor or ndarray, ``[R, 2]``
        The moved points.
    Tensor or ndarray of bool, ``[R]``, or None
        Which of them are in front of the horizon; None: all.
    """
    xp = _module(rows)
    affine = _is_affine(matrix)
    m = _matrix(matrix if affine else with_unit_w(matrix, centres), rows)
    x, y = rows[:, 0], rows[:, 1]
    u = m[:, 0, 0] * x + m[:, 0, 1] * y + m[:, 0, 2]
    v = m[:, 1, 0] * x + m[:, 1, 1] * y + m[:, 1, 2]
    if affine:
        return xp.stack((u, v), -1), None
    w = m[:, 2, 0] * x + m[:, 2, 1] * y + m[:, 2, 2]
    # Not w > 0: missing points are NaN, and stay NaN.
    behind = w <= 0.0
    w = xp.where(behind, 1.0, w)
    u, v = (xp.where(behind, NOWHERE, value / w) for value in (u, v))
    return xp.stack((u, v), -1), ~behind


def with_origin(matrix: np.ndarray, shift: float) -> np.ndarray:
    """Adapt matrices to coordinates less by `shift`; the identity stays exact."""
    if shift == 0.0:
        return matrix
    moved = matrix.copy()
    moved[:, :, 2] += shift * matrix[:, :, 0] + shift * matrix[:, :, 1]
    moved[:, :2] -= shift * moved[:, 2:]
    return moved


def move_boxes(
    rows: Any, matrix: np.ndarray, centres: np.ndarray, window: np.ndarray | None
) -> Any:
    """Return the upright bounds of boxes after moving their corners.

    Parameters
    ----------
    rows : Tensor or ndarray, float64 ``[R, 4]``
        x1, y1, x2, y2.
    matrix, centres : ndarray
        As for :func:`move_points`.
    window : ndarray, float64 ``[R, 4]`` or ``[1, 4]``, optional
        Boxes are clipped to it before they move.

    Returns
    -------
    Tensor or ndarray, ``[R, 4]``
    """
    xp = _module(rows)
    if window is not None:
        rows = visible_part(rows, window)
    affine = _is_affine(matrix)
    m = _matrix(matrix if affine else with_unit_w(matrix, centres), rows)
    x1, y1, x2, y2 = (rows[:, i] for i in range(4))
    if affine:
        bounds = []
        for row in (0, 1):
            a, b, c = (m[:, row, i] for i in range(3))
            ax1, ax2, by1, by2 = a * x1, a * x2, b * y1, b * y2
            bounds.append(xp.minimum(ax1, ax2) + xp.minimum(by1, by2) + c)
            bounds.append(xp.maximum(ax1, ax2) + xp.maximum(by1, by2) + c)
        return xp.stack((bounds[0], bounds[2], bounds[1], bounds[3]), -1)
    # Corners in order around the box, [R, 4]; then where edges cross the line near the horizon.
    x, y = xp.stack((x1, x2, x2, x1), -1), xp.stack((y1, y1, y2, y2), -1)
    u, v, w = (m[:, i, :1] * x + m[:, i, 1:2] * y + m[:, i, 2:] for i in range(3))
    inside = w >= NEAR
    lows, highs = [], []
    crossing = inside != xp.roll(inside, -1, 1)
    next_w = xp.roll(w, -1, 1)
    share = (w - NEAR) / xp.where(crossing, w - next_w, 1.0)
    for value in (u, v):
        corners = value / xp.where(inside, w, 1.0)
        cut = (value + share * (xp.roll(value, -1, 1) - value)) / NEAR
        candidates = xp.concatenate((corners, cut), 1)
        valid = xp.concatenate((inside, crossing), 1)
        lows.append(xp.amin(xp.where(valid, candidates, np.inf), 1))
        highs.append(xp.amax(xp.where(valid, candidates, -np.inf), 1))
    behind = ~(inside[:, 0] | inside[:, 1] | inside[:, 2] | inside[:, 3])
    return xp.stack(
        [xp.where(behind, 0.0, bound) for bound in (lows[0], lows[1], highs[0], highs[1])], -1
    )


def clamp_boxes(rows: Any, window: np.ndarray) -> Any:
    """Clip boxes x1, y1, x2, y2 to windows in the same form, [R, 4] or [1, 4]."""
    xp = _module(rows)
    low, high = _matrix(window[:, [0, 1, 0, 1]], rows), _matrix(window[:, [2, 3, 2, 3]], rows)
    return xp.minimum(xp.maximum(rows, low), high)


def visible_part(rows: Any, window: np.ndarray) -> Any:
    """Return what windows leave of boxes; a point, where that is nothing.

    Turned or bent, a side that was left would span a box again.
    """
    xp = _module(rows)
    rest = clamp_boxes(rows, window)
    gone = (box_areas(rows) > 0.0) & (box_areas(rest) == 0.0)
    return xp.where(gone[:, None], rest[:, [0, 1, 0, 1]], rest)


def box_areas(rows: Any) -> Any:
    """Return the areas of boxes x1, y1, x2, y2, [R]."""
    return (rows[:, 2] - rows[:, 0]) * (rows[:, 3] - rows[:, 1])


def inside(rows: Any, window: np.ndarray) -> Any:
    """Return which points lie in windows [R, 4] or [1, 4], right and lower edges excluded."""
    w = _matrix(window, rows)
    x, y = rows[:, 0], rows[:, 1]
    return (x >= w[:, 0]) & (y >= w[:, 1]) & (x < w[:, 2]) & (y < w[:, 3])


def area_scale(rows: Any, matrix: np.ndarray, centres: np.ndarray) -> Any:
    """Return the factor by which area grows at the centre of each box, ``[R]``."""
    xp = _module(rows)
    turned = matrix if _is_affine(matrix) else with_unit_w(matrix, centres)
    # Written out: numpy.linalg.det rounds even for integers, and an affine map's factor must not
    # depend on whether its batch holds a perspective.
    (a, b, c), (d, e, f), (g, h, i) = turned.transpose(1, 2, 0)
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    m = _matrix(turned, rows)
    x, y = (rows[:, 0] + rows[:, 2]) / 2, (rows[:, 1] + rows[:, 3]) / 2
    w = m[:, 2, 0] * x + m[:, 2, 1] * y + m[:, 2, 2]
    behind = w < NEAR
    return xp.where(behind, 0.0, _matrix(np.abs(determinant), rows) / xp.where(behind, 1.0, w) ** 3)


def to_corners(rows: Any, form: str) -> Any:
    """Convert boxes from XYXY, XYWH or CXCYWH to x1, y1, x2, y2."""
    if form == "XYXY":
        return rows
    xp = _module(rows)
    first, size = rows[:, :2], rows[:, 2:]
    if form == "CXCYWH":
        first = first - size / 2
    return xp.concatenate((first, first + size), 1)


def from_corners(rows: Any, form: str) -> Any:
    """Undo :func:`to_corners`."""
    if form == "XYXY":
        return rows
    xp = _module(rows)
    first, second = rows[:, :2], rows[:, 2:]
    position = first if form == "XYWH" else (first + second) / 2
    return xp.concatenate((position, second - first), 1)
