"""Fake kernels: they say what a result will be, and leave checks to the operator.

A fake kernel infers shapes, dtypes and strides of valid arguments. For others it may say anything:
the C++ fronts check all arguments when the operator runs, and give the message. An error comes from
here only where nothing can be inferred.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .registering import add_fake_kernel

Kernel = Callable[..., Any]

# What indexing shapes, unpacking them and dividing by them raise.
_NOT_INFERRED = (AttributeError, IndexError, TypeError, ValueError, ZeroDivisionError)


def register_fake(op: str, called: str, kernel: Kernel) -> None:
    """Register the fake kernel of an operator, which errors call `called`."""
    schema = getattr(torch.ops.visops, op).default._schema.arguments
    names = [argument.name for argument in schema]

    def inferred(*arguments: Any) -> Any:
        _check_devices(called, names, arguments)
        try:
            return kernel(*arguments)
        except _NOT_INFERRED as error:
            given = ", ".join(_described(names, arguments)) or "no tensors"
            raise RuntimeError(
                f"visops.{called}: no result can be inferred from {given}; the operator itself, "
                "called with real tensors, says what they must be"
            ) from error

    add_fake_kernel(op, inferred)


def no_result(*_: Any) -> None:
    """Be the fake kernel of an operator that writes into an argument."""


def contiguous_like(position: int) -> Kernel:
    """Return the fake kernel of a contiguous result, like the argument at that position."""

    def kernel(*arguments: Any) -> Tensor:
        return torch.empty_like(arguments[position], memory_format=torch.contiguous_format)

    return kernel


def dynamic_size() -> Any:
    """Return the size of a result that depends on values: 0 or more."""
    return torch.library.get_ctx().new_dynamic_size(min=0)


def _tensors(names: Sequence[str], arguments: Sequence[Any]) -> Iterator[tuple[str, Tensor]]:
    for name, value in zip(names, arguments, strict=False):
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                if isinstance(item, Tensor):
                    yield f"{name}[{i}]", item


def _described(names: Sequence[str], arguments: Sequence[Any]) -> Iterator[str]:
    return (f"{name} {list(tensor.shape)}" for name, tensor in _tensors(names, arguments))


def _check_devices(op: str, names: Sequence[str], arguments: Sequence[Any]) -> None:
    """Raise unless all tensors are on one device; `fill` is on the CPU, wherever the others are.

    This can't be left to the operator: torch calls fake kernels for real tensors too, when another
    one is on the meta device, and the result would be memory that nobody wrote.
    """
    reference: tuple[str, Tensor] | None = None
    for name, tensor in _tensors(names, arguments):
        if reference is None:
            reference = name, tensor
        elif name == "fill":
            if not tensor.is_cpu and not (tensor.is_meta and reference[1].is_meta):
                raise RuntimeError(f"visops.{op}: fill is on {tensor.device}, must be on cpu")
        elif tensor.device != reference[1].device:
            raise RuntimeError(
                f"visops.{op}: {name} is on {tensor.device}, {reference[0]} is on "
                f"{reference[1].device}; all tensors must be on one device"
            )
