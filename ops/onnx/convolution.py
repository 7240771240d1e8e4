"""Convolutions by ONNX's Conv."""

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
    parts_of_shape,
    static_integer,
    where,
)


def conv2d(
    *,
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    groups: Any,
) -> Array:
    """Write one Conv; ONNX leaves the precision of float32 to whoever runs it."""
    _require_floats("conv2d", input)

    def attribute(argument: str, values: Sequence[Any]) -> list[int]:
        return [static_integer("conv2d", argument, value) for value in values]

    sides = attribute("padding", padding)
    top, bottom, left, right = (
        sides if len(sides) == 4 else [sides[0], sides[0], sides[1], sides[1]]
    )
    return node(
        "Conv",
        input.computable(),
        weight.computable(),
        None if bias is None else bias.computable(),
        strides=attribute("stride", stride),
        pads=[top, left, bottom, right],
        dilations=attribute("dilation", dilation),
        group=static_integer("conv2d", "groups", groups),
    ).to(input.dtype)


def convolve2d(
    *,
    input: Array,
    kernel: Array,
    start: Sequence[Any],
    size: Sequence[Any],
    boundary: str,
    fill: Array | None,
    flip: bool,
) -> Array:
    """Write the image extended by indices, and a Conv of it with one kernel, or of one image."""
    _require_floats("convolve2d", input)
    images, kernels = input.sizes[:-2], kernel.sizes[:-2]
    one_kernel = all(n == 1 for n in kernels)
    if not one_kernel and not all(n == 1 for n in images):
        way_out = "convolve all images with one kernel, one image with all kernels, or use conv2d"
        raise outside_of_onnx("convolve2d", "a kernel for each image", way_out)
    taps = [kernel.size(kernel.rank - 2), kernel.size(kernel.rank - 1)]
    planes, weights = input.computable(), kernel.computable()
    value = None if fill is None else fill.to(planes.dtype).reshape()
    for i in (0, 1):
        axis = kernel.rank - 2 + i
        first = start[i] - (taps[i] - 1) if flip else start[i]
        reach = arange(size[i] + (taps[i] - 1)) + first
        planes = _extended(planes, input.rank - 2 + i, reach, boundary)
        if boundary == "fill":
            count = input.size(input.rank - 2 + i)
            inside = ((reach >= 0) & (reach < count)).reshape(*([-1, 1] if i == 0 else [-1]))
            planes = where(inside, planes, 0.0 if value is None else value)
        if flip:
            weights = weights.take((taps[i] - 1) - arange(taps[i]), axis=axis)
    found = node("Conv", _as_batch(planes, input.rank), _as_batch(weights, kernel.rank))
    # [images, kernels, height, width], where one of the two is 1.
    many, others = (input, kernels) if one_kernel else (kernel, images)
    lead = node("Shape", many, dtype=torch.int64, start=0, end=many.rank - 2)
    ones = constant([1] * max(0, len(others) - (many.rank - 2)))
    shape = concat([ones, lead, integer_vector(size)], 0)
    return node("Reshape", found, shape).to(input.dtype)


def _require_floats(name: str, input: Array) -> None:
    if not input.dtype.is_floating_point:
        dtype = str(input.dtype).removeprefix("torch.")
        raise outside_of_onnx(name, f"sums of {dtype}", "pass images and kernels of float32")


def _as_batch(planes: Array, rank: int) -> Array:
    """Return [..., H, W] as [N, 1, H, W]."""
    sizes = [planes.size(rank - 2), planes.size(rank - 1)]
    return planes.reshape(-1, 1, *sizes)


def _extended(planes: Array, axis: int, reach: Array, boundary: str) -> Array:
    """Take the elements at these positions of an axis that has no end; with "fill", any outside."""
    count = planes.size(axis)
    if boundary == "wrap":
        position = reach % count
    elif boundary == "symm":
        position = reach % (count + count)
        position = where(position < count, position, count + count - 1 - position)
    else:
        position = node("Max", node("Min", reach, count - 1), constant(0))
    return planes.take(position, axis=axis)


# Windows as columns, by indices, and columns as images, by Col2Im.


def im2col(
    *,
    input: Array,
    kernel_size: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    fill: Array | None,
    layout: str,
) -> Array:
    """Write a Pad and, for each dimension, a Gather of every window's elements."""
    dims, rank = len(kernel_size), input.rank
    leads = rank - dims
    sides = [*([0] * leads), *padding[:dims], *([0] * leads), *padding[dims:]]
    value = None if fill is None else fill.reshape()
    padded = node("Pad", input, integer_vector(sides), value)
    for i in reversed(range(dims)):  # each inserts a dimension behind its own
        axis = leads + i
        reach = dilation[i] * (kernel_size[i] - 1) + 1
        positions = (padded.size(axis) - reach) // stride[i] + 1
        of_window = arange(kernel_size[i]) * dilation[i]
        index = arange(positions).unsqueeze(1) * stride[i] + of_window.unsqueeze(0)
        padded = padded.take(index, axis=axis)
    every = range(leads, leads + 2 * dims)
    at_positions, in_windows = list(every[::2]), list(every[1::2])
    if layout == "patches":
        return padded.transpose(*range(leads), *at_positions, *in_windows)
    first = max(leads - 1, 0)  # the channels, if there are any
    columns = padded.transpose(*range(leads), *in_windows, *at_positions)
    shape = parts_of_shape(columns, (first, leads + dims), (leads + dims, leads + 2 * dims))
    if first:
        shape = concat([node("Shape", input, dtype=torch.int64, start=0, end=first), shape], 0)
    return node("Reshape", columns, shape)


def col2im(
    *,
    input: Array,
    output_size: Sequence[Any],
    kernel_size: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    layout: str,
) -> Array:
    """Write one Col2Im."""
    name, dims = "col2im", len(kernel_size)
    if not input.dtype.is_floating_point:
        dtype = str(input.dtype).removeprefix("torch.")
        raise outside_of_onnx(name, f"sums of {dtype}", "pass columns of a floating type")
    if dims > 2:  # ONNX Runtime 1.32 has wrong values there, and for some windows of 1 dimension
        way_out = "make the columns an output of the model, and call visops.col2im on the array"
        raise outside_of_onnx(name, f"images of {dims} dimensions", way_out)

    def attribute(argument: str, values: Sequence[Any], of_one: int) -> list[int]:
        """Return numbers of two dimensions, the first of which may be missing."""
        ends = [values[i : i + dims] for i in range(0, len(values), dims)]
        every = [n for end in ends for n in (*[of_one] * (2 - dims), *end)]
        return [static_integer(name, argument, value) for value in every]

    columns, leads = input.computable(), input.rank - 2 * dims
    if layout == "patches":
        ends = leads + dims, leads + 2 * dims
        order = [*range(leads), *range(*ends), *range(leads, leads + dims)]
        columns = columns.transpose(*order)
        shape = parts_of_shape(columns, (0, leads + dims), ends)
        columns = node("Reshape", columns, concat([constant([1]), shape], 0))
    elif input.rank == 2:
        columns = columns.unsqueeze(0)
    ones = [1] * (2 - dims)
    image = node(
        "Col2Im",
        columns,
        integer_vector([*ones, *output_size]),
        integer_vector([*ones, *kernel_size]),
        strides=attribute("stride", stride, 1),
        pads=attribute("padding", padding, 0),
        dilations=attribute("dilation", dilation, 1),
    ).to(input.dtype)
    if layout == "patches":
        lead = node("Shape", input, dtype=torch.int64, start=0, end=leads)
        return node("Reshape", image, concat([lead, integer_vector(output_size)], 0))
    if ones:
        image = image.squeeze(2)
    return image.squeeze(0) if input.rank == 2 else image


# Samples at points, and attention made of them, by ONNX's GridSample.
#
# Positions are handed over in [-1, 1], in the dtype of the sums: they are rounded once more than
# the library's.

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
