"""Images of integers for which there is no kernel: they go through float32.

White is the greatest integer, as in torchvision. As a float, it is 1, and float32 holds every value
well enough to be rounded back to itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["WHITES", "from_float", "to_float"]

WHITES = {torch.uint16: 65535.0, torch.int16: 32767.0, torch.int8: 127.0}


def to_float(images: Any) -> Any:
    """Convert images, a tensor or a list, to float32 with white at 1; leave others alone."""
    if isinstance(images, list):
        return [to_float(image) for image in images]
    white = WHITES.get(images.dtype)
    return images if white is None else images.to(torch.float32).div_(white)


def from_float(images: Any, dtype: torch.dtype) -> Any:
    """Convert floating images to one of these integers: rounded, saturated, NaN becoming 0."""
    if isinstance(images, list):
        return [from_float(image, dtype) for image in images]
    limits = torch.iinfo(dtype)
    values: Tensor = images.mul(WHITES[dtype]).round_().clamp_(limits.min, limits.max)
    return values.nan_to_num_(nan=0.0).to(dtype)
