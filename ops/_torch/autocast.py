"""Casts within torch.autocast, as torch's convolutions have them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .registering import LIBRARY


def autocast_dtype(tensor: Tensor) -> torch.dtype | None:
    """Return the dtype of autocast on the tensor's device; None where it is off."""
    device = tensor.device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return None
    return torch.get_autocast_dtype(device)


def cast_to(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Cast what is neither double nor complex, nor of integers."""
    if tensor is None or not tensor.is_floating_point() or tensor.dtype == torch.float64:
        return tensor
    return tensor.to(dtype)


def register_autocast(op: str, cast: Callable[..., tuple[Any, ...]]) -> None:
    """Cast the arguments of `op` itself; torch.library.register_autocast knows one dtype only.

    `cast` gets the arguments up to the last that is not its default.
    """
    for key in ("AutocastCPU", "AutocastCUDA"):
        _register(op, cast, key)


def _register(op: str, cast: Callable[..., tuple[Any, ...]], key: str) -> None:
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    call = getattr(torch.ops.visops, op).default

    def kernel(*arguments: Any) -> Any:
        arguments = cast(*arguments)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return call(*arguments)

    LIBRARY.impl(op, kernel, key)
