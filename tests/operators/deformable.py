"""Deformable attention and convolution, points sampled on maps, and costs of matching."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .boxes import corners
from .case import Arguments, Draw, OneOf, OpCase, with_options

LEVELS = ((4, 5), (2, 3))


def between_pixels(draw: Draw, sides: Any, *shape: int) -> np.ndarray:
    """Return positions in and around maps, away from the kinks on pixels and borders."""
    whole = np.floor(draw.rng.uniform(-1.5, np.add(sides, 1.5), shape))
    return whole + draw.rng.uniform(0.1, 0.9, shape)


def attention(draw: Draw, points: Sequence[int] = ()) -> Arguments:
    """Return samples on two levels: three on each, or other numbers of them."""
    batch, queries, heads = draw.sizes.batch, draw.sizes.count, draw.choose(2, 1, 3)
    levels = draw.choose(LEVELS, ((1, 1), (7, 2)))
    sides = np.repeat([(w, h) for h, w in levels], points or (3, 3), axis=0)
    samples = (batch, queries, heads, len(sides))
    locations = (between_pixels(draw, sides, *samples, 2) + 0.5) / sides
    weights = draw.rng.uniform(0, 1, samples)
    value = draw.normal(batch, sum(h * w for h, w in levels), heads, draw.choose(4, 1, 19))
    if not points:
        shape = (batch, queries, heads, len(levels), 3)
        locations, weights = locations.reshape(*shape, 2), weights.reshape(shape)
    return {
        "value": value,
        "spatial_shapes": levels,
        "sampling_locations": draw.tensor(locations),
        "attention_weights": draw.tensor(weights),
        **({"num_points_list": list(points)} if points else {}),
    }


def shapes_in_a_tensor(draw: Draw) -> Arguments:
    arguments = attention(draw)
    return {**arguments, "spatial_shapes": torch.tensor(arguments["spatial_shapes"])}


def convolution(draw: Draw) -> Arguments:
    """Return two groups of channels and of offsets, with a mask; the size of the image stays."""
    batch, height, width = draw.sizes.batch, draw.sizes.height, draw.sizes.width
    offset = between_pixels(draw, 1, batch, 2 * 18, height, width) - 1
    return {
        "input": draw.normal(batch, 4, height, width),
        "offset": draw.tensor(offset),
        "weight": draw.normal(6, 2, 3, 3),
        "bias": draw.normal(6),
        "padding": 1,
        "mask": draw.uniform(batch, 2 * 9, height, width),
    }


def plain_convolution(draw: Draw) -> Arguments:
    """Return one group without mask and bias, of channels that are the last dimension."""
    batch, height, width = draw.sizes.batch, draw.sizes.height + 2, draw.sizes.width + 2
    offset = between_pixels(draw, 1, batch, 18, height - 2, width - 2) - 1
    channels = draw.sizes.channels
    image = draw.normal(batch, channels, height, width)
    return {
        "input": image.contiguous(memory_format=torch.channels_last),
        "offset": draw.tensor(offset),
        "weight": draw.normal(5, channels, 3, 3),
    }


def points(draw: Draw) -> Arguments:
    batch, height, width = draw.sizes.batch, draw.sizes.height, draw.sizes.width
    sides = (width, height)
    places = between_pixels(draw, sides, batch, draw.sizes.count, 2) + 0.5
    places /= np.maximum(sides, 1)
    return {
        "input": draw.normal(batch, draw.sizes.channels, height, width),
        "points": draw.tensor(places),
    }


def points_on_masks(draw: Draw) -> Arguments:
    arguments = points(draw)
    return {"input": arguments["input"] > 0, "points": arguments["points"].float()}


def grid_of_points(draw: Draw) -> Arguments:
    """Return a grid that all images share."""
    arguments = points(draw)
    return {**arguments, "points": arguments["points"][:1, :, None].repeat(1, 1, 2, 1)}


def matched(draw: Draw) -> Arguments:
    """Return the predictions for two images, and the targets of each."""
    queries, targets = draw.sizes.count, draw.sizes.other
    floats, classes = draw.dtype, draw.choose(13, 1, 40)  # more than a vector has lanes, or few
    return {
        "logits": draw.normal(2, queries, classes),
        "boxes": corners(draw, 2, queries).div(120).to(floats),
        "target_labels": draw.tensor(draw.rng.integers(0, classes, targets), torch.int64),
        "target_boxes": corners(draw, targets).div(120).to(floats),
        "weights": (2.0, 5.0, 2.0),
        "counts": [targets // 2, targets - targets // 2],
    }


ATTENTION: dict[str, Any] = {
    "differentiable": ("value", "sampling_locations", "attention_weights"),
    "mapped": ("value", "sampling_locations", "attention_weights"),
    "linear_in": ("value", "attention_weights"),
    "rows": ("value", "sampling_locations", "attention_weights"),
    "layouts": ("strided", "transposed"),
    "twice": False,  # by the value alone
}
DEFORMABLE: dict[str, Any] = {
    "layouts": ("strided", "channels_last", "part_of_channels_last"),
    "twice": False,
    "exact": False,  # a matrix product
    "half": False,
    "autocast": True,
}
POINTS: dict[str, Any] = {
    "mapped": ("input", "points"),
    "rows": ("input", "points"),
    "layouts": ("strided", "transposed", "channels_last", "part_of_channels_last"),
}

CASES = [
    OpCase("multi_scale_deformable_attention", attention, **ATTENTION),
    OpCase(
        "multi_scale_deformable_attention lists",
        lambda draw: attention(draw, (1, 3)),
        **ATTENTION,
    ),
    OpCase(
        "multi_scale_deformable_attention shapes",
        shapes_in_a_tensor,
        **{**ATTENTION, "layouts": ("strided",)},
    ),
    OpCase(
        "multi_scale_deformable_attention discrete",
        with_options(attention, method="discrete"),
        **{**ATTENTION, "differentiable": ("value", "attention_weights")},
    ),
    OpCase(
        "deform_conv2d",
        convolution,
        differentiable=("input", "offset", "weight", "bias", "mask"),
        linear_in=("input", "weight"),
        mapped=("input", "offset", "weight", "mask"),
        rows=("input", "offset", "mask"),
        **DEFORMABLE,
    ),
    OpCase(
        "deform_conv2d plain",
        plain_convolution,
        differentiable=("input", "offset", "weight"),
        linear_in=("input", "weight"),
        rows=("input", "offset"),
        **DEFORMABLE,
    ),
    OpCase(
        "point_sample",
        with_options(
            points,
            padding_mode=OneOf("border", "zeros", "reflection"),
            align_corners=OneOf(False, True),
        ),
        differentiable=("input", "points"),
        twice=False,  # by the input alone
        linear_in=("input",),
        **POINTS,
    ),
    OpCase(
        "point_sample nearest",
        with_options(points, mode="nearest", padding_mode=OneOf("zeros", "border", "reflection")),
        differentiable=("input",),
        linear_in=("input",),
        **POINTS,
    ),
    OpCase(
        "point_sample masks",
        points_on_masks,
        differentiable=("points",),
        finite_differences=False,  # no float64
        twice=False,
        **POINTS,
    ),
    OpCase(
        "point_sample grid",
        grid_of_points,
        differentiable=("input", "points"),
        twice=False,
        exact=False,  # torch sums the gradients of shared points, and rounds halves each time
        **{**POINTS, "dtypes": (torch.float32, torch.float64), "rows": ("input",)},
    ),
    OpCase(
        "match_cost",
        with_options(matched, kind=OneOf("focal", "softmax"), gamma=OneOf(2.0, 1.5)),
        layouts=("strided", "transposed"),
    ),
]
