"""Calls of overlaps: formats of boxes, batches, and boxes one to one."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._torch.arrays import no_boxes
from .._torch.call import call_operator
from .._torch.fakes import broadcast_shapes
from .._torch.numbers import real_number
from .._torch.options import check_word, flag
from .._torch.unsupported_inputs import require_plain
from .iou_autograd import box_iou as _box_iou
from .iou_autograd import box_iou_rotated as _box_iou_rotated
from .iou_autograd import computed_in, overlap, result_dtype, rotated_overlap

Device = torch.device | str | None

_FORMATS = ("xyxy", "xywh", "cxcywh")


def upright_overlaps(
    op: str,
    boxes1: Any,
    boxes2: Any,
    device: Device,
    *,
    kind: str,
    eps: float,
    fmt: str,
    aligned: bool,
) -> Any:
    """Return overlaps of boxes [..., N, 4] with [..., M, 4]: of all pairs, or one to one."""
    also = ", or 'cxcywhr' for kind 'iou'" if op == "box_iou" else ""
    check_word(op, "fmt", fmt, _FORMATS, f"'xyxy', 'xywh' or 'cxcywh'{also}")
    eps, aligned = real_number(op, "eps", eps), flag(op, "aligned", aligned)

    def of_tensors(first: Tensor, second: Tensor) -> Tensor:
        dtype = result_dtype(first, second)
        _check(op, first, second, 4, aligned, kind)
        if aligned and not 0 <= eps < math.inf:
            raise ValueError(f"visops.{op}: eps is {eps:g}, must be >= 0 and finite")
        first, second = _corners(first, fmt), _corners(second, fmt)
        if aligned:
            common = computed_in(first, second)
            return overlap(first.to(common), second.to(common), kind, eps).to(dtype)
        found = _by_sample(lambda a, b: _box_iou(a, b, kind, eps), first, second, 4)
        return found.to(dtype)

    tensors = {"boxes1": no_boxes(boxes1, 4), "boxes2": no_boxes(boxes2, 4)}
    return call_operator(op, of_tensors, device, tensors)


def rotated_overlaps(
    op: str, boxes1: Any, boxes2: Any, device: Device, *, kind: str, aligned: bool, degrees: bool
) -> Any:
    """Return overlaps of boxes [..., N, 5] with [..., M, 5].

    `degrees` is torchvision's format "cxcywhr", whose angles also run the other way.
    """
    aligned = flag(op, "aligned", aligned)

    def of_tensors(first: Tensor, second: Tensor) -> Tensor:
        dtype = result_dtype(first, second)
        _check(op, first, second, 5, aligned, kind)
        if degrees:
            first, second = _in_radians(first), _in_radians(second)
        if aligned:
            a, b = first.double(), second.double()
            unknown = a.isnan().any(-1) | b.isnan().any(-1)  # the formula takes NaN as no box
            return torch.where(unknown, torch.nan, rotated_overlap(a, b, kind)).to(dtype)
        return _by_sample(lambda a, b: _box_iou_rotated(a, b, kind), first, second, 5).to(dtype)

    tensors = {"boxes1": no_boxes(boxes1, 5), "boxes2": no_boxes(boxes2, 5)}
    return call_operator(op, of_tensors, device, tensors)


def _check(op: str, boxes1: Tensor, boxes2: Tensor, columns: int, aligned: bool, kind: str) -> None:
    """Check what the operators, which take one sample and all its pairs, don't."""
    if not aligned and kind != "iof" and max(boxes1.dim(), boxes2.dim()) < 3:
        return
    require_plain(op, boxes1=boxes1, boxes2=boxes2)
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        if boxes.dim() < 2 or boxes.shape[-1] != columns:
            raise ValueError(
                f"visops.{op}: {name} has shape {list(boxes.shape)}, must be [..., N, {columns}]"
            )
        if boxes.dtype == torch.bool or boxes.is_complex():
            dtype = str(boxes.dtype).removeprefix("torch.")
            raise ValueError(
                f"visops.{op}: {name} has dtype {dtype}, must be a floating or integer type"
            )
    if boxes1.device != boxes2.device:
        raise ValueError(
            f"visops.{op}: boxes2 is on {boxes2.device}, boxes1 is on {boxes1.device}; "
            "all tensors must be on one device"
        )
    last = -1 if aligned else -2
    if aligned and boxes1.shape[-2] != boxes2.shape[-2]:
        _reject_shapes(op, boxes1, boxes2, "must have equally many boxes if aligned")
    try:
        broadcast_shapes(boxes1.shape[:last], boxes2.shape[:last])
    except RuntimeError:
        _reject_shapes(op, boxes1, boxes2, "batch dimensions must broadcast")


def _reject_shapes(op: str, boxes1: Tensor, boxes2: Tensor, why: str) -> None:
    shapes = f"boxes1 has shape {list(boxes1.shape)} and boxes2 {list(boxes2.shape)}"
    raise ValueError(f"visops.{op}: {shapes}, {why}")


def _by_sample(
    pairs: Callable[[Tensor, Tensor], Tensor], boxes1: Tensor, boxes2: Tensor, columns: int
) -> Tensor:
    """Return pairs() of every sample [N, columns], [M, columns] of a batch."""
    if max(boxes1.dim(), boxes2.dim()) < 3:
        return pairs(boxes1, boxes2)
    lead = broadcast_shapes(boxes1.shape[:-2], boxes2.shape[:-2])
    counts = boxes1.shape[-2], boxes2.shape[-2]
    samples = [
        boxes.expand(*lead, *boxes.shape[-2:]).reshape(-1, count, columns)
        for boxes, count in zip((boxes1, boxes2), counts, strict=True)
    ]
    found = [pairs(a, b) for a, b in zip(*samples, strict=True)]
    if not found:
        return boxes1.new_empty((*lead, *counts), dtype=result_dtype(boxes1, boxes2))
    return torch.stack(found).reshape(*lead, *counts)


def _corners(boxes: Tensor, fmt: str) -> Tensor:
    """Return x1, y1, x2, y2: float32 of halves and float64 of integers, if they are computed."""
    if fmt == "xyxy" or boxes.dim() < 2 or boxes.shape[-1] != 4:
        return boxes
    if boxes.dtype == torch.bool or boxes.is_complex():
        return boxes  # refused later
    boxes = boxes.to(computed_in(boxes, boxes))
    first, size = boxes[..., :2], boxes[..., 2:]
    if fmt == "cxcywh":
        first, size = first - size / 2, size / 2
        return torch.cat((first, boxes[..., :2] + size), dim=-1)
    return torch.cat((first, first + size), dim=-1)


def _in_radians(boxes: Tensor) -> Tensor:
    if boxes.dim() < 2 or boxes.shape[-1] != 5 or boxes.dtype == torch.bool or boxes.is_complex():
        return boxes  # refused later
    wide = boxes.double()
    return torch.cat((wide[..., :4], -torch.deg2rad(wide[..., 4:])), dim=-1)
