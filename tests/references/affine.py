"""The affine warp as its definition reads, in float64 and without concern for speed.

`warp_loops` visits one pixel after another. `warp` does the same with NumPy's indexing, for images
of more than a few pixels; a test compares the two. Neither shares code or formulas with the
kernels: padding is looked up in indices padded by `numpy.pad`, and the weights of bicubic come from
Keys' piecewise polynomial itself.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Size = tuple[int, int]

NUMPY_PAD_MODE = {
    "replicate": "edge",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "circular": "wrap",
}
TAPS = {"nearest": (0,), "bilinear": (0, 1), "bicubic": (-1, 0, 1, 2)}


def destination_to_source(
    matrix: Any, *, inverse_map: bool = False, convention: str = "integer"
) -> np.ndarray:
    """[3, 3], for pixel centres at integers."""
    full = np.vstack([np.asarray(matrix, np.float64), [0, 0, 1]])
    if not inverse_map:
        full = np.linalg.inv(full)
    if convention == "half_pixel":
        to_corner = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
        full = np.linalg.inv(to_corner) @ full @ to_corner
    return full


def padded_index(i: int, n: int, padding_mode: str) -> int | None:
    """The index in [0, n) that stands for i; None where constant padding supplies the value."""
    if 0 <= i < n:
        return i
    if padding_mode == "constant":
        return None
    before, after = max(0, -i), max(0, i - n + 1)
    mode = NUMPY_PAD_MODE[padding_mode]
    padded: np.ndarray = np.pad(np.arange(n), (before, after), mode=mode)  # type: ignore[call-overload]
    return int(padded[i + before])


def weight(distance: Any, mode: str) -> Any:
    """Interpolation kernel at `distance` (number or array) from its centre."""
    x = np.abs(distance)
    if mode == "nearest":
        return np.ones_like(x)
    if mode == "bilinear":
        return np.maximum(0.0, 1.0 - x)
    a = -0.75
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def to_dtype(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Integers round half to even and saturate."""
    dtype = np.dtype(dtype)
    if dtype.kind in "ui":
        info = np.iinfo(dtype)
        return np.clip(np.rint(values), info.min, info.max).astype(dtype)
    return values.astype(dtype)


def _first_tap(coordinate: Any, mode: str) -> Any:
    return np.floor(coordinate + 0.5) if mode == "nearest" else np.floor(coordinate)


def warp_loops(
    image: np.ndarray,
    matrix: Any,
    size: Size,
    *,
    mode: str,
    padding_mode: str,
    fill: float | Sequence[float] = 0.0,
    inverse_map: bool = False,
    convention: str = "integer",
) -> np.ndarray:
    """image [H, W, C] of any real dtype -> float64 [*size, C], before rounding."""
    height, width, channels = image.shape
    fills = np.broadcast_to(np.asarray(fill, np.float64), (channels,))
    m = destination_to_source(matrix, inverse_map=inverse_map, convention=convention)
    output = np.zeros((*size, channels))
    for y in range(size[0]):
        for x in range(size[1]):
            sx, sy, _ = m @ (x, y, 1)
            x0, y0 = int(_first_tap(sx, mode)), int(_first_tap(sy, mode))
            for j in TAPS[mode]:
                for i in TAPS[mode]:
                    w = float(weight(sx - (x0 + i), mode) * weight(sy - (y0 + j), mode))
                    row = padded_index(y0 + j, height, padding_mode)
                    column = padded_index(x0 + i, width, padding_mode)
                    inside = row is not None and column is not None
                    for c in range(channels):
                        tap = float(image[row, column, c]) if inside else fills[c]
                        output[y, x, c] += w * tap
    return output


def _padded_indices(taps: np.ndarray, n: int, padding_mode: str) -> np.ndarray:
    """padded_index of an array; -1 for None."""
    if taps.size == 0 or n == 0:
        return np.full(taps.shape, -1)
    if padding_mode == "constant":
        return np.where((taps >= 0) & (taps < n), taps, -1)
    before, after = max(0, -int(taps.min())), max(0, int(taps.max()) - n + 1)
    mode = NUMPY_PAD_MODE[padding_mode]
    padded: np.ndarray = np.pad(np.arange(n), (before, after), mode=mode)  # type: ignore[call-overload]
    return padded[taps + before]


def warp(
    image: np.ndarray,
    matrix: Any,
    size: Size,
    *,
    mode: str,
    padding_mode: str,
    fill: float | Sequence[float] = 0.0,
    inverse_map: bool = False,
    convention: str = "integer",
) -> np.ndarray:
    """warp_loops with arrays; nearest keeps integers beyond 2^53 exact."""
    height, width, channels = image.shape
    fills = np.broadcast_to(np.asarray(fill, np.float64), (channels,))
    m = destination_to_source(matrix, inverse_map=inverse_map, convention=convention)
    y, x = np.indices(size)
    sx, sy = (m[r, 0] * x + m[r, 1] * y + m[r, 2] for r in (0, 1))
    x0, y0 = (_first_tap(s, mode).astype(np.int64) for s in (sx, sy))
    output = np.zeros((*size, channels), image.dtype if mode == "nearest" else np.float64)
    for j in TAPS[mode]:
        for i in TAPS[mode]:
            row = _padded_indices(y0 + j, height, padding_mode)
            column = _padded_indices(x0 + i, width, padding_mode)
            inside = ((row >= 0) & (column >= 0))[..., None]
            if height and width:
                taps = np.where(inside, image[row, column], to_dtype(fills, image.dtype))
            else:
                taps = np.broadcast_to(to_dtype(fills, image.dtype), output.shape)
            if mode == "nearest":
                return taps.astype(image.dtype)
            taps = np.where(inside, taps.astype(np.float64), fills)
            wx = weight(sx - (x0 + i), mode)
            wy = weight(sy - (y0 + j), mode)
            output += (wx * wy)[..., None] * taps
    return output


def quarter_turn(side: int) -> np.ndarray:
    """Source -> destination matrix of numpy.rot90 on square images of that side."""
    return np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, side - 1.0]])


def random_matrix(
    rng: np.random.Generator,
    height: int,
    width: int,
    size: Size,
    *,
    scale: tuple[float, float] = (0.5, 2.0),
) -> np.ndarray:
    """Source -> destination: any angle, uneven scale and shear, with the image's middle in view."""
    angle = rng.uniform(-math.pi, math.pi)
    shear = rng.uniform(-0.5, 0.5)
    sx, sy = rng.uniform(*scale, 2)
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    linear = rotation @ np.array([[1.0, shear], [0.0, 1.0]]) @ np.diag([sx, sy])
    middle = np.array([(width - 1) / 2, (height - 1) / 2])
    target = np.array([(size[1] - 1) / 2, (size[0] - 1) / 2]) + rng.uniform(-3, 3, 2)
    return np.column_stack([linear, target - linear @ middle])
