"""Boxes as the bounds of what belongs to them: their masks or their polygons."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..sample.leaf import Leaf
from .coordinates import from_corners
from .rotated import ROTATED


def boxes_from_members(boxes: Leaf, leaves: Sequence[Leaf], source: str) -> None:
    """Replace boxes by the bounds of the masks or polygons that belong to them.

    Bounds are measured from pixel corners: a mask of one pixel has a side of 1. What is empty gets
    a box without area, ``0, 0, 0, 0``. An object that came without the wanted outline, such as one
    of COCO's crowds, takes the other one, and keeps its box if it has none.

    Raises
    ------
    ValueError
        Nothing of the kind belongs to the boxes, or they are rotated.
    """
    kind = _KINDS[source]
    members = {own: _members(boxes, leaves, own) for own in _KINDS.values()}
    found = members[kind]
    # Objects of COCO's annotations, which are under no key, have polygons, an RLE or neither.
    others = [x for own in members.values() for x in own if own is not found and x.key is None]
    if len(found) != 1 and not (not found and others):
        raise ValueError(
            f"visops.transforms: boxes_from is {source!r}, {boxes.name} has {len(found)} of them "
            "beside it; must have one entry with as many as there are boxes"
        )
    if boxes.format in ROTATED:
        raise ValueError(
            f"visops.transforms: boxes_from is {source!r}, {boxes.name} has rotated boxes; must be "
            "upright"
        )
    values = boxes.samples()
    for leaf in (*others, *found):  # the wanted kind has the last word
        flags = [None] * len(values) if leaf.visible is None else leaf.visible
        flags = [flags] if leaf.visible is not None and leaf.batch is None else flags
        for index, (members_of, present) in enumerate(zip(leaf.samples(), flags, strict=True)):
            bounds = _of_masks(members_of) if leaf.kind == "mask" else _of_polygons(members_of)
            new = from_corners(_like(bounds, values[index]), boxes.format)
            values[index] = new if present is None else _chosen(present, new, values[index])
    if boxes.batch is None:
        boxes.value = values[0]
    elif isinstance(boxes.value, list):
        boxes.value = values
    else:
        boxes.value = torch.stack(values) if isinstance(values[0], Tensor) else np.stack(values)


_KINDS = {"masks": "mask", "polygons": "polygons"}


def _members(boxes: Leaf, leaves: Sequence[Leaf], kind: str) -> list[Leaf]:
    return [x for x in leaves if x.kind == kind and x.per_box and x.group == boxes.group]


def _chosen(flags: Any, new: Any, old: Any) -> Any:
    """Return the rows of `new` that have a flag, and the others of `old`."""
    if isinstance(new, Tensor):
        return torch.where(torch.as_tensor(flags, device=new.device)[:, None], new, old)
    return np.where(np.asarray(flags)[:, None], new, old)


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
