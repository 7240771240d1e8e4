"""Tensors and rows as `_native` takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from ..._torch.native import are_calls_watched
from ..._torch.native import place_of as tensor_place

__all__ = ["place_of", "sample_of"]


def place_of(image: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """Return where C++ finds a tensor's elements, and its strides.

    None: it is not a plain tensor on the CPU, or torch has to see what happens to it.
    """
    return None if are_calls_watched() else tensor_place(image)


def sample_of(owners: Any) -> np.ndarray | None:
    """Return the sample of each row, as these functions take it; None: there is only one."""
    return None if isinstance(owners, slice) else owners
