"""`visops.augment` with a displacement: one interpolation, then the rest of the pass."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.arrays import as_float64
from .._torch.fakes import differs
from .._torch.unsupported_inputs import require_plain
from .matrix_algebra import as_matrix, invert_affine, with_last_row
from .remap_autograd import remap as _remap

_OP = "augment"
_DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)


def displacement_tensor(
    displacement: Any, grid: str, batch: int, like: Tensor, size: Sequence[int]
) -> tuple[Tensor, Tensor, str]:
    """Return a displacement as the operator takes it: x and y ``[B or 1, gh, gw]``, and a grid."""
    if isinstance(displacement, Tensor):
        require_plain(_OP, displacement=displacement)
        if displacement.device != like.device:
            raise ValueError(
                f"visops.augment: displacement is on {displacement.device}, must be on "
                f"{like.device}, where the images are"
            )
        if not displacement.is_floating_point():
            displacement = displacement.double()
    else:
        displacement = as_float64(_OP, "displacement", displacement, like.device)
    shape = list(displacement.shape)
    fits = len(shape) == 3 or (len(shape) == 4 and shape[0] in (1, batch))
    if not fits or shape[-1] != 2 or 0 in shape[-3:-1]:
        raise ValueError(
            f"visops.augment: displacement has shape {shape}, must be [gh, gw, 2] or "
            f"[{batch}, gh, gw, 2] (x, y) for {batch} images"
        )
    x, y = (displacement if len(shape) == 4 else displacement.unsqueeze(0)).unbind(-1)
    # A point for each pixel is the field itself.
    is_dense = grid == "bilinear" and tuple(x.shape[-2:]) == tuple(size)
    return x, y, "dense" if is_dense else grid


def displaced(
    pixels: Any,
    matrix: Tensor,
    size: Sequence[int],
    displacement: tuple[Tensor, Tensor, str],
    how: tuple[str, str, list[float]],
    *,
    inverse_map: bool,
    half_pixel: bool,
    keeps_dtype: bool,
) -> Tensor:
    """Return images ``[B, C, *size]`` after geometry: float32 with white at 1 if not `keeps_dtype`.

    `how` is the interpolation, the padding and the fill. float64 stays as it is.
    """
    *maps, grid = displacement
    listed = isinstance(pixels, list)
    first = pixels[0] if listed else pixels
    if first.dtype not in _DTYPES:
        dtype = str(first.dtype).removeprefix("torch.")
        raise RuntimeError(
            f"visops.augment: images has dtype {dtype}, must be uint8, float16, bfloat16, float32 "
            "or float64"
        )
    to_source = as_matrix(_OP, "matrix", matrix, first.device)
    to_source = to_source if inverse_map else _named(invert_affine, to_source)
    rows = with_last_row(to_source)
    rows = rows if rows.dim() == 3 else rows.unsqueeze(0)
    count = len(pixels) if listed else pixels.shape[0]
    if differs(rows.shape[0], 1, count):
        raise RuntimeError(
            f"visops.augment: matrix has batch {rows.shape[0]}, there are {count} images"
        )
    if half_pixel:
        rows = _shifted(rows)
    to_float = not keeps_dtype and first.dtype not in (torch.float32, torch.float64)
    mode, padding_mode, fill = how
    options = grid, True, mode, padding_mode, fill, to_float
    if not listed:
        return _named(_remap, pixels, *maps, size, rows, *options)  # type: ignore[no-any-return]
    found = []
    for i, image in enumerate(pixels):
        _check_like_first(i, image, first)
        x, y, row = (v if len(v) == 1 else v[i : i + 1] for v in (*maps, rows))
        found.append(_named(_remap, image.unsqueeze(0), x, y, size, row, *options))
    return torch.cat(found)


def _named(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function whose messages are to name this operator."""
    if torch.compiler.is_compiling():
        return function(*arguments)
    try:
        return function(*arguments)
    except (RuntimeError, ValueError) as error:
        message = re.sub(r"^visops\.(remap|invert_affine): ", f"visops.{_OP}: ", str(error))
        if message == str(error):
            raise
        raise type(error)(message) from None


def _check_like_first(i: int, image: Tensor, first: Tensor) -> None:
    if image.dim() != 3 or image.shape[0] != first.shape[0]:
        raise RuntimeError(
            f"visops.augment: images[{i}] has shape {list(image.shape)}, must be "
            f"[{first.shape[0]}, height, width] as images[0] is"
        )
    if image.dtype != first.dtype:
        raise RuntimeError(
            f"visops.augment: images[{i}] has dtype {image.dtype}, images[0] has {first.dtype}; "
            "they must agree"
        )


def _shifted(matrix: Tensor) -> Tensor:
    """Return T(-1/2) M T(1/2): for centres of pixels at whole numbers."""
    x, y, one = matrix.unbind(-1)
    moved = torch.stack((x, y, one + 0.5 * (x + y)), -1)
    last = moved[..., 2:, :]
    return torch.cat((moved[..., :2, :] - 0.5 * last, last), -2)
