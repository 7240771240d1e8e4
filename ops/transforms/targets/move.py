"""Moves masks, boxes, key points and polygons with their images."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import _native
from ..._torch.options import Convention, check_word
from ..sample.leaf import Leaf
from .finish import note_cut, note_left
from .masks import move_mask
from .mirrored import mirrored_by, swap_names
from .options import CONVENTIONS, Geometry, TargetOptions, mask_fill_of
from .polygons import ROTATED, move_polygons, move_rotated
from .rows import (
    area_scale,
    areas_of,
    clamp_boxes,
    from_corners,
    inside,
    note_visible,
    point_width,
    rows_of,
    sample_of,
    scale_area,
    to_corners,
    with_origin,
)
from .rows import move_boxes as move_box_rows
from .rows import move_points as move_point_rows


def move_targets(leaves: Sequence[Leaf], geometry: Geometry, options: TargetOptions) -> None:
    """Move all targets; boxes, points and polygons stay float64 until finish_targets."""
    for leaf in leaves:
        if leaf.kind == "mask":
            leaf.value = move_masks(leaf, geometry, options)
        elif leaf.kind == "boxes":
            areas = areas_of(leaf, leaves)
            move_boxes(leaf, areas, geometry, options)
            leaf.moved = True
        elif leaf.kind == "keypoints":
            move_keypoints(leaf, geometry, options.keypoint_convention)
        elif leaf.kind == "polygons":
            move_polygons(leaf, geometry, options)
        if leaf.canvas is not None:
            leaf.canvas = geometry.size_out
    if options.swaps:
        swap_names(leaves, mirrored_by(geometry), options)


def move_masks(leaf: Leaf, geometry: Geometry, options: TargetOptions) -> Any:
    """Return a leaf's moved masks, in the form they have there."""
    first = leaf.value[0] if isinstance(leaf.value, list) else leaf.value
    fill = mask_fill_of(leaf.per_box, first, options)
    if leaf.per_box and geometry.padding_mode != "constant":
        geometry = replace(geometry, padding_mode="constant")  # an object ends with the image
    return move_mask(leaf.value, leaf.batch is not None, geometry, fill)


def move_boxes(
    leaf: Leaf, areas: Sequence[Leaf], geometry: Geometry, options: TargetOptions
) -> None:
    """Move a leaf's boxes, and scale their areas."""
    if leaf.format in ROTATED:
        move_rotated(leaf, areas, geometry, options)
        return
    rows, owners, restore = rows_of(leaf.value, leaf.batch, 4)
    if isinstance(rows, np.ndarray):
        found = _native.move_boxes(
            rows,
            leaf.format,
            geometry.matrix,
            sample_of(owners),
            None if options.boxes == "keep" else geometry.source(),
            bool(areas) or options.min_visibility > 0.0,
        )
        if found is not None:
            moved, factors, shares = found
            for area in areas:
                scale_area(area, factors)
            if shares is not None:
                note_left(leaf, areas, shares, options)
            leaf.value = restore(moved)
            return
    corners = to_corners(rows, leaf.format)
    matrix, centres = geometry.matrix[owners], geometry.centres()[owners]
    window = geometry.source()[owners] if options.boxes != "keep" else None
    for area in areas:
        scale_area(area, area_scale(corners, matrix, centres))
    if window is not None:
        note_cut(leaf, areas, corners, clamp_boxes(corners, window), options)
    moved = move_box_rows(corners, matrix, centres, window)
    leaf.value = restore(from_corners(moved, leaf.format))


def move_keypoints(leaf: Leaf, geometry: Geometry, convention: str) -> None:
    """Move a leaf's key points, and note which are lost for good."""
    width = point_width(leaf)
    rows, owners, restore = rows_of(leaf.value, leaf.batch, width)
    points = rows[:, :2]
    shift = CONVENTIONS[convention]
    if isinstance(rows, np.ndarray):
        samples = sample_of(owners)
        found = _native.move_points(rows, geometry.matrix, samples, geometry.source(), shift)
        if found is not None:
            leaf.value = restore(found[0])
            note_visible(leaf, found[1])
            return
    matrix = with_origin(geometry.matrix, shift)[owners]
    moved, seen = move_point_rows(points, matrix, (geometry.centres() - shift)[owners])
    kept = inside(points, (geometry.source() - shift)[owners])
    seen = kept if seen is None else seen & kept
    xp: Any = torch if isinstance(rows, Tensor) else np
    leaf.value = restore(xp.concatenate((moved, rows[:, 2:]), 1) if width > 2 else moved)
    note_visible(leaf, seen)


def visible(keypoints: Any, size: Sequence[int], *, convention: Convention = "integer") -> Any:
    """Return which key points lie within an image.

    Parameters
    ----------
    keypoints : Tensor or ndarray or nested sequence, ``[..., 2]`` or ``[..., 3]``
        x, y in pixels; a third entry is ignored.
    size : pair of int
        Height and width of the image.
    convention : {"integer", "half_pixel"}
        Whether the centre of pixel (0, 0) is the point (0, 0) or (0.5, 0.5). A point is within the
        image if it is within one of its pixels, right and lower edges excluded:
        ``-0.5 <= x < W - 0.5`` or ``0 <= x < W``.

    Returns
    -------
    Tensor or ndarray of bool, ``[...]``
        A tensor on the same device for a tensor, otherwise an array. NaN is not visible.

    Raises
    ------
    ValueError
        The shape of `keypoints`, `size` or `convention` is wrong.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import visible
    >>> visible(torch.tensor([[0.0, 0.0], [7.6, 2.0], [-3.0, 1.0]]), (6, 8))
    tensor([ True, False, False])
    """
    check_word("visible", "convention", convention, CONVENTIONS, "'integer' or 'half_pixel'")
    if len(size) != 2 or min(size) < 0:
        raise ValueError(f"visops.visible: size is {tuple(size)}, must be (height, width)")
    points = keypoints if isinstance(keypoints, Tensor) else np.asarray(keypoints)
    if points.ndim < 1 or points.shape[-1] not in (2, 3):
        raise ValueError(
            f"visops.visible: keypoints has shape {list(points.shape)}, must be [..., 2] or "
            "[..., 3]"
        )
    low = -CONVENTIONS[convention]
    x, y = points[..., 0], points[..., 1]
    return (x >= low) & (y >= low) & (x < size[1] + low) & (y < size[0] + low)
