"""Masks moved by the matrix and window of their images, by the nearest pixel."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..augment import augment
from ._target_options import Geometry

__all__ = ["move_mask"]

# The kernel's dtypes, and the smallest that holds every value of the others: all of 8 and 16 bits,
# and integers up to 2**53.
_SAMPLED = (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)
_SMALL = (torch.int8, torch.int16, torch.uint16)


def move_mask(value: Any, batched: bool, geometry: Geometry, fill: int) -> Any:
    """Move masks.

    Parameters
    ----------
    value : Tensor or ndarray, or list of such
        One sample's mask ``[H, W]`` or masks ``[N, H, W]``; if `batched`, those of all samples, in
        an array or in a list. Any real dtype.
    batched : bool
        Whether `value` has the batch's dimension, or is a list.
    geometry : Geometry
    fill : int
        The class of what lies outside.

    Returns
    -------
    Tensor or ndarray, or list of such
        In the form and of the dtype of `value`; a batch whose sizes are not all the same, as a
        list.
    """
    sizes = [(height, width) for height, width in geometry.size_out.tolist()]
    if not batched:
        return _one(value, geometry, 0, sizes[0], fill)
    uniform = all(size == sizes[0] for size in sizes)
    if not isinstance(value, list):
        if not uniform:
            return [_one(v, geometry, i, sizes[i], fill) for i, v in enumerate(value)]
        masks = _as_tensor(value)
        planes = masks.unsqueeze(1) if masks.dim() == 3 else masks
        moved = _nearest(planes, planes.dtype, geometry, slice(None), sizes[0], fill)
        return _as_given(moved.squeeze(1) if masks.dim() == 3 else moved, value)
    masks_list = [_as_tensor(item) for item in value]
    alike = {(mask.shape[:-2], mask.dtype, mask.device) for mask in masks_list}
    if not uniform or len(alike) > 1:
        return [_one(v, geometry, i, sizes[i], fill) for i, v in enumerate(value)]
    first = masks_list[0]
    stacked = [mask.reshape(-1, *mask.shape[-2:]) for mask in masks_list]
    moved = _nearest(stacked, first.dtype, geometry, slice(None), sizes[0], fill)
    pieces = moved.squeeze(1) if first.dim() == 2 else moved
    return [_as_given(piece, v) for piece, v in zip(pieces, value, strict=True)]


def _one(value: Any, geometry: Geometry, index: int, size: tuple[int, int], fill: int) -> Any:
    mask = _as_tensor(value)
    planes = mask.reshape(1, -1, *mask.shape[-2:])
    moved = _nearest(planes, planes.dtype, geometry, slice(index, index + 1), size, fill)
    return _as_given(moved.reshape(*mask.shape[:-2], *size), value)


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    # torch takes neither foreign byte orders nor negative strides, and warns of read-only memory.
    plain = value.flags.writeable and value.dtype.isnative and min(value.strides, default=0) >= 0
    return torch.from_numpy(value if plain else np.array(value, value.dtype.newbyteorder("=")))


def _as_given(moved: Tensor, value: Any) -> Any:
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
    if first.shape[-3] == 0 or len(planes) == 0:
        return first.new_zeros((len(planes), first.shape[-3], *size))
    if dtype == torch.bool:
        sampled = torch.uint8
    elif dtype in _SAMPLED:
        sampled = dtype
    else:
        sampled = torch.float32 if dtype in _SMALL else torch.float64
    if sampled is not dtype:
        if dtype == torch.bool:
            planes = (
                [p.view(sampled) for p in planes]
                if isinstance(planes, list)
                else planes.view(sampled)
            )
        else:
            planes = (
                [p.to(sampled) for p in planes] if isinstance(planes, list) else planes.to(sampled)
            )
    matrix: Any = geometry.matrix[samples]
    window: Any = geometry.window
    if window is not None:
        window = window[samples]
    if first.is_cuda:
        matrix = torch.from_numpy(matrix).to(first.device, non_blocking=True)
        if window is not None:
            window = torch.from_numpy(window).to(first.device, non_blocking=True)
    moved = augment(
        planes,
        matrix,
        size,
        mode="nearest",
        fill=float(fill),
        window=window,
        out_dtype=sampled,
        convention="half_pixel",
        layout="CHW",
    )
    return moved.view(dtype) if dtype == torch.bool else moved.to(dtype)
