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
