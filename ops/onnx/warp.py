"""Warps by ONNX's GridSample, and colours by matrix products.

Coordinates are computed in float64 and handed over in float32, in units of half an image. So they
are less exact than the library's, the more the larger the image is.
"""

from collections.abc import Sequence
from typing import Any

import torch

from .graph import Array, arange, concat, constant, node, outside_of_onnx, where

_PADDING = {
    "constant": "zeros",
    "replicate": "border",
    "reflect": "reflection",
    "symmetric": "reflection",
}
_MODES = {"bilinear": "bilinear", "nearest": "nearest", "bicubic": "bicubic"}
_EXACT = (torch.int32, torch.int64)  # float32 does not have all of their values
_FAR = 1e6  # pixels


def affine(
    *,
    image: Array,
    matrix: Array,
    size: Sequence[Any],
    interpolation: str,
    padding_mode: str,
    fill: Sequence[float],
    inverse_map: bool,
    half_pixel: bool,
) -> Array:
    """Write one GridSample."""
    if image.dtype in _EXACT:
        dtype = str(image.dtype).removeprefix("torch.")
        raise outside_of_onnx("warp_affine", f"samples of {dtype}", "pass a floating type")
    rows = _rows(matrix, inverse_map, perspective=False)
    positions = _coordinates(rows, size, half_pixel)
    how = (interpolation, padding_mode, fill)
    return _sample("warp_affine", image.computable(), *positions, *how).stored_as(image.dtype)


def augment(
    *, image: Array, matrix: Array, size: Sequence[Any], channels_last: bool, **options: Any
) -> Array:
    """Write one GridSample and what follows it; the layout in memory is not ONNX's business."""
    color = options.pop("color")
    steps, channels = (None, None) if color is None else color.sizes[1:3]
    return _augmented(image, matrix, matrix.sizes[-2] == 3, size, color, steps, channels, **options)


def augment_list(
    *,
    images: Sequence[Array],
    matrix: Array,
    size: Sequence[Any],
    channels_last: bool,
    **options: Any,
) -> Array:
    """Write the same for each image."""
    color = options.pop("color")
    batch, steps, channels = (None, None, None) if color is None else color.sizes[:3]
    results = []
    for i, image in enumerate(images):
        own = matrix.take(i, axis=0) if matrix.rank == 3 else matrix
        of_image = color if color is None or batch == 1 else color.take([i], axis=0)
        one = image.unsqueeze(0)
        results.append(
            _augmented(one, own, matrix.sizes[-2] == 3, size, of_image, steps, channels, **options)
        )
    return concat(results, 0)


def _augmented(
    image: Array,
    matrix: Array,
    perspective: bool,
    size: Sequence[Any],
    color: Array | None,
    steps: int | None,
    channels: int | None,
    *,
    interpolation: str,
    padding_mode: str,
    fill: Sequence[float],
    antialias: bool,
    window: Array | None,
    clamp: bool,
    mean: Sequence[float],
    std: Sequence[float],
    erase: Array | None,
    erase_value: Sequence[float],
    inverse_map: bool,
    half_pixel: bool,
    out_dtype: torch.dtype | None,
) -> Array:
    name = "augment"
    if antialias:
        way_out = "resize with F.interpolate(antialias=True), or prepare images before the model"
        raise outside_of_onnx(name, "antialias=True of a matrix that is not known", way_out)
    if erase is not None:
        way_out = "leave it out, or prepare images before the model"
        raise outside_of_onnx(name, "the argument erase", way_out)
    plain = padding_mode == "constant" and interpolation in ("bilinear", "nearest")
    if window is not None and (perspective or not plain):
        what = f"the argument window beside {interpolation!r}, padding_mode {padding_mode!r}"
        what = "the argument window of a perspective" if perspective else what
        way_out = "use 'bilinear' or 'nearest' and 'constant', or cut the image before"
        raise outside_of_onnx(name, what, way_out)
    rows = _rows(matrix, inverse_map, perspective)
    positions = _coordinates(rows, size, half_pixel, perspective=perspective)
    pixels = image.computable()
    if window is None:
        values = _sample(name, pixels, *positions, interpolation, padding_mode, fill)
    else:
        footprint = _footprint(rows)
        values = _windowed(pixels, *positions[:2], window, footprint, interpolation, fill)
    values = values / 255.0 if image.dtype == torch.uint8 else values
    values = _colored(values, color, steps or 0, channels or 0, clamp=clamp)
    if mean:
        values = values - constant(list(mean), values.dtype).reshape(1, -1, 1, 1)
    if std:
        values = values / constant(list(std), values.dtype).reshape(1, -1, 1, 1)
    values = values * 255.0 if out_dtype == torch.uint8 else values
    return values.stored_as(out_dtype or torch.float32)


def _colored(
    values: Array, color: Array | None, steps: int, channels: int, *, clamp: bool
) -> Array:
    """Apply colours [B, steps, C, C + 1] in turn to values [B, C, h, w]."""
    dtype = values.dtype

    def clamped(values: Array) -> Array:
        low, high = constant(0.0, dtype), constant(1.0, dtype)
        return node("Clip", values, low, high) if clamp else values

    if color is None:
        return clamped(values)
    shape = node("Shape", values, dtype=torch.int64)
    for step in range(steps):
        one = color.to(dtype).take(step, axis=1)  # [B, C, C + 1]
        linear, offset = one.take(list(range(channels)), axis=2), one.take([channels], axis=2)
        columns = node("MatMul", linear, values.reshape(0, 0, -1)) + offset
        values = clamped(node("Reshape", columns, shape))
    return values


def _coordinates(
    rows: list[list[Array]], size: Sequence[Any], half_pixel: bool, *, perspective: bool = False
) -> tuple[Array, Array, Array | None]:
    """Return x and y in the source [B, h, w], pixel centres at integers; and where they exist."""
    shift = 0.5 if half_pixel else 0.0
    u = (arange(size[1], torch.float64) + shift).reshape(1, 1, -1)
    v = (arange(size[0], torch.float64) + shift).reshape(1, -1, 1)
    x, y, w = (row[0] * u + row[1] * v + row[2] for row in rows)
    x, y = x / w - shift, y / w - shift
    if not perspective:
        return x, y, None
    exists = (node("Abs", x) < float("inf")) & (node("Abs", y) < float("inf"))

    def near(coordinate: Array) -> Array:
        low, high = constant(-_FAR, torch.float64), constant(_FAR, torch.float64)
        return node("Clip", where(exists, coordinate, 0.0), low, high)

    return near(x), near(y), exists


def _rows(matrix: Array, inverse_map: bool, perspective: bool) -> list[list[Array]]:
    """Return destination to source, 3 x 3: each [B, 1, 1], or [1, 1, 1] for one of all samples."""
    rows = [
        [matrix.to(torch.float64).take(r, axis=-2).take(c, axis=-1) for c in range(3)]
        for r in range(3 if perspective else 2)
    ]
    if not perspective:
        rows.append([constant(v, torch.float64) for v in (0.0, 0.0, 1.0)])
    rows = rows if inverse_map else _adjugate(rows)
    return [[element.reshape(-1, 1, 1) for element in row] for row in rows]


def _footprint(rows: list[list[Array]]) -> list[Array]:
    """Return an output pixel's width along x and y of the source, for an affine map."""
    squares = [row[0] * row[0] + row[1] * row[1] for row in rows[:2]]
    return [node("Sqrt", square) / node("Abs", rows[2][2]) for square in squares]


def _windowed(
    image: Array,
    x: Array,
    y: Array,
    window: Array,
    footprint: Sequence[Array],
    interpolation: str,
    fill: Sequence[float],
) -> Array:
    """Sample the part of an image [B, C, H, W] that a window [4] or [B, 4] leaves of it."""
    edges = window.to(torch.float64).reshape(-1, 4)
    fills = constant(list(fill), image.dtype).reshape(1, -1, 1, 1)
    least, zero, half, one = (constant(v, torch.float64) for v in (1e-6, 0.0, 0.5, 1.0))
    places, seen = [], one
    for axis, at in enumerate((x, y)):
        count = image.size(3 - axis).to(torch.float64)
        low = node("Max", edges.take(axis, axis=1), zero)
        high = node("Min", edges.take(axis + 2, axis=1), count)
        low, high = low.reshape(-1, 1, 1), high.reshape(-1, 1, 1)
        first, last = node("Floor", low), node("Ceil", high) - 1.0
        if interpolation == "nearest":
            at = node("Floor", at + 0.5)
            inside = (at >= first) & (at <= last) & (low < high)
            cover = where(inside, one, zero)
        else:
            within = node("Min", at + 0.5 - low, high - 0.5 - at)
            share = within / node("Max", footprint[axis], least) + half
            cover = node("Clip", share, zero, one)
            cover = where(cover < 1.0 - 2.0**-15, cover, one)
            cover = where(low < high, cover, zero)
        places.append(node("Min", node("Max", at, first), last))
        seen = seen * cover
    x, y = places
    found = _sample("augment", image, x, y, None, interpolation, "replicate", fill)
    if interpolation == "nearest":  # a pixel, whatever its value, or fill
        return where((seen > half).unsqueeze(1), found, fills)
    cover = seen.to(image.dtype).unsqueeze(1)
    return found * cover + fills * (1.0 - cover)


def _adjugate(m: list[list[Array]]) -> list[list[Array]]:
    """Return the inverse times the determinant, which the division by w removes."""

    def cofactor(r: int, c: int) -> Array:
        a, b = [i for i in range(3) if i != r]
        d, e = [i for i in range(3) if i != c]
        minor = m[a][d] * m[b][e] - m[a][e] * m[b][d]
        return minor if (r + c) % 2 == 0 else -minor

    return [[cofactor(c, r) for c in range(3)] for r in range(3)]


def _sample(
    name: str,
    image: Array,
    x: Array,
    y: Array,
    exists: Array | None,
    interpolation: str,
    padding_mode: str,
    fill: Sequence[float],
) -> Array:
    """Sample [B, C, H, W] at pixels x, y [B or 1, h, w]."""
    if padding_mode not in _PADDING:
        way_out = "use another one, or pad the image with F.pad(mode='circular') before"
        raise outside_of_onnx(name, f"padding_mode {padding_mode!r} of a warp", way_out)
    if interpolation == "nearest":  # GridSample rounds halves to even
        x, y = node("Floor", x + 0.5), node("Floor", y + 0.5)
    aligned = padding_mode == "reflect"  # about the centres of the outermost pixels
    axes, sizes = [], [image.size(axis).to(torch.float64) for axis in (3, 2)]
    for at, count in zip((x, y), sizes, strict=True):
        if aligned:
            one = constant(1.0, torch.float64)
            axes.append(at * 2.0 / node("Max", count - 1.0, one) - 1.0)
        else:
            axes.append((at * 2.0 + 1.0) / count - 1.0)
    grid = concat([axis.unsqueeze(3) for axis in axes], 3).to(image.dtype)
    shape = concat([image.size(0).reshape(-1), constant([1, 1, 1])], 0)
    grid = node("Expand", grid, shape)
    fills = constant(list(fill), image.dtype).reshape(1, -1, 1, 1)
    fills_outside = padding_mode == "constant" and any(fill)
    blended = fills_outside and interpolation != "nearest"
    found = node(
        "GridSample",
        image - fills if blended else image,
        grid,
        mode=_MODES[interpolation],
        padding_mode=_PADDING[padding_mode],
        align_corners=int(aligned),
    )
    if blended:
        found = found + fills
    elif fills_outside:  # pixels stay as they are
        inside = (x >= 0.0) & (x < sizes[0]) & (y >= 0.0) & (y < sizes[1])
        found = where(inside.unsqueeze(1), found, fills)
    return found if exists is None else where(exists.unsqueeze(1), found, fills)
