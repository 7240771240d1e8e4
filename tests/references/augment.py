"""The one-pass augmentation as its definition reads, in float64 and without concern for speed.

Each output pixel has, per axis, a row of weights over the source's columns (or rows), built from
the piecewise polynomials themselves; the sampled value is the sum over both. It shares no formula
with the kernels, which work with segments, footprints of spans and folded scales.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from references.affine import TAPS, Size, padded_index, weight

# Perspective footprints are taken at the middle of every 128 pixels, as documented.
SEGMENT = 128

_padded_index = cache(padded_index)  # numpy.pad would run for every tap of every pixel


def full_scale(dtype: str) -> float:
    """The value that stands for 1 in colour."""
    return 255.0 if dtype == "uint8" else 1.0


def destination_to_source(matrix: Any, *, inverse_map: bool, convention: str) -> np.ndarray:
    """[3, 3], for pixel centres at integers."""
    full: np.ndarray = np.asarray(matrix, np.float64)
    if full.shape == (2, 3):
        full = np.vstack([full, [0, 0, 1]])
    if not inverse_map:
        full = np.linalg.inv(full)
    if convention == "half_pixel":
        to_corner = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
        full = np.linalg.inv(to_corner) @ full @ to_corner
    return full


REACH = {"bilinear": 1, "bicubic": 2, "lanczos": 3}  # of filters, in widths


def filter_weight(distance: np.ndarray, mode: str) -> np.ndarray:
    """The antialiasing filter of width 1: the tent, Keys' cubic with a = -1/2, or Lanczos'."""
    x = np.abs(distance)
    if mode == "lanczos":
        return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0.0)
    if mode == "bilinear":
        return np.maximum(0.0, 1.0 - x)
    a = -0.5
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


@dataclass
class Axis:
    """The window along one axis of the source, and the output pixels' places on it."""

    at: np.ndarray  # [P] coordinates, pixel centres at integers
    footprint: np.ndarray  # [P] width of an output pixel
    count: int  # pixels of the whole image
    low: float  # the window's edges, in integer-centre coordinates
    high: float

    @property
    def first(self) -> int:
        return int(np.floor(self.low + 0.5))

    @property
    def last(self) -> int:
        return int(np.ceil(self.high + 0.5)) - 1

    @property
    def empty(self) -> bool:
        return not self.low < self.high

    def cover(self, width: np.ndarray) -> np.ndarray:
        """The part of each output pixel that lies in the window, whose edge is `width` wide."""
        within = np.minimum(self.at - self.low, self.high - self.at)
        cover = np.clip(within / width + 0.5, 0.0, 1.0)
        return np.where(cover < 1 - 2.0**-15, cover, 1.0)  # rounding must let no fill through

    def clamped(self) -> np.ndarray:
        return np.clip(self.at, self.first, self.last)

    def add(self, weights: np.ndarray, tap: np.ndarray, w: np.ndarray, padding_mode: str) -> None:
        """Add `w` [P] to the weights [P, count] of the pixels that the taps [P] stand for."""
        n = self.last - self.first + 1
        taps, which = np.unique(tap, return_inverse=True)
        found = [_padded_index(k - self.first, n, padding_mode) for k in taps.tolist()]
        pixel = np.array([-1 if i is None else self.first + i for i in found])[which]
        inside = np.flatnonzero(pixel >= 0)
        weights[inside, pixel[inside]] += w[inside]  # one tap per row: no index repeats

    def interpolation(self, at: np.ndarray, mode: str, padding_mode: str) -> np.ndarray:
        """Weights [P, count] at unit width; what they lack to a sum of 1 goes to fill."""
        weights = np.zeros((len(at), self.count))
        base = np.floor(at + 0.5 if mode == "nearest" else at).astype(np.int64)
        for offset in TAPS[mode]:
            self.add(weights, base + offset, weight(at - (base + offset), mode), padding_mode)
        return weights

    def filter(self, mode: str, padding_mode: str) -> np.ndarray:
        """Weights [P, count] of a filter as wide as the footprint; they add up to 1.

        No narrower than a pixel, and no wider than the window.
        """
        width = np.maximum(np.minimum(self.footprint, self.last - self.first + 1), 1.0)
        # Farther out there is nothing to filter: only cover matters.
        at = self.at
        if padding_mode == "constant":
            at = np.clip(at, min(self.low, self.first), max(self.high, self.last))
        weights = np.zeros((len(at), self.count))
        reach = int(np.ceil(width.max() * REACH[mode])) + 1
        for offset in range(-reach, reach + 1):
            tap = np.floor(at).astype(np.int64) + offset
            self.add(weights, tap, filter_weight((tap - at) / width, mode), padding_mode)
        return weights / weights.sum(1, keepdims=True)


def footprints(m: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[2, P] norms of the rows of d source / d destination in the middle of each segment."""
    if m[2, 0] == 0 and m[2, 1] == 0:
        rows = np.hypot(m[:2, 0], m[:2, 1]) / m[2, 2]
        return np.abs(rows)[:, None] * np.ones(len(x))
    middle = np.stack([x // SEGMENT * SEGMENT + SEGMENT / 2, y, np.ones(len(x))])
    u, v, w = m @ middle
    result = []
    for row, at in ((0, u / w), (1, v / w)):
        slope = (m[row, :2, None] - at * m[2, :2, None]) / w
        result.append(np.hypot(slope[0], slope[1]))
    # Where w halves or doubles within half a segment, its middle says nothing about the rest.
    near_horizon = np.abs(m[2, 0] / w) * (SEGMENT / 2) >= 0.5
    return np.where(near_horizon, 1.0, np.stack(result))


def sample(
    image: np.ndarray,
    m: np.ndarray,
    size: Size,
    *,
    fill: Any,
    mode: str,
    padding_mode: str,
    antialias: bool,
    window: Sequence[float] | None,
) -> np.ndarray:
    """[H, W, C] -> [*size, C] in the image's units."""
    height, width, channels = image.shape
    pixels = np.asarray(image, np.float64)
    fills = np.broadcast_to(np.asarray(fill, np.float64), (channels,))
    y, x = (index.ravel() for index in np.indices(size))
    if len(x) == 0:
        return np.zeros((*size, channels))
    with np.errstate(all="ignore"):
        u, v, w = m @ np.stack([x, y, np.ones(len(x))])
        coordinates = np.stack([u / w, v / w])
        widths = footprints(m, x, y)
    exists = np.isfinite(coordinates).all(0)
    coordinates = np.clip(np.where(exists, coordinates, 0.0), -1e6, 1e6)
    x1, y1, x2, y2 = (0, 0, width, height) if window is None else window
    axes = [
        Axis(at, footprint, n, max(low, 0) - 0.5, min(high, n) - 0.5)
        for at, footprint, n, low, high in (
            (coordinates[0], widths[0], width, x1, x2),
            (coordinates[1], widths[1], height, y1, y2),
        )
    ]
    if any(axis.empty for axis in axes):
        return np.broadcast_to(fills, (*size, channels)).copy()

    soft = antialias or window is not None
    blends = padding_mode == "constant" and (
        mode == "bilinear" or (mode in ("bicubic", "lanczos") and soft)
    )
    beyond = "replicate" if blends else padding_mode  # blended instead of padded
    if antialias:
        rows = [a.filter(mode, padding_mode) for a in axes]
    elif blends and mode == "bilinear":
        rows = [a.interpolation(a.clamped(), mode, beyond) for a in axes]
    else:
        rows = [a.interpolation(a.at, mode, beyond) for a in axes]
    wx, wy = rows
    lines = (wy @ pixels.reshape(height, width * channels)).reshape(-1, width, channels)
    values = np.einsum("pw,pwc->pc", wx, lines)
    if blends:
        covers = [a.cover(np.maximum(a.footprint, 1e-6) if soft else np.ones(1)) for a in axes]
        cover = (covers[0] * covers[1])[:, None]
        values = cover * values + (1 - cover) * fills
    else:
        values += (1 - wx.sum(1) * wy.sum(1))[:, None] * fills
    return np.where(exists[:, None], values, fills).reshape(*size, channels)


def augment(
    image: np.ndarray,
    matrix: Any,
    size: Size,
    *,
    color: Any = None,
    clamp: bool = False,
    mean: Any = None,
    std: Any = None,
    fill: Any = 0.0,
    mode: str = "bilinear",
    padding_mode: str = "constant",
    antialias: bool = False,
    window: Sequence[float] | None = None,
    erase: Any = None,
    erase_value: Any = 0.0,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
    inverse_map: bool = False,
    convention: str = "integer",
) -> np.ndarray:
    """One image [H, W, C] -> float64 [*size, C] in the units of `out_dtype`, before rounding.

    `color` is [K, C, C + 1], `erase` is [R, 4].
    """
    m = destination_to_source(matrix, inverse_map=inverse_map, convention=convention)
    value = sample(
        image,
        m,
        size,
        fill=fill,
        mode=mode,
        padding_mode=padding_mode,
        antialias=antialias,
        window=window,
    )
    value = value / full_scale(in_dtype)
    channels = image.shape[2]
    steps = [] if color is None else list(np.asarray(color, np.float64))
    for step in steps:
        value = value @ step[:, :channels].T + step[:, channels]
        if clamp:
            value = np.clip(value, 0.0, 1.0)
    if clamp and not steps:
        value = np.clip(value, 0.0, 1.0)
    value = (value - (0.0 if mean is None else mean)) / (1.0 if std is None else std)
    value = value * full_scale(out_dtype)
    for left, top, right, bottom in [] if erase is None else np.asarray(erase).tolist():
        value[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = erase_value
    return value
