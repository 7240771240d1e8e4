"""Checks for fake kernels: the C++ fronts check everything, but never see fake tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["check_fill", "check_same_device", "check_shape", "register_fake", "require"]

Kernel = Callable[..., Any]


def register_fake(op: str) -> Callable[[Kernel], Kernel]:
    """Register the fake kernel of an operator, which then sees tensors of one device only.

    Torch calls it for real tensors too, when another one is on the meta device: results would be
    memory that nobody wrote.
    """
    schema = getattr(torch.ops.visops, op).default._schema.arguments
    names = [argument.name for argument in schema]

    def register(kernel: Kernel) -> Kernel:
        @functools.wraps(kernel)
        def checked(*arguments: Any) -> Any:
            _check_devices(op, zip(names, arguments, strict=False))
            return kernel(*arguments)

        torch.library.register_fake(f"visops::{op}", checked)
        return kernel

    return register


def _check_devices(op: str, arguments: Iterable[tuple[str, Any]]) -> None:
    """Check what check_same_device() does for all arguments, but `fill`; see check_fill()."""
    tensors = []
    for name, value in arguments:
        if isinstance(value, (list, tuple)):
            items = ((f"{name}[{i}]", item) for i, item in enumerate(value))
            tensors += [(label, item) for label, item in items if isinstance(item, Tensor)]
        elif isinstance(value, Tensor) and name != "fill":
            tensors.append((name, value))
    for name, tensor in tensors[1:]:
        check_same_device(op, *tensors[0], name, tensor)


def require(condition: Any, message: str) -> None:
    """Raise now, or at run time if `condition` depends on sizes that are not known yet."""
    if condition is False:
        raise RuntimeError(message)
    if condition is not True:
        torch._check(condition, lambda: message)


def check_shape(
    op: str, name: str, tensor: Tensor, sizes: Sequence[Any], text: str, more: int = 0
) -> None:
    """Raise unless `tensor` has these sizes (`text`) and at most `more` extra dimensions."""
    message = f"visops.{op}: {name} has shape {list(tensor.shape)}, must be {text}"
    require(tensor.dim() in (len(sizes), len(sizes) + more), message)
    for size, expected in zip(tensor.shape, sizes, strict=False):
        require(size == expected, message)


def check_fill(op: str, input: Tensor, fill: Tensor | None) -> None:
    """Check `fill`, the value outside the input, as csrc/torch/fill.cpp does."""
    if fill is None:
        return
    require(
        fill.numel() == 1,
        f"visops.{op}: fill has shape {list(fill.shape)}, must be one element",
    )
    require(
        fill.is_cpu or (fill.is_meta and input.is_meta),
        f"visops.{op}: fill is on {fill.device}, must be on cpu",
    )
    require(
        fill.dtype == input.dtype,
        f"visops.{op}: fill has dtype {fill.dtype}, input has {input.dtype}",
    )


def check_same_device(
    op: str, reference_name: str, reference: Tensor, name: str, tensor: Tensor | None
) -> None:
    """Raise unless `tensor` is None or on the device of `reference`."""
    if tensor is not None and tensor.device != reference.device:
        raise RuntimeError(
            f"visops.{op}: {name} is on {tensor.device}, {reference_name} is on "
            f"{reference.device}; all tensors must be on one device"
        )
