"""Numbers of the samples of a batch, and evenly spaced ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

# A number for each sample: an array [B], or a float that all samples share.
Number = Any
Params = dict[str, Any]


def columns(numbers: Sequence[Number], batch: int) -> np.ndarray:
    """Put numbers side by side, float64 ``[B, len(numbers)]``."""
    out = np.empty((batch, len(numbers)))
    for column, number in enumerate(numbers):
        out[:, column] = number
    return out


def evenly(first: float, last: float, count: int) -> Tensor:
    """Return evenly spaced numbers in float32, whatever torch's default dtype and device are."""
    return torch.linspace(first, last, count, dtype=torch.float32, device="cpu")
