"""Suppression by ONNX's NonMaxSuppression, with the indices and the order of this library.

ONNX says little about ties and nothing about NaN, and returns class by class. So batches are
suppressed by the positions of scores in their order, numbers that are all different, and the kept
boxes are sorted by them. float32 has each position exactly up to 2^24 of them for an image.
"""

from typing import Any

import torch
from onnxscript import opset18 as op

from .graph import (
    Array,
    arange,
    concat,
    constant,
    floored_float32,
    integer_vector,
    node,
    outside_of_onnx,
    parts_of_shape,
    where,
)

_IN_SINGLE = (torch.float16, torch.bfloat16, torch.float32)


def nms(
    *,
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    max_output: Any,
    score_threshold: float | None,
) -> Array:
    """Write one NonMaxSuppression, which ranks by the scores themselves."""
    valid = _valid("nms", boxes)
    if scores.dtype not in _IN_SINGLE:  # as numbers they might become equal
        return batched_nms(
            boxes=boxes,
            scores=scores,
            idxs=constant([0]).expand(scores.size(0)),
            iou_threshold=iou_threshold,
            max_output=max_output,
            score_threshold=score_threshold,
        )
    ranked = _numbers(scores, score_threshold)
    kept = _suppress(
        valid.unsqueeze(0),
        ranked.unsqueeze(0, 1),
        iou_threshold,
        ranked.size(0) if _unlimited(max_output) else max_output,
        score_threshold,
    )
    return kept.take(2, axis=1)


def batched_nms(
    *,
    boxes: Array,
    scores: Array,
    idxs: Array | None,
    iou_threshold: float,
    max_output: Any,
    score_threshold: float | None,
) -> Array:
    """Write a suppression in which every id, or every class, is a class of ONNX's."""
    images, classes = boxes.rank == 3, scores.rank == 3
    boxes = _valid("batched_nms", boxes)
    if not images:
        boxes, scores = boxes.unsqueeze(0), scores.unsqueeze(0)
        idxs = None if idxs is None else idxs.unsqueeze(0)
    scores = scores.transpose(0, 2, 1) if classes else scores.unsqueeze(1)
    rows, _ = _kept_rows(boxes, scores, idxs, iou_threshold, max_output, score_threshold)
    if not images:
        return rows.take(2, axis=1)
    return rows if classes else rows.take([0, 2], axis=1)


def nms_padded(
    *,
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    max_output: Any,
    score_threshold: float | None,
) -> tuple[Array, Array]:
    """Write the same, scattered into rows of -1."""
    rows, positions = _kept_rows(
        _valid("nms_padded", boxes),
        scores.unsqueeze(1),
        None,
        iou_threshold,
        max_output,
        score_threshold,
    )
    image, batch = rows.take(0, axis=1), boxes.size(0)
    empty = constant([[-1]]).expand(batch, max_output)
    at = concat([image.unsqueeze(1), positions.unsqueeze(1)], 1)
    indices = node("ScatterND", empty, at, rows.take(2, axis=1))
    return indices, arange(batch).unsqueeze(1).equals(image.unsqueeze(0)).to(torch.int64).total(1)


def nms_match(*, boxes: Array, scores: Array, iou_threshold: float) -> Array:
    """Write the suppression, and for each box the first kept one that overlaps it."""
    kept = nms(
        boxes=boxes,
        scores=scores,
        iou_threshold=iou_threshold,
        max_output=-1,
        score_threshold=None,
    )
    valid = _valid("nms_match", boxes)
    x1, y1, x2, y2 = (valid.take(i, axis=1) for i in range(4))
    area = (x2 - x1) * (y2 - y1)

    def pairs(kind: str, side: Array) -> Array:
        return node(kind, side.take(kept, axis=0).unsqueeze(1), side.unsqueeze(0))

    width, height = pairs("Min", x2) - pairs("Max", x1), pairs("Min", y2) - pairs("Max", y1)
    zero = constant(0, torch.float32)
    inter = node("Max", width, zero) * node("Max", height, zero)
    iou = inter / (area.take(kept, axis=0).unsqueeze(1) + area.unsqueeze(0) - inter)
    own = kept.unsqueeze(1).equals(arange(boxes.size(0)).unsqueeze(0))
    overlaps = (iou > floored_float32(iou_threshold)) | own
    first = node("ArgMax", overlaps.to(torch.int32), dtype=torch.int64, axis=0, keepdims=0)
    return kept.take(first, axis=0)


def _valid(name: str, boxes: Array) -> Array:
    """Return boxes in float32; those that suppress nothing become points, which don't either."""
    if boxes.dtype not in _IN_SINGLE:
        dtype = str(boxes.dtype).removeprefix("torch.")
        way_out = "its NonMaxSuppression takes float32; pass boxes.float()"
        raise outside_of_onnx(name, f"boxes of {dtype}", way_out)
    boxes = boxes.to(torch.float32)
    low, high = boxes.take([0, 1], axis=-1), boxes.take([2, 3], axis=-1)
    extent = high - low  # NaN or infinite where a corner is
    good = (extent > 0) & ~node("IsInf", extent, dtype=torch.bool)
    both = node("ReduceMin", good.to(torch.int32), constant([-1]), keepdims=1) > 0
    return where(both, boxes, 0.0)


def _numbers(scores: Array, threshold: float | None) -> Array:
    """Return scores without NaN, which comes first but exceeds no threshold."""
    scores = scores if scores.dtype == torch.float64 else scores.to(torch.float32)
    first = float("-inf" if threshold is not None else "inf")
    return where(node("IsNaN", scores, dtype=torch.bool), first, scores)


def _unlimited(max_output: Any) -> bool:
    return isinstance(max_output, int) and max_output == -1


def _suppress(boxes: Array, scores: Array, iou: float, most: Any, threshold: float | None) -> Array:
    """Return rows (image, class, box) of boxes [B, N, 4] with scores [B, C, N]."""
    limits = [constant([floored_float32(iou)], torch.float32)]
    if threshold is not None:
        limits.append(constant([floored_float32(threshold)], torch.float32))
    return node(
        "NonMaxSuppression", boxes, scores, integer_vector([most]), *limits, dtype=torch.int64
    )


def _kept_rows(
    boxes: Array,
    scores: Array,
    ids: Array | None,
    iou_threshold: float,
    max_output: Any,
    score_threshold: float | None,
) -> tuple[Array, Array]:
    """Return rows (image, class, box), sorted, and the position of each in its image.

    Scores are [B, C, N]. With ids, C is 1, and classes are the different ids.
    """
    numbers = _numbers(scores, score_threshold)
    batch, count = boxes.size(0), boxes.size(1)
    flat = numbers.shaped(parts_of_shape(numbers, (0, 1), (1, 3)))
    all_of_image = flat.size(1)
    _, order = _sorted(flat, all_of_image, largest=True)
    positions = (all_of_image - arange(all_of_image)).to(torch.float32).unsqueeze(0)
    shape = node("Shape", flat, dtype=torch.int64)
    falling = node("Expand", positions, shape)
    ranks = node("ScatterElements", falling, order, falling, axis=1)
    if score_threshold is not None:
        limit = score_threshold
        if flat.dtype == torch.float32:
            limit = floored_float32(limit)
        ranks = where(flat > limit, ranks, 0.0)
    ranks = ranks.shaped(node("Shape", numbers, dtype=torch.int64))
    by_class = ranks
    if ids is not None:
        different, groups = _groups(ids)
        by_image = groups.shaped(integer_vector([batch, 1, count]))
        same = by_image.equals(arange(different).unsqueeze(0, 2))
        by_class = where(same, ranks, 0.0)
    rows = _suppress(boxes, by_class, iou_threshold, count, 0.5)

    image = rows.take(0, axis=1)
    rank = node("GatherND", by_class, rows).to(torch.int64)
    key = image * (all_of_image + 1) + (all_of_image - rank)
    _, sorting = _sorted(key, key.size(0), largest=False)
    rows = rows.take(sorting, axis=0)
    image = rows.take(0, axis=1)
    earlier = image.unsqueeze(0) < arange(batch).unsqueeze(1)  # [B, K]
    positions_in_image = arange(image.size(0)) - earlier.to(torch.int64).total(1).take(
        image, axis=0
    )
    if _unlimited(max_output):
        return rows, positions_in_image
    within = positions_in_image < integer_vector([max_output])
    return rows.compress(within), positions_in_image.compress(within)


def _sorted(values: Array, count: Array, *, largest: bool) -> tuple[Array, Array]:
    """Sort along the last axis; of equal elements, that with the lower index comes first."""
    k = count.reshape(-1)
    found, index = op.TopK(values.value, k.value, axis=-1, largest=int(largest), sorted=1)
    return Array(found, values.dtype), Array(index, torch.int64)


def _groups(ids: Array) -> tuple[Array, Array]:
    """Return how many different ids there are, and each id's number among them."""
    flat = ids.to(torch.int64).reshape(-1)
    different, _, inverse, _ = op.Unique(flat.value, sorted=0)
    return Array(different, torch.int64).size(0), Array(inverse, torch.int64)
