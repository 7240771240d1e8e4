"""What the tests of the other poolings share: the functions, and boxes for each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import visops
from torch import Tensor

from roi.align_cases import boxes_of, maps_of

OPS = torch.ops.visops
PIXELS = (9, 11)  # of maps; there are two images


class Pooling(NamedTuple):
    """A function, and what its tests need to know."""

    function: Callable[..., Tensor]
    columns: int  # of a box
    bins: int  # channels for each of the result
    options: tuple[dict[str, Any], ...]  # spatial_scale and more


POOLINGS = {
    "roi_pool": Pooling(visops.roi_pool, 5, 1, ({}, {"spatial_scale": 0.3})),
    "ps_roi_align": Pooling(
        visops.ps_roi_align,
        5,
        6,
        ({}, {"spatial_scale": 0.3, "sampling_ratio": 2}, {"sampling_ratio": 1}),
    ),
    "roi_align_rotated": Pooling(
        visops.roi_align_rotated,
        6,
        1,
        (
            {},
            {"spatial_scale": 0.3, "sampling_ratio": 2, "clockwise": True},
            {"sampling_ratio": 1, "aligned": False},
        ),
    ),
}
OUTPUT_SIZE = (2, 3)  # six bins


def rotated_of(boxes: np.ndarray, seed: int = 0) -> np.ndarray:
    """[K, 6] with centres and sizes of boxes [K, 5]; angles are random, or eighths of a turn."""
    rng = np.random.default_rng(seed)
    centre, extent = (boxes[:, 1:3] + boxes[:, 3:]) / 2, boxes[:, 3:] - boxes[:, 1:3]
    angle = np.where(
        rng.random((len(boxes), 1)) < 0.5,
        rng.uniform(-7, 7, (len(boxes), 1)),
        rng.integers(-8, 9, (len(boxes), 1)) * (np.pi / 4),
    )
    return np.concatenate([boxes[:, :1], centre, extent, angle], 1)


def problem(
    name: str,
    kind: str = "overhanging",
    count: int = 10,
    dtype: torch.dtype = torch.float64,
    channels: int = 2,
    scale: float = 1.0,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return maps and boxes for one of POOLINGS; `channels` are those of the result."""
    pooling = POOLINGS[name]
    boxes = boxes_of(kind, count, scale, seed)
    if pooling.columns == 6:
        boxes = rotated_of(boxes, seed)
    maps = maps_of((2, channels * pooling.bins, *PIXELS), seed)
    return torch.from_numpy(maps).to(dtype), torch.from_numpy(boxes).to(dtype)
