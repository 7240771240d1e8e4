"""How passes call the augmentation: the operator's options, and samples of one size or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ...warp.augment_autograd import augment as _augment
from ...warp.augment_autograd import augment_list as _augment_list
from ..targets.options import canvas_windows
from .compiled import Compiled
from .integers import WHITES

__all__ = ["NOTHING_MORE", "run_all", "run_each", "sampling_for", "windows_for"]

# mean, std, erase, erase_value, inverse_map, half_pixel
NOTHING_MORE: tuple[Any, ...] = ([], [], None, [0.0], False, True)


def sampling_for(native: Compiled, pixels: Any) -> tuple[Any, ...]:
    """Return the operator's sampling options for a leaf, with the first interpolation."""
    modes, padding_mode, fill, antialias = native.sampling
    if pixels.dtype in WHITES:
        fill = [value / WHITES[pixels.dtype] for value in fill]
    return modes[0], padding_mode, fill, antialias and modes[0] != "nearest"


def windows_for(
    window: np.ndarray | None, native: Compiled, sizes: np.ndarray
) -> np.ndarray | None:
    """Return windows [B, 4], which make the edge towards the fill one output pixel wide."""
    if window is None and native.shows_window:
        return canvas_windows(sizes)
    return window


def run_all(images: Any, matrix: Tensor, size: Sequence[int], options: tuple[Any, ...]) -> Tensor:
    """Run samples that share their size in one call."""
    run = _augment_list if isinstance(images, list) else _augment
    return run(images, matrix, size, *options)  # type: ignore[no-any-return]


def run_each(
    images: Any, matrix: Tensor, sizes: list[list[int]], options: tuple[Any, ...]
) -> list[Tensor]:
    """Run the samples one by one, as their sizes differ."""
    results = []
    for i, size in enumerate(sizes):
        one = slice(i, i + 1)
        image = images[i].unsqueeze(0) if isinstance(images, list) else images[one]
        own = [option[one] if isinstance(option, Tensor) else option for option in options]
        results.append(_augment(image, matrix[one], size, *own)[0])
    return results
