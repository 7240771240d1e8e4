"""Matching costs as their definition reads: Python loops in float64."""

import math
from collections.abc import Sequence

import numpy as np


def class_cost(
    logits: np.ndarray, label: int, kind: str, alpha: float = 0.25, gamma: float = 2.0
) -> float:
    if kind == "softmax":
        total = sum(math.exp(x - max(logits)) for x in logits)
        return -math.exp(logits[label] - max(logits)) / total
    p = 1 / (1 + math.exp(-logits[label]))
    q = 1 / (1 + math.exp(logits[label]))
    present = alpha * q**gamma * -math.log(p + 1e-8)
    absent = (1 - alpha) * p**gamma * -math.log(q + 1e-8)
    return present - absent


def giou(a: Sequence[float], b: Sequence[float]) -> float:
    """The overlap of boxes (cx, cy, w, h); 0 / 0 counts as 0."""
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = (
        (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2) for cx, cy, w, h in (a, b)
    )
    inter = max(0.0, min(ax2, bx2) - max(ax1, bx1)) * max(0.0, min(ay2, by2) - max(ay1, by1))
    union = (ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - inter
    hull = (max(ax2, bx2) - min(ax1, bx1)) * (max(ay2, by2) - min(ay1, by1))
    return (inter / union if union else 0.0) - ((hull - union) / hull if hull else 0.0)


def costs(
    logits: np.ndarray,
    boxes: np.ndarray,
    labels: np.ndarray,
    targets: np.ndarray,
    weights: Sequence[float],
    kind: str,
    alpha: float = 0.25,
    gamma: float = 2.0,
) -> np.ndarray:
    """One image: logits [Q, K], boxes [Q, 4], labels [n], targets [n, 4] -> [Q, n]."""
    out = np.zeros((len(logits), len(labels)))
    for q, n in np.ndindex(*out.shape):
        of_class = class_cost(logits[q], int(labels[n]), kind, alpha, gamma)
        of_box = float(np.abs(boxes[q] - targets[n]).sum())
        overlap = giou(list(map(float, boxes[q])), list(map(float, targets[n])))
        out[q, n] = weights[0] * of_class + weights[1] * of_box - weights[2] * overlap
    return out
