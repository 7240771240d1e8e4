"""Pooling of regions by ONNX's RoiAlign and MaxRoiPool."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from .graph import (
    Array,
    arange,
    concat,
    constant,
    integer_vector,
    node,
    outside_of_onnx,
    static_integer,
)


def roi_align(
    *,
    input: Array,
    boxes: Array,
    output_size: Sequence[Any],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Array:
    """Write one RoiAlign."""
    bins = _bins("roi_align", output_size)
    options = (spatial_scale, sampling_ratio, aligned)
    return _align(input.computable(), boxes, bins, *options).stored_as(input.dtype)


def roi_align_max(
    *,
    input: Array,
    boxes: Array,
    output_size: Sequence[Any],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> tuple[Array, Array]:
    """Write the samples as bins of a RoiAlign, and a MaxPool over them.

    ONNX's own maxima are those of weighted pixels, not of samples. The second result, which only
    gradients read, has no values.
    """
    if sampling_ratio <= 0:
        way_out = "give a sampling_ratio > 0"
        raise outside_of_onnx("roi_align", "maxima over a number of samples for each box", way_out)
    height, width = _bins("roi_align", output_size)
    ratio = sampling_ratio
    samples = (height * ratio, width * ratio)
    found = _align(input.computable(), boxes, samples, spatial_scale, 1, aligned)
    largest = node("MaxPool", found, kernel_shape=[ratio, ratio], strides=[ratio, ratio])
    return largest.stored_as(input.dtype), constant([-1]).expand(0, 0, 0, 0)


def ps_roi_align(
    *,
    input: Array,
    boxes: Array,
    output_size: Sequence[Any],
    spatial_scale: float,
    sampling_ratio: int,
) -> Array:
    """Write a RoiAlign of all channels in all bins, and select a channel for each bin."""
    height, width = _bins("ps_roi_align", output_size)
    count = height * width
    maps = input.computable()
    found = _align(maps, boxes, (height, width), spatial_scale, sampling_ratio, True)
    sizes = [boxes.size(0), maps.size(1) // count, count * count]
    found = found.shaped(integer_vector(sizes))
    own = found.take([i * count + i for i in range(count)], axis=2)
    return own.reshape(0, 0, height, width).stored_as(input.dtype)


def multiscale_roi_align(
    *,
    features: Sequence[Array],
    boxes: Array,
    output_size: Sequence[Any],
    scales: Sequence[float],
    sampling_ratio: int,
    aligned: bool,
    canonical_scale: float,
    canonical_level: int,
    level_rule: str,
) -> Array:
    """Write a RoiAlign for each level, of the boxes that belong to it, in their order again."""
    bins = _bins("multiscale_roi_align", output_size)
    dtype = features[0].dtype
    levels = _levels(boxes, scales, canonical_scale, canonical_level, level_rule)
    pooled, rows = [], []
    for i, (maps, scale) in enumerate(zip(features, scales, strict=True)):
        row = arange(boxes.size(0)).compress(levels.equals(i))
        of_level = boxes.take(row, axis=0)
        pooled.append(_align(maps.computable(), of_level, bins, scale, sampling_ratio, aligned))
        rows.append(row)
    position = concat(rows, 0)
    back = node("ScatterElements", position, position, arange(boxes.size(0)), axis=0)
    return concat(pooled, 0).take(back, axis=0).stored_as(dtype)


def roi_pool(
    *, input: Array, boxes: Array, output_size: Sequence[Any], spatial_scale: float
) -> tuple[Array, Array]:
    """Write one MaxRoiPool; the second result, which only gradients read, has no values."""
    bins = _bins("roi_pool", output_size)
    maps = input.computable()
    pooled = node(
        "MaxRoiPool",
        maps,
        boxes.to(maps.dtype),
        pooled_shape=list(bins),
        spatial_scale=spatial_scale,
    )
    return pooled.stored_as(input.dtype), constant([-1]).expand(0, 0, 0, 0)


def crop_rois(
    *,
    images: Array,
    boxes: Array,
    size: Sequence[Any],
    interpolation: str,
    padding_mode: str,
    fill: Sequence[float],
) -> Array:
    """Write a RoiAlign with one sample for each pixel, of images with a border of the fill."""
    name = "crop_rois"
    way_out = "crop by warp_affine, with a matrix for each box, or crop before the model"
    if interpolation != "bilinear":
        raise outside_of_onnx(name, f"interpolation {interpolation!r} of regions", way_out)
    if padding_mode != "constant":
        raise outside_of_onnx(name, f"padding_mode {padding_mode!r} of regions", way_out)
    maps = images.computable()
    fills = constant(list(fill), maps.dtype).reshape(1, -1, 1, 1)
    # Beyond the border of zeros, RoiAlign's samples are zeros too.
    padded = node("Pad", maps - fills, constant([0, 0, 1, 1, 0, 0, 1, 1]))
    moved = boxes.computable() + constant([[0, 1, 1, 1, 1]], boxes.computable().dtype)
    found = _align(padded, moved, _bins(name, size, "size"), 1.0, 1, True) + fills
    return found.stored_as(images.dtype)


def _bins(name: str, sizes: Sequence[Any], argument: str = "output_size") -> tuple[int, int]:
    height, width = (static_integer(name, argument, size) for size in sizes)
    return height, width


def _align(
    maps: Array,
    boxes: Array,
    bins: tuple[int, int],
    scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Array:
    """Write the means of maps in float32 or float64."""
    corners = boxes.take([1, 2, 3, 4], axis=1).to(maps.dtype)
    return node(
        "RoiAlign",
        maps,
        corners,
        boxes.take(0, axis=1).to(torch.int64),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
        mode="avg",
        output_height=bins[0],
        output_width=bins[1],
        sampling_ratio=max(sampling_ratio, 0),
        spatial_scale=scale,
    )


def _levels(
    boxes: Array, scales: Sequence[float], canonical_scale: float, canonical_level: int, rule: str
) -> Array:
    """Compute each box's level by the same roundings as level_of_box() in csrc/core/roi/align.h."""
    in_single = boxes.dtype in (torch.float16, torch.bfloat16, torch.float32)
    dtype = torch.float32 if in_single else torch.float64
    x1, y1, x2, y2 = (boxes.to(dtype).take(i, axis=1) for i in range(1, 5))
    area = ((x2 - x1) * (y2 - y1)).to(torch.float64)
    size = node("Sqrt", area).to(dtype) / canonical_scale
    if rule == "detectron2":
        size = size + 1e-8
    exact = canonical_level + (node("Log", size.to(torch.float64)) / math.log(2.0)).to(dtype)
    if rule == "torchvision":
        exact = exact + 1e-6
    level = constant([0]).expand(boxes.size(0))
    for scale in scales[1:]:
        level = level + (exact >= round(-math.log2(scale))).to(torch.int64)
    return level
