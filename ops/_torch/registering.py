"""Where Python registers kernels of the operators with torch's dispatcher."""

from collections.abc import Callable
from typing import Any

import torch

try:
    from torch._library.simple_registry import singleton as _fake_kernels
except ImportError:  # it is torch's own; without it, registering takes longer
    _fake_kernels = None  # type: ignore[assignment]

# Registrations last as long as this object. One for all is quicker than one for each, which
# torch.library makes where none is given.
LIBRARY = torch.library.Library("visops", "FRAGMENT")


def add_fake_kernel(op: str, kernel: Callable[..., Any]) -> None:
    """Do what torch.library.register_fake does, without reading its caller's source file.

    That is for a message about fake kernels that are wrong, and took an eighth of the time that
    importing this package takes.
    """
    code = kernel.__code__
    if _fake_kernels is not None:
        fakes = _fake_kernels.find(f"visops::{op}").fake_impl
        fakes.register(kernel, f"{code.co_filename}:{code.co_firstlineno}", LIBRARY)
    else:
        torch.library.register_fake(f"visops::{op}", kernel, lib=LIBRARY)
