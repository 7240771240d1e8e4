"""The last step for targets: dtypes, boxes clipped or dropped, visibilities."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import _native
from ..sample.entries import selected
from ..sample.leaf import Leaf
from .options import CONVENTIONS, TargetOptions, canvas_windows
from .polygons import (
    ROTATED,
    clamp_rotated,
    finish_polygons,
    numbers_on_cpu,
    outlines_of,
    rotated_sides,
)
from .rows import (
    area_shares,
    clamp_boxes,
    flat_flags,
    from_corners,
    inside,
    note_shares,
    note_visible,
    numpy_view,
    point_width,
    restore_dtype,
    rows_of,
    sample_of,
    scale_area,
    to_corners,
)


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


def finish_targets(leaves: Sequence[Leaf], sizes: np.ndarray, options: TargetOptions) -> None:
    """Give targets their final form: dtypes, boxes clipped or dropped, visibilities.

    Parameters
    ----------
    leaves : list of Leaf
        Changed in place.
    sizes : ndarray, int ``[B, 2]``
        Heights and widths of the final images.
    options : TargetOptions
    """
    for leaf in leaves:
        if leaf.kind == "polygons":
            finish_polygons(leaf, sizes, options)
    for leaf in leaves:
        if leaf.kind == "keypoints":
            _finish_keypoints(leaf, sizes, options.keypoint_convention)
        elif leaf.kind == "boxes":
            leaf.canvas = sizes
            members = [x for x in leaves if x.group == leaf.group and x.per_box]
            if options.boxes != "keep":
                clamp(leaf, [x for x in members if x.kind == "area"], sizes, options)
            if options.boxes_from != "boxes":  # shares are those of the boxes as they came
                boxes_from_members(leaf, leaves, options.boxes_from)
            restore_dtype(leaf)
            if options.boxes == "sanitize":
                _drop(leaf, members, options)
    for leaf in leaves:
        if leaf.kind == "area":
            restore_dtype(leaf)


def note_cut(
    leaf: Leaf, areas: Sequence[Leaf], before: Any, after: Any, options: TargetOptions
) -> None:
    """Note what clipping has left of boxes [R, 4]."""
    if areas or options.min_visibility > 0.0:
        note_left(leaf, areas, area_shares(before, after), options)


def note_left(leaf: Leaf, areas: Sequence[Leaf], shares: Any, options: TargetOptions) -> None:
    """Note which shares of boxes are left: in their areas, and for `min_visibility`."""
    for area in areas:
        scale_area(area, shares)
    if options.min_visibility > 0.0:
        note_shares(leaf, shares)


def clamp(leaf: Leaf, areas: Sequence[Leaf], sizes: np.ndarray, options: TargetOptions) -> None:
    """Clip boxes to the images' sizes ``[B, 2]``."""
    if leaf.format in ROTATED:
        clamp_rotated(leaf, areas, sizes)
        return
    rows, owners, restore = rows_of(leaf.value, leaf.batch, 4)
    windows = canvas_windows(sizes)
    if isinstance(rows, np.ndarray):
        rest, shares = _native.clip_boxes(rows, leaf.format, windows, sample_of(owners))
        note_left(leaf, areas, shares, options)
        leaf.value = restore(rest)
        return
    corners = to_corners(rows, leaf.format)
    clamped = clamp_boxes(corners, windows[owners])
    note_cut(leaf, areas, corners, clamped, options)
    leaf.value = restore(from_corners(clamped, leaf.format))


def _drop(leaf: Leaf, members: Sequence[Leaf], options: TargetOptions) -> None:
    """Drop boxes that are too small, and what belongs to them."""
    boxes = leaf.samples()
    flags = [None] * len(boxes) if leaf.visible is None else leaf.visible
    shares = [flags] if leaf.batch is None and leaf.visible is not None else flags
    keeps = []
    for value, share in zip(boxes, shares, strict=True):
        keep = _are_large(value, leaf.format, options)
        if share is not None:
            enough = share >= options.min_visibility
            on_torch = isinstance(keep, Tensor)
            keep &= torch.as_tensor(enough, device=keep.device) if on_torch else np.asarray(enough)
        keeps.append(keep)
    keep_only(leaf, members, keeps)


def _are_large(value: Any, form: str, options: TargetOptions) -> Any:
    """Return which boxes [N, 4] of one sample are not too small."""
    array = numpy_view(value)
    if array is not None and form not in ROTATED:
        found = _native.large_boxes(array, form, options.min_size, options.min_area)
        if found is not None:
            return found
    sides = sides_of(value, form)
    large = ((sides >= options.min_size) & (sides > 0)).all(-1)
    if options.min_area > 0.0:
        large = large & (sides[:, 0] * sides[:, 1] >= options.min_area)
    return large


def keep_only(leaf: Leaf, members: Sequence[Leaf], keeps: Sequence[Any]) -> None:
    """Keep the boxes with a flag, for each sample, and what belongs to them.

    Synchronizes on CUDA.
    """
    outlines = [outlines_of(leaf, value) for value in leaf.samples()]
    for member in (leaf, *members):
        for field in ("value", "visible"):
            values = getattr(member, field)
            if values is None:
                continue
            if leaf.batch is None:
                setattr(member, field, _selected(values, keeps[0]))
            else:
                kept = [_selected(v, k) for v, k in zip(values, keeps, strict=True)]
                setattr(member, field, kept)
    leaf.outlines = tuple(
        (value, selected(own, keep.cpu().numpy() if isinstance(keep, Tensor) else keep))
        for value, own, keep in zip(leaf.samples(), outlines, keeps, strict=True)
        if own is not None
    )


def sides_of(value: Any, form: str) -> Any:
    """Return widths and heights of boxes, [N, 2]."""
    if form in ROTATED:
        sides = rotated_sides(numbers_on_cpu(value), form)
        return torch.from_numpy(sides).to(value.device) if isinstance(value, Tensor) else sides
    corners = to_corners(value, form)
    return corners[:, 2:] - corners[:, :2]


def _selected(value: Any, keep: Any) -> Any:
    if isinstance(value, Tensor):
        keep = keep if isinstance(keep, Tensor) else torch.from_numpy(keep)
        return value[keep.to(value.device)]
    flags = keep.cpu().numpy() if isinstance(keep, Tensor) else keep
    if isinstance(value, np.ndarray):
        return value[flags]
    if value is None:  # this sample has no labels
        return None
    return selected(value, flags)


def _finish_keypoints(leaf: Leaf, sizes: np.ndarray, convention: str) -> None:
    width = point_width(leaf)
    rows, owners, restore = rows_of(leaf.value, leaf.batch, width)
    shift = CONVENTIONS[convention]
    if isinstance(rows, np.ndarray):
        seen = _native.points_inside(rows, sizes, sample_of(owners), shift)
    else:
        seen = inside(rows[:, :2], (canvas_windows(sizes) - shift)[owners])
    note_visible(leaf, seen)
    if width > 2:
        xp: Any = torch if isinstance(rows, Tensor) else np
        flags = flat_flags(leaf.visible)
        third = xp.where(flags, rows[:, 2], 0.0)[:, None]
        leaf.value = restore(xp.concatenate((rows[:, :2], third), 1))
    if leaf.partner is not None:
        partner = leaf.partner
        if isinstance(leaf.visible, list):
            pairs = zip(partner.value, leaf.visible, strict=True)
            partner.value = [_masked(value, flags) for value, flags in pairs]
        else:
            partner.value = _masked(partner.value, leaf.visible)
    leaf.canvas = sizes
    restore_dtype(leaf)


def _masked(value: Any, flags: Any) -> Any:
    """Return a sample's own visibilities, with 0 where a point is now out of sight."""
    if isinstance(value, Tensor):
        flags = flags if isinstance(flags, Tensor) else torch.from_numpy(flags)
        return torch.where(flags.to(value.device), value, value.new_zeros(()))
    flags = flags.cpu().numpy() if isinstance(flags, Tensor) else flags
    return np.where(flags, value, value.dtype.type(0))
