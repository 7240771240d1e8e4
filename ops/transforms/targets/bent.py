"""Moves images that are bent, and their targets, by a field of displacements for each sample.

A field says where each output pixel is read, so a point of the source is found by its inverse, to
1e-4 pixels. Where the image is folded, a point has several places, and one in the image is taken.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import _native
from ...warp.remap import remap_batch
from ..sample.leaf import Leaf
from .finish import note_cut
from .masks import as_given, as_tensor
from .options import CONVENTIONS, TargetOptions, canvas_windows, mask_fill_of
from .polygons import ROTATED
from .rows import (
    areas_of,
    from_corners,
    inside,
    note_visible,
    point_width,
    rows_of,
    scale_area,
    to_corners,
    visible_part,
)

_PARTS = 16  # into which a box's sides are cut, and edges of polygons, but not below a pixel


class Field:
    """A sample's displacements, float32 ``[2, H, W]`` on the CPU."""

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.size: tuple[int, int] = (values.shape[1], values.shape[2])

    def on(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the displacements ``[1, H, W]`` along x and y, where `like` is."""
        x, y = self.values.to(like.device, non_blocking=True).split(1)
        return x, y

    def move(self, points: np.ndarray) -> np.ndarray:
        """Move points ``[N, 2]`` of the half-pixel convention."""
        rows = np.ascontiguousarray(points - 0.5)
        return _native.move_by_field(rows, self.values.data_ptr(), self.size) + 0.5


class Fields(list[Field | None]):
    """A field for each sample; None: it stays as it is.

    Parameters
    ----------
    kinds : list
        Each sample's kind of field and its values, or None: csrc/core/warp/fields.cpp.
    sizes : list
        Heights and widths of the samples.

    Attributes
    ----------
    maps : Tensor ``[N, 2, H, W]``, optional
        All of them, if they are of one size.
    """

    def __init__(
        self,
        kinds: Sequence[tuple[str, dict[str, Any]] | None],
        sizes: Sequence[tuple[int, int]],
    ) -> None:
        super().__init__([None] * len(kinds))
        bent = [(i, kind, sizes[i]) for i, kind in enumerate(kinds) if kind is not None]
        same = len({size for *_, size in bent}) == 1
        self.maps = _empty(len(bent), 2, *bent[0][2]) if same else None
        tasks = []
        for index, (sample, kind, size) in enumerate(bent):
            own = _empty(2, *size) if self.maps is None else self.maps[index]
            tasks.append((*kind, *size, own.data_ptr()))
            self[sample] = Field(own)
        _native.make_fields(tasks)


def _empty(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def bend_batch(
    images: Tensor,
    fields: Fields,
    frames: int,
    how: tuple[bool, str, str, list[float]],
) -> Tensor:
    """Bend the images ``[B * frames, C, H, W]`` of those samples that have a field."""
    bent = [sample for sample, field in enumerate(fields) if field is not None]
    if fields.maps is None:
        return images
    x, y = fields.maps.to(images.device, non_blocking=True).unbind(1)
    # The frames of a sample follow one field: they are its channels.
    merged = images.unflatten(0, (-1, frames)).flatten(1, 2) if frames > 1 else images
    relative, mode, padding_mode, fill = how
    own = relative, mode, padding_mode, fill if len(fill) == 1 else fill * frames
    if len(bent) == len(fields):
        out = remap_batch(merged, x, y, own)
    else:
        chosen = torch.tensor(bent, device=images.device)
        out = merged.index_copy(0, chosen, remap_batch(merged[chosen], x, y, own))
    return out.reshape(images.shape)


def bend_targets(
    leaves: Sequence[Leaf],
    fields: Sequence[Field | None],
    options: TargetOptions,
    padding_mode: str,
) -> None:
    """Move all targets; None: the sample stays as it is. Masks of the image are padded as it is."""
    for leaf in leaves:
        if leaf.kind == "mask":
            _bend_masks(leaf, fields, options, "constant" if leaf.per_box else padding_mode)
        elif leaf.kind == "boxes":
            areas = areas_of(leaf, leaves)
            _bend_boxes(leaf, areas, fields, options)
            leaf.moved = True
        elif leaf.kind == "keypoints":
            _bend_points(leaf, fields, options)
        elif leaf.kind == "polygons":
            samples = [
                objects
                if field is None
                else [[field.move(_with_parts(p)) for p in own] for own in objects]
                for objects, field in zip(leaf.samples(), fields, strict=True)
            ]
            leaf.value = samples[0] if leaf.batch is None else samples


def _with_parts(polygon: np.ndarray) -> np.ndarray:
    """Cut the edges of a polygon ``[K, 2]``, which become curves, in parts."""
    edges = np.roll(polygon, -1, 0) - polygon
    counts = np.ceil(np.hypot(*edges.T)).clip(1, _PARTS).astype(np.int64)
    owners = np.repeat(np.arange(len(polygon)), counts)
    place = np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]
    return polygon[owners] + edges[owners] * (place / counts[owners])[:, None]


def _bend_masks(
    leaf: Leaf, fields: Sequence[Field | None], options: TargetOptions, padding_mode: str
) -> None:
    bent = []
    for value, field in zip(leaf.samples(), fields, strict=True):
        if field is None:
            bent.append(value)
            continue
        mask = as_tensor(value)
        fill = float(mask_fill_of(leaf.per_box, value, options))
        planes = mask.reshape(-1, *mask.shape[-2:])
        if planes.shape[0] > 0:
            how = True, "nearest", padding_mode, [fill]
            planes = remap_batch(planes[None], *field.on(planes), how)[0]
        bent.append(as_given(planes.reshape(mask.shape), value))
    if leaf.batch is None:
        leaf.value = bent[0]
    elif isinstance(leaf.value, list):
        leaf.value = bent
    else:
        leaf.value = torch.stack(bent) if isinstance(leaf.value, Tensor) else np.stack(bent)


def _moved(rows: Any, owners: Any, fields: Sequence[Field | None]) -> Any:
    """Move points ``[R, K, 2]`` of each sample; K belong to a row."""
    points = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else rows
    out = np.array(points, np.float64)
    owner = np.zeros(len(points), np.int64) if isinstance(owners, slice) else owners
    for sample, field in enumerate(fields):
        own = owner == sample
        if field is not None and own.any():
            out[own] = field.move(points[own].reshape(-1, 2)).reshape(points[own].shape)
    return torch.from_numpy(out).to(rows.device) if isinstance(rows, Tensor) else out


def _bend_points(leaf: Leaf, fields: Sequence[Field | None], options: TargetOptions) -> None:
    width = point_width(leaf)
    rows, owners, restore = rows_of(leaf.value, leaf.batch, width)
    shift = CONVENTIONS[options.keypoint_convention]
    kept = inside(rows[:, :2], (_windows(fields) - shift)[owners])
    moved = _moved(rows[:, None, :2] + shift, owners, fields)[:, 0] - shift
    if width > 2:
        xp: Any = torch if isinstance(rows, Tensor) else np
        moved = xp.concatenate((moved, rows[:, 2:]), 1)
    leaf.value = restore(moved)
    finite = moved[:, 0] == moved[:, 0]
    note_visible(leaf, finite & kept)


def _windows(fields: Sequence[Field | None]) -> np.ndarray:
    """Return windows [B, 4] that span the pictures that are bent; nothing is outside the others."""
    sizes = np.array([(0, 0) if field is None else field.size for field in fields])
    windows = canvas_windows(sizes)
    windows[[field is None for field in fields]] = (-np.inf, -np.inf, np.inf, np.inf)
    return windows


def _bend_boxes(
    leaf: Leaf, areas: Sequence[Leaf], fields: Sequence[Field | None], options: TargetOptions
) -> None:
    if leaf.format in ROTATED:
        raise TypeError(
            f"visops.transforms: {leaf.name} has the format {leaf.format}, and what bends an image "
            "makes no rectangles of rotated boxes; must be XYXY, XYWH or CXCYWH, or polygons"
        )
    rows, owners, restore = rows_of(leaf.value, leaf.batch, 4)
    corners = to_corners(rows, leaf.format)
    if options.boxes != "keep":
        rest = visible_part(corners, _windows(fields)[owners])
        note_cut(leaf, areas, corners, rest, options)
        corners = rest
    share = np.linspace(0.0, 1.0, _PARTS + 1)
    ones, zeros = np.ones_like(share), np.zeros_like(share)
    u = np.concatenate((share, ones, share, zeros))
    v = np.concatenate((zeros, share, ones, share))
    plain = corners.detach().cpu().numpy() if isinstance(corners, Tensor) else corners
    x1, y1, x2, y2 = (plain[:, i, None] for i in range(4))
    outline = np.stack((x1 + (x2 - x1) * u, y1 + (y2 - y1) * v), -1)
    moved = _moved(outline, owners, fields)
    bounds: Any = np.concatenate((moved.min(1), moved.max(1)), 1)
    for area in areas:
        scale_area(area, _area_scale(plain, owners, fields))
    if isinstance(corners, Tensor):
        bounds = torch.from_numpy(bounds).to(corners.device)
    leaf.value = restore(from_corners(bounds, leaf.format))


def _area_scale(corners: np.ndarray, owners: Any, fields: Sequence[Field | None]) -> np.ndarray:
    """Return the factor by which area grows about the centre of each box."""
    middle = (corners[:, :2] + corners[:, 2:]) / 2
    steps = np.array([(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)])
    around = _moved(middle[:, None] + steps, owners, fields)
    along, down = (around[:, 0] - around[:, 1]) / 2, (around[:, 2] - around[:, 3]) / 2
    return np.abs(along[:, 0] * down[:, 1] - along[:, 1] * down[:, 0])
