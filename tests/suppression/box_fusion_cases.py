"""Ensembles whose boxes tests fuse."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor

from suppression.nms_cases import BOXES, SCORES

NAN, INF = float("nan"), float("inf")

CONF_TYPES = ("avg", "max", "box_and_model_avg", "absent_model_aware_avg")

Ensemble = tuple[list[Tensor], list[Tensor], list[Tensor]]


def ensemble(
    rng: np.random.Generator,
    sizes: tuple[int, ...] = (12, 0, 9, 15),
    kind: str = "detections",
    dtype: torch.dtype = torch.float64,
    labels: int = 3,
) -> Ensemble:
    """Several models' boxes of the same objects; a few scores are negative or NaN."""
    count = sum(sizes)
    if kind == "detections":
        objects = rng.uniform(0, 80, (max(1, count // 5), 4))
        objects[:, 2:] = objects[:, :2] + rng.uniform(5, 30, objects[:, 2:].shape)
        boxes = objects[rng.integers(0, len(objects), count)] + rng.normal(0, 1.5, (count, 4))
    else:
        boxes = BOXES[kind](rng, count)
    scores = np.where(rng.random(count) < 0.1, SCORES["wild"](rng, count), rng.random(count))
    ids = rng.integers(-1, labels - 1, count)
    parts = [torch.from_numpy(t).split(sizes) for t in (boxes, scores, ids)]
    return [b.to(dtype) for b in parts[0]], [s.to(dtype) for s in parts[1]], list(parts[2])


def as_arrays(tensors: list[Tensor]) -> list[np.ndarray]:
    """Arrays of the same numbers; NumPy has no bfloat16."""
    return [t.float().numpy() if t.dtype == torch.bfloat16 else t.numpy() for t in tensors]


COLUMNS = {
    "weighted_boxes_fusion_1d": 2,
    "weighted_boxes_fusion_3d": 6,
    "non_maximum_weighted": 4,
}

every_form = pytest.mark.parametrize("name", COLUMNS)


def function(name: str) -> Callable[..., Any]:
    return getattr(visops, name)  # type: ignore[no-any-return]


def bodies(
    rng: np.random.Generator,
    name: str,
    sizes: tuple[int, ...] = (12, 0, 9, 15),
    dtype: torch.dtype = torch.float64,
    labels: int = 3,
) -> Ensemble:
    """Several models' boxes of the same objects; a few are odd, a few scores too."""
    half, count = COLUMNS[name] // 2, sum(sizes)
    low = rng.uniform(0, 60, (max(1, count // 5), half))
    objects = np.concatenate([low, low + rng.uniform(10, 30, low.shape)], 1)
    boxes = objects[rng.integers(0, len(objects), count)] + rng.normal(0, 1.0, (count, 2 * half))
    for odd, value in ((0.03, NAN), (0.03, INF), (0.03, 0.0)):
        boxes[rng.random(count) < odd, -1] = value
    scores = rng.random(count)
    scores[rng.random(count) < 0.05] = NAN
    scores[rng.random(count) < 0.05] = -0.5
    ids = rng.integers(-1, labels - 1, count)
    parts = [torch.from_numpy(t).split(sizes) for t in (boxes, scores, ids)]
    return [b.to(dtype) for b in parts[0]], [s.to(dtype) for s in parts[1]], list(parts[2])
