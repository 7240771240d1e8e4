"""Checks for fake kernels: the C++ fronts check everything, but never see fake tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .registering import add_fake_kernel

__all__ = [
    "FOUR",
    "HEIGHT_WIDTH",
    "INTEGERS",
    "PAIR",
    "Length",
    "check_fill",
    "check_pair",
    "check_presence",
    "check_same_device",
    "check_shape",
    "register_fake",
    "require",
]

Kernel = Callable[..., Any]


class Length(NamedTuple):
    """How many numbers a list of them must have, and how fronts say so."""

    exactly: int
    allowed: str


PAIR = Length(2, "must have two numbers")
FOUR = Length(4, "must have four numbers")
INTEGERS = Length(2, "must be two integers")
HEIGHT_WIDTH = Length(2, "must be (height, width)")


def register_fake(op: str, **lengths: Length) -> Callable[[Kernel], Kernel]:
    """Register the fake kernel of an operator, and check what is the same for all operators.

    Tensors are given, and of one device: torch calls fake kernels for real tensors too, when
    another one is on the meta device, and results would be memory that nobody wrote. Lists of
    numbers named in `lengths` have that many.
    """
    schema = getattr(torch.ops.visops, op).default._schema.arguments

    def register(kernel: Kernel) -> Kernel:
        @functools.wraps(kernel)
        def checked(*arguments: Any) -> Any:
            given = list(zip(schema, arguments, strict=False))
            for argument, value in given:
                check_presence(op, argument, value)
                length = lengths.get(argument.name)
                if length is not None and len(value) != length.exactly:
                    got = f"visops.{op}: {argument.name} is {list(value)}"
                    raise RuntimeError(f"{got}, {length.allowed}")
            result = kernel(*arguments)
            _check_devices(op, given)  # after the kernel's checks: its messages say more
            return result

        add_fake_kernel(op, checked)
        return kernel

    return register


def check_presence(op: str, argument: Any, value: Any) -> None:
    """Raise for None, or an empty list, in place of tensors; `argument` is the schema's."""
    name, kind = argument.name, str(argument.type)
    if kind == "Tensor":
        require(value is not None, f"visops.{op}: {name} is None, must be a tensor")
    elif kind == "List[Tensor]":
        message = f"visops.{op}: {name} is an empty list, must hold at least one tensor"
        require(len(value) > 0, message)


def _check_devices(op: str, arguments: Iterable[tuple[Any, Any]]) -> None:
    """Check all tensors, in lists too, but `fill`: see check_fill()."""
    tensors = []
    for argument, value in arguments:
        name = argument.name
        if isinstance(value, (list, tuple)):
            items = ((f"{name}[{i}]", item) for i, item in enumerate(value))
            tensors += [(label, item) for label, item in items if isinstance(item, Tensor)]
        elif isinstance(value, Tensor) and name != "fill":
            tensors.append((name, value))
    for name, tensor in tensors[1:]:
        check_same_device(op, *tensors[0], name, tensor)


def require(condition: Any, message: str | Callable[[], str]) -> None:
    """Raise now, or at run time if `condition` depends on sizes that are not known yet.

    torch._check() would import SymPy, also for a condition that is known.
    """
    if condition is True:
        return
    text = message if isinstance(message, str) else message()
    if condition is False:
        raise RuntimeError(text)
    torch._check(condition, lambda: text)


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


def check_pair(op: str, name: str, tensor: Tensor, other_name: str, other: Tensor | None) -> None:
    """Raise unless the tensors share a dtype and a device."""
    if other is not None:
        dtypes = [str(t.dtype).removeprefix("torch.") for t in (other, tensor)]
        require(
            tensor.dtype == other.dtype,
            f"visops.{op}: {other_name} has dtype {dtypes[0]}, {name} has {dtypes[1]}; they must "
            "be equal",
        )
        check_same_device(op, name, tensor, other_name, other)
