"""Samples at points, and attention made of them, by ONNX's GridSample.

Positions are handed over in [-1, 1], in the dtype of the sums: they are rounded once more than the
library's.
"""

from collections.abc import Sequence
from typing import Any

import torch

from .graph import Array, concat, constant, integer_vector, node, where

_FAR = 1e4  # sizes of the map


def point_sample(
    *, input: Array, points: Array, mode: str, padding_mode: str, align_corners: bool
) -> Array:
    """Write one GridSample, of one column of points."""
    dtype = input.dtype if input.dtype.is_floating_point else torch.float32
    maps = input.computable()
    at = points.to(maps.dtype).unsqueeze(2)
    return _sample(maps, at, mode, padding_mode, align_corners).squeeze(3).to(dtype)


def multi_scale_deformable_attention(
    *,
    value: Array,
    spatial_shapes: Array | None,
    sizes: Sequence[Any],
    sampling_locations: Array,
    attention_weights: Array,
    points: Sequence[Any],
    method: str,
) -> Array:
    """Write a GridSample for each level, and the sum of its weighted samples."""
    levels = list(sizes)
    if spatial_shapes is not None:
        flat = spatial_shapes.to(torch.int64).reshape(-1)
        levels = [flat.take(i, axis=0) for i in range(2 * len(points))]
    maps = value.computable().transpose(0, 2, 3, 1)  # [B, h, d, S]
    locations = sampling_locations.to(maps.dtype).transpose(0, 2, 1, 3, 4)  # [B, h, Q, N, 2]
    weights = attention_weights.to(maps.dtype).transpose(0, 2, 1, 3)  # [B, h, Q, N]
    queries, channels = sampling_locations.size(1), value.size(3)
    parts: list[Array] = []
    pixel: Any = 0
    point: Any = 0
    for level, count in enumerate(points):
        height, width = levels[2 * level : 2 * level + 2]
        of_level = _part(maps, 3, pixel, height * width).reshape(-1, channels, height, width)
        at = _part(locations, 3, point, count).reshape(-1, queries, count, 2)
        share = _part(weights, 3, point, count).reshape(-1, 1, queries, count)
        if method == "discrete":
            at = _nearest(at, (width, height))
        how = "nearest" if method == "discrete" else "bilinear"
        parts.append((_sample(of_level, at, how, "zeros", False) * share).total(3))  # [B h, d, Q]
        pixel, point = pixel + height * width, point + count
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    shape = integer_vector([value.size(0), value.size(2) * channels, queries])
    return total.shaped(shape).transpose(0, 2, 1).to(value.dtype)


def _sample(maps: Array, at: Array, mode: str, padding_mode: str, align_corners: bool) -> Array:
    """Sample [N, C, H, W] at [N, h, w, 2], in units of the map; 0 where these are not finite."""
    is_known = node("Abs", at) < float("inf")
    low, high = constant(-_FAR, at.dtype), constant(_FAR, at.dtype)
    found = node(
        "GridSample",
        maps,
        node("Clip", where(is_known, at, 0.0), low, high) * 2.0 - 1.0,
        mode=mode,
        padding_mode=padding_mode,
        align_corners=int(align_corners),
    )
    exists = is_known.take(0, axis=3) & is_known.take(1, axis=3)
    return where(exists.unsqueeze(1), found, 0.0)


def _nearest(at: Array, sizes: tuple[Any, Any]) -> Array:
    """Return the centres of the pixels of the map that locations lie nearest to."""
    axes = []
    for axis, size in enumerate(sizes):
        count = constant(size, at.dtype) if isinstance(size, int) else size.to(at.dtype)
        location = at.take(axis, axis=3)
        pixel = node("Floor", location * count + 0.5)
        centre = (node("Clip", pixel, constant(0.0, at.dtype), count - 1.0) + 0.5) / count
        # What is not finite stays so.
        axes.append(where(node("Abs", location) < float("inf"), centre, location).unsqueeze(3))
    return concat(axes, 3)


def _part(array: Array, axis: int, first: Any, count: Any) -> Array:
    """Return `count` positions along an axis from the first on."""
    ends = [integer_vector([n]) for n in (first, first + count, axis)]
    return node("Slice", array, *ends)
