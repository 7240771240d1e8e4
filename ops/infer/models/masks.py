"""Masks to run lengths and back; masks and label maps resized to their images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...warp.augment import augment
from ..frames import Placement

__all__ = ["columns_of_runs", "masks_in_image", "run_lengths"]

_PIXELS_AT_ONCE = 1 << 24  # at the image's size; masks may be many and large


def run_lengths(mask: Tensor) -> dict[str, Any]:
    """Return a mask ``[H, W]`` as COCO's uncompressed run lengths.

    Pixels are read column by column; ``counts`` alternate between runs of 0s and 1s, starting with
    0s.

    Examples
    --------
    >>> import torch
    >>> from visops.infer import run_lengths
    >>> run_lengths(torch.tensor([[0, 1], [1, 1]], dtype=torch.bool))
    {'size': [2, 2], 'counts': [1, 3]}
    """
    flat = mask.to(torch.bool).t().flatten()
    changes = (flat[1:] != flat[:-1]).nonzero().flatten() + 1
    ends = torch.cat([changes.new_zeros(1), changes, changes.new_full((1,), flat.numel())])
    counts = ends.diff().tolist()
    starts_with_ones = flat.numel() > 0 and bool(flat[0])
    return {"size": list(mask.shape), "counts": [0, *counts] if starts_with_ones else counts}


def columns_of_runs(counts: Sequence[int], height: int) -> tuple[int, np.ndarray]:
    """Return the mask of :func:`run_lengths`, without the empty columns on both sides.

    Parameters
    ----------
    counts : sequence of int
        Runs of a mask whose columns have `height` pixels.
    height : int

    Returns
    -------
    int
        The index of the first column returned.
    ndarray ``[H, w]``
        bool.
    """
    ends = np.cumsum(counts, dtype=np.int64)
    if len(ends) < 2:
        return 0, np.zeros((height, 0), bool)
    last_of_ones = ends[len(ends) // 2 * 2 - 1]
    first, last = int(ends[0]) // height, -(-int(last_of_ones) // height)
    bounds = np.clip([0, *ends], first * height, last * height)
    runs: np.ndarray = bounds[1:] - bounds[:-1]
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return first, flat.reshape(last - first, height).T


def masks_in_image(
    masks: Tensor, place: Placement, *, mode: str = "bilinear", outside: float = 0.0
) -> Iterator[Tensor]:
    """Resize floating masks or maps ``[K, h, w]`` of a network's input to the image's size.

    They cover the whole input but may differ from it in size. `outside` is the value of parts of
    the image that the network has not seen; values don't fade towards it.

    Yields
    ------
    Tensor ``[k, H, W]``
        A few masks at a time.
    """
    size = (place.full_height, place.full_width)
    height, width = masks.shape[1:]
    x, y = place.width / width, place.height / height
    to_image = torch.tensor(
        [
            [x / place.scale_x, 0, -place.left / place.scale_x],
            [0, y / place.scale_y, -place.top / place.scale_y],
        ],
        dtype=torch.float64,
        device=masks.device,
    )
    at_once = max(1, _PIXELS_AT_ONCE // (size[0] * size[1]))
    for part in masks.split(at_once):
        yield augment(
            part[:, None],
            to_image,
            size,
            mode=mode,
            fill=outside,
            # With the window, values end within one pixel of the image; without it, of the mask.
            window=(0, 0, width, height),
            convention="half_pixel",
            layout="CHW",
        )[:, 0]
