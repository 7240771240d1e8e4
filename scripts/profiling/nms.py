"""Suppression of float32 boxes with sides of 5 to 65, one to every 1000 pixels of the image.

With a picture of one size, more boxes would be denser boxes, most of them soon suppressed.
"""

import numpy as np
import references.nms as reference
import torch
import torchvision
import visops

from .ladder import Ladder, Rung, gpu, on_threads

THRESHOLD = 0.5


def vectorised(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> list[int]:
    """Loop over kept boxes only; one box against all others is a few array operations."""
    x1, y1, x2, y2 = boxes.T
    areas = (x2 - x1) * (y2 - y1)
    left = np.argsort(-scores, kind="stable")
    kept = []
    while len(left):
        best, left = left[0], left[1:]
        kept.append(int(best))
        width = np.minimum(x2[best], x2[left]) - np.maximum(x1[best], x1[left])
        height = np.minimum(y2[best], y2[left]) - np.maximum(y1[best], y1[left])
        inter = np.maximum(width, 0) * np.maximum(height, 0)
        overlap = inter / (areas[best] + areas[left] - inter)
        left = left[overlap <= threshold]
    return kept


def build(size: int) -> list[Rung]:
    """Every rung that this machine can run."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(0, (1000 * size) ** 0.5, (size, 2))
    sides = rng.uniform(5, 65, (size, 2))
    boxes = np.hstack([centres - sides / 2, centres + sides / 2]).astype(np.float32)
    scores = rng.uniform(0, 1, size).astype(np.float32)
    tensors = torch.from_numpy(boxes), torch.from_numpy(scores)

    rungs = [
        Rung("Python loop", lambda: reference.nms(boxes, scores, THRESHOLD), profiled=True),
        Rung("NumPy", lambda: vectorised(boxes, scores, THRESHOLD), profiled=True),
        Rung("torchvision", lambda: torchvision.ops.nms(*tensors, THRESHOLD), peer=True),
        *on_threads("visops", lambda: visops.nms(*tensors, THRESHOLD), torch.get_num_threads()),
    ]
    device = gpu()
    if device is not None:
        there = [tensor.to(device) for tensor in tensors]
        rungs.append(
            Rung("visops, GPU", lambda: visops.nms(there[0], there[1], THRESHOLD), device=device)
        )
    return rungs


LADDER = Ladder(
    op="nms",
    job="float32 boxes, one to 1000 pixels, threshold 0.5",
    unit="boxes",
    sizes=(10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000),
    work=lambda size: size**2,
    build=build,
)
