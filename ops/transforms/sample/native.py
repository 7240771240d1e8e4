"""What `_native` does for transforms on the CPU, in one call each.

`Chain` draws and composes parameters: engine/compiled.py. The functions do what
targets/coordinates.py and targets/masks.py do, with the same bits, for affine maps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from ..._native import (
    Chain,
    are_boxes,
    are_placed_boxes,
    move_boxes,
    move_drawn_boxes,
    move_drawn_masks,
    move_drawn_points,
    move_masks,
    move_points,
    points_inside,
)
from ..._torch.native import are_calls_watched
from ..._torch.native import place_of as tensor_place

__all__ = [
    "Chain",
    "are_boxes",
    "are_placed_boxes",
    "move_boxes",
    "move_drawn_boxes",
    "move_drawn_masks",
    "move_drawn_points",
    "move_masks",
    "move_points",
    "place_of",
    "points_inside",
    "sample_of",
]


def place_of(image: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """Return where C++ finds a tensor's elements, and its strides.

    None: it is not a plain tensor on the CPU, or torch has to see what happens to it.
    """
    return None if are_calls_watched() else tensor_place(image)


def sample_of(owners: Any) -> np.ndarray | None:
    """Return the sample of each row, as these functions take it; None: there is only one."""
    return None if isinstance(owners, slice) else owners
