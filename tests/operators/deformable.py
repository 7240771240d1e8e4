"""Deformable attention and convolution, points sampled on maps, and costs of matching."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .boxes import corners
from .case import Arguments, Draw, OpCase, with_options

LEVELS = ((4, 5), (2, 3))
CLASSES = 13  # more than a vector has lanes


def between_pixels(draw: Draw, sides: Any, *shape: int) -> np.ndarray:
    """Return positions in and around maps, away from the kinks on pixels and borders."""
    whole = np.floor(draw.rng.uniform(-1.5, np.add(sides, 1.5), shape))
    return whole + draw.rng.uniform(0.1, 0.9, shape)


def attention(draw: Draw, points: Sequence[int] = ()) -> Arguments:
    """Return samples on two levels: three on each, or other numbers of them."""
    batch, queries, heads = draw.sizes.batch, draw.sizes.count, 2
    sides = np.repeat([(w, h) for h, w in LEVELS], points or (3, 3), axis=0)
    samples = (batch, queries, heads, len(sides))
    locations = (between_pixels(draw, sides, *samples, 2) + 0.5) / sides
    weights = draw.rng.uniform(0, 1, samples)
    value = draw.normal(batch, sum(h * w for h, w in LEVELS), heads, 4)
    if not points:
        levels = (batch, queries, heads, len(LEVELS), 3)
        locations, weights = locations.reshape(*levels, 2), weights.reshape(levels)
    return {
        "value": value,
        "spatial_shapes": LEVELS,
        "sampling_locations": draw.tensor(locations),
        "attention_weights": draw.tensor(weights),
        **({"num_points_list": list(points)} if points else {}),
    }


def shapes_in_a_tensor(draw: Draw) -> Arguments:
    return {**attention(draw), "spatial_shapes": torch.tensor(LEVELS)}


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
    image = draw.normal(batch, 3, height, width).contiguous(memory_format=torch.channels_last)
    return {"input": image, "offset": draw.tensor(offset), "weight": draw.normal(5, 3, 3, 3)}


def points(draw: Draw) -> Arguments:
    batch, height, width = draw.sizes.batch, draw.sizes.height, draw.sizes.width
    sides = (width, height)
    places = (between_pixels(draw, sides, batch, draw.sizes.count, 2) + 0.5) / sides
    return {"input": draw.normal(batch, 3, height, width), "points": draw.tensor(places)}


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
    floats = draw.dtype
    return {
        "logits": draw.normal(2, queries, CLASSES),
        "boxes": corners(draw, 2, queries).div(120).to(floats),
        "target_labels": draw.tensor(draw.rng.integers(0, CLASSES, targets), torch.int64),
        "target_boxes": corners(draw, targets).div(120).to(floats),
        "weights": (2.0, 5.0, 2.0),
        "counts": [targets // 2, targets - targets // 2],
    }


ATTENTION: dict[str, Any] = {
    "differentiable": ("value", "sampling_locations", "attention_weights"),
    "mapped": ("value", "sampling_locations", "attention_weights"),
    "linear_in": ("value", "attention_weights"),
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
        mapped=("input", "offset", "weight", "mask"),
        **DEFORMABLE,
    ),
    OpCase(
        "deform_conv2d plain",
        plain_convolution,
        differentiable=("input", "offset", "weight"),
        linear_in=("input", "weight"),
        **DEFORMABLE,
    ),
    OpCase(
        "point_sample",
        with_options(points, padding_mode="border"),
        differentiable=("input", "points"),
        twice=False,  # by the input alone
        linear_in=("input",),
        **POINTS,
    ),
    OpCase(
        "point_sample nearest",
        with_options(points, mode="nearest"),
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
        **{**POINTS, "dtypes": (torch.float32, torch.float64)},
    ),
    OpCase("match_cost", matched, layouts=("strided", "transposed")),
]
