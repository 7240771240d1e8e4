"""Matrix suppression as SOLOv2 (Wang et al., 2020) defines it, pair by pair, in float64.

Overlaps of boxes are NumPy scalars of their defined dtype, as in references.nms; overlaps of masks
are ratios of numbers of pixels.
"""

import math
from collections.abc import Sequence

import numpy as np

from . import nms as boxes_reference


def mask_iou(a: np.ndarray, b: np.ndarray) -> float:
    inter, union = int(np.sum((a != 0) & (b != 0))), int(np.sum((a != 0) | (b != 0)))
    return inter / union if union else 0.0


def box_iou(a: np.ndarray, b: np.ndarray) -> float:
    """0 for boxes that are flat, inverted, infinite or NaN."""
    for box in (a, b):
        area = (box[2] - box[0]) * (box[3] - box[1])
        if not (box[2] > box[0] and box[3] > box[1] and 0 < area < math.inf):
            return 0.0
    return float(boxes_reference.iou(list(a), list(b)))


def new_scores(
    objects: np.ndarray,
    scores: np.ndarray,
    idxs: Sequence[int] | None,
    method: str = "gaussian",
    sigma: float = 2.0,
) -> dict[int, float]:
    """The new scores of the objects that take part, by index."""

    def f(iou: float) -> float:
        return math.exp(-sigma * iou * iou) if method == "gaussian" else 1 - iou

    if objects.ndim == 2:
        narrow = objects.dtype in (np.float16, np.float32)
        objects = objects.astype(np.float32 if narrow else np.float64)
    iou = box_iou if objects.ndim == 2 else mask_iou
    groups = [0] * len(scores) if idxs is None else list(idxs)
    order = sorted((i for i, s in enumerate(scores) if s >= 0), key=lambda i: (-scores[i], i))
    found: dict[int, float] = {}
    comp: dict[int, float] = {}
    with np.errstate(all="ignore"):
        for j in order:
            better = [i for i in found if groups[i] == groups[j]]
            overlap = {i: iou(objects[i], objects[j]) for i in better}
            decays = [f(overlap[i]) / f(comp[i]) for i in better if f(comp[i]) > 0]
            comp[j] = max(overlap.values(), default=0.0)
            found[j] = float(scores[j]) * min(decays, default=1.0)
    return found


def matrix_nms(
    objects: np.ndarray,
    scores: np.ndarray,
    idxs: Sequence[int] | None = None,
    method: str = "gaussian",
    sigma: float = 2.0,
    min_score: float = 0.0,
    max_output: int | None = None,
) -> tuple[list[int], list[float]]:
    found = new_scores(objects, scores, idxs, method, sigma)
    kept = sorted((i for i, s in found.items() if s >= min_score), key=lambda i: (-found[i], i))
    return kept[:max_output], [found[i] for i in kept[:max_output]]
