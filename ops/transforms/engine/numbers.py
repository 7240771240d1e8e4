"""Numbers of the samples of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Number", "Params", "columns"]

# A number for each sample: an array [B], or a float that all samples share.
Number = Any
Params = dict[str, Any]


def columns(numbers: Sequence[Number], batch: int) -> np.ndarray:
    """Put numbers side by side, float64 ``[B, len(numbers)]``."""
    out = np.empty((batch, len(numbers)))
    for column, number in enumerate(numbers):
        out[:, column] = number
    return out
