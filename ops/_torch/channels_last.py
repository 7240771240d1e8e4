"""Which results lie channels_last, as the fronts of kernels decide it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["empty_maps", "prefers_channels_last"]


def prefers_channels_last(maps: Tensor) -> bool:
    """Whether what is made of them lies channels_last: its namesake in csrc/torch/tensor.cpp."""
    return bool(not maps.is_contiguous() and maps.shape[1] > 1 and maps.stride(1) == 1)


def empty_maps(
    like: Tensor, shape: Sequence[Any], channels_last: bool, dtype: torch.dtype | None = None
) -> Tensor:
    """Four dimensions on the device of `like`, and of its dtype where none is given."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device, memory_format=layout)
