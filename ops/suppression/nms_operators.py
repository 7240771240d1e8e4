"""Suppression of boxes by greedy and soft rules: the operators' fake kernels and vmap."""

from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import ON_ARRAYS, Refused, operator
from .._torch.fakes import dynamic_size
from .._torch.vmap_calls import OneCallOfEqualSizes, into_batch, out_of_batch


def _kept(boxes: Tensor, columns: int) -> Tensor:
    size = dynamic_size()
    return boxes.new_empty((size,) if columns == 1 else (size, columns), dtype=torch.int64)


def _columns(boxes: Tensor, scores: Tensor) -> int:
    return 1 if boxes.dim() == 2 else scores.dim()


def _nms_fake(boxes: Tensor, *_: Any) -> Tensor:
    return _kept(boxes, 1)


def _batched_nms_fake(boxes: Tensor, scores: Tensor, *_: Any) -> Tensor:
    return _kept(boxes, _columns(boxes, scores))


def _nms_match_fake(boxes: Tensor, *_: Any) -> Tensor:
    return boxes.new_empty(boxes.shape[:1], dtype=torch.int64)


def _soft_nms_fake(boxes: Tensor, scores: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    kept = _kept(boxes, 1)
    return kept, scores.new_empty(kept.shape)


def _batched_soft_nms_fake(boxes: Tensor, scores: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    kept = _kept(boxes, _columns(boxes, scores))
    return kept, scores.new_empty(kept.shape[:1])


def _nms_padded_fake(
    boxes: Tensor, scores: Tensor, iou_threshold: float, max_output: int, *_: Any
) -> tuple[Tensor, Tensor]:
    batch = boxes.shape[0]
    return (
        boxes.new_empty((batch, max_output), dtype=torch.int64),
        boxes.new_empty((batch,), dtype=torch.int64),
    )


def _nms_padded_vmap(
    call: Any, info: Any, in_dims: Any, boxes: Tensor, scores: Tensor, *rest: Any
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    count = info.batch_size
    boxes, scores = into_batch(boxes, in_dims[0], count), into_batch(scores, in_dims[1], count)
    indices, kept = call(boxes, scores, *rest)
    return (out_of_batch(indices, count), out_of_batch(kept, count)), (0, 0)


_OF_EQUAL_SIZES = OneCallOfEqualSizes()
_OR_PADDED = OneCallOfEqualSizes("; nms_padded gives a fixed number")

nms = operator("nms", fake=_nms_fake, vmap=_OR_PADDED, onnx="suppression")
batched_nms = operator("batched_nms", fake=_batched_nms_fake, vmap=_OR_PADDED, onnx="suppression")
nms_padded = operator(
    "nms_padded", fake=_nms_padded_fake, vmap=_nms_padded_vmap, onnx="suppression"
)
nms_rotated = operator("nms_rotated", fake=_nms_fake, vmap=_OR_PADDED)
nms_match = operator(
    "nms_match",
    fake=_nms_match_fake,
    vmap=_OF_EQUAL_SIZES,
    onnx="suppression",
    note="Returns the index of the kept box that each box belongs to.",
)
soft_nms = operator(
    "soft_nms",
    fake=_soft_nms_fake,
    vmap=_OF_EQUAL_SIZES,
    without_gradient=True,
    onnx=Refused(instead=f"{ON_ARRAYS}, or use nms"),
)
batched_soft_nms = operator(
    "batched_soft_nms",
    fake=_batched_soft_nms_fake,
    vmap=_OF_EQUAL_SIZES,
    without_gradient=True,
    onnx=Refused(instead=f"{ON_ARRAYS}, or use batched_nms"),
)
soft_nms_rotated = operator(
    "soft_nms_rotated", fake=_soft_nms_fake, vmap=_OF_EQUAL_SIZES, without_gradient=True
)
