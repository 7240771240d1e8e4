"""Fusion of boxes, straight from its definition: lists of boxes, Python floats, no tricks.

After Solovyev, Wang and Gabruseva, "Weighted boxes fusion" (2021), Zhou et al., "CAD: Scale
invariant framework for real-time object detection" (2017), and the package ensemble-boxes. A
cluster is the list of its boxes, and its fused box is computed anew from all of them. Boxes are of
any dimension: all lower bounds, then all upper ones. Flat, inverted, infinite and NaN boxes, which
that package alters or skips, begin a cluster that no box joins.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

Corners = tuple[float, ...]


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
        return mean_box([m.box for m in self.members], shares)

    def around_best(self) -> Corners:
        """The mean of the members, weighted by score and by overlap with the first."""
        if len(self.members) == 1:
            return self.members[0].box
        shares = [m.score for m in self.members]
        if sum(shares) == 0:
            shares = [1.0 for _ in self.members]
        best = self.members[0].box
        near = [s * iou(m.box, best) for s, m in zip(shares, self.members, strict=True)]
        return mean_box([m.box for m in self.members], near)

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


def mean_box(boxes: Sequence[Corners], shares: Sequence[float]) -> Corners:
    columns = zip(*boxes, strict=True)
    sums = (sum(s * v for s, v in zip(shares, column, strict=True)) for column in columns)
    return tuple(total / sum(shares) for total in sums)


def sides(box: Corners) -> list[float]:
    half = len(box) // 2
    return [high - low for low, high in zip(box[:half], box[half:], strict=True)]


def is_regular(box: Corners) -> bool:
    """Whether the box can overlap anything: it is finite and has an area."""
    return all(side > 0 for side in sides(box)) and 0 < math.prod(sides(box)) < math.inf


def iou(a: Corners, b: Corners) -> float:
    if not (is_regular(a) and is_regular(b)):
        return 0.0
    half = len(a) // 2
    common = [
        min(a[half + k], b[half + k]) - max(a[k], b[k])  # in dimension k
        for k in range(half)
    ]
    inter = math.prod(max(side, 0.0) for side in common)
    return inter / (math.prod(sides(a)) + math.prod(sides(b)) - inter)


def clusters_of(
    candidates: list[Candidate], iou_threshold: float, around_best: bool
) -> list[Cluster]:
    """Clusters of boxes of one label."""
    found: list[Cluster] = []
    for candidate in sorted(candidates, key=lambda c: -c.score):  # stable
        targets = [c.members[0].box if around_best else c.fused() for c in found]
        overlaps = [iou(target, candidate.box) for target in targets]
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
    around_best: bool = False,
    rounded: Callable[[float], float] = float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fused boxes [K, 2 D], scores [K] and labels [K], float64 and int64.

    `around_best` is the method non-maximum weighted, which takes conf_type "max". `rounded` is what
    the results' dtype makes of a score: rows are sorted by that.
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
        (
            cluster.around_best() if around_best else cluster.fused(),
            rounded(cluster.score(weights, conf_type, allows_overflow)),
            label,
        )
        for label in sorted(by_label)
        for cluster in clusters_of(by_label[label], iou_threshold, around_best)
    ]
    rows.sort(key=lambda row: -row[1])  # stable
    return (
        np.array([row[0] for row in rows], np.float64).reshape(len(rows), boxes[0].shape[1]),
        np.array([row[1] for row in rows], np.float64),
        np.array([row[2] for row in rows], np.int64),
    )
