"""Detection with torchvision's operators, image by image."""

from typing import Any

from torch import Tensor
from torchvision.ops import batched_nms

from .networks import IOU, MOST, SCORE, SIDE
from .on_device import boxes_of, scores_of

Record = dict[str, Any]


def detect_image(
    logits: Tensor, shifts: Tensor, anchors: Tensor, width: int, height: int
) -> Record:
    """Return the boxes of one image, in its pixels, from ``[A, 91]`` and ``[A, 4]``."""
    boxes, scores = boxes_of(shifts, anchors), scores_of(logits)
    index, label = (scores > SCORE).nonzero().unbind(1)
    kept = batched_nms(boxes[index], scores[index, label], label, IOU)[:MOST]
    index, label = index[kept], label[kept]
    scale = boxes.new_tensor([width / SIDE, height / SIDE] * 2)
    return {
        "boxes": (boxes[index] * scale).tolist(),
        "labels": label.tolist(),
        "scores": scores[index, label].tolist(),
    }
