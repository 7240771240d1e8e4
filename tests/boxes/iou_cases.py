"""The four measures, and boxes that the tests of pairwise overlaps share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torchvision.ops
import visops
from suppression.nms_cases import BOXES
from torch import Tensor

Rng = np.random.Generator

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "iou": visops.box_iou,
    "generalized": visops.generalized_box_iou,
    "distance": visops.distance_box_iou,
    "complete": visops.complete_box_iou,
}
PEERS: dict[str, Callable[..., Tensor]] = {
    "iou": torchvision.ops.box_iou,
    "generalized": torchvision.ops.generalized_box_iou,
    "distance": torchvision.ops.distance_box_iou,
    "complete": torchvision.ops.complete_box_iou,
}

# Kinds of boxes with areas: torchvision has values for them.
PROPER = ("grid", "uniform", "clusters", "pile", "mixed", "one")
# Around the sizes at which kernels change their loops: few columns, 32 lanes, parts of 128.
SIZES = (
    (0, 3),
    (3, 0),
    (1, 1),
    (1, 40),
    (7, 15),
    (300, 5),
    (20, 16),
    (17, 33),
    (18, 161),
    (3, 400),
)


def pair_of_sets(
    kind: str, count1: int, count2: int, dtype: torch.dtype, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Boxes [N, 4] and [M, 4]; some are in both sets."""
    rng = np.random.default_rng(seed)
    boxes = torch.from_numpy(BOXES[kind](rng, count1 + count2)).to(dtype)
    boxes1, boxes2 = boxes[:count1].clone(), boxes[count1:].clone()
    shared = min(count1, count2) // 3
    boxes2[:shared] = boxes1[:shared]
    return boxes1, boxes2


def rotated_boxes(rng: Rng, count: int, area: float = 10.0) -> np.ndarray:
    """[N, 5] with sides of 1 to 9 and any angle."""
    centre = rng.uniform(0, area, (count, 2))
    return np.concatenate(
        [centre, rng.uniform(1, 9, (count, 2)), rng.uniform(-7, 7, (count, 1))], axis=1
    )


def rotated_grid(rng: Rng, count: int) -> np.ndarray:
    """A few whole numbers and eighths of turns: shared corners and edges, and copies."""
    numbers = [rng.integers(-3, 4, (count, 2)), rng.integers(1, 5, (count, 2))]
    angle = rng.integers(-8, 9, (count, 1)) * (np.pi / 4)
    return np.concatenate([*numbers, angle], axis=1).astype(np.float64)
