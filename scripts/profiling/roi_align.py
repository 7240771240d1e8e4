"""RoIAlign: boxes in a float32 map of 64 channels, 100 x 168; 7 x 7 bins of 2 x 2 samples."""

import numpy as np
import references.roi_align as reference
import torch
import torchvision
import visops

from .ladder import Ladder, Rung, gpu, on_threads

CHANNELS, HEIGHT, WIDTH = 64, 100, 168
BINS, SAMPLES, SCALE = 7, 2, 1 / 8


def axis(low: np.ndarray, high: np.ndarray, length: int) -> tuple[np.ndarray, ...]:
    """Both neighbours, and their weights, of samples [K, BINS * SAMPLES] along an axis."""
    start, bin_size = low * SCALE - 0.5, (high - low) * SCALE / BINS
    steps = (np.arange(BINS * SAMPLES) + 0.5) / SAMPLES
    at = start[:, None] + steps * bin_size[:, None]
    inside = (at >= -1) & (at <= length)
    at = np.clip(at, 0, length - 1)
    before = np.minimum(at.astype(np.int64), length - 2)
    part = at - before
    return before, before + 1, (1 - part) * inside, part * inside


def vectorised(features: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Take all samples of all boxes at once: four gathered arrays, then averaged."""
    count = len(boxes)
    x0, x1, left, right = axis(boxes[:, 1], boxes[:, 3], WIDTH)
    y0, y1, top, bottom = axis(boxes[:, 2], boxes[:, 4], HEIGHT)
    total = np.zeros((CHANNELS, count, BINS * SAMPLES, BINS * SAMPLES), np.float32)
    for row, weight_y in ((y0, top), (y1, bottom)):
        for column, weight_x in ((x0, left), (x1, right)):
            weight = weight_y[:, :, None] * weight_x[:, None, :]
            total += features[0][:, row[:, :, None], column[:, None, :]] * weight.astype(np.float32)
    bins = total.reshape(CHANNELS, count, BINS, SAMPLES, BINS, SAMPLES)
    return bins.mean((3, 5)).swapaxes(0, 1)


def build(size: int) -> list[Rung]:
    """Every rung that this machine can run."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (1, CHANNELS, HEIGHT, WIDTH)).astype(np.float32)
    limits = np.array([WIDTH, HEIGHT]) / SCALE
    sides = np.exp(rng.uniform(np.log(16), np.log(400), (size, 2)))
    corners = rng.uniform(0, 1, (size, 2)) * (limits - sides)
    boxes = np.hstack([np.zeros((size, 1)), corners, corners + sides]).astype(np.float32)
    tensors = torch.from_numpy(features), torch.from_numpy(boxes)
    last = tensors[0].contiguous(memory_format=torch.channels_last)

    def ours(features: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        return visops.roi_align(features, boxes, BINS, SCALE, SAMPLES, aligned=True)

    rungs = [
        Rung(
            "Python loop",
            lambda: reference.roi_align(features, boxes, (BINS, BINS), SCALE, SAMPLES, True),
            profiled=True,
        ),
        Rung("NumPy", lambda: vectorised(features, boxes), profiled=True),
        Rung(
            "torchvision",
            lambda: torchvision.ops.roi_align(*tensors, BINS, SCALE, SAMPLES, aligned=True),
            peer=True,
        ),
        Rung("visops, NCHW, 1 thread", lambda: ours(*tensors)),
        *on_threads(
            "visops",
            lambda: ours(last, tensors[1]),
            torch.get_num_threads(),
        ),
    ]
    device = gpu()
    if device is not None:
        there = last.to(device), tensors[1].to(device)
        rungs.append(Rung("visops, GPU", lambda: ours(*there), device=device))
    return rungs


LADDER = Ladder(
    op="roi_align",
    job=f"{CHANNELS} channels of {HEIGHT} × {WIDTH}, {BINS} × {BINS} bins",
    unit="boxes",
    sizes=(1, 3, 10, 30, 100, 300, 1_000),
    work=lambda size: size,
    build=build,
)
