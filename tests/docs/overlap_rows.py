"""Rows of box_iou.md and conv2d.md on torchvision and torch: both sides, or what ours gives."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torchvision
import visops
from threads import torch_threads
from torch import Tensor
from torch.nn import functional as F

Pair = tuple[Any, Any]
Row = tuple[Callable[[], Pair], float]
peers = torchvision.ops

RNG = np.random.default_rng(4)
CORNER = torch.from_numpy(RNG.random((2, 12, 2)) * 40)
BOXES = torch.cat([CORNER, CORNER + 3 + torch.from_numpy(RNG.random((2, 12, 2))) * 20], -1)
NAMES = ("box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou")
LOSSES = tuple(f"{name}_loss" for name in NAMES[1:])
POINT = torch.ones(1, 4)


def each(call: Callable[[Any], Tensor], names: tuple[str, ...] = NAMES) -> Pair:
    pairs = [[call(getattr(module, name)) for name in names] for module in (visops, peers)]
    return torch.stack(pairs[0]), torch.stack(pairs[1])


def _with_moved(boxes: Tensor, overlaps: Callable[..., Tensor]) -> Tensor:
    return overlaps(boxes, boxes + 1)


def same_bits() -> Pair:
    found = []
    for boxes in (BOXES[0].float(), BOXES[0]):
        found.append(torch.equal(*each(partial(_with_moved, boxes), NAMES[:3])))
    ours, theirs = each(lambda f: f(BOXES[0], BOXES[1]), NAMES[3:])
    torch.testing.assert_close(ours, theirs)
    return found, [True, True]


def halves() -> Pair:
    boxes = BOXES.bfloat16()
    ours = visops.box_iou(*boxes)
    assert ours.dtype == torch.float32
    return ours, visops.box_iou(*boxes.float())


def integers() -> Pair:
    """Beyond the integers that float32 has."""
    x = 2**26
    boxes = torch.tensor([[x + 1, 0, x + 3, 1], [x + 2, 0, x + 4, 1]])
    ours = visops.box_iou(boxes[:1], boxes[1:])
    assert ours.dtype == torch.float32
    assert not torch.equal(visops.box_iou(boxes[:1].float(), boxes[1:].float()), ours)
    return ours[0, 0], np.float32(1 / 3)


def two_dtypes() -> Pair:
    ours = visops.box_iou(BOXES[0], BOXES[1].float())
    return ours, visops.box_iou(BOXES[0], BOXES[1].float().double())


def formats() -> Pair:
    found: list[list[Tensor]] = [[], []]
    for fmt in ("xywh", "cxcywh"):
        for side, module in zip(found, (visops, peers), strict=True):
            side.append(module.box_iou(*BOXES, fmt=fmt))
    turned = torch.cat([BOXES, BOXES[..., :1] * 9], -1)
    ours, theirs = (
        module.box_iou(turned[0], turned[1], fmt="cxcywhr") for module in (visops, peers)
    )
    return torch.stack([*found[0], ours]), torch.stack([*found[1], theirs])


def converted() -> Pair:
    turned = torch.cat([BOXES, BOXES[..., :1] * 9], -1)
    ours = [peers.box_convert(b, "xywhr", "cxcywhr") for b in turned]
    return visops.box_iou(ours[0], ours[1], fmt="cxcywhr"), peers.box_iou(
        turned[0], turned[1], fmt="xywhr"
    )


OVERLAPS: dict[str, Row] = {
    "float32, float64": (same_bits, 0),
    "float16, bfloat16": (halves, 0),
    "integers": (integers, 0),
    "sets of different dtypes": (two_dtypes, 0),
    "NaN for two boxes without area": (
        lambda: (
            torch.cat([visops.box_iou(POINT, POINT), peers.box_iou(POINT, POINT).isnan()]),
            [[0], [1]],
        ),
        0,
    ),
    'box_iou(..., fmt="xywh"), "cxcywh", "cxcywhr"': (formats, 1e-6),
    'box_iou(..., fmt="xywhr"), "xyxyxyxy"': (converted, 1e-5),
    "[..., N, 4]": (lambda: each(lambda f: f(BOXES, BOXES.flip(1))), 1e-12),
    "*_box_iou_loss, one to one": (
        lambda: each(lambda f: f(BOXES[0], BOXES[1], "mean", 1e-7), LOSSES),
        1e-6,
    ),
}

IMAGE, KERNEL = torch.rand(1, 3, 9, 8), torch.rand(4, 3, 3, 2)


def refused(call: Callable[[], Any]) -> str:
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def of_integers() -> Pair:
    image, kernel = (100 * IMAGE).int(), (100 * KERNEL).int()
    return visops.conv2d(image, kernel), F.conv2d(image.double(), kernel.double())


def large_kernel() -> Pair:
    """Ours names both sizes."""
    message = refused(lambda: visops.conv2d(IMAGE, torch.rand(4, 3, 11, 2)))
    assert refused(lambda: F.conv2d(IMAGE, torch.rand(4, 3, 11, 2)))
    return message.startswith("visops.conv2d: "), True


def any_threads() -> Pair:
    found = []
    for threads in (1, 2):
        with torch_threads(threads):
            found.append(visops.conv2d(IMAGE, KERNEL, method="implicit"))
    return found[0], found[1]


CONVOLUTIONS: dict[str, Row] = {
    "integers: an error on a GPU": (of_integers, 0),
    'padding="same" with even kernels': (
        lambda: (
            visops.conv2d(IMAGE, KERNEL, padding="same", method="implicit"),
            F.conv2d(IMAGE, KERNEL, padding="same"),
        ),
        1e-5,
    ),
    "float16 on the CPU": (
        lambda: (
            visops.conv2d(IMAGE.half(), KERNEL.half()),
            F.conv2d(IMAGE.half().float(), KERNEL.half().float()).half(),
        ),
        2**-8,  # sums are below 16: a last place where a sum is halfway
    ),
    "an empty kernel, or one larger than the image": (large_kernel, 0),
    "bits may depend on the number of threads": (any_threads, 0),
}
