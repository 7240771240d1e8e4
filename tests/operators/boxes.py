"""Overlaps of boxes, of all pairs and one to one, and the losses made of them."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .case import Arguments, Draw, OneOf, OpCase, with_options


def corners(draw: Draw, *shape: int, area: float = 60.0) -> Tensor:
    """Return boxes with x1, y1, x2, y2, none of which touches another."""
    low = draw.rng.uniform(0, area, (*shape, 2))
    sides = draw.rng.uniform(area / 3, area, (*shape, 2))
    return draw.tensor(np.concatenate([low, low + sides], -1))


def rotated(draw: Draw, *shape: int, area: float = 10.0) -> Tensor:
    """Return boxes with their centre, width, height and angle."""
    centre, angle = draw.rng.uniform(0, area, (*shape, 2)), draw.rng.uniform(-7, 7, (*shape, 1))
    sides = draw.rng.uniform(area / 2, area, (*shape, 2))
    return draw.tensor(np.concatenate([centre, sides, angle], -1))


def pairs(draw: Draw) -> Arguments:
    sizes = draw.sizes
    return {"boxes1": corners(draw, sizes.count), "boxes2": corners(draw, sizes.other)}


def rotated_pairs(draw: Draw) -> Arguments:
    sizes = draw.sizes
    return {"boxes1": rotated(draw, sizes.count), "boxes2": rotated(draw, sizes.other)}


def one_to_one(draw: Draw) -> Arguments:
    return {"boxes1": corners(draw, draw.sizes.count), "boxes2": corners(draw, draw.sizes.count)}


BOTH: dict[str, Any] = {
    "differentiable": ("boxes1", "boxes2"),
    "mapped": ("boxes1", "boxes2"),
    "rows": ("boxes1",),
    "layouts": ("strided", "transposed"),
}

FORMATS = OneOf("xyxy", "xywh", "cxcywh")
REDUCED = OneOf("none", "mean", "sum")

CASES = [
    OpCase("box_iou", with_options(pairs, fmt=FORMATS), **BOTH),
    OpCase("box_iou iof", with_options(pairs, kind="iof"), **BOTH),
    OpCase("box_iou iof2", with_options(pairs, kind="iof2"), call=torch.ops.visops.box_iou, **BOTH),
    OpCase("generalized_box_iou", with_options(pairs, fmt=FORMATS), **BOTH),
    OpCase("distance_box_iou", with_options(pairs, fmt=FORMATS), **BOTH),
    # Its weight of the aspect ratio is constant in gradients, not in finite differences.
    OpCase("complete_box_iou", pairs, finite_differences=False, **BOTH),
    OpCase("box_iou_rotated", rotated_pairs, **BOTH),
    OpCase("box_iou_rotated iof", with_options(rotated_pairs, kind="iof"), **BOTH),
    OpCase(
        "box_iou aligned",
        with_options(one_to_one, aligned=True),
        composed=True,
        **{**BOTH, "rows": ("boxes1", "boxes2")},
    ),
    *(
        OpCase(
            name,
            with_options(one_to_one, reduction=REDUCED),
            composed=True,
            finite_differences=name != "complete_box_iou_loss",
            **{**BOTH, "rows": ()},
        )
        for name in (
            "generalized_box_iou_loss",
            "distance_box_iou_loss",
            "complete_box_iou_loss",
        )
    ),
]
