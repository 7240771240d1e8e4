"""Masks for tests of Matrix NMS."""

import numpy as np

Rng = np.random.Generator


def disc_masks(rng: Rng, count: int, height: int = 24, width: int = 37) -> np.ndarray:
    """Discs of all sizes; some equal, some empty."""
    y, x = np.mgrid[:height, :width]
    masks = np.zeros((count, height, width), bool)
    for mask in masks:
        centre, radius = rng.uniform(0, (height, width)), rng.uniform(0, height / 2)
        mask[:] = (y - centre[0]) ** 2 + (x - centre[1]) ** 2 < radius**2
    return masks[rng.integers(0, max(1, count - count // 4), count)] if count else masks
