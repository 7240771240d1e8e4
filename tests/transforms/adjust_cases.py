"""Pictures and numbers for tests of adjust_pixels."""

from typing import Any

import torch
from torch import Tensor
from visops.transforms.chain.pixel_kinds import MORE_NUMBERS


def picture(size: tuple[int, int], channels: int, dtype: torch.dtype) -> Tensor:
    """Many different values, and many that are equal."""
    generator = torch.Generator().manual_seed(sum(size))
    image = torch.randint(0, 256, (channels, *size), generator=generator)
    image[..., : size[1] // 2] //= 60
    return image.to(dtype) if dtype == torch.uint8 else image.to(dtype) / 255


def filled(*more: Any) -> list[float]:
    """Nine numbers for each of several operations."""
    return [n for own in more for n in (*own, *[0.0] * (MORE_NUMBERS - len(own)))]
