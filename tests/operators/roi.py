"""Regions of images: aligned, pooled, cropped and pasted."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .case import FLOATS, Arguments, Draw, OpCase, with_options

BINS = (2, 3)


def maps(draw: Draw, channels: int = 3) -> Tensor:
    """Return images of the draw's dtype: numbers from 0 to 1, or bytes."""
    shape = (draw.sizes.batch, channels, draw.sizes.height, draw.sizes.width)
    values = draw.rng.random(shape)
    return draw.tensor(values * 255 if draw.dtype == torch.uint8 else values)


def regions(draw: Draw) -> Tensor:
    """Return boxes that may cross a border, on the same images for every seed."""
    count = min(draw.sizes.count, 150) if draw.sizes.batch else 0
    sides = (draw.sizes.width, draw.sizes.height)
    index = draw.fixed.integers(0, max(draw.sizes.batch, 1), (count, 1))
    low = draw.rng.uniform(-0.2, 0.7, (count, 2)) * sides
    extent = draw.rng.uniform(0.2, 0.9, (count, 2)) * sides
    boxes = np.concatenate([index, low, low + extent], 1)
    return draw.tensor(boxes, torch.float64 if draw.dtype == torch.float64 else torch.float32)


def aligned(draw: Draw) -> Arguments:
    return {
        "input": maps(draw),
        "boxes": regions(draw),
        "output_size": BINS,
        "spatial_scale": 0.9,
        "sampling_ratio": 2,
        "aligned": True,
    }


def pyramid(draw: Draw) -> Arguments:
    """Return a map of twice the size, and one of the size."""
    images = maps(draw)
    return {
        "features": [
            images.repeat(1, 1, 2, 2).cumsum(3) if images.is_floating_point() else images,
            images,
        ],
        "boxes": regions(draw),
        "output_size": BINS,
        "scales": [1.0, 0.5],
        "sampling_ratio": 2,
        "canonical_scale": 6,
        "canonical_level": 1,
        "aligned": True,
    }


def pooled(draw: Draw) -> Arguments:
    return {"input": maps(draw), "boxes": regions(draw), "output_size": BINS}


def position_sensitive(draw: Draw) -> Arguments:
    channels = 2 * BINS[0] * BINS[1]
    return {**pooled(draw), "input": maps(draw, channels), "sampling_ratio": 2}


def turned(draw: Draw) -> Arguments:
    boxes = regions(draw)
    centres, sides = (boxes[:, 1:3] + boxes[:, 3:]) / 2, boxes[:, 3:] - boxes[:, 1:3]
    angles = draw.tensor(draw.rng.uniform(-4, 4, (len(boxes), 1)), boxes.dtype)
    rotated = torch.cat([boxes[:, :1], centres, sides, angles], 1)
    return {**pooled(draw), "boxes": rotated, "sampling_ratio": 2}


def cropped(draw: Draw) -> Arguments:
    return {"images": maps(draw), "boxes": regions(draw), "size": (4, 5)}


def pasted(draw: Draw) -> Arguments:
    boxes = regions(draw)
    values = draw.rng.random((len(boxes), 3, 4, 5))
    patches = draw.tensor(values * 255 if draw.dtype == torch.uint8 else values)
    return {"images": maps(draw), "patches": patches, "boxes": boxes}


def blended(draw: Draw) -> Arguments:
    arguments = pasted(draw)
    alpha = draw.tensor(draw.rng.random((len(arguments["boxes"]), 4, 5)), arguments["boxes"].dtype)
    return {**arguments, "blend": "alpha", "alpha": alpha}


LAYOUTS = ("strided", "transposed", "channels_last", "part_of_channels_last")
BYTES = (*FLOATS, torch.uint8)
ALIGNED: dict[str, Any] = {
    "mapped": ("input", "boxes"),
    "layouts": LAYOUTS,
    "dtypes": BYTES,
}
BOTH: dict[str, Any] = {
    **ALIGNED,
    "differentiable": ("input", "boxes"),
    "indexed": "boxes",
    "twice": False,  # by the images alone
}
LINEAR: dict[str, Any] = {
    "differentiable": ("input",),
    "linear_in": ("input",),
    "mapped": ("input", "boxes"),
    "layouts": LAYOUTS,
}

CASES = [
    OpCase("roi_align", aligned, **BOTH),
    OpCase("roi_align maps", aligned, differentiable=("input",), linear_in=("input",), **ALIGNED),
    OpCase("roi_align adaptive", pooled, differentiable=("input",), **ALIGNED),
    OpCase("roi_align max", with_options(aligned, reduce="max"), **BOTH),
    OpCase(
        "multiscale_roi_align",
        pyramid,
        differentiable=("features", "boxes"),
        indexed="boxes",
        twice=False,
        mapped=("features", "boxes"),
        layouts=LAYOUTS,
    ),
    OpCase("roi_pool", pooled, **{**LINEAR, "linear_in": ()}),  # the largest is another one
    OpCase("ps_roi_align", position_sensitive, **LINEAR),
    OpCase("roi_align_rotated", turned, **LINEAR),
    OpCase(
        "crop_rois",
        with_options(cropped, padding_mode="reflect"),
        differentiable=("images", "boxes"),
        indexed="boxes",
        twice=False,
        mapped=("images", "boxes"),
        layouts=LAYOUTS,
        dtypes=BYTES,
    ),
    OpCase(
        "crop_rois bicubic",
        with_options(cropped, interpolation="bicubic"),
        differentiable=("images",),
        linear_in=("images",),
        mapped=("images",),
        layouts=LAYOUTS,
        dtypes=BYTES,
    ),
    OpCase(
        "paste_rois",
        pasted,
        differentiable=("images", "patches"),
        mapped=("images", "patches"),
        layouts=LAYOUTS,
        dtypes=BYTES,
    ),
    OpCase(
        "paste_rois feather",
        with_options(pasted, blend="feather", feather=2.0),
        differentiable=("images", "patches"),
        mapped=("images", "patches"),
        layouts=LAYOUTS,
    ),
    OpCase(
        "paste_rois alpha",
        blended,
        differentiable=("images", "patches", "alpha"),
        twice=False,
        mapped=("images", "patches", "alpha"),
        layouts=LAYOUTS,
    ),
]
