"""Masks pasted into an image, pixel by pixel, in float64."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def paste(
    mask: np.ndarray, box: np.ndarray, size: tuple[int, int], convention: str, padding: int = 0
) -> np.ndarray:
    """Sample one mask [h, w] at every pixel of the image; NaN where none of its pixels is near."""
    x1, y1, x2, y2 = (float(c) for c in box)
    result = np.full(size, np.nan)
    for y, x in np.ndindex(*size):
        if convention == "detectron2":
            rows = _neighbours_of_box(y, y1, y2, mask.shape[0])
            columns = _neighbours_of_box(x, x1, x2, mask.shape[1])
        else:
            growth = (mask.shape[1] + 2 * padding) / mask.shape[1]  # of both axes
            rows = _neighbours_of_pixels(y, y1, y2, mask.shape[0], padding, growth)
            columns = _neighbours_of_pixels(x, x1, x2, mask.shape[1], padding, growth)
        if not any(i is not None for i, _ in rows) or not any(j is not None for j, _ in columns):
            continue
        result[y, x] = sum(
            wi * wj * float(mask[i, j])
            for i, wi in rows
            for j, wj in columns
            if i is not None and j is not None
        )
    return result


Neighbours = list[tuple[int | None, float]]


def _split(position: float) -> list[tuple[int, float]]:
    before = math.floor(position)
    return [(before, 1 - (position - before)), (before + 1, position - before)]


def _neighbours_of_box(pixel: int, low: float, high: float, size: int) -> Neighbours:
    """Two mask pixels and their weights; None beyond the mask."""
    if high == low:
        return []
    position = (pixel + 0.5 - low) / (high - low) * size - 0.5
    return [(i if 0 <= i < size else None, w) for i, w in _split(position)]


def _neighbours_of_pixels(
    pixel: int, low: float, high: float, size: int, padding: int, growth: float
) -> Neighbours:
    padded = size + 2 * padding
    half, centre = (high - low) / 2 * growth, (high + low) / 2
    first, last = math.trunc(centre - half), math.trunc(centre + half)
    if not first <= pixel <= last:
        return []
    position = max((pixel - first + 0.5) * padded / (last - first + 1) - 0.5, 0.0)
    found: Neighbours = []
    for i, weight in _split(position):
        inner = min(i, padded - 1) - padding
        found.append((inner if 0 <= inner < size else None, weight))
    return found


def by_grid_sample(masks: Tensor, boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Sample each mask over the whole image with torch's operator, as detectron2 does on GPUs."""
    height, width = size
    x1, y1, x2, y2 = boxes.unbind(1)

    def positions(count: int, low: Tensor, high: Tensor) -> Tensor:
        centres = torch.arange(count, dtype=masks.dtype) + 0.5
        return (centres - low[:, None]) / (high - low)[:, None] * 2 - 1

    columns, rows = positions(width, x1, x2), positions(height, y1, y2)
    shape = (len(masks), height, width)
    grid = torch.stack([columns[:, None, :].expand(shape), rows[:, :, None].expand(shape)], dim=3)
    return F.grid_sample(masks[:, None], grid, align_corners=False)[:, 0]
