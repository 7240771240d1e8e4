"""The affine warp of NumPy arrays, through tensors: where `_numpy` was not built for this Python.

The values are those of `_numpy.warp_affine` (csrc/numpy/affine.cpp), and so are the messages; a
call takes some microseconds more.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import as_tensor

_OP = "visops.warp_affine"
_affine = torch.ops.visops.affine.default
_affine_out = torch.ops.visops.affine_out.default
_DTYPES = ("b1", "u1", "u2", "i1", "i2", "i4", "i8", "f2", "f4", "f8")


def warp_affine(
    image: Any,
    matrix: Any,
    size: Any,
    mode: Any,
    padding_mode: Any,
    fill: Any,
    inverse_map: bool,
    half_pixel: bool,
    out: Any,
) -> np.ndarray:
    """Warp an ``[H, W]`` or ``[H, W, C]`` array; see :func:`visops.warp_affine`."""
    image = _array("image", image)
    _check_rank("image", image)
    matrix = _matrix(matrix)
    _check_dtype("image", image)
    for name, text in (("mode", mode), ("padding_mode", padding_mode)):
        if not isinstance(text, str):
            raise TypeError(f"{_OP}: {name} is a {type(text).__name__}, must be a string")
    height, width = _output_size(image, size, out)
    target = None if out is None else _output(image, height, width, out)
    planes = _planes(as_tensor("warp_affine", "image", image))
    options = (mode, padding_mode, _numbers(fill), inverse_map, half_pixel)
    try:
        with torch.no_grad():
            if target is not None and min(target.strides) >= 0:
                _affine_out(planes, matrix, *options, _planes(torch.from_numpy(target)))
                return target
            warped = _affine(planes, matrix, (height, width), *options)
    except RuntimeError as error:
        message = str(error).split("\n")[0].removeprefix("visops.affine").removeprefix("_out")
        raise ValueError(_OP + message) from None
    result = np.ascontiguousarray(warped.squeeze(0).permute(1, 2, 0).numpy())
    result = result.reshape(height, width, *image.shape[2:])
    if target is None:
        return result
    target[...] = result  # torch has no view of negative strides
    return target


def _planes(pixels: Tensor) -> Tensor:
    """See [H, W] or [H, W, C] as [1, C, H, W]."""
    return (pixels if pixels.dim() == 3 else pixels.unsqueeze(2)).permute(2, 0, 1).unsqueeze(0)


def _shape(array: np.ndarray) -> str:
    return f"[{', '.join(map(str, array.shape))}]"


def _array(name: str, value: Any) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise TypeError(
            f"{_OP}: {name} is a {type(value).__name__}, must be a numpy.ndarray or a torch.Tensor"
        )
    return value


def _check_rank(name: str, array: np.ndarray) -> None:
    if array.ndim not in (2, 3):
        raise ValueError(
            f"{_OP}: {name} has shape {_shape(array)}, "
            "must be [height, width] or [height, width, channels]"
        )


def _check_dtype(name: str, array: np.ndarray) -> None:
    if array.dtype.newbyteorder("=").str[1:] not in _DTYPES:
        raise TypeError(f"{_OP}: {name} has dtype {array.dtype}, which is not supported")


def _matrix(value: Any) -> Tensor:
    try:
        array = np.asarray(value)
        if array.dtype.kind == "c":
            raise TypeError
        array = np.array(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{_OP}: matrix can't be converted to a float64 array") from None
    if array.shape != (2, 3):
        raise ValueError(f"{_OP}: matrix has shape {_shape(array)}, must be [2, 3]")
    return torch.from_numpy(array)


def _integer(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(f"{_OP}: {name} is a {kind}, must be an integer") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{_OP}: {name} does not fit 64 bits")
    return number


def _output_size(image: np.ndarray, size: Any, out: Any) -> tuple[int, int]:
    if size is None:
        if out is None:
            return image.shape[0], image.shape[1]
        given = _array("out", out)
        _check_rank("out", given)
        return given.shape[0], given.shape[1]
    try:
        first, second = size
    except (TypeError, ValueError):
        raise ValueError(f"{_OP}: size must be (height, width)") from None
    return _integer("size[0] (height)", first), _integer("size[1] (width)", second)


def _numbers(fill: float | Sequence[float]) -> list[float]:
    one = isinstance(fill, str) or not hasattr(fill, "__len__") or np.ndim(fill) == 0
    values: Any = [fill] if one else fill
    numbers = []
    for value in values:
        try:
            numbers.append(math.fsum([value]))  # unlike float(), this takes no strings
        except TypeError:
            kind = type(value).__name__
            raise TypeError(
                f"{_OP}: fill holds a {kind}, must be a number or one per channel"
            ) from None
    return numbers


def _lie_apart(array: np.ndarray) -> bool:
    """Whether every stride passes all that smaller ones reach, as core/overlap.h has it."""
    if array.size == 0:
        return True
    reach = 0
    for stride, count in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if count > 1:
            if stride < reach + array.itemsize:
                return False
            reach += stride * (count - 1)
    return True


def _output(image: np.ndarray, height: int, width: int, out: Any) -> np.ndarray:
    array = _array("out", out)
    if not array.dtype.isnative:
        order = array.dtype.byteorder
        raise TypeError(f"{_OP}: out has byte order '{order}', must have this machine's")
    item = array.itemsize
    if not array.flags.aligned or any(stride % item for stride in array.strides if item):
        raise TypeError(f"{_OP}: out is not aligned to its element size")
    if array.shape != (height, width, *image.shape[2:]):
        raise ValueError(
            f"{_OP}: out has shape {_shape(array)}, must have the image's rank and channels and "
            f"{height} x {width} pixels"
        )
    _check_dtype("out", array)
    if array.dtype != image.dtype.newbyteorder("="):
        raise ValueError(f"{_OP}: out has another dtype than image")
    if not array.flags.writeable:
        raise ValueError(f"{_OP}: out is read-only")
    if not _lie_apart(array):
        raise ValueError(
            f"{_OP}: out has shape {_shape(array)} and strides {list(array.strides)} in bytes; its "
            "elements must not overlap"
        )
    if np.may_share_memory(image, array):
        raise ValueError(f"{_OP}: out shares memory with image; a warp can't be done in place")
    return array
