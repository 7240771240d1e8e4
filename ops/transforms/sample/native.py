"""What `_numpy` does for transforms on the CPU, in one call each; None where it wasn't built.

`Chain` draws and composes parameters: engine/compiled.py. The functions do what
targets/coordinates.py and targets/masks.py do, with the same bits, for affine maps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from ..._torch.native import are_calls_watched, numpy_fronts
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

Chain: Any = getattr(numpy_fronts, "Chain", None)
are_boxes: Any = getattr(numpy_fronts, "are_boxes", None)
are_placed_boxes: Any = getattr(numpy_fronts, "are_placed_boxes", None)
move_boxes: Any = getattr(numpy_fronts, "move_boxes", None)
move_drawn_boxes: Any = getattr(numpy_fronts, "move_drawn_boxes", None)
move_drawn_masks: Any = getattr(numpy_fronts, "move_drawn_masks", None)
move_drawn_points: Any = getattr(numpy_fronts, "move_drawn_points", None)
move_masks: Any = getattr(numpy_fronts, "move_masks", None)
move_points: Any = getattr(numpy_fronts, "move_points", None)
points_inside: Any = getattr(numpy_fronts, "points_inside", None)


def place_of(image: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """Return where C++ finds a tensor's elements, and its strides.

    None: it is not a plain tensor on the CPU, or torch has to see what happens to it.
    """
    return None if are_calls_watched() else tensor_place(image)


def sample_of(owners: Any) -> np.ndarray | None:
    """Return the sample of each row, as these functions take it; None: there is only one."""
    return None if isinstance(owners, slice) else owners
