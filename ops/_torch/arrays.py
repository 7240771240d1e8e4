"""Tensors, NumPy arrays and plain numbers in; the same kind out.

One rule for arrays: every layout is accepted and gives the same result. Arrays with foreign byte
order, unaligned data or negative strides are copied, because torch has no view of them; all others
are shared, read-only ones too.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .numbers import is_symbol, number_or_list, tensor_of_symbols
from .unsupported_inputs import reject_float8, require_plain

_NUMPY_TO_TORCH = {np.float16: torch.float16, np.float32: torch.float32}

# Signed dtypes of the same size and bits, for torch's operators that don't take unsigned ones.
SIGNED = {
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
}


def common_device(op: str, arguments: Sequence[Any]) -> torch.device | None:
    """Return the device of all tensors among `arguments`; None without one."""
    device = None
    for argument in arguments:
        if isinstance(argument, Tensor):
            if device is not None and argument.device != device:
                raise ValueError(
                    f"visops.{op}: tensors are on {device} and {argument.device}, "
                    "must be on the same device"
                )
            device = argument.device
    on_meta = device is not None and device.type == "meta"
    if on_meta and any(isinstance(argument, np.ndarray) for argument in arguments):
        raise ValueError(f"visops.{op}: a tensor is on meta, can't be used with arrays")
    return device


class _Writable:
    """A read-only array's memory, declared writable."""

    def __init__(self, array: np.ndarray) -> None:
        interface = array.__array_interface__
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self.owner = array  # keeps the memory as long as an array of it lives


def as_tensor(
    op: str, name: str, array: np.ndarray, allowed: str = "a number type of torch's"
) -> Tensor:
    """Return the array, in any layout, as a tensor that must only be read.

    `allowed` says in the error which dtypes an operator takes.
    """
    # torch.from_numpy() would share unaligned data, which kernels can't read.
    if not array.flags.aligned or not array.dtype.isnative or min(array.strides, default=0) < 0:
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    try:
        # torch warns of read-only arrays, which tensors can't express.
        shared = array if array.flags.writeable else np.asarray(_Writable(array))
    except (TypeError, ValueError):  # a dtype that the array interface can't describe
        shared = array
    if shared.dtype.kind in "iu":  # torch knows one of C's two integers with 64 bits
        shared = shared.view(f"{shared.dtype.kind}{shared.dtype.itemsize}")
    try:
        return torch.from_numpy(shared)
    except TypeError:
        pass
    except ValueError:  # strides that are not multiples of the element size
        return torch.from_numpy(np.array(array))
    raise TypeError(f"visops.{op}: {name} has dtype {array.dtype}, must be {allowed}")


def as_float64(op: str, name: str, value: Any, device: torch.device | None) -> Tensor:
    """Return `value` as a float64 tensor; gradients flow through."""
    if isinstance(value, Tensor):
        require_plain(op, **{name: value})
        if value.is_complex():
            raise TypeError(f"visops.{op}: {name} is complex, expected real numbers")
        reject_float8(op, name, value)
        return value.double()
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], np.ndarray):
        value = _stacked(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiub":
            raise TypeError(f"visops.{op}: {name} has dtype {value.dtype}, expected real numbers")
        # One order of memory, for one order of sums.
        host = torch.from_numpy(np.array(value, dtype=np.float64, order="C"))
        return host.to(device, non_blocking=True)  # the copy's source may go: the driver stages it
    try:
        if is_symbol(value):
            return tensor_of_symbols(value, device)
        host = torch.as_tensor(value, dtype=torch.float64, device="cpu")
        return host.to(device, non_blocking=True)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"visops.{op}: {name} is not an array of numbers: {error}") from None


def _stacked(arrays: Any) -> Any:
    """Return a list of arrays as one, which torch would be slow to do; as it is if they differ."""
    try:
        return np.stack(arrays)
    except (TypeError, ValueError):
        return arrays


def no_boxes(boxes: Any, columns: int) -> Any:
    """Return an empty list of boxes, of shape [0], as [0, columns]; anything else as it is."""
    if isinstance(boxes, (Tensor, np.ndarray)) and boxes.ndim == 1 and boxes.shape[0] == 0:
        return boxes.reshape(0, columns)
    return boxes


def number_list(op: str, name: str, value: Any) -> list[float]:
    """Return a number, or one for each channel, as a list of floats."""
    if isinstance(value, (int, float)):
        return [value]
    return number_or_list(op, name, value, "a number or one per channel")[0]


def reject_channels_first(op: str, image: np.ndarray) -> None:
    """Refuse an array of few rows and very many channels, which is most likely [C, H, W]."""
    if image.ndim < 3:
        return
    rows, channels = image.shape[-3], image.shape[-1]
    if rows in (1, 3, 4) and channels > 32:
        raise ValueError(
            f"visops.{op}: image has shape {list(image.shape)}, and arrays are [height, width, "
            "channels]; for [channels, height, width] give a tensor, or image.transpose(1, 2, 0)"
        )


def floating_dtype(*values: Any) -> torch.dtype:
    """Return the promoted dtype of what is floating among `values`; float64 where nothing is."""
    result = None
    for value in values:
        if isinstance(value, Tensor) and value.is_floating_point():
            dtype = value.dtype
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            dtype = _NUMPY_TO_TORCH.get(value.dtype.type, torch.float64)
        else:
            continue
        result = dtype if result is None else torch.promote_types(result, dtype)
    return torch.float64 if result is None else result


def restore(result: Tensor, dtype: torch.dtype, arguments: Iterable[Any]) -> Any:
    """Return `result` as the first of `arguments` that is a tensor or an array; else a tensor."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            break
        if isinstance(argument, np.ndarray):
            return result.detach().to(device="cpu", dtype=dtype).numpy()
    return result.to(dtype)


def rounded_to(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return values in `dtype`: integers rounded half to even, and saturated."""
    if dtype.is_floating_point:
        return values.to(dtype)
    limits = torch.iinfo(dtype)
    rounded = values.round()
    result = rounded.clamp(limits.min, limits.max).to(dtype)
    # The largest integers of 32 bits and more are no floats: their neighbours, which overflow, are
    # cast instead.
    if float(limits.max) > limits.max:
        result = torch.where(rounded >= float(limits.max), limits.max, result)
    return result


def check_like(op: str, like: Any) -> None:
    """Raise unless `like`, which decides what `restore` returns, is an image or None."""
    if like is not None and not isinstance(like, (Tensor, np.ndarray)):
        raise TypeError(
            f"visops.{op}: like is a {type(like).__name__}, "
            "must be a torch.Tensor or a numpy.ndarray"
        )


def refuse(op: str, name: str, bad: Tensor, why: str) -> None:
    """Raise ValueError naming the first sample that is `bad`, where values can be looked at.

    They can't without a stop on an accelerator, nor under torch.compile, vmap or a fake tensor.
    """
    if bad.device.type != "cpu" or torch.compiler.is_compiling():
        return
    try:
        found = bool(bad.any())
    except (RuntimeError, IndexError):  # vmap, of nothing too, and fake tensors have no values
        return
    if found:
        index = bad.nonzero()[0].tolist()
        label = f"[{', '.join(map(str, index))}]" if index else ""
        raise ValueError(f"visops.{op}: {name}{label} {why}")
