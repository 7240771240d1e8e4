"""Masks: components, distances, packed bits, overlaps, suppression, pasting, run lengths."""

from typing import Any

import numpy as np
import torch
from masks.cases import KINDS
from torch import Tensor

from .case import Arguments, Draw, OneOf, OpCase, with_options
from .suppression import scores

OPS = torch.ops.visops
WORDS = 17  # times a size's width: rows of three and more words of 64 bits


def mask_size(draw: Draw) -> tuple[int, int]:
    height, width = draw.sizes.height, draw.sizes.width
    return height, width * {"large": 3, "random": 1}.get(draw.size, WORDS if width > 1 else 1)


def mask_count(draw: Draw) -> int:
    return min(draw.sizes.count, 40)  # a mask is larger than a box


def bools(draw: Draw, count: int) -> Tensor:
    """Return masks of all kinds in turn, of bool or uint8."""
    makers, size = list(KINDS.values()), mask_size(draw)
    made = [makers[(i + draw.seed) % len(makers)](draw.rng, *size) for i in range(count)]
    dtype = draw.dtype if draw.dtype == torch.uint8 else torch.bool
    return draw.tensor(np.array(made, bool).reshape(count, *size), dtype)


def masks(draw: Draw) -> Arguments:
    return {"masks": bools(draw, mask_count(draw))}


def two_sets(draw: Draw) -> Arguments:
    return {
        "masks1": bools(draw, mask_count(draw)),
        "masks2": bools(draw, min(draw.sizes.other, 40)),
    }


def packed_sets(draw: Draw) -> Arguments:
    """Return one set of bits and one of bools, with crowds among these."""
    arguments = two_sets(draw)
    return {
        "masks1": OPS.pack_masks(arguments["masks1"]),
        "masks2": arguments["masks2"],
        "kind": "iou",
        "iscrowd": draw.choose(torch.arange(len(arguments["masks2"])) % 2 == 0, None),
        "packed1": True,
        "packed2": False,
    }


def crowd(draw: Draw) -> Arguments:
    """Return masks of which many overlap."""
    size, count = mask_size(draw), mask_count(draw)
    made = draw.rng.random((count, *size)) < draw.rng.uniform(0.3, 0.9, (count, 1, 1))
    return {"masks": draw.tensor(made, torch.bool), "scores": scores(draw, count)}


def logits(draw: Draw) -> Arguments:
    values = draw.rng.standard_normal((mask_count(draw), *mask_size(draw)))
    return {"logits": draw.tensor(values)}


def bits(draw: Draw) -> Arguments:
    return {"bits": OPS.pack_masks(bools(draw, mask_count(draw))), "width": mask_size(draw)[1]}


def runs(draw: Draw) -> Arguments:
    ends, offsets = OPS.masks_to_runs(bools(draw, mask_count(draw)))
    return {"ends": ends, "offsets": offsets, "size": list(mask_size(draw))}


def pasted(draw: Draw) -> Arguments:
    """Return numbers from 0 to 1, and boxes of a pixel or more that are partly outside."""
    count, height, width = draw.sizes.count, draw.sizes.height, draw.sizes.width
    limits = (draw.sizes.width, draw.sizes.height)
    sides = draw.rng.uniform(1, np.maximum(limits, 2), (count, 2))
    starts = draw.rng.uniform(-0.2, 0.8, (count, 2)) * limits
    return {
        "masks": draw.uniform(count, 5, 6),
        "boxes": draw.tensor(np.concatenate([starts, starts + sides], 1), torch.float32),
        "size": (height, width),
    }


def soft(draw: Draw) -> Arguments:
    """Return numbers on boxes of float64, which pasted gradients are exact of."""
    arguments = pasted(draw)
    return {**arguments, "boxes": arguments["boxes"].double(), "out": "float"}


BOOLS: dict[str, Any] = {
    "dtypes": (torch.bool, torch.uint8),
    "layouts": ("strided", "transposed"),
}
MAPPED: dict[str, Any] = {**BOOLS, "mapped": ("masks",), "rows": ("masks",)}
PASTED: dict[str, Any] = {
    "layouts": ("strided", "transposed"),
    "mapped": ("masks", "boxes"),
    "rows": ("masks", "boxes"),
}
BITS: dict[str, Any] = {"dtypes": (torch.bool,), "layouts": ("strided", "transposed")}

CASES = [
    OpCase("connected_components", masks, **MAPPED),
    OpCase(
        "connected_components stats",
        with_options(masks, return_stats=True, max_components=9, connectivity=4),
        **MAPPED,
    ),
    OpCase(
        "remove_small_regions",
        with_options(masks, min_area=OneOf(5, 0), connectivity=OneOf(8, 4)),
        **MAPPED,
    ),
    OpCase(
        "remove_small_regions islands", with_options(masks, min_area=9, mode="islands"), **MAPPED
    ),
    OpCase(
        "distance_transform",
        with_options(masks, return_indices=True, metric=OneOf("euclidean", "taxicab")),
        **MAPPED,
    ),
    OpCase("distance_transform spacing", with_options(masks, spacing=(1, 2)), **MAPPED),
    OpCase("distance_transform chessboard", with_options(masks, metric="chessboard"), **MAPPED),
    OpCase("distance_transform volume", with_options(masks, dims=3), **BOOLS),
    OpCase("pack_masks", masks, static_fakes=True, **MAPPED),
    OpCase("mask_area", masks, **MAPPED),
    OpCase("masks_to_boxes", with_options(masks, return_empty=True), **MAPPED),
    OpCase("mask_iou", two_sets, rows=("masks1",), **{**BOOLS, "mapped": ("masks1", "masks2")}),
    OpCase("mask_iou ioa", with_options(two_sets, kind="ioa"), **BOOLS),
    OpCase(
        "mask_iou boundary",
        with_options(two_sets, kind="boundary", dilation_ratio=OneOf(0.02, 0.3)),
        **BOOLS,
    ),
    OpCase("mask_iou packed", packed_sets, call=OPS.mask_iou, **BITS),
    OpCase("unpack_masks", bits, call=OPS.unpack_masks, **BITS),
    OpCase("masks_to_runs", masks, call=OPS.masks_to_runs, counted=True, **BOOLS),
    OpCase("runs_to_bits", runs, call=OPS.runs_to_bits, **BITS),
    OpCase("mask_nms", with_options(crowd, iou_threshold=0.4), counted=True, **BITS),
    OpCase("merge_masks", with_options(crowd, overlap_threshold=OneOf(0.5, 0.0, 1.0)), **BITS),
    OpCase(
        "stability_score", logits, rows=("logits",), half=False, layouts=("strided", "transposed")
    ),
    OpCase("paste_masks", with_options(pasted, threshold=OneOf(0.5, 0.1)), **PASTED),
    OpCase("paste_masks bytes", with_options(pasted, out="uint8", threshold=0.3), **PASTED),
    OpCase("paste_masks packed", with_options(pasted, out="packed"), **PASTED),
    OpCase("paste_masks float", soft, differentiable=("masks",), linear_in=("masks",), **PASTED),
    OpCase(
        "paste_masks float, torchvision",
        with_options(soft, convention="torchvision", padding=3),
        differentiable=("masks",),
        linear_in=("masks",),
        **PASTED,
    ),
]
