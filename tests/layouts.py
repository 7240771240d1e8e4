"""The same numbers laid out in other ways: tensors, and arrays in forms that torch lacks."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


def strided(tensor: Tensor) -> Tensor:
    """Return a view with another number between any two."""
    return torch.stack([tensor, torch.full_like(tensor, 3)], -1)[..., 0]


def transposed(tensor: Tensor) -> Tensor:
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor


def offset(tensor: Tensor) -> Tensor:
    """Return a view within a larger tensor, which is wider in its first and last dimension."""
    if not tensor.dim():
        return tensor
    if tensor.dim() == 1:
        return tensor.new_full((len(tensor) + 5,), 3)[1 : len(tensor) + 1].copy_(tensor)
    sizes = list(tensor.shape)
    sizes[0] += 2
    sizes[-1] += 3
    view = tensor.new_full(sizes, 3)[1:, ..., 1:]
    view = view[: tensor.shape[0], ..., : tensor.shape[-1]]
    return view.copy_(tensor)


def channels_last(tensor: Tensor) -> Tensor:
    last = torch.channels_last
    return tensor.contiguous(memory_format=last) if tensor.dim() == 4 else tensor


def part_of_channels_last(tensor: Tensor) -> Tensor:
    """Return some channels of more, whose pixels lie side by side; opcheck copies no empty ones."""
    if tensor.dim() != 4 or not tensor.numel():
        return tensor
    batch, channels, height, width = tensor.shape
    wide = channels_last(tensor.new_full((batch, channels + 3, height, width + 2), 3))
    return wide[:, 2 : 2 + channels, :, 1:-1].copy_(tensor)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "strided": strided,
    "transposed": transposed,
    "offset": offset,
    "channels_last": channels_last,
    "part_of_channels_last": part_of_channels_last,
}


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def foreign(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder(">"))


def unaligned(array: np.ndarray) -> np.ndarray:
    data = np.zeros(array.nbytes + 1, np.uint8)
    shifted = data[1:].view(array.dtype).reshape(array.shape)
    shifted[...] = array
    return shifted


def field_of_records(array: np.ndarray) -> np.ndarray:
    """Strides are not multiples of the element size."""
    records = np.zeros(array.shape, np.dtype([("value", array.dtype), ("tag", np.uint8)]))
    records["value"] = array
    return records["value"]  # type: ignore[no-any-return]


def reversed_in_all(array: np.ndarray) -> np.ndarray:
    """Tensors have no negative strides."""
    return np.flip(np.flip(array).copy())


ARRAYS = (
    *(np.copy, read_only, np.asfortranarray, foreign, unaligned, field_of_records),
    *(reversed_in_all, lambda array: read_only(reversed_in_all(foreign(array)))),
)
