"""Suppression, fusion and intersections of boxes."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torchvision
import visops
from bench.harness import EXACT, Case, Contender, Tolerance
from torch import Tensor

from .rows import against_copy, count, row

SIDE = 1000
CLASSES = 80
CLOSE = Tolerance(max_abs=1e-5, why="quotients rounded in another order")


def candidates(number: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes, scores and classes of a detector, thresholded at nothing."""
    torch.manual_seed(0)
    corner = torch.rand(number, 2) * SIDE
    sides = 2 ** (3 + 5 * torch.rand(number, 2))
    boxes = torch.cat([corner, corner + sides], 1)
    scores = torch.randperm(number).float() / number  # no two are equal
    return boxes.to(device), scores.to(device), torch.randint(CLASSES, (number,)).to(device)


def suppressed(number: int, device: str) -> list[Contender]:
    boxes, scores, _ = candidates(number, device)
    peers = []
    if number <= 20_000:  # its matrix of bits takes number² / 8 bytes
        peers.append(
            Contender(
                "torchvision", lambda: torchvision.ops.nms(boxes, scores, 0.5), EXACT, floor=1.0
            )
        )
    return against_copy(device, (boxes, scores), lambda: visops.nms(boxes, scores, 0.5), peers)


def by_class(number: int, device: str) -> list[Contender]:
    given = candidates(number, device)
    peer = Contender(
        "torchvision", lambda: torchvision.ops.batched_nms(*given, 0.5), EXACT, floor=1.0
    )
    return against_copy(device, given, lambda: visops.batched_nms(*given, 0.5), [peer])


def alone(function: Callable[..., Any], number: int, device: str) -> list[Contender]:
    """A function of boxes, scores and classes that has no peer on GPUs."""
    given = candidates(number, device)
    return against_copy(device, given, lambda: function(*given))


def soft(boxes: Tensor, scores: Tensor, _: Tensor) -> Any:
    return visops.soft_nms(boxes, scores, method="gaussian")


def matrix(boxes: Tensor, scores: Tensor, classes: Tensor) -> Any:
    return visops.matrix_nms(boxes, scores, classes)


def padded(boxes: Tensor, scores: Tensor, _: Tensor) -> Any:
    return visops.nms_padded(boxes[None], scores[None], 0.5, max_output=100)


def fused(boxes: Tensor, scores: Tensor, classes: Tensor) -> Any:
    parts = [(boxes / SIDE).clamp(0, 1).chunk(2), scores.chunk(2), classes.chunk(2)]
    return visops.weighted_boxes_fusion(*parts)


def intersections(number: int, device: str) -> list[Contender]:
    boxes, _, _ = candidates(number, device)
    others = boxes.flip(0).contiguous()
    peer = Contender(
        "torchvision", lambda: torchvision.ops.box_iou(boxes, others), CLOSE, floor=1.0
    )
    return against_copy(device, boxes, lambda: visops.box_iou(boxes, others), [peer])


def cases(device: str, share: float) -> list[Case]:
    """Every row; `share` of the usual numbers of boxes."""
    one = functools.partial(row, device=device)
    numbers = [count(number, share) for number in (1_000, 10_000, 100_000)]
    thousand, ten = numbers[:2]
    return [
        *(one("boxes", f"nms, {number}", suppressed, number) for number in numbers),
        one("boxes", f"batched_nms, {ten} of {CLASSES} classes", by_class, ten),
        one("boxes", f"box_iou, {ten}²", intersections, ten),
        one("boxes without peers", f"nms_padded, {thousand}", alone, padded, thousand),
        one("boxes without peers", f"soft_nms, {thousand}", alone, soft, thousand),
        one("boxes without peers", f"matrix_nms, {thousand}", alone, matrix, thousand),
        one("boxes without peers", f"weighted_boxes_fusion, {thousand}", alone, fused, thousand),
    ]
