"""Tensors as `_native` takes them: where C++ finds their elements. No torch lies between.

A call through torch's dispatcher takes microseconds for every few arguments. Small problems on the
CPU go past it, unless something has to see the call.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._device import DeviceContext

PtrAndStrides = tuple[int, tuple[int, ...]]

_strided = torch.strided
_are_transforms_active = torch._C._are_functorch_transforms_active
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_function_mode_at = torch._C._get_function_stack_at
# Modes that need not see what happens to tensors: a default device only says where new ones are.
BLIND_MODES: set[type] = {DeviceContext}


def modes_or_transforms_active() -> bool:
    """Whether a transform or a mode has to see what happens to tensors."""
    if _are_transforms_active() or _dispatch_modes():
        return True
    count = _function_modes()
    return count > 0 and any(type(_function_mode_at(i)) not in BLIND_MODES for i in range(count))


def data_ptr_and_strides(tensor: Any) -> PtrAndStrides | None:
    """Return the address of a tensor's elements, and its strides.

    None: it is not a plain tensor on the CPU, or has no elements.
    """
    if type(tensor) is not Tensor or not tensor.is_cpu or tensor.layout is not _strided:
        return None
    if tensor.is_neg() or tensor.is_nested:
        return None
    address = tensor.data_ptr()
    return (address, tensor.stride()) if address else None


def unwatched_ptr_and_strides(tensor: Any) -> PtrAndStrides | None:
    """Return the same, but None as well where torch has to see what happens to the tensor."""
    return None if modes_or_transforms_active() else data_ptr_and_strides(tensor)
