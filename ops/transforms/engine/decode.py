"""Decodes what a pass reads of its images, and no more.

NOTE on decoding. Parameters are drawn for the whole image, whose size is in the file's header. So
the plan is as it would be for decoded images, and tells which of their pixels the pass reads: those
under its canvas, and under that of each contrast's mean. They are decoded, and the plan is moved to
where they begin. Targets follow the plan of the whole image.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from ...jpeg.header import REDUCTIONS, Part
from ..sample.encoded import Encoded, EncodedOptions, refuse_file
from ..sample.leaf import Leaf
from .effects import Fusable
from .fuse import Pass
from .numbers import Number, all_true, ceil, columns, floor, maximum, minimum, sqrt, where
from .plan import Canvas, Color, Plan, Snapshot

__all__ = ["Decoding", "decode_for", "decoding_of"]

# How far sampling reads: around the canvas in pixels of the result, since a filter that shrinks is
# that wide, and around its source in pixels of the image. One more than the filters need.
_AROUND = {"nearest": (1.0, 2.0), "bilinear": (2.0, 3.0), "bicubic": (3.0, 4.0)}
_REPEATING = ("reflect", "symmetric", "circular")


class Decoding(Fusable):
    """The transform at whose place images are decoded; it must be the first of its chain.

    Attributes
    ----------
    reduced : bool
        Whether images may be decoded at 1/2, 1/4 or 1/8 of the scale.
    options : EncodedOptions
    """

    reduced: bool
    options: EncodedOptions


def decoding_of(transforms: Sequence[Any], owner: str = "Compose") -> EncodedOptions | None:
    """Return how a chain reads files, or None if it takes decoded images."""
    for place, transform in enumerate(transforms):
        if isinstance(transform, Decoding) and (place > 0 or owner != "Compose"):
            raise ValueError(
                f"visops.transforms.{owner}: transforms holds a {transform._get_name()}, must be "
                "the first transform of a Compose or left out"
            )
    first = transforms[0] if transforms else None
    return first.options if isinstance(first, Decoding) else None


def decode_for(plan: Plan, part: Pass, leaf: Leaf) -> Plan:
    """Decode what a pass reads of the files in a leaf.

    Parameters
    ----------
    plan : Plan
        For the whole images.
    part : Pass
    leaf : Leaf
        Its value becomes an array ``[h, w, C]``, or a list of such. If it holds no files, nothing
        happens.

    Returns
    -------
    Plan
        For the decoded pixels.
    """
    files = leaf.value if isinstance(leaf.value, list) else [leaf.value]
    if not isinstance(files[0], Encoded):
        return plan
    reductions = _whole_numbers(_reduction(plan, part), len(files))
    corners = [_needed(plan, part, plan.source)]
    corners += [_needed(c.geometry, part, plan.source) for c in plan.colors if c.geometry]
    top, left, bottom, right = corners[0]
    for other in corners[1:]:
        top, left = minimum(top, other[0]), minimum(left, other[1])
        bottom, right = maximum(bottom, other[2]), maximum(right, other[3])
    sides = (top, left, bottom - top, right - left)
    windows = list(zip(*(_whole_numbers(side, len(files)) for side in sides), strict=True))

    def decode(index: int) -> tuple[np.ndarray, Part]:
        source: Encoded = files[index]
        try:
            return source.file.decode(windows[index], reductions[index], source.shape[2])
        except ValueError as error:
            refuse_file(leaf.name if leaf.batch is None else f"{leaf.name}[{index}]", error)

    decoded = _all(decode, len(files))
    leaf.value = [pixels for pixels, _ in decoded]
    if leaf.batch is None:
        leaf.value = leaf.value[0]
    return _moved(plan, decoded)


def _all(decode: Any, count: int) -> list[tuple[np.ndarray, Part]]:
    threads = min(count, torch.get_num_threads())
    if threads < 2:
        return [decode(index) for index in range(count)]
    with ThreadPoolExecutor(threads) as pool:  # decoding releases the interpreter's lock
        return list(pool.map(decode, range(count)))


def _reduction(plan: Plan, part: Pass) -> Number:
    """Return by how much each image may be reduced, so that the pass still shrinks it."""
    transform = part.transforms[0]
    allowed = isinstance(transform, Decoding) and transform.reduced and not plan.exact
    if not allowed or not part.antialias or len(plan.matrix) == 9:
        return 1.0
    a, b, _, d, e, _ = plan.matrix
    # The larger singular value: the most that the pass enlarges along any direction.
    squares, area = a * a + b * b + d * d + e * e, a * e - b * d
    root = sqrt(maximum(squares * squares - 4.0 * area * area, 0.0))
    # A little less: rounding must not refuse a crop that is exactly r times as large as its result.
    scale = sqrt(0.5 * (squares + root)) * (1.0 - 1e-12)
    side, reduction = minimum(plan.source.height, plan.source.width), 1.0
    for factor in reversed(REDUCTIONS):
        fits = (scale * factor <= 1.0) & (side >= factor)
        reduction = where(fits, float(factor), reduction)
    return reduction


def _needed(at: Plan | Snapshot, part: Pass, source: Canvas) -> tuple[Number, ...]:
    """Return top, left, bottom, right of what is read of the source: whole numbers, not empty."""
    around, beyond = _AROUND[part.interpolation or "nearest"]
    if not part.antialias:
        around = 1.0
    bounds = _bounds_behind(at, around)
    whole = (0.0, 0.0, source.height, source.width)
    if bounds is None:
        return whole
    top, left, bottom, right = bounds
    top, left, bottom, right = top - beyond, left - beyond, bottom + beyond, right + beyond
    # At least a row and a column, the nearest, which replicated edges show.
    found = (
        *(
            maximum(minimum(floor(low), side - 1.0), 0.0)
            for low, side in ((top, source.height), (left, source.width))
        ),
        *(
            minimum(maximum(ceil(high), 1.0), side)
            for high, side in ((bottom, source.height), (right, source.width))
        ),
    )
    if part.fill is None or part.padding_mode not in _REPEATING:
        return found
    # Where it reads outside, pixels from anywhere come in.
    inside = (top >= 0.0) & (left >= 0.0) & (bottom <= source.height) & (right <= source.width)
    return tuple(where(inside, n, m) for n, m in zip(found, whole, strict=True))


def _bounds_behind(at: Plan | Snapshot, around: float) -> tuple[Number, ...] | None:
    """Return the bounds, in the source, of a canvas and what is `around` it; None: no finite ones.

    In the order top, left, bottom, right.
    """
    if len(at.matrix) == 9:
        return _bounds_behind_perspective(at, around)
    a, b, c, d, e, f = at.matrix
    half_height, half_width = 0.5 * at.canvas.height, 0.5 * at.canvas.width
    x, y = half_width - c, half_height - f  # the middle, before the linear part
    area = a * e - b * d
    reach = abs(a) + abs(b) + abs(d) + abs(e) + abs(x) + abs(y)
    if not all_true((abs(area) > 1e-12) & (reach < 1e12)):
        return None
    scale, half_height, half_width = 1.0 / area, half_height + around, half_width + around
    x, y = (e * x - b * y) * scale, (a * y - d * x) * scale
    wide = (abs(e) * half_width + abs(b) * half_height) * abs(scale)
    high = (abs(d) * half_width + abs(a) * half_height) * abs(scale)
    return y - high, x - wide, y + high, x + wide


def _bounds_behind_perspective(at: Plan | Snapshot, around: float) -> tuple[Number, ...] | None:
    batch = max(np.size(number) for number in (*at.matrix, at.canvas.height, at.canvas.width))
    matrices = columns(at.matrix, batch).reshape(-1, 3, 3)
    y, x = (columns((side,), batch)[:, 0] + around for side in (at.canvas.height, at.canvas.width))
    low = np.full(batch, -around)
    corners = np.array([[low, x, low, x], [low, low, y, y], np.ones((4, batch))])  # [3, 4, B]
    try:
        points = np.linalg.inv(matrices) @ corners.transpose(2, 0, 1)  # [B, 3, 4]
    except np.linalg.LinAlgError:
        return None
    if not (points[:, 2] > 1e-6).all():  # the horizon is in the picture
        return None
    points = points[:, 1::-1] / points[:, 2:]
    if not (np.abs(points) < 1e12).all():
        return None
    bounds = np.concatenate((points.min(2), points.max(2)), axis=1).T
    return tuple(bounds[:, 0].tolist() if batch == 1 else bounds)


def _whole_numbers(value: Number, count: int) -> list[int]:
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return value.astype(np.int64).tolist()
    return [int(value)] * count


def _moved(plan: Plan, decoded: Sequence[tuple[np.ndarray, Part]]) -> Plan:
    """Return the plan for pixels of which each covers r by r pixels of the image."""
    parts = [part for _, part in decoded]
    y, x, r = (_number([part[i] for part in parts]) for i in range(3))
    height, width = (_number([pixels.shape[i] for pixels, _ in decoded]) for i in (0, 1))

    def matrix(old: list[Number]) -> list[Number]:
        rows = [old[i : i + 3] for i in range(0, len(old), 3)]
        return [n for p, q, s in rows for n in (p * r, q * r, s + p * x + q * y)]

    def window(old: list[Number] | None) -> list[Number] | None:
        if old is None:
            return None
        return [(edge - start) / r for edge, start in zip(old, (x, y, x, y), strict=True)]

    moved = copy.copy(plan)
    moved.source = Canvas(height, width, plan.source.channels)
    known: dict[int, list[Number]] = {}  # steps of one jitter share their matrix

    def shared(old: list[Number]) -> list[Number]:
        if id(old) not in known:
            known[id(old)] = matrix(old)
        return known[id(old)]

    moved.matrix, moved.window = shared(plan.matrix), window(plan.window)
    moved.colors = []
    for step in plan.colors:
        at = step.geometry
        if at is not None:
            at = Snapshot(shared(at.matrix), at.canvas, window(at.window), at.ties)
        moved.colors.append(Color(step.matrix, step.weight, step.before, at))
    return moved


def _number(values: list[int]) -> Number:
    return float(values[0]) if len(values) == 1 else np.array(values, np.float64)
