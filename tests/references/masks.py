"""Masks pixel by pixel: packed, pasted, labelled, chosen by score; distances to their edges."""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def pack(mask: np.ndarray) -> np.ndarray:
    """Bits of one mask [H, W]: int64 [H, ceil(W / 64)]."""
    height, width = mask.shape
    bits = np.zeros((height, -(-width // 64)), np.uint64)
    for y, x in np.ndindex(height, width):
        if mask[y, x] != 0:
            bits[y, x // 64] |= np.uint64(1 << (x % 64))
    return bits.view(np.int64)


def box(mask: np.ndarray) -> list[float]:
    """First and last column and row with a pixel; zeros without one."""
    pixels = [at for at in np.ndindex(*mask.shape) if mask[at] != 0]
    if not pixels:
        return [0.0] * 4
    rows, columns = [y for y, _ in pixels], [x for _, x in pixels]
    return [float(min(columns)), float(min(rows)), float(max(columns)), float(max(rows))]


def overlap(a: np.ndarray, b: np.ndarray, kind: str) -> np.float32:
    """Compute the overlap of two masks [H, W]."""
    in_a, in_b = a != 0, b != 0
    common, area, union = (int(np.count_nonzero(m)) for m in (in_a & in_b, in_a, in_a | in_b))
    whole = area if kind == "ioa" else union
    return np.float32(common / whole if common else 0.0)


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


FOUR = ((-1, 0), (0, -1), (0, 1), (1, 0))


EIGHT = (*FOUR, (-1, -1), (-1, 1), (1, -1), (1, 1))


def connected_components(mask: np.ndarray, connectivity: int = 8) -> tuple[np.ndarray, int]:
    """Labels and how many there are, of one mask or label map [H, W]."""
    height, width = mask.shape
    labels = np.zeros((height, width), np.int32)
    found = 0
    for start in np.ndindex(height, width):
        if mask[start] == 0 or labels[start]:
            continue
        found += 1
        labels[start] = found
        pending = [start]
        while pending:
            y, x = pending.pop()
            for dy, dx in FOUR if connectivity == 4 else EIGHT:
                at = y + dy, x + dx
                inside = 0 <= at[0] < height and 0 <= at[1] < width
                if inside and not labels[at] and mask[at] == mask[start]:
                    labels[at] = found
                    pending.append(at)
    return labels, found


def statistics(
    labels: np.ndarray, count: int
) -> tuple[list[int], list[list[int]], list[list[float]]]:
    """Areas, boxes (x1, y1, x2, y2; the last two exclusive) and centroids (x, y) of each label."""
    areas, boxes, centroids = [], [], []
    for label in range(1, count + 1):
        pixels = [(y, x) for y, x in np.ndindex(*labels.shape) if labels[y, x] == label]
        rows, columns = [y for y, _ in pixels], [x for _, x in pixels]
        areas.append(len(pixels))
        if not pixels:
            boxes.append([0] * 4)
            centroids.append([0.0, 0.0])
            continue
        boxes.append([min(columns), min(rows), max(columns) + 1, max(rows) + 1])
        centroids.append([sum(columns) / len(pixels), sum(rows) / len(pixels)])
    return areas, boxes, centroids


def remove_small_regions(
    mask: np.ndarray, min_area: int, mode: str, connectivity: int = 8
) -> np.ndarray:
    """One mask [H, W] with small holes filled, or without small islands."""
    inside = mask != 0
    regions, count = connected_components(~inside if mode == "holes" else inside, connectivity)
    areas = [int(np.sum(regions == label)) for label in range(1, count + 1)]
    small = [label for label in range(1, count + 1) if areas[label - 1] < min_area]
    if mode == "islands" and len(small) == count and count:
        small.remove(areas.index(max(areas)) + 1)
    result = inside.copy()
    for label in small:
        result[regions == label] = mode == "holes"
    return result


def length(metric: str, steps: Sequence[np.ndarray]) -> np.ndarray:
    parts = [np.abs(step) for step in steps]
    if metric == "taxicab":
        return np.asarray(sum(parts))
    if metric == "chessboard":
        return np.asarray(np.max(parts, axis=0))
    return np.sqrt(np.asarray(sum(part * part for part in parts)))


def distance_transform(
    mask: np.ndarray, metric: str = "euclidean", spacing: Sequence[float] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Distances, and the place of the nearest pixel outside: the first in raster order."""
    spacing = spacing or [1.0] * mask.ndim
    pixels = np.indices(mask.shape)
    distances = np.full(mask.shape, np.inf)
    positions = np.full((mask.ndim, *mask.shape), -1)
    for site in np.argwhere(mask == 0):  # in raster order
        steps = [s * (axis - at) for s, axis, at in zip(spacing, pixels, site, strict=True)]
        found = length(metric, steps)
        nearer = found < distances
        distances[nearer] = found[nearer]
        for axis, at in enumerate(site):
            positions[axis][nearer] = at
    return distances, positions


def distance_at(metric: str, spacing: Sequence[float], positions: np.ndarray) -> np.ndarray:
    """How far each pixel is from the place that was found for it."""
    pixels = np.indices(positions.shape[1:])
    steps = [s * (axis - at) for s, axis, at in zip(spacing, pixels, positions, strict=True)]
    return np.where(positions[0] >= 0, length(metric, steps), np.inf)


def by_falling_score(scores: Sequence[float]) -> list[int]:
    """NaN first, then the highest; ties by index."""
    return sorted(
        range(len(scores)), key=lambda i: (not math.isnan(scores[i]), -np.nan_to_num(scores[i]), i)
    )


def suppress(
    masks: np.ndarray,
    scores: Sequence[float],
    threshold: float,
    groups: Sequence[int] | np.ndarray | None,
) -> list[int]:
    kept: list[int] = []
    for i in by_falling_score(scores):
        rivals = [k for k in kept if groups is None or groups[k] == groups[i]]
        if not any(iou(masks[k], masks[i]) > threshold for k in rivals):
            kept.append(i)
    return kept


def iou(one: np.ndarray, other: np.ndarray) -> float:
    """Return the ratio of two counts, which the threshold that is written like it equals."""
    return int((one & other).sum()) / max(int((one | other).sum()), 1)


def merge(
    masks: np.ndarray, scores: Sequence[float], overlap_threshold: float
) -> tuple[np.ndarray, list[int]]:
    """Draw masks by falling score, where nothing is drawn yet."""
    labels = np.zeros(masks.shape[1:], np.int32)
    ids = [0] * len(masks)
    drawn = 0
    for i in by_falling_score(scores):
        area = int(masks[i].sum())
        covered = int((masks[i] & (labels > 0)).sum())
        if area == 0 or covered / area > overlap_threshold:
            continue
        drawn += 1
        ids[i] = drawn
        labels[masks[i] & (labels == 0)] = drawn
    return labels, ids


def boundary(mask: np.ndarray, distance: int) -> np.ndarray:
    """Return the pixels of a mask with one outside of it within `distance` rows and columns."""
    found = np.zeros_like(mask)
    height, width = mask.shape
    for y, x in zip(*np.nonzero(mask), strict=True):
        rows = range(y - distance, y + distance + 1)
        columns = range(x - distance, x + distance + 1)
        found[y, x] = any(
            not (0 <= r < height and 0 <= c < width) or not mask[r, c]
            for r in rows
            for c in columns
        )
    return found
