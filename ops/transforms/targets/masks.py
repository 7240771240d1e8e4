"""Moves masks with their images, by the nearest pixel."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import _native
from ..._torch.call import unwatched_ptr_and_strides
from ...warp.augment_autograd import augment, augment_list
from ..sample.leaf import Leaf, shared_tensor
from .options import Geometry

# Dtypes whose coordinates the kernel computes in float32. float64 is not among them: its finer
# coordinates would move the same mask differently.
_SAMPLED = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
# Those that are moved without torch, by their names.
NAMES = {
    torch.uint8: "uint8",
    torch.bool: "uint8",
    torch.float16: "float16",
    torch.float32: "float32",
}
_SMALL = (torch.int8, torch.int16, torch.uint16)  # float32 holds all their values
_LARGEST_IN_FLOAT32 = 2**24


def move_mask(value: Any, batched: bool, geometry: Geometry, fill: int) -> Any:
    """Move masks.

    Parameters
    ----------
    value : Tensor or ndarray, or list of such
        One sample's mask ``[H, W]`` or masks ``[N, H, W]``; if `batched`, those of all samples, as
        one array or as a list. Any real dtype.
    batched : bool
        Whether `value` has a batch dimension or is a list.
    geometry : Geometry
    fill : int
        The class outside the image.

    Returns
    -------
    Tensor or ndarray, or list of such
        With the form and dtype of `value`, except that a batch of different sizes becomes a list.
    """
    sizes = [(height, width) for height, width in geometry.size_out.tolist()]
    if not batched:
        return _one(value, geometry, 0, sizes[0], fill)
    uniform = all(size == sizes[0] for size in sizes)
    if not isinstance(value, list):
        if not uniform:
            return [_one(v, geometry, i, sizes[i], fill) for i, v in enumerate(value)]
        masks = as_tensor(value)
        planes = masks.unsqueeze(1) if masks.dim() == 3 else masks
        moved = _nearest(planes, planes.dtype, geometry, slice(None), sizes[0], fill)
        return as_given(moved.squeeze(1) if masks.dim() == 3 else moved, value)
    masks_list = [as_tensor(item) for item in value]
    alike = {(mask.shape[:-2], mask.dtype, mask.device) for mask in masks_list}
    if not uniform or len(alike) > 1:
        return [_one(v, geometry, i, sizes[i], fill) for i, v in enumerate(value)]
    first = masks_list[0]
    stacked = [mask.reshape(-1, *mask.shape[-2:]) for mask in masks_list]
    moved = _nearest(stacked, first.dtype, geometry, slice(None), sizes[0], fill)
    pieces = moved.squeeze(1) if first.dim() == 2 else moved
    return [as_given(piece, v) for piece, v in zip(pieces, value, strict=True)]


def _one(value: Any, geometry: Geometry, index: int, size: tuple[int, int], fill: int) -> Any:
    mask = as_tensor(value)
    moved = _in_place(mask, geometry, index, size, fill)
    if moved is not None:
        return as_given(moved, value)
    planes = mask.reshape(1, -1, *mask.shape[-2:])
    moved = _nearest(planes, planes.dtype, geometry, slice(index, index + 1), size, fill)
    return as_given(moved.reshape(*mask.shape[:-2], *size), value)


def _in_place(
    mask: Tensor, geometry: Geometry, index: int, size: tuple[int, int], fill: int
) -> Tensor | None:
    """Return a moved mask [H, W] or [N, H, W], or None where torch's operator has to move it."""
    dtype = NAMES.get(mask.dtype)
    if dtype is None or geometry.window is not None or geometry.padding_mode != "constant":
        return None
    if mask.requires_grad or mask.dim() not in (2, 3) or mask.shape[0] == 0:
        return None
    source = unwatched_ptr_and_strides(mask)
    if source is None:
        return None
    *counts, height, width = mask.shape
    moved = torch.empty((*counts, *size), dtype=mask.dtype, device="cpu")
    target = moved.data_ptr(), moved.stride()
    if not counts:
        source, target = ((address, (0, *strides)) for address, strides in (source, target))
    _native.move_masks(
        source,
        target,
        dtype,
        counts[0] if counts else 1,
        (height, width),
        size,
        geometry.sampled()[index],
        float(fill),
    )
    return moved


def as_tensor(value: Any) -> Tensor:
    """Return a mask as a tensor, without a copy where torch can share its memory."""
    return value if isinstance(value, Tensor) else shared_tensor(value)


def as_given(moved: Tensor, value: Any) -> Any:
    """Return a tensor as an array, if `value` is one."""
    return moved if isinstance(value, Tensor) else moved.numpy()


def _nearest(
    planes: Tensor | list[Tensor],
    dtype: torch.dtype,
    geometry: Geometry,
    samples: slice,
    size: tuple[int, int],
    fill: int,
) -> Tensor:
    """Move masks [B, N, H, W] or a list of [N, H, W], of any dtype."""
    first = planes[0] if isinstance(planes, list) else planes
    count = first.shape[-3]
    if count == 0 or len(planes) == 0:
        return first.new_zeros((len(planes), count, *size))
    matrix, window = geometry.sampled()[samples], geometry.window
    if window is not None:
        window = window[samples]
    sampled = _sampled_dtype(planes, dtype, fill)
    if sampled is None:
        # Move the bytes, as channels of one plane.
        split = [_bytes(p) for p in planes] if isinstance(planes, list) else _bytes(planes)
        if isinstance(split, list):
            split = [plane for part in split for plane in part]
        else:
            split = split.flatten(0, 1)
        window = None if window is None else window.repeat(count, 0)
        fills = [
            float(b)
            for b in torch.tensor([fill], dtype=dtype, device="cpu").view(torch.uint8).tolist()
        ]
        sampling = geometry.padding_mode, fills
        moved = _call(split, matrix.repeat(count, 0), window, size, sampling, torch.uint8)
        joined = moved.permute(0, 2, 3, 1).contiguous().view(dtype)
        return joined.reshape(len(planes), count, *size)
    if dtype == torch.bool:
        planes = (
            [p.view(sampled) for p in planes] if isinstance(planes, list) else planes.view(sampled)
        )
    elif sampled is not dtype:
        planes = [p.to(sampled) for p in planes] if isinstance(planes, list) else planes.to(sampled)
    moved = _call(planes, matrix, window, size, (geometry.padding_mode, [float(fill)]), sampled)
    return moved.view(dtype) if dtype == torch.bool else moved.to(dtype)


def _sampled_dtype(
    planes: Tensor | list[Tensor], dtype: torch.dtype, fill: int
) -> torch.dtype | None:
    """Return the dtype in which the kernel can move masks; None: it can only move their bytes."""
    if dtype in _SAMPLED:
        return dtype
    if dtype == torch.bool:
        return torch.uint8
    if dtype in _SMALL:
        return torch.float32
    parts = planes if isinstance(planes, list) else [planes]
    if parts[0].device.type == "cpu" and dtype in (torch.int32, torch.int64):
        # Classes are small numbers: finding their range is cheaper than moving all bytes.
        ends = [fill]
        for part in parts:
            if part.numel():
                ends += [int(end) for end in torch.aminmax(part)]
        if min(ends) >= 0 and max(ends) <= 255:
            return torch.uint8
        if max(map(abs, ends)) <= _LARGEST_IN_FLOAT32:
            return torch.float32
    return None


def _bytes(planes: Tensor) -> Tensor:
    """View [..., H, W] as uint8 [..., bytes, H, W]."""
    return planes.contiguous().unsqueeze(-1).view(torch.uint8).movedim(-1, -3)


def _call(
    planes: Tensor | list[Tensor],
    matrix: Any,
    window: Any,
    size: tuple[int, int],
    sampling: tuple[str, list[float]],
    dtype: torch.dtype,
) -> Tensor:
    padding_mode, fill = sampling
    matrix = torch.from_numpy(matrix)
    window = None if window is None else torch.from_numpy(window)
    device = planes[0].device if isinstance(planes, list) else planes.device
    if device.type != "cpu":
        matrix = matrix.to(device, non_blocking=True)
        window = None if window is None else window.to(device, non_blocking=True)
    run = augment_list if isinstance(planes, list) else augment
    channels_last = dtype == torch.uint8 and len(fill) > 1
    return run(  # type: ignore[no-any-return]
        *(planes, matrix, size, "nearest", padding_mode, fill, False, window),
        *(None, False, [], [], None, [0.0], False, True, dtype, channels_last),
    )


def change_each_mask(leaf: Leaf, change: Callable[[int, Tensor], Tensor]) -> None:
    """Set a leaf's masks to what `change` makes of a sample's number and planes ``[..., H, W]``."""
    changed: list[Any] = []
    for position, value in enumerate(leaf.samples()):
        if isinstance(value, Tensor):
            changed.append(change(position, value))
        else:
            changed.append(change(position, shared_tensor(value)).numpy())
    if leaf.batch is None:
        leaf.value = changed[0]
    elif isinstance(leaf.value, list):
        leaf.value = changed
    else:
        join: Any = torch.stack if isinstance(leaf.value, Tensor) else np.stack
        leaf.value = join(changed)
