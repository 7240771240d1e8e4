"""Images read at the places of a map: ``cv2.remap``, and displacements of a control grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _native
from .._torch.arrays import as_tensor, number_list
from .._torch.native import data_ptr_and_strides, modes_or_transforms_active
from .._torch.outside_graphs import outside_graphs

__all__ = ["displacement_field", "remap", "remapped"]

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("constant", "replicate", "reflect", "symmetric", "circular")
_NATIVE = {
    dtype: str(dtype).removeprefix("torch.")
    for dtype in (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
}
_FAR = 1e7


@outside_graphs
def remap(
    image: Any,
    map_x: Any,
    map_y: Any,
    *,
    mode: str = "bilinear",
    padding_mode: str = "constant",
    fill: float | Sequence[float] = 0.0,
    relative: bool = False,
) -> Any:
    """Read an image at the places of a map: ``cv2.remap``.

    Parameters
    ----------
    image : Tensor ``[H, W]``, ``[C, H, W]`` or ``[B, C, H, W]``, or ndarray ``[H, W]``, \
``[H, W, C]`` or ``[B, H, W, C]``
        Any real dtype.
    map_x, map_y : Tensor or ndarray ``[h, w]`` or ``[B, h, w]``
        Where in the image each pixel of the result is read, in pixels; the centre of the first
        pixel is at (0, 0). Computed in float32, and in float64 for float64 images.
    mode : {"bilinear", "nearest", "bicubic"}
        Bicubic is Keys' with a = -0.75.
    padding_mode : {"constant", "replicate", "reflect", "symmetric", "circular"}
        What lies outside the image; "reflect" is OpenCV's ``BORDER_REFLECT_101`` and "symmetric"
        its ``BORDER_REFLECT``.
    fill : number or one per channel
        The value outside, for "constant".
    relative : bool
        Add the map to each pixel's own place: it holds displacements.

    Returns
    -------
    Tensor or ndarray
        ``[..., h, w]`` (arrays: ``[..., h, w, C]``), of the image's dtype and device.

    Raises
    ------
    TypeError, ValueError
        A shape, a device or an argument is wrong.

    Notes
    -----
    OpenCV rounds places to 1/32 of a pixel first, and weights of uint8 images to 1/32768: results
    differ from its by as much as the image does over 1/64 of a pixel. Places beyond 10^7 pixels
    count as there, and NaN as far to the left. Differentiable with respect to `image` and, where it
    interpolates, `map_x` and `map_y`. On the CPU, C++ computes it, with the same bits at any number
    of threads; where gradients are wanted, on float64 and on a GPU, torch's operators do.

    Examples
    --------
    >>> import torch, visops
    >>> row = torch.tensor([[[0.0, 10.0, 20.0, 30.0]]])
    >>> positions = torch.tensor([[0.5, 2.0, 4.0]])
    >>> visops.remap(row, positions, torch.zeros(1, 3), fill=-1.0)
    tensor([[[ 5., 20., -1.]]])
    """
    is_array = isinstance(image, np.ndarray)
    if not is_array and not isinstance(image, Tensor):
        _fail("image", type(image).__name__, "a Tensor or an ndarray", TypeError)
    if mode not in _MODES:
        _fail("mode", repr(mode), "'bilinear', 'nearest' or 'bicubic'")
    if padding_mode not in _PADDINGS:
        _fail("padding_mode", repr(padding_mode), f"one of {', '.join(map(repr, _PADDINGS))}")
    pixels = as_tensor("remap", "image", image) if is_array else image
    rank = pixels.dim()
    if rank not in (2, 3, 4):
        what = "[H, W], [H, W, C] or [B, H, W, C]" if is_array else "[H, W], [C, H, W] or "
        _fail(
            "image", f"of shape {list(pixels.shape)}", what + ("" if is_array else "[B, C, H, W]")
        )
    if is_array and rank > 2:
        pixels = pixels.movedim(-1, -3)
    batch = pixels[(None,) * (4 - rank)]
    if 0 in batch.shape[-2:]:
        _fail("image", f"of shape {list(image.shape)}", "of at least a row and a column")
    if pixels.is_complex():
        _fail("image", f"of dtype {pixels.dtype}", "of a real dtype", TypeError)
    x, y = (_map(name, value, batch) for name, value in (("map_x", map_x), ("map_y", map_y)))
    if x.shape != y.shape:
        _fail("map_y", f"of shape {list(y.shape)}", f"of map_x's, {list(x.shape)}")
    if x.dim() not in (2, 3) or (x.dim() == 3 and x.shape[0] not in (1, batch.shape[0])):
        count = batch.shape[0]
        _fail("map_x", f"of shape {list(x.shape)}", f"[h, w] or [{count}, h, w]")
    channels = batch.shape[1]
    fills = number_list("remap", "fill", fill)
    if len(fills) not in (1, channels):
        _fail("fill", f"{len(fills)} numbers", f"one, or {channels}, one per channel")
    maps = torch.stack((x, y), -3)
    maps = maps if maps.dim() == 4 else maps[None]
    if batch.shape[0] == 0:
        out = batch.new_zeros((0, channels, *x.shape[-2:]))
    else:
        moved = [
            remapped(own, maps[i if len(maps) > 1 else 0], relative, mode, padding_mode, fills)
            for i, own in enumerate(batch)
        ]
        out = torch.stack(moved)
    out = out.reshape(*pixels.shape[:-2], *x.shape[-2:])
    if not is_array:
        return out
    return (out.movedim(-3, -1) if rank > 2 else out).contiguous().numpy()


def _fail(name: str, value: str, allowed: str, error: type[Exception] = ValueError) -> Any:
    raise error(f"visops.remap: {name} is {value}, must be {allowed}")


def _map(name: str, value: Any, images: Tensor) -> Tensor:
    found = value if isinstance(value, Tensor) else as_tensor("remap", name, np.asarray(value))
    if found.device != images.device:
        if isinstance(value, Tensor):
            _fail(name, f"on {found.device}", f"on {images.device}, where the image is")
        found = found.to(images.device)
    return found if found.is_floating_point() else found.float()


def remapped(
    image: Tensor,
    positions: Tensor,
    relative: bool,
    mode: str,
    padding_mode: str,
    fill: Sequence[float],
    out: Tensor | None = None,
) -> Tensor:
    """Read an image ``[C, H, W]`` at positions ``[2, h, w]``; arguments are checked.

    `out` is used where C++ computes it: ``[C, h, w]``, contiguous. Positions may be on the CPU for
    an image that isn't.
    """
    channels, height, width = image.shape
    size = tuple(positions.shape[-2:])
    fills = list(fill) * channels if len(fill) == 1 else list(fill)
    nearest = mode == "nearest"
    known = (nearest and image.element_size() <= 8) or image.dtype in _NATIVE
    wanted = torch.is_grad_enabled() and (image.requires_grad or positions.requires_grad)
    # A view of many images has strides beyond 32 bits only where it is larger than memory allows.
    small = max(abs(s) * n for s, n in zip(image.stride(), image.shape, strict=True)) < 2**31
    if known and small and image.is_cpu and not wanted and not modes_or_transforms_active():
        image, own = image.detach(), positions.detach().to(torch.float32).contiguous()
        pointer = data_ptr_and_strides(image.as_subclass(Tensor))
        if out is None:
            out = torch.empty((channels, *size), dtype=image.dtype)
        if pointer is None or out.numel() == 0:
            return out
        bits = torch.tensor(fills[:1]).to(image.dtype).view(torch.uint8).numpy().tobytes()
        if len(set(fills)) == 1 or not nearest:
            shape, name = (channels, height, width), _NATIVE.get(image.dtype, "")
            where, at = out.data_ptr(), own.data_ptr()
            options = (mode, padding_mode, fills, bits)
            _native.remap(pointer, shape, name, len(bits), where, at, relative, size, *options)
            return out
    return _with_torch(image, positions, relative, mode, padding_mode, fills)


def _with_torch(
    image: Tensor,
    positions: Tensor,
    relative: bool,
    mode: str,
    padding_mode: str,
    fill: list[float],
) -> Tensor:
    channels, height, width = image.shape
    wide = image.dtype in (torch.float64, torch.int32, torch.int64)
    dtype = torch.float64 if wide else torch.float32
    x, y = positions.to(image.device, dtype)
    if relative:
        x = x + torch.arange(x.shape[1], dtype=dtype, device=image.device)
        y = y + torch.arange(y.shape[0], dtype=dtype, device=image.device)[:, None]
    x, y = (torch.nan_to_num(v, nan=-_FAR).clamp(-_FAR, _FAR) for v in (x, y))
    flat = image.reshape(channels, -1)
    outside = torch.tensor(fill, dtype=dtype, device=image.device)[:, None, None]
    if mode == "nearest":
        index, inside = _taps(
            (x + 0.5).floor().long(), (y + 0.5).floor().long(), height, width, padding_mode
        )
        found = flat[:, index.flatten()].view(channels, *x.shape)
        return torch.where(inside, found, outside.to(image.dtype))
    x0, y0 = x.detach().floor(), y.detach().floor()
    across, down = (_weights(mode, v) for v in (x - x0, y - y0))
    first = -1 if mode == "bicubic" else 0
    total: Any = 0.0
    for row, vertical in enumerate(down):
        line: Any = 0.0
        for column, horizontal in enumerate(across):
            index, inside = _taps(
                x0.long() + column + first, y0.long() + row + first, height, width, padding_mode
            )
            found = flat[:, index.flatten()].view(channels, *x.shape).to(dtype)
            line = line + torch.where(inside, found, outside) * horizontal
        total = total + line * vertical
    if image.is_floating_point():
        return total.to(image.dtype)  # type: ignore[no-any-return]
    info = torch.iinfo(image.dtype)
    return total.round().clamp(info.min, info.max).to(image.dtype)  # type: ignore[no-any-return]


def _weights(mode: str, t: Tensor) -> list[Tensor]:
    if mode == "bilinear":
        return [1.0 - t, t]
    before, after, a = t + 1.0, 1.0 - t, -0.75
    first = ((a * before + 3.75) * before - 6.0) * before + 3.0
    second = (1.25 * t - 2.25) * t * t + 1.0
    third = (1.25 * after - 2.25) * after * after + 1.0
    return [first, second, third, 1.0 - first - second - third]


def _taps(x: Tensor, y: Tensor, height: int, width: int, padding: str) -> tuple[Tensor, Tensor]:
    """Return the places of pixels in a flat image, and which of them are inside."""
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    if padding != "constant":
        inside = torch.ones_like(inside)
    return _padded(y, height, padding) * width + _padded(x, width, padding), inside


def _padded(i: Tensor, n: int, padding: str) -> Tensor:
    if padding in ("constant", "replicate"):
        return i.clamp(0, n - 1)
    if padding == "circular":
        return i.remainder(n)
    if padding == "symmetric":
        m = i.remainder(2 * n)
        return torch.where(m < n, m, 2 * n - 1 - m)
    if n == 1:
        return torch.zeros_like(i)
    m = i.remainder(2 * n - 2)
    return torch.where(m < n, m, 2 * n - 2 - m)


@outside_graphs
def displacement_field(
    grid: Any, size: Sequence[int], *, spline: bool = False
) -> tuple[Tensor, Tensor]:
    """Displacements of all pixels, of a control grid's: what ``remap(relative=True)`` takes.

    Parameters
    ----------
    grid : Tensor or ndarray ``[gh, gw, 2]`` or ``[B, gh, gw, 2]``
        x and y in pixels, at points that are evenly spaced over the image: those in the corners lie
        on its corner pixels' centres.
    size : pair of int
        Height and width.
    spline : bool
        Interpolate by cubic B-splines, of which the grid holds the coefficients; it goes on as at
        its rim. Otherwise bilinearly: then a grid of the image's size is the field itself.

    Returns
    -------
    tuple of Tensor
        x and y, ``[h, w]`` or ``[B, h, w]``, float32 (float64 for a float64 grid that needs a
        gradient), on the grid's device.

    Raises
    ------
    ValueError
        The shape of `grid`, or `size`, is wrong.

    Notes
    -----
    Source of the splines: D. Rueckert et al., "Nonrigid registration using free-form deformations",
    IEEE Trans. Medical Imaging 18(8), 1999.

    Examples
    --------
    >>> import torch, visops
    >>> grid = torch.zeros(1, 3, 2)
    >>> grid[0, 1, 0] = 2.0
    >>> dx, dy = visops.displacement_field(grid, (1, 5))
    >>> dx
    tensor([[0., 1., 2., 1., 0.]])
    """
    control = grid if isinstance(grid, Tensor) else torch.from_numpy(np.asarray(grid, np.float64))
    shape = list(control.shape)
    if control.dim() not in (3, 4) or shape[-1] != 2 or 0 in shape[-3:-1]:
        raise ValueError(
            f"visops.displacement_field: grid is of shape {shape}, must be [gh, gw, 2] or "
            "[B, gh, gw, 2]"
        )
    sides = [int(side) for side in size]
    if len(sides) != 2 or min(sides) < 1:
        raise ValueError(
            f"visops.displacement_field: size is {tuple(size)!r}, must be two whole numbers >= 1"
        )
    height, width = sides
    rows, columns = shape[-3:-1]
    planes = control.movedim(-1, -3).reshape(-1, 2, rows, columns)
    if control.is_cpu and not control.requires_grad and not modes_or_transforms_active():
        out = torch.empty((len(planes), 2, height, width))
        for own, field in zip(planes.double(), out, strict=True):
            numbers = [rows, columns, float(spline), *own.flatten().tolist()]
            _native.make_field("grid", numbers, height, width, field.data_ptr())
    else:
        dtype = torch.float64 if control.dtype == torch.float64 else torch.float32
        down, across = (
            _grid_weights(side, points, spline, dtype, control.device)
            for side, points in ((height, rows), (width, columns))
        )
        out = down @ planes.to(dtype) @ across.T
    out = out.reshape(*shape[:-3], 2, height, width)
    return out[..., 0, :, :], out[..., 1, :, :]


def _grid_weights(
    side: int, points: int, spline: bool, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return the share of each point in each pixel, ``[side, points]``."""
    at = torch.arange(side, dtype=torch.float64) * ((points - 1) / max(side - 1, 1))
    whole = at.floor().clamp(max=max(points - 2, 0))
    t = at - whole
    u = 1.0 - t
    if spline:
        parts = [u**3, 3 * t**3 - 6 * t**2 + 4, 3 * u**3 - 6 * u**2 + 4, t**3]
        weights, first = [part / 6 for part in parts], -1
    else:
        weights, first = [u, t], 0
    out = torch.zeros((side, points), dtype=torch.float64)
    for k, weight in enumerate(weights):
        point = (whole.long() + first + k).clamp(0, points - 1)
        out.scatter_add_(1, point[:, None], weight[:, None])
    return out.to(device, dtype)
