"""Weighted boxes fusion, straight from its definition: lists of boxes, Python floats, no tricks.

After Solovyev, Wang and Gabruseva, "Weighted boxes fusion" (2021) and the package ensemble-boxes. A
cluster is the list of its boxes, and its fused box is computed anew from all of them. Flat,
inverted, infinite and NaN boxes, which that package alters or skips, begin a cluster that no box
joins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

Corners = tuple[float, float, float, float]


@dataclass
class Candidate:
    box: Corners
    score: float  # weighted
    label: int
    model: int


@dataclass
class Cluster:
    members: list[Candidate] = field(default_factory=list)

    def fused(self) -> Corners:
        """The mean of the members, weighted by score; unweighted if all scores are 0."""
        if len(self.members) == 1:
            return self.members[0].box
        shares = [m.score for m in self.members]
        if sum(shares) == 0:
            shares = [1.0 for _ in self.members]
        means = [
            sum(s * m.box[k] for s, m in zip(shares, self.members, strict=True)) / sum(shares)
            for k in range(4)
        ]
        return means[0], means[1], means[2], means[3]

    def score(self, weights: Sequence[float], conf_type: str, allows_overflow: bool) -> float:
        scores = [m.score for m in self.members]
        count, total = len(scores), sum(weights)
        if sum(scores) == 0:
            return 0.0
        models = {m.model for m in self.members}
        own = sum(weights[m.model] for m in self.members)
        present = sum(w for model, w in enumerate(weights) if model in models)
        absent = sum(w for model, w in enumerate(weights) if model not in models)
        if conf_type == "max":
            return max(scores) / max(weights)
        if conf_type == "box_and_model_avg":
            return sum(scores) / own * present / total
        if conf_type == "absent_model_aware_avg":
            return sum(scores) / (own + absent)
        counted = count if allows_overflow else min(count, len(weights))
        return sum(scores) / count * counted / total


def is_regular(box: Corners) -> bool:
    """Whether the box can overlap anything: it is finite and has an area."""
    x1, y1, x2, y2 = box
    area = (x2 - x1) * (y2 - y1)
    return x2 > x1 and y2 > y1 and 0 < area < math.inf


def iou(a: Corners, b: Corners) -> float:
    if not (is_regular(a) and is_regular(b)):
        return 0.0
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    inter = max(width, 0.0) * max(height, 0.0)
    areas = [(x2 - x1) * (y2 - y1) for x1, y1, x2, y2 in (a, b)]
    return inter / (areas[0] + areas[1] - inter)


def clusters_of(candidates: list[Candidate], iou_threshold: float) -> list[Cluster]:
    """Clusters of boxes of one label."""
    found: list[Cluster] = []
    for candidate in sorted(candidates, key=lambda c: -c.score):  # stable
        overlaps = [iou(cluster.fused(), candidate.box) for cluster in found]
        best = max(overlaps, default=0.0)
        if best > iou_threshold:
            found[overlaps.index(best)].members.append(candidate)  # the first of equals
        else:
            found.append(Cluster([candidate]))
    return found


def weighted_boxes_fusion(
    boxes: Sequence[np.ndarray],
    scores: Sequence[np.ndarray],
    labels: Sequence[np.ndarray],
    weights: Sequence[float] | None = None,
    iou_threshold: float = 0.55,
    min_score: float = 0.0,
    conf_type: str = "avg",
    allows_overflow: bool = False,
    rounded: Callable[[float], float] = float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fused boxes [K, 4], scores [K] and labels [K], float64 and int64.

    `rounded` is what the results' dtype makes of a score: rows are sorted by that.
    """
    weights = [1.0] * len(boxes) if weights is None else [float(w) for w in weights]
    by_label: dict[int, list[Candidate]] = {}
    for model, (own, values, names) in enumerate(zip(boxes, scores, labels, strict=True)):
        least = values.dtype.type(min_score)
        for box, score, name in zip(own.tolist(), values, names.tolist(), strict=True):
            if score >= least and score < math.inf:
                weighted = float(score) * weights[model]
                candidate = Candidate(tuple(box), weighted, name, model)
                by_label.setdefault(name, []).append(candidate)
    rows = [
        (cluster.fused(), rounded(cluster.score(weights, conf_type, allows_overflow)), label)
        for label in sorted(by_label)
        for cluster in clusters_of(by_label[label], iou_threshold)
    ]
    rows.sort(key=lambda row: -row[1])  # stable
    return (
        np.array([row[0] for row in rows], np.float64).reshape(-1, 4),
        np.array([row[1] for row in rows], np.float64),
        np.array([row[2] for row in rows], np.int64),
    )
