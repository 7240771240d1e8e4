"""One small batch on the CPU, past torch's dispatcher: csrc/python/augment.cpp.

The operator's values, in a third of its time where images are small. Outside this path's
preconditions, calls fall back to the operator, which reports errors.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._loader import native_error
from .._native import augment as _run
from .._torch.call import data_ptr_and_strides, modes_or_transforms_active

_NAMES = {
    dtype: str(dtype).removeprefix("torch.")
    for dtype in (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)
}
# Beyond this many elements a call's overhead doesn't matter. The operator gets large pages for
# large results, and knows what to say where memory runs out.
_LARGEST = 1 << 19 if native_error is None else 0
_name = _NAMES.get
_function_modes = torch._C._len_torch_function_stack
_is_profiled = torch._C._autograd._profiler_enabled
_NOWHERE: Any = object()


def augment_direct(
    image: Tensor,
    matrix: Tensor,
    size: Sequence[Any],
    interpolation: str,
    padding_mode: str,
    fill: list[float],
    antialias: bool,
    window: Tensor | None,
    color: Tensor | None,
    clamp: bool,
    mean: list[float],
    std: list[float],
    erase: Tensor | None,
    erase_value: list[float],
    inverse_map: bool,
    half_pixel: bool,
    out_dtype: torch.dtype | None = None,
    channels_last: bool = False,
) -> Tensor | None:
    """Return what the operator `augment` returns, or None where it has to be called."""
    # Under a default device, each of the questions below takes longer than the operator does.
    if _function_modes() or modes_or_transforms_active() or _is_profiled():
        return None
    source, matrix_pointer = data_ptr_and_strides(image), data_ptr_and_strides(matrix)
    if source is None or matrix_pointer is None:
        return None
    try:
        height, width = size
    except (TypeError, ValueError):
        return None
    shape = image.shape
    if len(shape) != 4 or type(height) is not int or type(width) is not int:
        return None
    dtype, name, matrix_name = out_dtype or torch.float32, _name(image.dtype), _name(matrix.dtype)
    out_name = _name(dtype)
    if name is None or matrix_name is None or out_name is None:
        return None
    batch, channels = shape[0], shape[1]
    area = height * width
    if height < 0 or not 0 < batch * channels * area <= _LARGEST:
        return None
    windows = None if window is None else _block(window, torch.float64)
    colors = None if color is None else _block(color, torch.float64)
    erased = None if erase is None else _block(erase, torch.int64)
    if windows is _NOWHERE or colors is _NOWHERE or erased is _NOWHERE:
        return None
    sizes = (batch, channels, height, width)
    if channels_last:
        strides = (area * channels, 1, width * channels, channels)
    else:
        strides = (channels * area, area, width, 1)
    output = torch.empty_strided(sizes, strides, dtype=dtype, device="cpu")
    target = output.data_ptr(), strides
    try:
        # fmt: off
        _run(
            source, shape, name, target, sizes, out_name, matrix_pointer, matrix.shape, matrix_name,
            interpolation, padding_mode, fill, antialias, windows, colors, clamp, mean, std,
            erased, erase_value, inverse_map, half_pixel,
        )
        # fmt: on
    except (TypeError, ValueError):
        return None
    return output


def _block(tensor: Tensor, dtype: torch.dtype) -> Any:
    """Return address and shape of a contiguous tensor of a dtype, else `_NOWHERE`."""
    pointer = data_ptr_and_strides(tensor)
    if pointer is None or tensor.dtype is not dtype or not tensor.is_contiguous():
        return _NOWHERE
    return pointer[0], tensor.shape
