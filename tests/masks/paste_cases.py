"""Masks and boxes that the tests of pasting share."""

from typing import Any

import numpy as np
import torch
from roi.crops_cases import BOXES, SHAPE
from torch import Tensor

SIZE = SHAPE[2:]  # of the image that BOXES are made for

CONVENTIONS: tuple[dict[str, Any], ...] = (
    {"convention": "detectron2"},
    {"convention": "torchvision"},
    {"convention": "torchvision", "padding": 0},
    {"convention": "torchvision", "padding": 3},
)
# The grown sides of no box of BOXES end at whole pixels, where float32 decides.
MASK_SIZES = ((7, 7), (28, 28), (5, 9), (1, 1), (1, 5))


def boxes(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(BOXES, dtype=torch.float64).to(dtype)


def random_boxes(rng: np.random.Generator, count: int, size: tuple[int, int]) -> Tensor:
    """Sides of 1 pixel to the image's; partly outside."""
    height, width = size
    sides = rng.uniform(1, (width, height), (count, 2))
    starts = rng.uniform(-0.2, 1.0, (count, 2)) * (width, height)
    return torch.from_numpy(np.concatenate([starts, starts + sides], 1)).float()


def probabilities(
    count: int = len(BOXES), size: tuple[int, int] = (28, 28), seed: int = 0
) -> Tensor:
    """Random probabilities, smooth enough to have regions."""
    rng = np.random.default_rng(seed)
    coarse = torch.from_numpy(rng.random((count, 1, 5, 5)))
    fine = torch.nn.functional.interpolate(coarse, size, mode="bilinear")[:, 0]
    return 0.8 * fine + 0.2 * torch.from_numpy(rng.random((count, *size)))
