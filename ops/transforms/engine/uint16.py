"""Images with 16 bits per value, for which there is no kernel: they go through float32.

White is 65535. As floats, it is 1, and float32 holds every value well enough to be rounded back to
itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["WHITE", "from_float", "to_float"]

WHITE = 65535.0


def to_float(images: Any) -> Any:
    """Convert images, a tensor or a list, from uint16 to float32 in [0, 1]; leave others alone."""
    if isinstance(images, list):
        return [to_float(image) for image in images]
    return images.to(torch.float32).div_(WHITE) if images.dtype is torch.uint16 else images


def from_float(images: Any) -> Any:
    """Convert float32 images to uint16: rounded half to even, saturated, NaN becoming 0."""
    if isinstance(images, list):
        return [from_float(image) for image in images]
    values: Tensor = images.mul(WHITE).round_().clamp_(0.0, WHITE).nan_to_num_(nan=0.0)
    return values.to(torch.uint16)
