"""Weighted boxes fusion and Matrix NMS against their authors' implementations.

Fusion: four models that see the same objects, float64 boxes in [0, 1], random scores, a threshold
of 0.55. The peers are the package ensemble-boxes, where it is installed (it needs numba), and its
algorithm restated in NumPy: a box at a time against all fused boxes of its label, which are float32
there. Matrix suppression: SOLOv2's matrices in torch, of masks of 200 × 304 pixels (a quarter of an
image's side) by a matrix product in float32, and of boxes by torchvision's box_iou.
"""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import visops
from bench.harness import Case, Contender, Tolerance, rows
from bench.suppression.boxes import uniform
from torch import Tensor
from torchvision.ops import box_iou

try:
    from ensemble_boxes import weighted_boxes_fusion as package
except ImportError:
    package = None

THRESHOLD = 0.55
FLOAT32 = Tolerance(max_abs=1e-5, why="fused boxes in float32")
ROUNDING = Tolerance(max_abs=1e-5, why="exponentials of each pair, in float32")
Arrays = list[np.ndarray]


def restated(boxes: Arrays, scores: Arrays, labels: Arrays) -> tuple[np.ndarray, ...]:
    """The published algorithm with unit weights and averaged scores."""
    everything = [np.concatenate(part) for part in (boxes, scores, labels)]
    rows = []
    for label in np.unique(everything[2]):
        own = everything[2] == label
        order = np.argsort(-everything[1][own], kind="stable")
        rows += fuse_label(everything[0][own][order], everything[1][own][order], len(boxes), label)
    order = np.argsort([-row[1] for row in rows], kind="stable")
    return tuple(np.array([rows[i][k] for i in order]) for k in range(3))


def fuse_label(
    boxes: np.ndarray, scores: np.ndarray, models: int, label: int
) -> list[tuple[np.ndarray, float, int]]:
    """Cluster the boxes of one label, given by falling score."""
    fused = np.empty((len(boxes), 4))
    sums, totals, counts = np.zeros((len(boxes), 4)), np.zeros(len(boxes)), np.zeros(len(boxes))
    used = 0
    for box, score in zip(boxes, scores, strict=True):
        at = used
        if used:
            low = np.maximum(fused[:used, :2], box[:2])
            high = np.minimum(fused[:used, 2:], box[2:])
            inter = np.prod(np.maximum(high - low, 0), 1)
            areas = np.prod(fused[:used, 2:] - fused[:used, :2], 1)
            iou = inter / (areas + np.prod(box[2:] - box[:2]) - inter)
            best = int(np.argmax(iou))
            at = best if iou[best] > THRESHOLD else used
        used += at == used
        sums[at] += (score * box).astype(np.float32)
        totals[at] += score
        counts[at] += 1
        fused[at] = box if counts[at] == 1 else (sums[at] / totals[at]).astype(np.float32)
    means = totals[:used] / counts[:used] * np.minimum(counts[:used], models) / models
    return [(fused[i], float(means[i]), label) for i in range(used)]


def detections(count: int, labels: int) -> tuple[Arrays, Arrays, Arrays]:
    """Boxes of four models, about two per object from each."""
    rng = np.random.default_rng(count + labels)
    objects = rng.uniform(0, 0.9, (max(1, count // 8), 2))
    sides, names = rng.uniform(0.02, 0.1, objects.shape), rng.integers(0, labels, len(objects))
    boxes, scores, ids = [], [], []
    for _ in range(4):
        seen = rng.integers(0, len(objects), count // 4)
        corner = objects[seen] + rng.normal(0, 0.004, (len(seen), 2))
        extent = sides[seen] * rng.uniform(0.9, 1.1, (len(seen), 2))
        boxes.append(np.clip(np.concatenate([corner, corner + extent], 1), 0, 1))
        scores.append(rng.random(len(seen)))
        ids.append(names[seen])
    return boxes, scores, ids


def fusion(count: int, labels: int) -> list[Contender]:
    """Fuse all models' boxes."""
    models = detections(count, labels)
    contenders = [
        Contender("visops", lambda: visops.weighted_boxes_fusion(*models, iou_threshold=THRESHOLD)),
        Contender("NumPy, restated", lambda: restated(*models), FLOAT32),
    ]
    if package is not None:

        def published() -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                boxes, scores, names = package(*models, iou_thr=THRESHOLD)
            return boxes, scores, names.astype(np.int64)

        contenders.append(Contender("ensemble-boxes", published, FLOAT32))
    return contenders


def by_matrices(iou: Tensor, labels: Tensor, scores: Tensor, sigma: float = 2.0) -> Tensor:
    """New scores of objects, which are given by falling score."""
    iou = (iou * (labels[:, None] == labels[None])).triu(1)
    most = iou.max(0)[0][:, None]
    decay = torch.exp(-sigma * iou**2) / torch.exp(-sigma * most**2)
    return scores * decay.min(0)[0]


def suppression(objects: Tensor, overlaps: Callable[[], Tensor], labels: int) -> list[Contender]:
    """Objects are given by falling score."""
    count = len(objects)
    scores = torch.rand(count).sort(descending=True)[0]
    ids = torch.randint(0, labels, (count,))

    def in_order(kept: tuple[Tensor, Tensor]) -> Tensor:
        return kept[1].new_empty(count).index_copy(0, *kept)

    return [
        Contender("visops", lambda: visops.matrix_nms(objects, scores, ids), comparable=in_order),
        Contender("SOLOv2, matrices", lambda: by_matrices(overlaps(), ids, scores), ROUNDING),
    ]


def masks(count: int, labels: int) -> list[Contender]:
    """Ellipses of all sizes."""
    torch.manual_seed(count)
    y, x = torch.arange(200)[:, None] / 200, torch.arange(304)[None] / 304
    centre, radius = torch.rand(2, count, 1, 1), torch.rand(2, count, 1, 1) * 0.25 + 0.02
    inside = ((y - centre[0]) / radius[0]) ** 2 + ((x - centre[1]) / radius[1]) ** 2 < 1

    def overlaps() -> Tensor:
        flat = inside.flatten(1).float()
        inter, area = flat @ flat.T, flat.sum(1)
        return inter / (area[:, None] + area[None] - inter)

    return suppression(inside, overlaps, labels)


def boxes(count: int, labels: int) -> list[Contender]:
    """Boxes anywhere in 1000 × 1000."""
    torch.manual_seed(count)
    given = uniform(count)
    return suppression(given, lambda: box_iou(given, given), labels)


def all_cases() -> list[Case]:
    """The cases that this machine can run."""

    def table(thing: str, *sizes: tuple[int, int]) -> dict[str, tuple[int, int]]:
        return {f"{n:,} {thing}, {k} label{'s' if k > 1 else ''}": (n, k) for n, k in sizes}

    fused = table("boxes", (100, 1), (2_000, 1), (100, 80), (2_000, 80), (20_000, 80))
    of_masks = table("masks", *itertools.product((100, 500), (1, 80)))
    of_boxes = table("boxes", *itertools.product((100, 1_000, 5_000), (1, 80)))
    return [
        *rows("weighted boxes fusion", fusion, fused, "^(100|2,000) "),
        *rows("matrix suppression", masks, of_masks, "", on_cuda=True),
        *rows("matrix suppression", boxes, of_boxes, "^100 ", on_cuda=True),
    ]
