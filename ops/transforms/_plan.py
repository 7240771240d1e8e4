"""What one pass over the pixels does to each sample: gathered by the transforms, pixels untouched.

NOTE on the layout. The matrices of a batch are one array ``[3, 3, B]``: the number of NumPy calls
that a transform takes is then the same for one sample and for a batch, and each call works on
contiguous memory. Products are written out, since a matrix product's order of summation depends on
the BLAS: the same parameters give the same bits on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

__all__ = ["Canvas", "ColorBlock", "Plan", "Snapshot", "compose_colors", "full_scale"]

# Windows are rounded to 2^-16 of a pixel: 117.00000000000001 must not let a 118th column in.
_SNAP = 65536.0


@dataclass(slots=True)
class Canvas:
    """The image that a transform gets, for each sample of a batch.

    Parameters
    ----------
    height, width : ndarray, float64 ``[B]``
        Whole numbers.
    channels : int
    """

    height: np.ndarray
    width: np.ndarray
    channels: int = 3

    @classmethod
    def of(cls, height: int, width: int, channels: int = 3, batch: int = 1) -> Canvas:
        """Make the canvas of images of one size."""
        return cls(np.full(batch, float(height)), np.full(batch, float(width)), channels)

    @property
    def size(self) -> np.ndarray:
        """Heights and widths, int64 ``[B, 2]``."""
        return np.stack((self.height, self.width), 1).astype(np.int64)


@dataclass(slots=True)
class Snapshot:
    """The geometry at one point of the plan."""

    rows: np.ndarray  # [3, 3, B]
    canvas: Canvas
    window: np.ndarray | None  # [4, B]
    projective: bool


@dataclass(slots=True)
class ColorBlock:
    """Colour steps in turn: v' = A v + a, and for contrast a grey mean in the offset.

    `weight` says how much of the grey mean, in the step that takes it, is added to every channel:
    at most one step of a block for each sample.
    """

    matrices: np.ndarray  # [B, K, C, C+1]
    weight: np.ndarray | None = None  # [B, K]
    geometry: Snapshot | None = None  # of the image that the mean is of


def compose_colors(second: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Make one colour matrix [B, C, C+1] of two."""
    channels = second.shape[-2]
    product = (second[..., :channels, None] * first[..., None, :, :]).sum(-2)
    product[..., channels] += second[..., channels]
    return product  # type: ignore[no-any-return]


def full_scale(dtype: torch.dtype) -> float:
    """Return the value of white."""
    return 255.0 if dtype is torch.uint8 else 1.0


class Plan:
    """Geometry, colour, normalisation and erased rectangles of one pass, for each sample.

    Parameters
    ----------
    canvas : Canvas
        The source images.
    dtype : torch.dtype
        Of the source images.
    exact : bool
        Keep what each step's canvas cuts off from showing again.

    Attributes
    ----------
    canvas : Canvas
        The current image, that the next transform gets.
    rows : ndarray, float64 ``[3, 3, B]``
        Source to current canvas, pixel (0, 0) from 0 to 1 (``convention="half_pixel"``).
    """

    __slots__ = (
        "aligned",
        "canvas",
        "colors",
        "dtype",
        "erase_value",
        "erased",
        "exact",
        "mean",
        "projective",
        "rows",
        "source",
        "source_dtype",
        "std",
        "window",
    )

    def __init__(
        self, canvas: Canvas, dtype: torch.dtype = torch.uint8, exact: bool = False
    ) -> None:
        self.source = self.canvas = canvas
        self.source_dtype = self.dtype = dtype
        self.exact = exact
        self.aligned = True
        self.projective = False
        self.rows = np.zeros((3, 3, canvas.height.shape[0]))
        self.rows[0, 0] = self.rows[1, 1] = self.rows[2, 2] = 1.0
        self.window: np.ndarray | None = None  # [4, B]
        self.colors: list[ColorBlock] = []
        self.mean: list[float] = []  # with std, what Normalize and unscaled conversions come to
        self.std: list[float] = []
        self.erased: list[np.ndarray] = []  # each int64 [B, 4]: x1, y1, x2, y2
        self.erase_value: list[float] = [0.0]  # in the current units

    @property
    def batch(self) -> int:
        """Number of samples."""
        return self.rows.shape[2]

    @property
    def matrix(self) -> np.ndarray:
        """Source to current canvas, ``[B, 3, 3]``, in the half-pixel convention."""
        return np.ascontiguousarray(self.rows.transpose(2, 0, 1))

    def resize(
        self,
        scale: tuple[np.ndarray, np.ndarray],
        shift: tuple[np.ndarray, np.ndarray],
        canvas: Canvas,
        cuts: bool = True,
    ) -> None:
        """Scale and then shift along x and y.

        Parameters
        ----------
        scale, shift : pair of ndarray ``[B]``
        canvas : Canvas
            What remains in sight.
        cuts : bool
            Whether it may be less than there was, or have other pixels.
        """
        rows = self.rows
        for row, factor, offset in zip(rows, scale, shift, strict=False):
            row *= factor
            if self.projective:
                row += offset * rows[2]
            else:
                row[2] += offset
        self._show(canvas, cuts)

    def crop(self, left: np.ndarray, top: np.ndarray, canvas: Canvas, cuts: bool = True) -> None:
        """Shift by whole pixels; the rest as in `resize`."""
        rows = self.rows
        if self.projective:
            rows[0] -= left * rows[2]
            rows[1] -= top * rows[2]
        else:
            rows[0, 2] -= left
            rows[1, 2] -= top
        self._show(canvas, cuts)

    def affine(self, linear: np.ndarray, shift: np.ndarray, canvas: Canvas) -> None:
        """Apply x' = A x + t, `linear` [2, 2, B] and `shift` [2, B]."""
        rows = self.rows
        moved = linear[:, 0, None] * rows[0] + linear[:, 1, None] * rows[1]
        if self.projective:
            moved += shift[:, None] * rows[2]
        else:
            moved[:, 2] += shift
        rows[:2] = moved
        self.aligned = False
        self.canvas = canvas

    def project(self, matrix: np.ndarray, canvas: Canvas) -> None:
        """Apply a perspective, [3, 3, B]."""
        rows = self.rows
        self.rows = matrix[:, 0, None] * rows[0] + matrix[:, 1, None] * rows[1]
        self.rows += matrix[:, 2, None] * rows[2]
        self.aligned, self.projective = False, True
        self.canvas = canvas

    def _show(self, canvas: Canvas, cuts: bool) -> None:
        self.canvas = canvas
        # Whether there is a window hangs on the transforms, not on what was drawn for a sample:
        # a batch has one for all of its samples or for none.
        if not (self.exact and self.aligned and cuts):
            return
        # Along each axis the canvas's two edges, in the source.
        x_scale, x_shift = self.rows[0, 0], self.rows[0, 2]
        y_scale, y_shift = self.rows[1, 1], self.rows[1, 2]
        x = np.stack((-x_shift, canvas.width - x_shift)) / x_scale
        y = np.stack((-y_shift, canvas.height - y_shift)) / y_scale
        if self.window is None:
            zero = np.zeros_like(x_scale)
            self.window = np.stack((zero, zero, self.source.width, self.source.height))
        x = np.clip(np.sort(x, 0), self.window[0], self.window[2])
        y = np.clip(np.sort(y, 0), self.window[1], self.window[3])
        window = np.stack((x[0], y[0], x[1], y[1]))
        self.window = np.rint(window * _SNAP) * (1.0 / _SNAP)

    def snapshot(self) -> Snapshot:
        """Copy the geometry so far."""
        return Snapshot(self.rows.copy(), self.canvas, self.window, self.projective)

    def color(self, matrices: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Add colour steps [B, K, C, C+1]; `weight` [B, K] of the grey mean where not 0."""
        geometry = None
        if weight is not None and weight.any():
            geometry = self.snapshot()
        else:
            weight = None
        self.colors.append(ColorBlock(matrices, weight, geometry))

    def normalize(self, mean: list[float], std: list[float]) -> None:
        """Add v' = (v - mean) / std, of values that are floating by now."""
        if self.erased:
            values = _aligned(self.erase_value, mean, std)
            self.erase_value = [(v - m) / s for v, m, s in values]
        if not self.mean:
            self.mean, self.std = mean, std
            return
        both = _aligned(self.mean, self.std, mean, std)
        self.mean = [m + s * n for m, s, n, _ in both]
        self.std = [s * t for _, s, _, t in both]

    def convert(self, dtype: torch.dtype, scale: bool) -> None:
        """Change the dtype; white stays white with `scale`, else the numbers stay."""
        ratio = full_scale(dtype) / full_scale(self.dtype)
        self.dtype = dtype
        if ratio == 1.0:
            return
        if scale:
            if self.erased:
                self.erase_value = [v * ratio for v in self.erase_value]
        else:
            self.mean = self.mean or [0.0]
            self.std = [s * ratio for s in self.std or [1.0]]

    def erase(self, rectangles: np.ndarray, value: list[float]) -> None:
        """Set rectangles int64 [B, 4] (x1, y1, x2, y2; empty ones allowed) to a value."""
        self.erased.append(rectangles)
        self.erase_value = value


def _aligned(*lists: list[float]) -> list[tuple[float, ...]]:
    """Entry by entry of lists that have one number for all channels, or one for each."""
    count = max(len(values) for values in lists)
    spread = [values * count if len(values) == 1 else values for values in lists]
    return list(zip(*spread, strict=True))
