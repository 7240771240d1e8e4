"""Tensors and rows as `_native` takes them."""

from typing import Any

import numpy as np
from torch import Tensor

from ..._torch.native import data_ptr_and_strides as tensor_ptr_and_strides
from ..._torch.native import modes_or_transforms_active


def data_ptr_and_strides(image: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """Return where C++ finds a tensor's elements, and its strides.

    None: it is not a plain tensor on the CPU, or torch has to see what happens to it.
    """
    return None if modes_or_transforms_active() else tensor_ptr_and_strides(image)


def sample_of(owners: Any) -> np.ndarray | None:
    """Return the sample of each row, as these functions take it; None: there is only one."""
    return None if isinstance(owners, slice) else owners
