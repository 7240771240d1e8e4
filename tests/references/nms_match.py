"""Suppression that also tells which kept box dropped each box, as in references/nms.py."""

import numpy as np

from .nms import by_score, iou


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
