"""Boxes as detectors produce them, float32."""

import torch
from torch import Tensor


def corners(centres: Tensor, sides: Tensor) -> Tensor:
    """Centres and sides [N, 2] to boxes [N, 4]."""
    return torch.cat([centres - sides / 2, centres + sides / 2], 1)


def uniform(count: int, width: float = 1000.0) -> Tensor:
    """Boxes [N, 4] anywhere."""
    return corners(torch.rand(count, 2) * width, torch.rand(count, 2) * 60 + 5)


def clustered(count: int) -> Tensor:
    """Fifty proposals per object."""
    objects = torch.rand(max(1, count // 50), 2) * 1000
    centres = objects[torch.randint(len(objects), (count,))] + torch.randn(count, 2) * 5
    return corners(centres, 40 + torch.randn(count, 2).abs() * 8)


def pile(count: int) -> Tensor:
    """All boxes in one spot."""
    return corners(torch.rand(count, 2) * 20, 100 + torch.rand(count, 2) * 20)
