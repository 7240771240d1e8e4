"""Operators on tensors, called with tensors or with NumPy arrays."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._device import DeviceContext

from .arrays import as_tensor
from .numbers import as_index, is_symbol, on_one_line
from .unsupported_inputs import called, readable, require_plain

Device = torch.device | str | None


def call_operator(
    op: str,
    call: Callable[..., Any],
    device: Device,
    tensors: Mapping[str, Any],
    *arguments: Any,
    optional: Collection[str] = (),
) -> Any:
    """Return ``call(*tensors.values(), *arguments)``; arrays for arrays.

    Parameters
    ----------
    op : str
        The public function, for errors.
    call : callable
        Takes and returns tensors.
    device : torch.device or str, optional
        Where arrays are computed; tensors stay where they are.
    tensors : mapping
        Tensors, or arrays, by the names of the arguments. The first one says which.
    *arguments
        What follows them.
    optional : collection of str
        Names of `tensors` that may be None.

    Raises
    ------
    TypeError
        Neither tensors nor arrays, or both; arrays that torch can't read.
    ValueError
        The operator's RuntimeError, for arrays.
    """
    if device is None and _are_tensors(tensors, optional):
        try:
            return called(call, *tensors.values(), *arguments)
        except (RuntimeError, AttributeError) as error:
            if not str(error).startswith("visops."):  # torch's, for sparse tensors and their like
                require_plain(op, **tensors)
            if isinstance(error, RuntimeError):
                raise readable(error, op) from None
            raise
    given = {n: v for n, v in tensors.items() if not (v is None and n in optional)}
    first = next(iter(given))
    if not isinstance(given[first], np.ndarray):
        either = "a torch.Tensor or a numpy.ndarray"
        like_first = isinstance(given[first], Tensor)
        allowed = f"a torch.Tensor, as {first} is" if like_first else either
        _require_kind(op, Tensor, allowed, given)
        raise TypeError(f"visops.{op}: device is for arrays; move tensors with .to({device!r})")
    _require_kind(op, np.ndarray, f"a numpy.ndarray, as {first} is", given)
    moved = {name: as_tensor(op, name, array).to(device) for name, array in given.items()}
    try:
        result = call(*(moved.get(name) for name in tensors), *arguments)
    except RuntimeError as error:
        raise ValueError(str(readable(error, op))) from None
    if isinstance(result, tuple):
        return tuple(part.cpu().numpy() for part in result)
    return result.cpu().numpy()


def renamed(
    error: Exception, op: str, inner: str, arguments: Mapping[str, str] | None = None
) -> Exception:
    """Return an error of the operator `inner` as one of the public function `op`, which calls it.

    `arguments` are names of inner's arguments, and what `op` calls them. Other errors come back as
    they are.
    """
    if isinstance(error, RuntimeError):
        error = readable(error)
    prefix, message = f"visops.{inner}: ", str(error)
    if type(error) not in (RuntimeError, TypeError, ValueError) or not message.startswith(prefix):
        return error
    message = message.removeprefix(prefix)
    for theirs, ours in (arguments or {}).items():
        message = re.sub(rf"\b{theirs}\b", ours, message)
    return type(error)(f"visops.{op}: {message}")


def output_limit(op: str, max_output: Any, *, of_arrays: bool) -> Any:
    """Return the limit as operators take it: -1 for None."""
    if max_output is None:
        return -1
    try:
        limit = as_index(max_output)
    except TypeError:
        got = on_one_line(max_output)
        raise TypeError(f"visops.{op}: max_output is {got}, must be an integer") from None
    if not is_symbol(limit) and not 0 <= limit < 2**63:  # -1 has a meaning for the operator
        error = ValueError if of_arrays else RuntimeError
        allowed = ">= 0" if limit < 0 else "below 2^63"
        raise error(f"visops.{op}: max_output is {limit}, must be {allowed}")
    return limit


def _are_tensors(values: Mapping[str, Any], optional: Collection[str]) -> bool:
    for name, value in values.items():
        if not isinstance(value, Tensor) and not (value is None and name in optional):
            return False
    return True


def _require_kind(op: str, kind: type, allowed: str, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if not isinstance(value, kind):
            raise TypeError(f"visops.{op}: {name} is a {type(value).__name__}, must be {allowed}")


# Tensors as `_native` takes them: where C++ finds their elements. No torch lies between.
#
# A call through torch's dispatcher takes microseconds for every few arguments. Small problems on
# the CPU go past it, unless something has to see the call.

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
