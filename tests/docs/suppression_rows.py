"""Rows of nms.md and box_fusion.md on other libraries: our call, and what theirs is defined to do.

mmcv, mmdetection and detectron2 need a compiler or a GPU; ultralytics is run by test_peers.py where
it is installed. So their steps are taken here with torchvision's operators or slow references.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torchvision
import visops
from onnx import TensorProto, helper
from references import nms as match_reference
from references import rotated
from references.soft_nms import as_published
from torch import Tensor
from torchvision.ops import box_convert, box_iou

Pair = tuple[Any, Any]
Row = tuple[Callable[[], Pair], float]

RNG = np.random.default_rng(0)


def wholes(low: int, high: int, *shape: int) -> Tensor:
    """Coordinates whose differences and sums with offsets of classes are exact."""
    return torch.from_numpy(RNG.integers(low, high, shape)).float()


# [B, 4 + C, N] of a detector: centres and sizes, then a score for each class.
PREDICTION = torch.cat(
    [
        *(2 * wholes(20, 90, 2, 2, 150), 2 * wholes(4, 30, 2, 2, 150)),
        torch.from_numpy(RNG.random((2, 3, 150))).float(),
    ],
    1,
)
CONF, IOU = 0.55, 0.45


def by_steps(
    prediction: Tensor,
    conf_thres: float = CONF,
    iou_thres: float = IOU,
    max_det: int = 300,
    multi_label: bool = False,
    agnostic: bool = False,
    classes: Sequence[int] | None = None,
) -> list[Tensor]:
    """ultralytics' steps: [K, 6] for each image."""
    found = []
    for image in prediction.mT:
        boxes, scores = box_convert(image[:, :4], "cxcywh", "xyxy"), image[:, 4:]
        best = torch.zeros_like(scores).scatter_(1, scores.argmax(1, keepdim=True), 1)
        taken = (scores > conf_thres) & (torch.ones_like(best) if multi_label else best).bool()
        if classes is not None:
            taken &= torch.isin(torch.arange(scores.shape[1]), torch.tensor(classes))
        box, label = taken.nonzero(as_tuple=True)
        apart = boxes[box] + (0 if agnostic else 7680 * label[:, None])
        kept = torchvision.ops.nms(apart, scores[taken], iou_thres)[:max_det]
        columns = boxes[box], scores[taken][:, None], label[:, None].float()
        found.append(torch.cat(columns, 1)[kept])
    return found


def ours(by: str, max_det: int | None = None, classes: Sequence[int] | None = None) -> Tensor:
    """What the page's table says of an option; all images' rows."""
    boxes = box_convert(PREDICTION[:, :4].mT, "cxcywh", "xyxy")
    scores = PREDICTION[:, 4:].mT
    score, label = scores.max(-1)
    options: dict[str, Any] = {"max_output": max_det, "score_threshold": CONF}
    if classes is not None:
        score = score.where(torch.isin(label, torch.tensor(classes)), 0)
    if by == "labels":
        image, kind, box = visops.batched_nms(boxes, scores, None, IOU, **options).unbind(1)
        score = scores[image, box, kind]
    else:
        ids = None if by == "none" else label
        image, box = visops.batched_nms(boxes, score, ids, IOU, **options).unbind(1)
        kind, score = label[image, box], score[image, box]
    return torch.cat([boxes[image, box], score[:, None], kind[:, None].float()], 1)


def detected(by: str, max_det: int | None = None, **options: Any) -> Pair:
    classes = options.get("classes")
    if max_det is not None:
        options["max_det"] = max_det
    return ours(by, max_det, classes), torch.cat(by_steps(PREDICTION, **options))


CORNER = wholes(0, 60, 60, 2)
BOXES = torch.cat([CORNER, CORNER + wholes(4, 30, 60, 2)], 1).double()
SCORES = torch.from_numpy(RNG.permutation(60) / 64)
IDS = torch.arange(60) % 3
TURNED = torch.cat([CORNER, wholes(6, 30, 60, 2), wholes(-180, 180, 60, 1)], 1).double()
RADIANS = TURNED * torch.tensor([1, 1, 1, 1, -np.pi / 180])


def greedy(overlaps: Any, scores: Tensor = SCORES, threshold: float = 0.4) -> list[int]:
    return rotated.nms_rotated(np.asarray(overlaps), scores.numpy(), threshold)


def of_each_class(kept: Callable[[Tensor], dict[int, float]]) -> list[int]:
    """Run class by class; the boxes of all by falling score."""
    found = {}
    for label in IDS.unique():
        index = (label == IDS).nonzero()[:, 0]
        found.update({int(index[i]): score for i, score in kept(index).items()})
    return sorted(found, key=lambda i: -found[i])


def by_class(overlaps: Tensor) -> list[int]:
    def of_one(index: Tensor) -> dict[int, float]:
        kept = greedy(overlaps[index][:, index], SCORES[index])
        return {i: float(SCORES[index][i]) for i in kept}

    return of_each_class(of_one)


def with_offset() -> Tensor:
    """Overlaps of boxes whose last pixel counts."""
    low = torch.maximum(BOXES[:, None, :2], BOXES[None, :, :2])
    high = torch.minimum(BOXES[:, None, 2:], BOXES[None, :, 2:])
    inter = (high - low + 1).clamp(min=0).prod(-1)
    area = (BOXES[:, 2:] - BOXES[:, :2] + 1).prod(-1)
    return inter / (area[:, None] + area - inter)


def above(threshold: float, count: int) -> list[int]:
    index = (threshold < SCORES).nonzero()[:, 0]
    boxes = BOXES[index]
    return index[greedy(box_iou(boxes, boxes), SCORES[index])][:count].tolist()


SOFT: dict[str, Any] = {
    "method": "gaussian",
    "iou_threshold": 0.3,
    "sigma": 0.4,
    "min_score": 0.05,
}


def softened(index: Tensor) -> dict[int, float]:
    return as_published(BOXES[index].numpy(), SCORES[index].numpy(), **SOFT)


def soft() -> Pair:
    kept, scores = visops.soft_nms(BOXES, SCORES, **SOFT)
    expected = softened(torch.arange(60))
    order = sorted(expected, key=lambda i: -expected[i])
    return torch.stack([kept, scores]), [order, [expected[i] for i in order]]


def matched() -> Pair:
    found = visops.nms_match(BOXES, SCORES, 0.4)
    expected = match_reference.nms_match(BOXES.numpy(), SCORES.numpy(), 0.4)
    return [list(map(int, g)) for g in found] == expected, True


EXACT = torch.from_numpy(np.asarray(rotated.ious(RADIANS[:20].numpy(), RADIANS[:20].numpy())))
DEGREES = box_iou(TURNED, TURNED, fmt="cxcywhr")


def runtime(count: int, iou: float, least: float) -> np.ndarray:
    """NonMaxSuppression of an ONNX runtime: batch, class, box, in lexical order."""
    onnxruntime = pytest.importorskip("onnxruntime")
    names = ("boxes", "scores", "count", "iou", "least")
    types = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64) + 2 * (TensorProto.FLOAT,)
    shapes = ([3, 20, 4], [3, 4, 20], [1], [1], [1])
    graph = helper.make_graph(
        [helper.make_node("NonMaxSuppression", list(names), ["kept"])],
        "suppression",
        [helper.make_tensor_value_info(*v) for v in zip(names, types, shapes, strict=True)],
        [helper.make_tensor_value_info("kept", TensorProto.INT64, ["K", 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    given = Y_FIRST.numpy(), OF_CLASSES.numpy()
    numbers = np.array([count]), np.array([iou], np.float32), np.array([least], np.float32)
    (kept,) = session.run(None, dict(zip(names, (*given, *numbers), strict=True)))
    return np.array(sorted(kept.tolist()))


Y_FIRST = BOXES.float().view(3, 20, 4)[..., [1, 0, 3, 2]]
OF_CLASSES = torch.from_numpy(RNG.permutation(240) / 256).float().view(3, 4, 20)


def suppressed(**options: Any) -> Tensor:
    boxes = Y_FIRST[..., [1, 0, 3, 2]]
    kept: Tensor = visops.batched_nms(boxes, OF_CLASSES.mT, None, 0.3, **options)
    return kept


def in_order(kept: Tensor) -> list[list[int]]:
    return sorted(kept.tolist())


def by_score(kept: np.ndarray, count: int) -> list[list[int]]:
    """The best of each image, whatever their class."""
    scores = OF_CLASSES.numpy()[tuple(kept.T)]
    best = kept[np.argsort(-scores)]
    return sorted(row for i in range(3) for row in best[best[:, 0] == i][:count].tolist())


ULTRALYTICS: dict[str, Row] = {
    "conf_thres, iou_thres, max_det": (lambda: detected("ids", 20), 0),
    "multi_label=True": (lambda: detected("labels", multi_label=True), 0),
    "agnostic=True": (lambda: detected("none", agnostic=True), 0),
    "classes=[...]": (lambda: detected("ids", classes=[0, 2]), 0),
    "max_nms, max_time_img": (lambda: detected("ids"), 0),
    "oriented boxes: nms_rotated(xywhr, scores, t)": (
        lambda: (
            visops.nms_rotated(RADIANS[:20], SCORES[:20], 0.3),
            greedy(EXACT, SCORES[:20], 0.3),
        ),
        0,
    ),
}
MMCV: dict[str, Row] = {
    "nms(boxes, scores, t)": (
        lambda: (visops.nms(BOXES, SCORES, 0.4), greedy(box_iou(BOXES, BOXES))),
        0,
    ),
    "score_threshold=s, max_num=n": (
        lambda: (
            visops.nms(BOXES, SCORES, 0.4, score_threshold=0.3, max_output=9),
            above(0.3, 9),
        ),
        0,
    ),
    "offset=1": (
        lambda: (
            visops.nms(BOXES + BOXES.new_tensor([0, 0, 1, 1]), SCORES, 0.4),
            greedy(with_offset()),
        ),
        0,
    ),
    "batched_nms(..., class_agnostic=True)": (
        lambda: (visops.nms(BOXES, SCORES, 0.4), greedy(box_iou(BOXES, BOXES))),
        0,
    ),
    "split_thr": (
        lambda: (visops.batched_nms(BOXES, SCORES, IDS, 0.4), by_class(box_iou(BOXES, BOXES))),
        0,
    ),
    "soft_nms(boxes, scores, t, sigma, min_score, method)": (soft, 1e-12),
    'batched_nms(..., dict(type="soft_nms", ...))': (
        lambda: (
            visops.batched_soft_nms(BOXES, SCORES, IDS, **SOFT)[0],
            of_each_class(softened),
        ),
        0,
    ),
    "nms_rotated(dets, scores, t, labels)": (
        lambda: (
            visops.nms_rotated(RADIANS, SCORES, 0.4, idxs=IDS),
            by_class(DEGREES),
        ),
        0,
    ),
    "nms_match(dets, t)": (matched, 0),
}
DETECTRON2: dict[str, Row] = {
    "nms_rotated(boxes, scores, t)": (
        lambda: (visops.nms_rotated(RADIANS, SCORES, 0.4), greedy(DEGREES)),
        0,
    ),
    "batched_nms_rotated(boxes, scores, idxs, t)": (
        lambda: (visops.nms_rotated(RADIANS, SCORES, 0.4, idxs=IDS), by_class(DEGREES)),
        0,
    ),
    "batched_nms(boxes, scores, idxs, t)": (
        lambda: (
            visops.batched_nms(BOXES, SCORES, IDS, 0.4),
            torchvision.ops.batched_nms(BOXES, SCORES, IDS, 0.4),
        ),
        0,
    ),
}
ONNX: dict[str, Row] = {
    "boxes y1, x1, y2, x2": (lambda: (in_order(suppressed()), runtime(99, 0.3, -1)), 0),
    "scores [B, C, N]": (
        lambda: (in_order(suppressed(score_threshold=0.5)), runtime(99, 0.3, 0.5)),
        0,
    ),
    "(batch, class, box), by class": (
        lambda: (
            OF_CLASSES[tuple(suppressed()[suppressed()[:, 0] == 1].T)],
            OF_CLASSES[tuple(suppressed()[suppressed()[:, 0] == 1].T)].sort(descending=True)[0],
        ),
        0,
    ),
    "max_output_boxes_per_class": (
        lambda: (in_order(suppressed(max_output=7)), by_score(runtime(99, 0.3, 0), 7)),
        0,
    ),
}

MASKS = torch.from_numpy(RNG.random((12, 9, 11)) < RNG.uniform(0.3, 0.9, (12, 1, 1)))
OF_MASKS, KINDS = SCORES[:12], IDS[:12]


def decayed(method: str = "gaussian", count: int = 12) -> tuple[Tensor, Tensor]:
    """SOLOv2's algorithm 1: masks by falling score, and what overlaps leave of their scores."""
    order = OF_MASKS.argsort(descending=True)[:count]
    flat = MASKS[order].flatten(1).double()
    inter = flat @ flat.T
    area = flat.sum(1)
    same = KINDS[order][:, None] == KINDS[order]
    iou = (inter / (area[:, None] + area - inter) * same).triu(1)
    most = iou.max(0).values[:, None]
    if method == "gaussian":
        factors = (-2.0 * (iou**2 - most**2)).exp()
    else:
        factors = (1 - iou) / (1 - most)
    return order, OF_MASKS[order] * factors.min(0).values


def ranked(method: str = "gaussian", least: float = 0.0, most: int = 12, **given: int) -> Tensor:
    """Indices and scores of those that are kept, by falling score."""
    order, scores = decayed(method, **given)
    chosen = scores.argsort(descending=True)
    chosen = chosen[scores[chosen] >= least][:most]
    return torch.stack([order[chosen].double(), scores[chosen]])


def matrix(index: Tensor | None = None, **options: Any) -> Tensor:
    index = torch.arange(12) if index is None else index
    kept, scores = visops.matrix_nms(MASKS[index], OF_MASKS[index], KINDS[index], **options)
    return torch.stack([index[kept].double(), scores.double()])


SOLO: dict[str, Row] = {
    "SOLOv2: matrix_nms(seg_masks, cate_labels, cate_scores)": (
        lambda: (matrix(), ranked()),
        1e-6,
    ),
    "MMDetection: mask_matrix_nms(masks, labels, scores, filter_thr=t, max_num=n)": (
        lambda: (matrix(min_score=0.1, max_output=5), ranked(least=0.1, most=5)),
        1e-6,
    ),
    "its results: scores, labels, masks, keep_inds": (
        lambda: (KINDS[matrix()[0].long()], KINDS[ranked()[0].long()]),
        0,
    ),
    'kernel="gaussian" or "linear", sigma': (
        lambda: (matrix(method="linear"), ranked("linear")),
        1e-6,
    ),
    "nms_pre=n": (
        lambda: (matrix(OF_MASKS.topk(6).indices.sort().values), ranked(count=6)),
        1e-6,
    ),
}
