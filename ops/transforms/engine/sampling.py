"""How passes call the augmentation: windows, and samples of one size or several."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ...warp.augment_autograd import augment as _augment
from ...warp.augment_autograd import augment_list as _augment_list
from ...warp.augment_options import AugmentOptions
from ..targets.options import canvas_windows
from .compiled import Compiled


def windows_for(
    window: np.ndarray | None, native: Compiled, sizes: np.ndarray
) -> np.ndarray | None:
    """Return windows [B, 4], which make the edge towards the fill one output pixel wide."""
    if window is None and native.shows_window:
        return canvas_windows(sizes)
    return window


def run_all(images: Any, matrix: Tensor, size: Sequence[int], options: AugmentOptions) -> Tensor:
    """Run samples that share their size in one call."""
    run = _augment_list if isinstance(images, list) else _augment
    return run(images, matrix, size, *options)  # type: ignore[no-any-return]


def run_each(
    images: Any, matrix: Tensor, sizes: list[list[int]], options: AugmentOptions
) -> list[Tensor]:
    """Run the samples one by one, as their sizes differ."""
    results = []
    for i, size in enumerate(sizes):
        one = slice(i, i + 1)
        image = images[i].unsqueeze(0) if isinstance(images, list) else images[one]
        own = options.of_sample(i, len(sizes))
        results.append(_augment(image, matrix[one], size, *own)[0])
    return results
