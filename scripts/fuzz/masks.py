"""Masks of a problem, and the options of operators on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor


def masks_of(p: Any) -> Tensor:
    """Return ``[N, H, W]``, bool or uint8."""
    drawn = p.draw.tensor((p.batch, p.height, p.width), torch.float64)
    inside: Tensor = drawn < p.draw.choice((0.2, 0.6, 0.99))
    return inside if p.draw.chance(0.6) else inside.byte() * 255


def bits_of(p: Any) -> Tensor:
    """Return ``[N, H, words]``, int64."""
    shape = (p.batch, p.height, (p.width + 63) // 64)
    bits: Tensor = p.draw.tensor(shape, torch.float64) * 2**60
    return bits.to(torch.int64)


MASK_VALUES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "masks": masks_of,
        "masks1": masks_of,
        "masks2": masks_of,
        "bits": bits_of,
        "bits1": bits_of,
        "bits2": bits_of,
        "iscrowd": lambda p: p.integers(p.batch, 2).to(torch.bool),
        "width": lambda p: p.width,
        "return_empty": lambda p: p.draw.chance(0.5),
        "connectivity": lambda p: p.draw.choice((4, 8)),
        "regions": lambda p: p.draw.between(0, 9),
        "max_components": lambda p: None,
        "return_stats": lambda p: p.draw.chance(0.5),
        "min_area": lambda p: p.draw.between(0, 9),
        "metric": lambda p: p.draw.choice(("euclidean", "taxicab", "chessboard")),
        "spacing": lambda p: [],
        "dims": lambda p: p.draw.choice((2, 3)),
        "return_indices": lambda p: p.draw.chance(0.5),
    }
)
