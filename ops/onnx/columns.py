"""Windows as columns, by indices, and columns as images, by Col2Im."""

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
)


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
