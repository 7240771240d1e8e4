"""What `_numpy` does for transforms on the CPU, in one call each; None where it wasn't built.

`Chain` draws and composes parameters: engine/compiled.py. The functions do what
targets/coordinates.py and targets/masks.py do, with the same bits, for affine maps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "Chain",
    "are_boxes",
    "move_boxes",
    "move_masks",
    "move_points",
    "place_of",
    "points_inside",
    "sample_of",
]

try:
    from ... import _numpy
except ImportError:  # it is per Python version
    _numpy = None  # type: ignore[assignment]

Chain: Any = getattr(_numpy, "Chain", None)
are_boxes: Any = getattr(_numpy, "are_boxes", None)
move_boxes: Any = getattr(_numpy, "move_boxes", None)
move_masks: Any = getattr(_numpy, "move_masks", None)
move_points: Any = getattr(_numpy, "move_points", None)
points_inside: Any = getattr(_numpy, "points_inside", None)

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
