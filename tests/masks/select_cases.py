"""Masks and scores of a crowd."""

import numpy as np
import torch
from torch import Tensor

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
