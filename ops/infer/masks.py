"""Masks as run lengths, and masks and maps of labels at the images' own size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..augment import augment
from .preprocess import Placement

__all__ = ["masks_in_image", "run_lengths"]

_PIXELS_AT_ONCE = 1 << 24  # of masks at their image's size, which may be many and large


def run_lengths(mask: Tensor) -> dict[str, Any]:
    """Return a mask ``[H, W]`` as COCO's uncompressed run lengths.

    Columns one after the other; ``counts`` are in turn of 0s and 1s, beginning with 0s.

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


def masks_in_image(
    masks: Tensor, place: Placement, *, mode: str = "bilinear", outside: float = 0.0
) -> Iterator[Tensor]:
    """Resize floating masks or maps ``[K, h, w]`` of a network's input to the image's size.

    They may be of another size than the input, which they cover. `outside` is the value of what the
    network has not seen of the image.

    Yields
    ------
    Tensor ``[k, H, W]``
        A few at a time.
    """
    size = (place.full_height, place.full_width)
    x, y = place.width / masks.shape[2], place.height / masks.shape[1]
    to_image = torch.tensor(
        [
            [x / place.scale_x, 0, -place.left / place.scale_x],
            [0, y / place.scale_y, -place.top / place.scale_y],
        ],
        dtype=torch.float64,
        device=masks.device,
    )
    cropped = place.left < 0 or place.top < 0
    at_once = max(1, _PIXELS_AT_ONCE // (size[0] * size[1]))
    for part in masks.split(at_once):
        yield augment(
            part[:, None],
            to_image,
            size,
            mode=mode,
            padding_mode="constant" if cropped else "replicate",
            fill=outside,
            convention="half_pixel",
            layout="CHW",
        )[:, 0]
