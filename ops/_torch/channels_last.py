"""Decides which results are channels_last, as the C++ fronts do."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .shapes import holds, is_contiguous


def prefers_channels_last(maps: Tensor) -> bool:
    """Whether a result follows these maps into channels_last; as in csrc/torch/tensor.cpp."""
    return not is_contiguous(maps) and holds(maps.shape[1] > 1) and holds(maps.stride(1) == 1)


def empty_maps(
    like: Tensor, shape: Sequence[Any], channels_last: bool, dtype: torch.dtype | None = None
) -> Tensor:
    """Return an empty 4-d tensor on the device of `like`, with its dtype unless one is given."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device, memory_format=layout)
