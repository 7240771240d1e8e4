"""Calls of the augmentation for tables of bad input."""

from collections.abc import Callable
from typing import Any

import torch
import visops
from torch import Tensor

IDENTITY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
SINGULAR = [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]
NAN, INF = float("nan"), float("inf")
LARGEST = 2**31 - 1
SIZE = (6, 7)


def tensor(*, dtype: torch.dtype = torch.float32, shape: Any = (2, 3, 4, 5)) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


def images(*shapes: Any, dtype: torch.dtype = torch.uint8) -> list[Any]:
    return [tensor(dtype=dtype, shape=shape) for shape in shapes]


GOOD = ((3, 4, 5), (3, 9, 8), (3, 1, 1))


def call(given: Any, matrix: Any = IDENTITY, size: Any = SIZE, **options: Any) -> Callable[[], Any]:
    return lambda: visops.augment(given, matrix, size, **options)
