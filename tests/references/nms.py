"""Greedy non-maximum suppression, straight from its definition, box by box and slow."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

Kept = list[tuple[int, ...]]


def iou(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Intersection over union of boxes x1, y1, x2, y2, which are scalars of one NumPy type."""
    zero = type(a[0])(0)
    area_a = (a[2] - a[0]) * (a[3] - a[1])
    area_b = (b[2] - b[0]) * (b[3] - b[1])
    width = np.maximum(zero, np.minimum(a[2], b[2]) - np.maximum(a[0], b[0]))
    height = np.maximum(zero, np.minimum(a[3], b[3]) - np.maximum(a[1], b[1]))
    inter = width * height
    return inter / (area_a + area_b - inter)


def by_score(scores: np.ndarray) -> list[int]:
    """Indices by falling score: NaN first, -0 and 0 are equal, equal scores by index."""

    def key(i: int) -> tuple[int, float]:
        score = float(scores[i])
        return (0, 0.0) if np.isnan(score) else (1, -score)

    return sorted(range(len(scores)), key=key)


def nms(
    boxes: np.ndarray,
    scores: np.ndarray,
    iou_threshold: float,
    max_output: int | None = None,
    score_threshold: float | None = None,
) -> list[int]:
    """Indices of the kept boxes among [N, 4]."""
    computed = np.float32 if boxes.dtype in (np.float16, np.float32) else np.float64
    rows = [list(row) for row in boxes.astype(computed)]
    left = by_score(scores)
    if score_threshold is not None:
        least = scores.dtype.type(score_threshold)
        left = [i for i in left if scores[i] > least]
    kept: list[int] = []
    with np.errstate(all="ignore"):
        while left and (max_output is None or len(kept) < max_output):
            best = left.pop(0)
            kept.append(best)
            # The threshold is a double: a float32 ratio is compared in float64.
            left = [i for i in left if not float(iou(rows[best], rows[i])) > iou_threshold]
    return kept


def nms_of_groups(
    boxes: np.ndarray,
    scores: np.ndarray,
    groups: Sequence[Hashable],
    iou_threshold: float,
    max_output: int | None = None,
    score_threshold: float | None = None,
) -> list[int]:
    """As nms(); boxes of different groups never meet. max_output counts all groups together."""
    kept: set[int] = set()
    for group in set(groups):
        members = [i for i, g in enumerate(groups) if g == group]
        own = nms(boxes[members], scores[members], iou_threshold, None, score_threshold)
        kept.update(members[i] for i in own)
    return [i for i in by_score(scores) if i in kept][:max_output]


def nms_of_images(
    boxes: np.ndarray,
    scores: np.ndarray,
    groups: np.ndarray | None,
    iou_threshold: float,
    max_output: int | None = None,
    score_threshold: float | None = None,
) -> Kept:
    """(image, box) of boxes [B, N, 4] with scores [B, N]; max_output counts for each image."""
    kept: Kept = []
    for image in range(len(boxes)):
        own = [0] * boxes.shape[1] if groups is None else [int(g) for g in groups[image]]
        options = (iou_threshold, max_output, score_threshold)
        found = nms_of_groups(boxes[image], scores[image], own, *options)
        kept += [(image, box) for box in found]
    return kept


def nms_of_classes(
    boxes: np.ndarray,
    scores: np.ndarray,
    iou_threshold: float,
    max_output: int | None = None,
    score_threshold: float | None = None,
) -> Kept:
    """(image, class, box) of boxes [B, N, 4] with scores [B, N, C]: C candidates for each box."""
    kept: Kept = []
    for image in range(len(boxes)):
        count, classes = scores.shape[1:]
        names = [(c, box) for c in range(classes) for box in range(count)]
        repeated = boxes[image][[box for _, box in names]]
        flat = scores[image].T.reshape(-1)
        options = (iou_threshold, max_output, score_threshold)
        found = nms_of_groups(repeated, flat, [c for c, _ in names], *options)
        kept += [(image, *names[i]) for i in found]
    return kept


def nms_padded(
    boxes: np.ndarray,
    scores: np.ndarray,
    iou_threshold: float,
    max_output: int,
    score_threshold: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Indices [B, max_output], padded with -1, and their numbers [B]."""
    indices = np.full((len(boxes), max_output), -1, np.int64)
    count = np.zeros(len(boxes), np.int64)
    for image in range(len(boxes)):
        found = nms(boxes[image], scores[image], iou_threshold, max_output, score_threshold)
        indices[image, : len(found)] = found
        count[image] = len(found)
    return indices, count


def nms_match(boxes: np.ndarray, scores: np.ndarray, iou_threshold: float) -> list[list[int]]:
    """A group for each kept box of [N, 4]: itself and those that it drops, by falling score."""
    computed = np.float32 if boxes.dtype in (np.float16, np.float32) else np.float64
    rows = [list(row) for row in boxes.astype(computed)]
    left = by_score(scores)
    groups = []
    with np.errstate(all="ignore"):
        while left:
            best = left.pop(0)
            taken = [i for i in left if float(iou(rows[best], rows[i])) > iou_threshold]
            left = [i for i in left if i not in taken]
            groups.append([best, *taken])
    return groups
