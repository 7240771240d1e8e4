"""Images read at the positions of a map: ``cv2.remap``, and displacements of a control grid.

The operator's fake kernel, gradient and vmap are in remap_autograd.py, its checks in
csrc/core/warp/remap.cpp.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _native
from .._loader import native_error
from .._torch.arrays import (
    SIGNED,
    as_float64,
    as_tensor,
    number_list,
    reject_channels_first,
    rounded_to,
)
from .._torch.autocast import full_product
from .._torch.call import modes_or_transforms_active
from .._torch.fakes import differs
from .._torch.numbers import height_and_width
from .._torch.options import Interpolation, PaddingMode, check_word, flag
from .._torch.unsupported_inputs import require_plain
from .remap_autograd import grid_weights
from .remap_autograd import remap as _remap

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("constant", "replicate", "reflect", "symmetric", "circular")
# What the operator interpolates; others go through float32, or float64 where that may round them.
_SAMPLED = {torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64}
_WIDE = {torch.int32, torch.int64, torch.uint32, torch.uint64}
# Types that no operator of visops takes.
_AS_BITS = {dtype: SIGNED[dtype] for dtype in (torch.uint32, torch.uint64)}


def remap(
    image: Any,
    map_x: Any,
    map_y: Any,
    *,
    mode: Interpolation = "bilinear",
    padding_mode: PaddingMode = "constant",
    fill: float | Sequence[float] = 0.0,
    relative: bool = False,
) -> Any:
    """Read an image at the positions of a map: ``cv2.remap``.

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
        Add the map to each pixel's own position: it holds displacements.

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
    OpenCV 4 rounds positions to 1/32 of a pixel first, and weights of uint8 images to 1/32768:
    results differ from its by as much as the image does over 1/64 of a pixel. Positions beyond 10^7
    pixels count as there, and NaN as far to the left. A channels_last image gives a channels_last
    result.

    Differentiable, any number of times, with respect to `image` and, where it interpolates, `map_x`
    and `map_y`; torch's operators compute the gradient, deterministically. Works under
    ``torch.compile`` (fullgraph), :func:`torch.vmap` and on a GPU. Results are bit-identical on
    every instruction set, at every thread count, and on CPU and CUDA. :func:`visops.augment` takes
    a `displacement` together with a matrix, colour and the rest.

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
    check_word("remap", "mode", mode, _MODES)
    known = f"one of {', '.join(map(repr, _PADDINGS))}"
    check_word("remap", "padding_mode", padding_mode, _PADDINGS, known)
    relative = flag("remap", "relative", relative)
    for name, value in (("image", image), ("map_x", map_x), ("map_y", map_y)):
        if isinstance(value, Tensor):
            require_plain("remap", **{name: value})
    pixels = as_tensor("remap", "image", image) if is_array else image
    rank = pixels.dim()
    if rank not in (2, 3, 4):
        what = "[H, W], [H, W, C] or [B, H, W, C]" if is_array else "[H, W], [C, H, W] or "
        _fail(
            "image", f"of shape {list(pixels.shape)}", what + ("" if is_array else "[B, C, H, W]")
        )
    if is_array and rank > 2:
        reject_channels_first("remap", image)  # type: ignore[arg-type]
        pixels = pixels.movedim(-1, -3)
    batch = pixels[(None,) * (4 - rank)]
    if 0 in batch.shape[-2:]:
        _fail("image", f"of shape {list(image.shape)}", "of at least a row and a column")
    if pixels.is_complex():
        _fail("image", f"of dtype {pixels.dtype}", "of a real dtype", TypeError)
    x, y = (_map(name, value, batch) for name, value in (("map_x", map_x), ("map_y", map_y)))
    if x.shape != y.shape:
        _fail("map_y", f"of shape {list(y.shape)}", f"of map_x's, {list(x.shape)}")
    if x.dim() not in (2, 3) or (x.dim() == 3 and differs(x.shape[0], 1, batch.shape[0])):
        count = batch.shape[0]
        _fail("map_x", f"of shape {list(x.shape)}", f"[h, w] or [{count}, h, w]")
    channels = batch.shape[1]
    fills = number_list("remap", "fill", fill)
    if len(fills) not in (1, channels):
        _fail("fill", f"{len(fills)} numbers", f"one, or {channels}, one per channel")
    maps = (x, y) if x.dim() == 3 else (x[None], y[None])
    out = remap_batch(batch, *maps, (relative, mode, padding_mode, fills))
    out = out.reshape(*pixels.shape[:-2], *x.shape[-2:])
    if not is_array:
        return out
    return (out.movedim(-3, -1) if rank > 2 else out).contiguous().numpy()


def _fail(name: str, value: str, allowed: str, error: type[Exception] = ValueError) -> Any:
    raise error(f"visops.remap: {name} is {value}, must be {allowed}")


def _number(size: Any) -> Any:
    """Return a size as a number; while torch.jit.trace records, sizes are tensors."""
    return int(size) if isinstance(size, Tensor) else size


def _map(name: str, value: Any, images: Tensor) -> Tensor:
    found = value if isinstance(value, Tensor) else as_tensor("remap", name, np.asarray(value))
    if found.device != images.device:
        if isinstance(value, Tensor):
            _fail(name, f"on {found.device}", f"on {images.device}, where the image is")
        found = found.to(images.device)
    return found if found.is_floating_point() else found.float()


def remap_batch(
    images: Tensor,
    map_x: Tensor,
    map_y: Tensor,
    how: tuple[bool, str, str, Sequence[float]],
) -> Tensor:
    """Read images ``[B, C, H, W]``, of any real dtype, at the positions of maps ``[B, h, w]``.

    Maps may also be one for all, ``[1, h, w]``. `how` says whether they are relative, and is the
    mode, the padding and the fill.
    """
    relative, mode, padding_mode, fill = how
    dtype, size = images.dtype, map_x.shape[-2:]
    rest = (map_x, map_y, size, None, "dense", relative, mode, padding_mode, list(fill))
    if mode == "nearest":
        bits = images.view(_AS_BITS[dtype]) if dtype in _AS_BITS else images
        return _remap(bits, *rest).view(dtype)  # type: ignore[no-any-return]
    if dtype in _SAMPLED:
        return _remap(images, *rest)  # type: ignore[no-any-return]
    values = images.to(torch.float64 if dtype in _WIDE else torch.float32)
    if dtype == torch.bool:
        return _remap(values, *rest) >= 0.5  # type: ignore[no-any-return]
    return rounded_to(_remap(values, *rest), dtype)


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
        x and y, ``[h, w]`` or ``[B, h, w]``, float32 (float64 for a tensor of float64), on the
        grid's device.

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
    spline = flag("displacement_field", "spline", spline)
    if isinstance(grid, Tensor):
        require_plain("displacement_field", grid=grid)
    control = grid
    if not isinstance(grid, Tensor):
        control = as_float64("displacement_field", "grid", grid, torch.device("cpu"))
    shape = list(control.shape)
    if control.dim() not in (3, 4) or shape[-1] != 2 or 0 in shape[-3:-1]:
        raise ValueError(
            f"visops.displacement_field: grid is of shape {shape}, must be [gh, gw, 2] or "
            "[B, gh, gw, 2]"
        )
    height, width = height_and_width("displacement_field", size)
    if height < 1 or width < 1:
        raise ValueError(
            f"visops.displacement_field: size is {tuple(size)!r}, must be two whole numbers >= 1"
        )
    rows, columns = (_number(points) for points in shape[-3:-1])
    planes = control.movedim(-1, -3).reshape(-1, 2, rows, columns)
    wide = isinstance(grid, Tensor) and grid.dtype == torch.float64
    plain = control.is_cpu and not control.requires_grad and not torch.compiler.is_compiling()
    if native_error is None and plain and not wide and not modes_or_transforms_active():
        out = torch.empty((len(planes), 2, height, width), dtype=torch.float32, device="cpu")
        grids = planes.double().flatten(1).tolist()
        shared = {"rows": rows, "columns": columns, "spline": spline}
        _native.make_fields(
            [
                ("grid", {**shared, "shifts": own}, height, width, field.data_ptr())
                for own, field in zip(grids, out, strict=True)
            ]
        )
    else:
        dtype = torch.float64 if wide else torch.float32
        down, across = (
            grid_weights(side, points, spline, dtype, control.device)
            for side, points in ((height, rows), (width, columns))
        )
        out = full_product(full_product(down, planes.to(dtype)), across.T)
    out = out.reshape(*shape[:-3], 2, height, width)
    return out[..., 0, :, :], out[..., 1, :, :]
