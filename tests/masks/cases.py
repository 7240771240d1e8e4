"""Masks of every kind: what users have, and what is worst for searches; scores, boxes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from roi.crops_cases import BOXES, SHAPE
from torch import Tensor

Rng = np.random.Generator


def noise(rng: Rng, height: int, width: int) -> np.ndarray:
    return rng.random((height, width)) < rng.choice([0.1, 0.4, 0.5, 0.6, 0.9])


def discs(rng: Rng, height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    mask = np.zeros((height, width), bool)
    for _ in range(6):
        cy, cx = rng.uniform(0, height), rng.uniform(0, width)
        mask |= (y - cy) ** 2 + (x - cx) ** 2 < rng.uniform(1, 1 + min(height, width) / 3) ** 2
    return mask


def spiral(rng: Rng, height: int, width: int) -> np.ndarray:
    """One path that winds to the middle: long chains of links."""
    mask = np.zeros((height, width), bool)
    top, left, bottom, right = 0, 0, height - 1, width - 1
    while top <= bottom and left <= right:
        mask[top, left : right + 1] = True
        mask[top : bottom + 1, right] = True
        if bottom > top + 1:
            mask[bottom, left : right + 1] = True
        mask[min(top + 2, bottom) : bottom + 1, left] = True
        if left + 1 <= right and top + 2 <= bottom:
            mask[top + 2, left : left + 2] = True
        top, left, bottom, right = top + 2, left + 2, bottom - 2, right - 2
    return mask


def comb(rng: Rng, height: int, width: int) -> np.ndarray:
    """Teeth that meet only in the last row: every column is a tree until then."""
    mask = np.zeros((height, width), bool)
    mask[:, ::2] = True
    mask[-1:] = True
    return mask


KINDS: dict[str, Callable[[Rng, int, int], np.ndarray]] = {
    "noise": noise,
    "discs": discs,
    "spiral": spiral,
    "comb": comb,
    "empty": lambda rng, h, w: np.zeros((h, w), bool),
    "full": lambda rng, h, w: np.ones((h, w), bool),
    "checkerboard": lambda rng, h, w: np.indices((h, w)).sum(0) % 2 == 0,
    "columns": lambda rng, h, w: np.indices((h, w))[1] % 3 != 0,
    "one pixel": lambda rng, h, w: np.arange(h * w).reshape(h, w) == rng.integers(0, h * w),
    "all but one": lambda rng, h, w: np.arange(h * w).reshape(h, w) != rng.integers(0, h * w),
}

# Widths around the words, vectors and blocks of kernels.
SIZES = ((1, 1), (1, 70), (9, 1), (7, 31), (5, 33), (6, 63), (4, 64), (5, 65), (13, 129))

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": Tensor.contiguous,
    "columns": lambda m: m.mT.contiguous().mT,
    "part": lambda m: torch.nn.functional.pad(m, (3, 5, 1, 2), value=1)[..., 1:-2, 3:-5],
    "every other": lambda m: torch.stack([m, m], -1)[..., 0],
}


def label_map(rng: Rng, height: int, width: int, dtype: torch.dtype) -> Tensor:
    """Patches of a few values, the least and the largest of the dtype among them."""
    info = torch.iinfo(dtype)
    values = np.array([0, 1, 2, info.max, info.min if info.min else 7], dtype=object)
    coarse = rng.integers(0, len(values), (height // 3 + 1, width // 4 + 1))
    chosen = values[coarse.repeat(3, 0).repeat(4, 1)[:height, :width]]
    return torch.tensor(chosen.tolist(), dtype=dtype).reshape(height, width)


def every_kind(height: int, width: int, seed: int = 0) -> np.ndarray:
    """A mask of every kind."""
    rng = np.random.default_rng(seed)
    return np.stack([make(rng, height, width) for make in KINDS.values()])


def some_masks(count: int = 4, height: int = 9, width: int = 70) -> Tensor:
    rng = np.random.default_rng(0)
    makers = list(KINDS.values())
    masks = [makers[i % len(makers)](rng, height, width) for i in range(count)]
    return torch.from_numpy(np.array(masks, bool).reshape(count, height, width))


NAN = float("nan")


def crowded(count: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    """Masks that overlap a lot: noise within shifted rectangles, copies, none and all pixels."""
    rng = np.random.default_rng(seed)
    masks = np.zeros((count, height, width), bool)
    for i, mask in enumerate(masks):
        if i % 5 == 4:
            mask[:] = masks[rng.integers(0, i)]
            continue
        y, x = rng.integers(0, height // 2 + 1), rng.integers(0, width // 2 + 1)
        part = mask[y : y + height // 2 + 1, x : x + width // 2 + 1]
        part[:] = rng.random(part.shape) < rng.choice([0.7, 0.95, 1.0])
    masks[0], masks[1] = False, True
    return masks


def scores_of(count: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Scores with ties, infinities, zeros of both signs and NaN."""
    rng = np.random.default_rng(seed)
    scores = torch.from_numpy(rng.integers(0, count // 2 + 1, count) / count)
    special = torch.tensor([NAN, torch.inf, -torch.inf, 0.0, -0.0])[: count // 3]
    scores[torch.from_numpy(rng.permutation(count)[: len(special)])] = special.double()
    return scores.to(dtype)


SIZE = SHAPE[2:]  # of the image that BOXES are made for

CONVENTIONS: tuple[dict[str, Any], ...] = (
    {"convention": "detectron2"},
    {"convention": "torchvision"},
    {"convention": "torchvision", "padding": 0},
    {"convention": "torchvision", "padding": 3},
)

# The grown sides of no box of BOXES end at whole pixels, where float32 decides.
MASK_SIZES = ((7, 7), (28, 28), (5, 9), (1, 1), (1, 5))


def boxes(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(BOXES, dtype=torch.float64).to(dtype)


def random_boxes(rng: np.random.Generator, count: int, size: tuple[int, int]) -> Tensor:
    """Sides of 1 pixel to the image's; partly outside."""
    height, width = size
    sides = rng.uniform(1, (width, height), (count, 2))
    starts = rng.uniform(-0.2, 1.0, (count, 2)) * (width, height)
    return torch.from_numpy(np.concatenate([starts, starts + sides], 1)).float()


def probabilities(
    count: int = len(BOXES), size: tuple[int, int] = (28, 28), seed: int = 0
) -> Tensor:
    """Random probabilities, smooth enough to have regions."""
    rng = np.random.default_rng(seed)
    coarse = torch.from_numpy(rng.random((count, 1, 5, 5)))
    fine = torch.nn.functional.interpolate(coarse, size, mode="bilinear")[:, 0]
    return 0.8 * fine + 0.2 * torch.from_numpy(rng.random((count, *size)))
