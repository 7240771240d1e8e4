"""Tensors for exported programs, in the sizes of a step: programs are exported with two of them."""

from typing import Any

import numpy as np
import torch
import visops
from roi.align_cases import of_corners, ordered, proposals, pyramid_of
from suppression.nms_cases import BOXES, distinct_scores
from torch import Tensor

STEPS = (0, 1, 2, 3)
COUNTS = (30, 7, 100, 45)  # boxes
BATCHES = (2, 3, 5, 4)
SIZES = ((9, 11), (16, 13), (23, 8), (12, 31))


def _rng(step: int) -> np.random.Generator:
    return np.random.default_rng(step)


def suppressed(step: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes [N, 4], scores [N] and ids [N]."""
    rng, count = _rng(step), COUNTS[step]
    boxes = torch.from_numpy(BOXES["clusters"](rng, count)).to(dtype)
    scores = torch.from_numpy(distinct_scores(rng, count)).float()
    return boxes, scores, torch.from_numpy(rng.integers(-2, 3, count))


def batched(step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes [B, N, 4], scores [B, N] and scores [B, N, C]."""
    rng, count, batch = _rng(step), COUNTS[step], BATCHES[step]
    boxes = np.stack([BOXES["clusters"](rng, count) for _ in range(batch)])
    scores = distinct_scores(rng, (batch, count, 3))
    of_classes = torch.from_numpy(scores).float()
    return torch.from_numpy(boxes).float(), of_classes[..., 0].clone(), of_classes


def images(step: int, channels: int = 3, dtype: torch.dtype = torch.float32) -> Tensor:
    """[B, C, H, W]"""
    values = _rng(step).random((BATCHES[step], channels, *SIZES[step]))
    return torch.from_numpy(values).to(dtype)


def regions(step: int) -> Tensor:
    """Boxes [K, 5] on those images, some beyond their borders."""
    rng, (height, width) = _rng(step), SIZES[step]
    corners = ordered(rng.uniform(-0.2, 1.2, (COUNTS[step], 2, 2)) * [width, height])
    return torch.from_numpy(of_corners(rng, corners)).float()


def matrices(step: int) -> Tensor:
    """[B, 2, 3] that turn, scale and shift a little."""
    rng, batch = _rng(step), BATCHES[step]
    matrix: Tensor = visops.get_affine_matrix(
        center=rng.uniform(3, 6, (batch, 2)),
        angle=torch.from_numpy(rng.uniform(-40, 40, batch)),
        scale=torch.from_numpy(rng.uniform(0.7, 1.4, batch)),
    )
    return torch.as_tensor(matrix)


def pyramid(step: int) -> tuple[Any, ...]:
    rng, height, width = _rng(step), 32 + 8 * step, 48 + 16 * step
    maps = pyramid_of(3, height, width, torch.float32, seed=step)
    return maps, proposals(rng, COUNTS[step], 4 * height, 4 * width)


def attention(step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Value, locations and weights of two levels, 4 x 5 and 2 x 3."""
    rng, batch, queries = _rng(step), BATCHES[step], COUNTS[step]
    shapes = (batch, 26, 2, 8), (batch, queries, 2, 2, 3, 2), (batch, queries, 2, 2, 3)
    value, locations, weights = (torch.from_numpy(rng.random(s)).float() for s in shapes)
    return value, locations, weights


def sampled(step: int) -> tuple[Tensor, Tensor]:
    rng, batch = _rng(step), BATCHES[step]
    shapes = (batch, 3, *SIZES[step]), (batch, COUNTS[step], 2)
    maps, points = (torch.from_numpy(rng.random(shape)).float() for shape in shapes)
    return maps, points
