"""Post-processing on the device, a batch at a time."""

from collections.abc import Sequence
from typing import Any

import torch
import visops
from torch import Tensor

from .networks import BOX_WEIGHTS, IOU, LARGEST, MOST, SCORE, SIDE, TOP

Record = dict[str, Any]


def boxes_of(shifts: Tensor, anchors: Tensor) -> Tensor:
    """Return the corners of the anchors, ``[A, 4]``, moved by the outputs, ``[N, A, 4]``."""
    moved = shifts / shifts.new_tensor(BOX_WEIGHTS)
    centre = anchors[:, :2] + moved[..., :2] * anchors[:, 2:]
    half = moved[..., 2:].clamp(max=LARGEST).exp() * anchors[:, 2:] * 0.5
    return torch.cat([centre - half, centre + half], dim=-1).clamp(0, SIDE)


def classify_batch(logits: Tensor) -> list[Record]:
    """Return the best classes of each image, from ``[N, 1000]``, and their probabilities."""
    scores, labels = logits.softmax(dim=1).topk(TOP)
    rows = zip(labels.tolist(), scores.tolist(), strict=True)
    return [{"labels": best, "scores": values} for best, values in rows]


def scores_of(logits: Tensor) -> Tensor:
    """``[N, A, 91]`` -> probabilities of all classes but the background, ``[N, A, 90]``."""
    return logits.softmax(dim=-1)[..., 1:].contiguous()


def detect_batch(
    logits: Tensor, shifts: Tensor, anchors: Tensor, sizes: Sequence[tuple[int, int]]
) -> list[Record]:
    """Return the boxes of images of these sizes, from ``[N, A, 91]`` and ``[N, A, 4]``."""
    boxes, scores = boxes_of(shifts, anchors), scores_of(logits)
    kept = visops.batched_nms(boxes, scores, None, IOU, max_output=MOST, score_threshold=SCORE)
    image, label, index = kept.unbind(1)
    scale = boxes.new_tensor([[w / SIDE, h / SIDE] * 2 for w, h in sizes])
    counts = image.bincount(minlength=len(sizes)).tolist()
    parts = zip(
        (boxes[image, index] * scale[image]).cpu().split(counts),
        label.cpu().split(counts),
        scores[image, index, label].cpu().split(counts),
        strict=True,
    )
    return [
        {"boxes": found.tolist(), "labels": labels.tolist(), "scores": values.tolist()}
        for found, labels, values in parts
    ]
