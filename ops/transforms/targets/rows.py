"""The rows of all samples' boxes and key points together, in float64.

Whether there is one sample or many, in a tensor, an array or a list, the arithmetic runs on all
rows at once, and with NumPy where possible.
"""

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..chain.integers import range_of
from ..sample.leaf import Leaf, shared_tensor

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


def numbers(value: Any) -> Any:
    """Convert to float64: to an array, or to a tensor if on a device or if it needs a gradient."""
    array = numpy_view(value)
    return value.to(torch.float64) if array is None else array.astype(np.float64)


def numpy_view(value: Any) -> np.ndarray | None:
    """Return an array, or a tensor as one; None: it is on a device, or needs torch."""
    if not isinstance(value, Tensor):
        return value  # type: ignore[no-any-return]
    torch_only = not value.is_cpu or value.requires_grad or value.dtype == torch.bfloat16
    return None if torch_only else value.resolve_neg().numpy()


def areas_of(boxes: Leaf, leaves: Iterable[Leaf]) -> list[Leaf]:
    """Return the leaves that hold the areas of boxes."""
    return [leaf for leaf in leaves if leaf.kind == "area" and leaf.group == boxes.group]


def rows_of(value: Any, batch: int | None, width: int) -> tuple[Any, Any, Callable[[Any], Any]]:
    """Return a target's rows [R, width], the sample of each, and the way back to its form."""
    if not isinstance(value, list):
        rows = numbers(value)
        shape = tuple(rows.shape)
        rows = rows.reshape(-1, width)
        owners: Any = slice(0, 1)
        if batch is not None:
            owners = np.repeat(np.arange(batch), rows.shape[0] // max(batch, 1))
        return rows, owners, lambda moved: moved.reshape(shape)
    parts = [numbers(item) for item in value]
    if any(isinstance(part, Tensor) for part in parts):
        parts = [p if isinstance(p, Tensor) else torch.from_numpy(p) for p in parts]
    shapes = [tuple(part.shape) for part in parts]
    flat = [part.reshape(-1, width) for part in parts]
    counts = [part.shape[0] for part in flat]
    rows = torch.cat(flat) if isinstance(flat[0], Tensor) else np.concatenate(flat)
    ends = np.cumsum(counts).tolist()

    def restore(moved: Any) -> list[Any]:
        pieces = zip(ends, counts, shapes, strict=True)
        return [moved[end - count : end].reshape(shape) for end, count, shape in pieces]

    return rows, np.repeat(np.arange(len(parts)), counts), restore


def sample_of(owners: Any) -> np.ndarray | None:
    """Return the sample of each row, as C++ takes it; None: there is only one."""
    return None if isinstance(owners, slice) else owners


def point_width(leaf: Leaf) -> int:
    """Return the last dimension of key points: 2, or 3 with visibilities."""
    if not isinstance(leaf.value, list):
        return int(leaf.value.shape[-1])
    # A sample without any may have come as an empty list.
    values = [value for value in leaf.value if 0 not in value.shape] or leaf.value[:1]
    widths = {int(value.shape[-1]) for value in values}
    if len(widths) > 1:
        raise ValueError(
            f"visops.transforms: {leaf.name} mixes last dimensions {sorted(widths)}, must have one"
        )
    return widths.pop()


def flat_flags(flags: Any) -> Any:
    """Return the flags of all points of a leaf, [R]."""
    if not isinstance(flags, list):
        return flags.reshape(-1)
    parts = [part.reshape(-1) for part in flags]
    return torch.cat(parts) if isinstance(parts[0], Tensor) else np.concatenate(parts)


def note_visible(leaf: Leaf, seen: Any) -> None:
    """AND flags [R], for all points of a leaf in turn, into those it has."""
    _note(leaf, seen if leaf.visible is None else seen & flat_flags(leaf.visible))


def note_shares(leaf: Leaf, shares: Any) -> None:
    """Multiply shares [R], for all boxes of a leaf in turn, with those it has."""
    _note(leaf, shares if leaf.visible is None else shares * flat_flags(leaf.visible))


def _note(leaf: Leaf, numbers: Any) -> None:
    if not isinstance(leaf.value, list):
        leaf.visible = numbers.reshape(tuple(leaf.value.shape[:-1]))
        return
    leaf.visible, start = [], 0
    for value in leaf.value:
        count = int(np.prod(value.shape[:-1]))
        leaf.visible.append(numbers[start : start + count].reshape(tuple(value.shape[:-1])))
        start += count


def area_shares(before: Any, after: Any) -> Any:
    """Return the share of each box's area that is left."""
    xp: Any = torch if isinstance(before, Tensor) else np
    whole, rest = box_areas(before), box_areas(after)
    return xp.where(whole > 0, rest / xp.where(whole > 0, whole, 1.0), 1.0)


def scale_area(area: Leaf, factor: Any) -> None:
    """Multiply a leaf's areas by factors [R]."""
    rows, _, restore = rows_of(area.value, area.batch, 1)
    if isinstance(rows, Tensor) and not isinstance(factor, Tensor):
        factor = torch.from_numpy(factor)
    elif not isinstance(rows, Tensor) and isinstance(factor, Tensor):
        factor = factor.detach().cpu().numpy()
    factor = factor.to(rows.device) if isinstance(rows, Tensor) else factor
    area.value = restore(rows * factor[:, None])


def restore_dtype(leaf: Leaf) -> None:
    """Restore the dtypes that boxes, points and areas came with; integers saturate."""
    like = leaf.like
    if isinstance(leaf.value, list):
        likes = like if isinstance(like, (list, tuple)) else [like] * len(leaf.value)
        leaf.value = [_as_dtype(v, lk) for v, lk in zip(leaf.value, likes, strict=True)]
    else:
        leaf.value = _as_dtype(leaf.value, like)


def _as_dtype(value: Any, like: Any) -> Any:
    while isinstance(like, (list, tuple)) and like:
        like = like[0]
    if isinstance(like, Tensor):
        if not isinstance(value, Tensor):
            wanted = _NUMPY_FLOATS.get(like.dtype)
            if wanted is not None and like.is_cpu:
                return torch.from_numpy(value.astype(wanted))  # a fraction of Tensor.to's time
            value = shared_tensor(value)
        if (value.dtype, value.device) == (like.dtype, like.device):
            return value
        if not like.is_floating_point():
            value = value.round()
            if like.dtype is not torch.bool:
                value = value.clamp_(*range_of(torch.iinfo(like.dtype)))
        return value.to(like.device, like.dtype)
    if isinstance(value, Tensor):  # another library's transform made it one
        value = value.numpy()
    if isinstance(like, np.ndarray) and value.dtype != like.dtype:
        if like.dtype.kind != "f":
            value = np.rint(value)
        if like.dtype.kind in "iu":
            value = value.clip(*range_of(np.iinfo(like.dtype)))
        return value.astype(like.dtype)
    return value


_NUMPY_FLOATS = {torch.float64: np.float64, torch.float32: np.float32}
