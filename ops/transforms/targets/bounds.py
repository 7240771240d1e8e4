"""Boxes as the bounds of what belongs to them: their masks or their polygons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..sample.leaf import Leaf
from .coordinates import from_corners
from .rotated import ROTATED

__all__ = ["boxes_from_members"]


def boxes_from_members(boxes: Leaf, leaves: Sequence[Leaf], source: str) -> None:
    """Replace boxes by the bounds of the masks or polygons that belong to them.

    Bounds are measured from pixel corners: a mask of one pixel has a side of 1. What is empty gets
    a box without area, ``0, 0, 0, 0``.

    Raises
    ------
    ValueError
        Nothing of the kind belongs to the boxes, or they are rotated.
    """
    kind = {"masks": "mask", "polygons": "polygons"}[source]
    found = [x for x in leaves if x.kind == kind and x.per_box and x.group == boxes.group]
    if len(found) != 1:
        raise ValueError(
            f"visops.transforms: boxes_from is {source!r}, {boxes.name} has {len(found)} of them "
            "beside it; must have one entry with as many as there are boxes"
        )
    if boxes.format in ROTATED:
        raise ValueError(
            f"visops.transforms: boxes_from is {source!r}, {boxes.name} has rotated boxes; must be "
            "upright"
        )
    own = boxes.samples()
    values = []
    for value, members in zip(own, found[0].samples(), strict=True):
        bounds = _of_masks(members) if kind == "mask" else _of_polygons(members)
        values.append(from_corners(_like(bounds, value), boxes.format))
    if boxes.batch is None:
        boxes.value = values[0]
    elif isinstance(boxes.value, list):
        boxes.value = values
    else:
        boxes.value = torch.stack(values) if isinstance(values[0], Tensor) else np.stack(values)


def _like(bounds: Any, value: Any) -> Any:
    """Return bounds as float64: a tensor on the device of `value`, or an array."""
    if isinstance(value, Tensor):
        return torch.as_tensor(bounds, dtype=torch.float64, device=value.device)
    array = bounds.cpu().numpy() if isinstance(bounds, Tensor) else bounds
    return array.astype(np.float64)


def _of_masks(masks: Any) -> Any:
    """Return the bounds of masks [N, H, W], [N, 4]."""
    set_pixels = masks != 0
    count, height, width = masks.shape
    if 0 in (count, height, width):
        return np.zeros((count, 4))
    xp: Any = torch if isinstance(masks, Tensor) else np
    ends = []
    for axis, length in ((1, width), (2, height)):
        line = set_pixels.any(axis)  # columns, then rows, with a pixel of the mask
        flags = line.to(torch.uint8) if isinstance(line, Tensor) else line.astype(np.uint8)
        first = flags.argmax(-1)
        end = length - xp.flip(flags, (-1,)).argmax(-1)
        some = line.any(-1)
        ends.append((xp.where(some, first, 0), xp.where(some, end, 0)))
    (x1, x2), (y1, y2) = ends
    return xp.stack((x1, y1, x2, y2), -1)


def _of_polygons(objects: Any) -> np.ndarray:
    """Return the bounds of each object's polygons, [N, 4]."""
    rows = np.zeros((len(objects), 4))
    for row, polygons in zip(rows, objects, strict=True):
        if polygons:
            points = np.concatenate(polygons)
            row[:2], row[2:] = points.min(0), points.max(0)
    return rows
