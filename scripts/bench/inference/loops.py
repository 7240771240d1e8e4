"""Post-processing as in scripts that convert to NumPy first: image by image."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .networks import BOX_WEIGHTS, IOU, LARGEST, MOST, SCORE, SIDE, TOP

Array = npt.NDArray[np.float32]
Record = dict[str, Any]


def softmax(logits: Array) -> Array:
    """Return the softmax along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    result: Array = powers / powers.sum(axis=-1, keepdims=True)
    return result


def classify(logits: Array) -> Record:
    """Return the best classes of one image, from ``[1000]``, and their probabilities."""
    scores = softmax(logits)
    labels = np.argsort(-scores, kind="stable")[:TOP]
    return {"labels": labels.tolist(), "scores": scores[labels].tolist()}


def boxes_of(shifts: Array, anchors: Array) -> Array:
    """Return the corners of the anchors, ``[A, 4]``, moved by the network's outputs."""
    moved = shifts / np.array(BOX_WEIGHTS, np.float32)
    centre = anchors[:, :2] + moved[:, :2] * anchors[:, 2:]
    half = np.exp(np.minimum(moved[:, 2:], np.float32(LARGEST))) * anchors[:, 2:] * np.float32(0.5)
    corners: Array = np.concatenate([centre - half, centre + half], axis=1)
    return corners.clip(0, SIDE)


def suppress(boxes: Array, scores: Array) -> npt.NDArray[np.int64]:
    """Return the indices of the boxes of one class that are kept, by descending score."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order = np.argsort(-scores, kind="stable")
    kept = []
    while order.size:
        best, rest = order[0], order[1:]
        kept.append(best)
        low = np.maximum(boxes[best, :2], boxes[rest, :2])
        high = np.minimum(boxes[best, 2:], boxes[rest, 2:])
        common = (high - low).clip(min=0).prod(axis=1)
        union = areas[best] + areas[rest] - common
        order = rest[common <= IOU * union]
    return np.array(kept, np.int64)


def detect(logits: Array, shifts: Array, anchors: Array, width: int, height: int) -> Record:
    """Return the boxes of one image, in its pixels, from ``[A, 91]`` and ``[A, 4]``."""
    boxes = boxes_of(shifts, anchors)
    scores = softmax(logits)
    found = []
    for label in range(1, scores.shape[1]):
        (above,) = np.nonzero(scores[:, label] > SCORE)
        if above.size:
            for index in above[suppress(boxes[above], scores[above, label])]:
                found.append((float(scores[index, label]), label - 1, int(index)))
    found.sort(key=lambda row: (-row[0], row[1], row[2]))
    found = found[:MOST]
    scale = np.array([width / SIDE, height / SIDE] * 2, np.float32)
    return {
        "boxes": [(boxes[index] * scale).tolist() for _, _, index in found],
        "labels": [label for _, label, _ in found],
        "scores": [score for score, _, _ in found],
    }
