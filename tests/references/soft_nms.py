"""Suppression that lowers scores (Bodla et al., "Soft-NMS", 2017), one kept box after another.

The box with the highest current score is kept and lowers the score of every remaining box that it
overlaps. Each step rounds once, in float32 or float64; only exp is NumPy's in float64, then
rounded. Flat, inverted, infinite and NaN boxes go through the same formula: an overlap of NaN
lowers nothing.

as_published() is the same method as in mmcv and its forerunners: in place, with a dropped box
replaced by the last one, which decides how ties go.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from .nms import iou


def computed_type(boxes: np.ndarray, scores: np.ndarray) -> Any:
    narrow = (np.float16, np.float32)
    return np.float32 if boxes.dtype in narrow and scores.dtype in narrow else np.float64


def lowered(
    scores: np.ndarray, overlap: np.ndarray, method: str, iou_threshold: float, sigma: float
) -> np.ndarray:
    """Scores after a box was kept; NaN for boxes that it drops."""
    one = scores.dtype.type(1)
    over = overlap.astype(np.float64) > iou_threshold  # the threshold is a double
    if method == "hard":
        return np.where(over, np.nan, scores).astype(scores.dtype)
    if method == "linear":
        return np.where(over, scores * (one - overlap), scores)
    wide = overlap.astype(np.float64)
    factor = np.exp(-wide * wide / sigma).astype(scores.dtype)
    return np.where(np.isnan(overlap), scores, scores * factor)


def soft_nms(
    boxes: np.ndarray,
    scores: np.ndarray,
    method: str = "linear",
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = 0.001,
    max_output: int | None = None,
) -> tuple[list[int], np.ndarray]:
    """Indices of the kept boxes among [N, 4], in the order of keeping, and their scores then."""
    kind = computed_type(boxes, scores)
    boxes = boxes.astype(kind)

    def overlap_of(best: int, others: np.ndarray) -> np.ndarray:
        return iou(boxes[best], list(boxes[others].T))

    options = (method, iou_threshold, sigma, min_score, max_output)
    return soft_nms_by(overlap_of, scores.astype(kind), *options)


def soft_nms_by(
    overlap_of: Callable[[int, np.ndarray], np.ndarray],
    current: np.ndarray,
    method: str = "linear",
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = 0.001,
    max_output: int | None = None,
) -> tuple[list[int], np.ndarray]:
    """The same, of scores that are changed; overlap_of(i, others) is of box i with others."""
    left = np.ones(len(current), bool)
    kept: list[int] = []
    with np.errstate(all="ignore"):
        while max_output is None or len(kept) < max_output:
            left &= current.astype(np.float64) >= min_score  # NaN is not
            if not left.any():
                break
            among = np.nonzero(left)[0]
            best = int(among[np.argmax(current[among])])  # the first of equals
            kept.append(best)
            left[best] = False
            others = np.nonzero(left)[0]
            overlap = overlap_of(best, others)
            current[others] = lowered(current[others], overlap, method, iou_threshold, sigma)
    return kept, current[kept]


def soft_nms_of_groups(
    boxes: np.ndarray,
    scores: np.ndarray,
    groups: Sequence[Hashable],
    max_output: int | None = None,
    **options: Any,
) -> tuple[list[int], np.ndarray]:
    """As soft_nms(); boxes of different groups never meet. max_output counts all groups."""
    found: list[tuple[Any, int]] = []
    for group in set(groups):
        members = [i for i, g in enumerate(groups) if g == group]
        kept, values = soft_nms(boxes[members], scores[members], **options)
        found += [(value, members[i]) for i, value in zip(kept, values, strict=True)]
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    values = np.array([value for value, _ in found], computed_type(boxes, scores))
    return [i for _, i in found][:max_output], values[:max_output]


def soft_nms_of_images(
    boxes: np.ndarray, scores: np.ndarray, groups: np.ndarray | None, **options: Any
) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """(image, box) of boxes [B, N, 4] with scores [B, N]; max_output counts for each image."""
    rows: list[tuple[int, ...]] = []
    values: list[float] = []
    for image in range(len(boxes)):
        own = [0] * boxes.shape[1] if groups is None else [int(g) for g in groups[image]]
        kept, new = soft_nms_of_groups(boxes[image], scores[image], own, **options)
        rows += [(image, box) for box in kept]
        values += new.tolist()
    return rows, np.array(values, computed_type(boxes, scores))


def soft_nms_of_classes(
    boxes: np.ndarray, scores: np.ndarray, **options: Any
) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """(image, class, box) of boxes [B, N, 4] with scores [B, N, C]: C candidates for each box."""
    rows: list[tuple[int, ...]] = []
    values: list[float] = []
    for image in range(len(boxes)):
        count, classes = scores.shape[1:]
        names = [(c, box) for c in range(classes) for box in range(count)]
        repeated = boxes[image][[box for _, box in names]]
        flat = scores[image].T.reshape(-1)
        kept, new = soft_nms_of_groups(repeated, flat, [c for c, _ in names], **options)
        rows += [(image, *names[i]) for i in kept]
        values += new.tolist()
    return rows, np.array(values, computed_type(boxes, scores))


def as_published(
    boxes: np.ndarray,
    scores: np.ndarray,
    method: str,
    iou_threshold: float,
    sigma: float,
    min_score: float,
) -> dict[int, float]:
    """Kept boxes and their scores, by mmcv's algorithm.

    Scores are lowered from the threshold on, not above it, and that of the first box is not
    compared with min_score.
    """
    corners = [list(box) for box in boxes.astype(np.float64)]
    current = [float(s) for s in scores]
    order = list(range(len(boxes)))
    count, i = len(order), 0
    while i < count:
        best = max(range(i, count), key=lambda k: (current[order[k]], -k))
        order[i], order[best] = order[best], order[i]
        j = i + 1
        while j < count:
            box = order[j]
            overlap = float(iou(corners[order[i]], corners[box]))
            if method == "gaussian":
                current[box] *= float(np.exp(-(overlap**2) / sigma))
            elif overlap >= iou_threshold:
                current[box] *= 1 - overlap if method == "linear" else 0.0
            if current[box] < min_score:
                order[j] = order[count - 1]
                count -= 1
            else:
                j += 1
        i += 1
    return {box: current[box] for box in order[:count]}
