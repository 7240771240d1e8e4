"""Regions of images: aligned, pooled, cropped and pasted."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .case import FLOATS, Arguments, Draw, OneOf, OpCase, with_options

PADDINGS = ("reflect", "constant", "replicate", "symmetric", "circular")


def bins(draw: Draw) -> tuple[int, int]:
    found: tuple[int, int] = draw.choose((2, 3), (1, 1), (4, 1), (3, 7))
    return found


def maps(draw: Draw, channels: int | None = None) -> Tensor:
    """Return images of the draw's dtype: numbers from 0 to 1, or bytes."""
    channels = draw.sizes.channels if channels is None else channels
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
        "output_size": bins(draw),
        "spatial_scale": draw.choose(0.9, 0.5),
        "sampling_ratio": draw.choose(2, 1, 3, -1),
        "aligned": draw.choose(True, False),
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
        "output_size": bins(draw),
        "scales": [1.0, 0.5],
        "sampling_ratio": draw.choose(2, 1, -1),
        "canonical_scale": 6,
        "canonical_level": 1,
        "aligned": draw.choose(True, False),
        "level_rule": draw.choose("torchvision", "detectron2"),
    }


def pooled(draw: Draw) -> Arguments:
    return {"input": maps(draw), "boxes": regions(draw), "output_size": bins(draw)}


def position_sensitive(draw: Draw) -> Arguments:
    arguments = {**pooled(draw), "sampling_ratio": draw.choose(2, 1, -1)}
    height, width = arguments["output_size"]
    return {**arguments, "input": maps(draw, 2 * height * width)}


def turned(draw: Draw) -> Arguments:
    boxes = regions(draw)
    centres, sides = (boxes[:, 1:3] + boxes[:, 3:]) / 2, boxes[:, 3:] - boxes[:, 1:3]
    angles = draw.tensor(draw.rng.uniform(-4, 4, (len(boxes), 1)), boxes.dtype)
    rotated = torch.cat([boxes[:, :1], centres, sides, angles], 1)
    options = {"clockwise": draw.choose(False, True), "aligned": draw.choose(True, False)}
    return {**pooled(draw), "boxes": rotated, "sampling_ratio": draw.choose(2, 1, 0), **options}


def cropped(draw: Draw) -> Arguments:
    return {
        "images": maps(draw),
        "boxes": regions(draw),
        "size": draw.choose((4, 5), (1, 1), (2, 9)),
    }


def pasted(draw: Draw) -> Arguments:
    boxes = regions(draw)
    values = draw.rng.random((len(boxes), draw.sizes.channels, 4, 5))
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
    "rows": ("boxes",),
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
    "rows": ("boxes",),
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
        rows=("boxes",),
        layouts=LAYOUTS,
    ),
    OpCase("roi_pool", pooled, **{**LINEAR, "linear_in": ()}),  # the largest is another one
    OpCase("ps_roi_align", position_sensitive, **LINEAR),
    OpCase("roi_align_rotated", turned, **LINEAR),
    OpCase(
        "crop_rois",
        with_options(
            cropped,
            interpolation=OneOf("bilinear", "bicubic"),
            padding_mode=OneOf(*PADDINGS),
        ),
        differentiable=("images", "boxes"),
        indexed="boxes",
        twice=False,
        mapped=("images", "boxes"),
        rows=("boxes",),
        layouts=LAYOUTS,
        dtypes=BYTES,
    ),
    OpCase(
        "crop_rois bicubic",
        with_options(
            cropped,
            interpolation=OneOf("bicubic", "nearest", "bilinear"),
            padding_mode=OneOf("constant", *PADDINGS),
        ),
        differentiable=("images",),
        linear_in=("images",),
        mapped=("images",),
        rows=("boxes",),
        layouts=LAYOUTS,
        dtypes=BYTES,
    ),
    OpCase(
        "paste_rois",
        with_options(pasted, interpolation=OneOf("bilinear", "nearest", "bicubic")),
        differentiable=("images", "patches"),
        linear_in=("images", "patches"),
        mapped=("images", "patches"),
        layouts=LAYOUTS,
        dtypes=BYTES,
    ),
    OpCase(
        "paste_rois feather",
        with_options(pasted, blend="feather", feather=2.0),
        differentiable=("images", "patches"),
        linear_in=("images", "patches"),
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
