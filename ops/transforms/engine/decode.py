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
from .numbers import Number, columns
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
    reductions = _reductions(plan, part)
    places = [_needed(at, part, plan) for at in _geometries(plan)]
    first = np.min([low for low, _ in places], axis=0)
    last = np.max([high for _, high in places], axis=0)
    windows = np.concatenate((first, last - first), axis=1).tolist()  # top, left, height, width

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


def _reductions(plan: Plan, part: Pass) -> list[int]:
    """Return by how much each image may be reduced, so that the pass still shrinks it."""
    transform = part.transforms[0]
    allowed = isinstance(transform, Decoding) and transform.reduced and not plan.exact
    if not allowed or not part.antialias or len(plan.matrix) == 9:
        return [1] * plan.batch
    a, b, _, d, e, _ = columns(plan.matrix, plan.batch).T
    # The larger singular value: the most that the pass enlarges along any direction.
    squares, area = a * a + b * b + d * d + e * e, a * e - b * d
    root = np.sqrt(np.maximum(squares * squares - 4.0 * area * area, 0.0))
    scale = np.sqrt(0.5 * (squares + root)) * (1.0 - 1e-12)
    size = plan.source.size(plan.batch).min(1)
    return [
        next((r for r in REDUCTIONS if r * most <= 1.0 and r <= side), 1)
        for most, side in zip(scale.tolist(), size.tolist(), strict=True)
    ]


def _geometries(plan: Plan) -> list[Plan | Snapshot]:
    return [plan, *(step.geometry for step in plan.colors if step.geometry is not None)]


def _needed(at: Plan | Snapshot, part: Pass, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the end of the rows and columns that are read, int64 [B, 2] each."""
    batch = plan.batch
    size = plan.source.size(batch)  # [B, 2] rows, columns
    bottom = [] if len(at.matrix) == 9 else [0.0, 0.0, 1.0]
    matrices = columns([*at.matrix, *bottom], batch).reshape(-1, 3, 3)
    around, beyond = _AROUND[part.interpolation or "nearest"]
    if not part.antialias:
        around = 1.0
    y, x = (columns((side,), batch)[:, 0] + around for side in (at.canvas.height, at.canvas.width))
    before = np.full_like(x, -around)
    corners = np.stack((np.stack((before, x, before, x)), np.stack((before, before, y, y))))
    corners = np.concatenate((corners, np.ones_like(corners[:1])))  # [3, 4, B]
    try:
        points = np.linalg.inv(matrices) @ corners.transpose(2, 0, 1)  # [B, 3, 4]
    except np.linalg.LinAlgError:
        return np.zeros_like(size), size
    with np.errstate(divide="ignore", invalid="ignore"):
        rows_columns = (points[:, :2] / points[:, 2:])[:, ::-1]  # [B, 2, 4]
        low, high = rows_columns.min(2) - beyond, rows_columns.max(2) + beyond
    sound = (points[:, 2] > 1e-6).all(1, keepdims=True) & np.isfinite(low) & np.isfinite(high)
    if part.fill is not None and part.padding_mode in _REPEATING:
        sound &= (low >= 0.0) & (high <= size)  # else pixels from anywhere come in
    sound = sound.all(1, keepdims=True)
    # At least a row and a column, the nearest, which replicated edges show.
    first = np.where(sound, np.clip(np.floor(low), 0.0, size - 1.0), 0.0)
    end = np.where(sound, np.clip(np.ceil(high), first + 1.0, size), size)
    return first.astype(np.int64), end.astype(np.int64)


def _moved(plan: Plan, decoded: Sequence[tuple[np.ndarray, Part]]) -> Plan:
    """Return the plan for pixels of which each covers r by r pixels of the image."""
    parts = [part for _, part in decoded]
    sizes = np.array([pixels.shape[:2] for pixels, _ in decoded], np.int64)
    if not any(p.top or p.left or p.reduction > 1 for p in parts) and (
        (sizes == plan.source.size(plan.batch)).all()
    ):
        return plan
    y, x, r = (_number([part[i] for part in parts]) for i in range(3))

    def matrix(old: list[Number]) -> list[Number]:
        rows = [old[i : i + 3] for i in range(0, len(old), 3)]
        return [n for p, q, s in rows for n in (p * r, q * r, s + p * x + q * y)]

    def window(old: list[Number] | None) -> list[Number] | None:
        if old is None:
            return None
        return [(edge - start) / r for edge, start in zip(old, (x, y, x, y), strict=True)]

    moved = copy.copy(plan)
    moved.source = Canvas.of(sizes, plan.source.channels)
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
