"""What `_numpy` does for targets on the CPU, in one call each; None where it wasn't built.

The functions do what coordinates.py does, with the same bits, for affine maps and NumPy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "are_boxes",
    "move_boxes",
    "move_masks",
    "move_points",
    "place_of",
    "points_inside",
    "sample_of",
]

are_boxes: Any
move_boxes: Any
move_masks: Any
move_points: Any
points_inside: Any
try:
    from ..._numpy import are_boxes, move_boxes, move_masks, move_points, points_inside
except ModuleNotFoundError:  # it is per Python version
    are_boxes = move_boxes = move_masks = move_points = points_inside = None


_are_transforms_active = torch._C._are_functorch_transforms_active
_dispatch_modes = torch._C._len_torch_dispatch_stack


def place_of(image: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """Return where C++ finds a tensor's elements, and its strides.

    None: it is not a plain tensor on the CPU, or torch has to see what happens to it.
    """
    if type(image) is not Tensor or image.device.type != "cpu" or image.is_neg():
        return None
    if _are_transforms_active() or _dispatch_modes():
        return None
    return image.data_ptr(), image.stride()


def sample_of(owners: Any) -> np.ndarray | None:
    """Return the sample of each row, as these functions take it; None: there is only one."""
    return None if isinstance(owners, slice) else owners
