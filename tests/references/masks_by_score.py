"""Suppression, merging, boundaries and stability of masks, as their definitions read."""

import math
from collections.abc import Sequence

import numpy as np


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
