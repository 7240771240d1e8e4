"""Bad input to deformable attention: each row is an input and the message it must give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import visops
from bad_input import check
from torch import Tensor

OP = "multi_scale_deformable_attention"
SHAPES = ((2, 3), (1, 2))


def value(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, 8, 2, 4, dtype=dtype)


def locations(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, 5, 2, 2, 3, 2, dtype=dtype)


def weights(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, 5, 2, 2, 3, dtype=dtype)


def attend(
    of_value: Any = None,
    shapes: Any = SHAPES,
    positions: Any = None,
    factors: Any = None,
    **options: Any,
) -> Callable[[], Any]:
    arguments = (
        value() if of_value is None else of_value,
        shapes,
        locations() if positions is None else positions,
        weights() if factors is None else factors,
    )
    return lambda: visops.multi_scale_deformable_attention(*arguments, **options)


HALF, DOUBLE = torch.float16, torch.float64


def test_mapped_shapes() -> None:
    shapes = torch.tensor(SHAPES).expand(3, 2, 2)

    def call(shapes: Tensor) -> Any:
        return visops.multi_scale_deformable_attention(value(), shapes, locations(), weights())

    check(
        RuntimeError,
        f"{OP}: spatial_shapes can't be mapped by vmap",
        lambda: torch.vmap(call)(shapes),
    )


def test_starts_on_a_device_are_not_read() -> None:
    found = attend(level_start_index=torch.tensor([7, 7], device="meta"))()
    assert torch.equal(found, attend()())
    assert isinstance(np.asarray(found), np.ndarray)
