"""What one pass does to each sample: transforms add to a plan before any pixel is touched.

Numbers follow NOTE on numbers and arrays in numbers.py. Matrix products are written out element by
element: a library's order of summation may depend on the number of samples.

NOTE on ties. After a resize from m to n pixels, pixel i lies at (i + 1/2) m / n, with whole images
from 0 to m. Where that is a whole number k, it lies between pixels k - 1 and k, and nearest takes
k. A rounding error would take either. All other pixels are 1 / 2n or more away from whole numbers,
so a shift by 1 / 4n towards larger coordinates settles ties and changes nothing else: kernels'
errors are smaller for images of up to 20,000 pixels. Only nearest sampling takes this shift; what
boxes and points see is the matrix itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .integers import WHITES
from .numbers import Number, columns, maximum, minimum, rint, where

__all__ = ["Canvas", "Color", "Plan", "Snapshot", "full_scale"]

# Windows are rounded to 2^-16 pixels: an edge at 117.00000000000001 must not let column 118 in.
_SNAP = 65536.0


@dataclass(slots=True)
class Canvas:
    """The image that a transform receives, for each sample.

    Parameters
    ----------
    height, width : float, or ndarray of float64 ``[B]``
        Whole numbers; floats if all samples of a batch are the same size.
    channels : int
    """

    height: Number
    width: Number
    channels: int = 3

    @staticmethod
    def of(sizes: np.ndarray, channels: int = 3) -> Canvas:
        """Return the canvas of images with these heights and widths, ``[B, 2]``."""
        if sizes.shape[0] == 1 or (sizes == sizes[0]).all():
            height, width = sizes[0].tolist()
            return Canvas(float(height), float(width), channels)
        height, width = sizes.T.astype(np.float64)
        return Canvas(height, width, channels)

    def size(self, batch: int) -> np.ndarray:
        """Heights and widths, int64 ``[B, 2]``."""
        return columns((self.height, self.width), batch).astype(np.int64)

    def describe(self, condition: Number) -> str:
        """Describe the image's size, or that of the first sample for which a condition holds."""
        sizes, which = (self.height, self.width), ""
        if isinstance(condition, np.ndarray) and condition.ndim > 0:
            index = int(condition.argmax())
            sizes = tuple(np.broadcast_to(side, condition.shape)[index] for side in sizes)
            which = f" of sample {index}"
        return f"the image{which} has height {int(sizes[0])} and width {int(sizes[1])}"

    def uniform(self) -> tuple[int, int] | None:
        """Return the height and width of all samples, or None if they differ."""
        sides = []
        for side in (self.height, self.width):
            if isinstance(side, np.ndarray):
                if (side != side[0]).any():
                    return None
                side = side[0]
            sides.append(int(side))
        return sides[0], sides[1]


@dataclass(slots=True)
class Snapshot:
    """The geometry at one point of the plan."""

    matrix: list[Number]
    canvas: Canvas
    window: list[Number] | None
    ties: tuple[Number, Number]


@dataclass(slots=True)
class Color:
    """A colour step v' = A v + a, and the share of the grey mean that a contrast adds.

    A contrast by factor c is v' = c v + (1 - c) m, where m is the grey mean of the image at that
    point. A plan doesn't know the mean.
    """

    matrix: list[Number]  # C rows of C + 1
    weight: Number = None  # share of the grey mean to add to every channel; None: none
    before: list[Number] | None = None  # the part of the step that comes before the mean is taken
    geometry: Snapshot | None = None  # of the image whose mean it is


def full_scale(dtype: torch.dtype) -> float:
    """Return the value of white in a dtype."""
    return 255.0 if dtype is torch.uint8 else WHITES.get(dtype, 1.0)


class Plan:
    """Geometry, colour, normalisation and erased rectangles of one pass, for each sample.

    Parameters
    ----------
    canvas : Canvas
        The source images.
    batch : int
        Number of samples.
    dtype : torch.dtype
        That of the source images.
    exact : bool
        Never show again what a step's canvas has cut off.

    Attributes
    ----------
    canvas : Canvas
        The image that the next transform receives.
    matrix : list of 6 or 9 numbers
        Maps the source to the current canvas, row by row, with ``convention="half_pixel"``: a whole
        image spans 0, 0, W, H. There are 9 numbers after a perspective.
    ties : pair of numbers
        What to add to the matrix's shift for nearest sampling: NOTE on ties.
    """

    __slots__ = (
        "aligned",
        "batch",
        "canvas",
        "colors",
        "dtype",
        "erase_value",
        "erased",
        "exact",
        "matrix",
        "mean",
        "source",
        "source_dtype",
        "std",
        "ties",
        "window",
    )

    def __init__(
        self,
        canvas: Canvas,
        batch: int = 1,
        dtype: torch.dtype = torch.uint8,
        exact: bool = False,
    ) -> None:
        self.source = self.canvas = canvas
        self.batch = batch
        self.source_dtype = self.dtype = dtype
        self.exact = exact
        self.aligned = True
        self.matrix: list[Number] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
        self.ties: tuple[Number, Number] = (0.0, 0.0)
        self.window: list[Number] | None = None  # x1, y1, x2, y2
        self.colors: list[Color] = []
        self.mean: list[float] = []  # with std: Normalize and unscaled conversions combined
        self.std: list[float] = []
        self.erased: list[list[Number]] = []  # each x1, y1, x2, y2
        self.erase_value: list[float] = [0.0]  # in the current units

    @property
    def matrices(self) -> np.ndarray:
        """The matrix of each sample, float64 ``[B, 3, 3]``."""
        bottom = [] if len(self.matrix) == 9 else [0.0, 0.0, 1.0]
        return columns([*self.matrix, *bottom], self.batch).reshape(-1, 3, 3)

    @property
    def tie_shifts(self) -> np.ndarray:
        """The ties of each sample, float64 ``[B, 2]``."""
        return columns(self.ties, self.batch)

    def scale(
        self,
        x_scale: Number,
        y_scale: Number,
        x_shift: Number,
        y_shift: Number,
        canvas: Canvas,
        cuts: bool = True,
    ) -> None:
        """Scale and then shift along x and y.

        Parameters
        ----------
        x_scale, y_scale, x_shift, y_shift : float or ndarray ``[B]``
        canvas : Canvas
            The image after it.
        cuts : bool
            Whether that may lose some of the image before it.
        """
        a, b, c, d, e, f, *bottom = self.matrix
        if bottom:
            self._project(x_scale, 0.0, x_shift, 0.0, y_scale, y_shift, 0.0, 0.0, 1.0)
        else:
            self.matrix = [
                *(a * x_scale, b * x_scale, c * x_scale + x_shift),
                *(d * y_scale, e * y_scale, f * y_scale + y_shift),
            ]
            x_tie, y_tie = self.ties
            self.ties = (
                x_tie * x_scale - _tie_shift(x_scale, canvas.width),
                y_tie * y_scale - _tie_shift(y_scale, canvas.height),
            )
        self._show(canvas, cuts)

    def shift(self, x: Number, y: Number, canvas: Canvas, cuts: bool = True) -> None:
        """Shift; `canvas` and `cuts` are those of `scale`."""
        if len(self.matrix) == 9:
            self._project(1.0, 0.0, x, 0.0, 1.0, y, 0.0, 0.0, 1.0)
        else:
            a, b, c, d, e, f = self.matrix
            self.matrix = [a, b, c + x, d, e, f + y]
        self._show(canvas, cuts)

    def affine(self, matrix: Sequence[Number], canvas: Canvas) -> None:
        """Apply x' = a x + b y + c, y' = d x + e y + f, `matrix` being a, b, c, d, e, f."""
        if len(self.matrix) == 9:
            self._project(*matrix, 0.0, 0.0, 1.0)
        else:
            a, b, c, d, e, f = self.matrix
            p, q, r, s, t, u = matrix
            self.matrix = [
                *(p * a + q * d, p * b + q * e, p * c + q * f + r),
                *(s * a + t * d, s * b + t * e, s * c + t * f + u),
            ]
            x, y = self.ties
            self.ties = (p * x + q * y, s * x + t * y)
        self.aligned = False
        self.canvas = canvas

    def perspective(self, matrix: Sequence[Number], canvas: Canvas) -> None:
        """Apply a perspective of 9 numbers, row by row."""
        self._project(*matrix)
        self.aligned = False
        self.canvas = canvas

    def _project(self, *new: Number) -> None:
        old = self.matrix if len(self.matrix) == 9 else [*self.matrix, 0.0, 0.0, 1.0]
        self.matrix = [
            new[row] * old[column] + new[row + 1] * old[column + 3] + new[row + 2] * old[column + 6]
            for row in (0, 3, 6)
            for column in (0, 1, 2)
        ]
        self.ties = (0.0, 0.0)

    def _show(self, canvas: Canvas, cuts: bool) -> None:
        self.canvas = canvas
        # Whether there is a window depends on the transforms alone, not on a sample's draw: a batch
        # has one for all of its samples or for none.
        if not (self.exact and self.aligned and cuts):
            return
        old = self.window or [0.0, 0.0, self.source.width, self.source.height]
        m = self.matrix
        # Both edges of the canvas along each axis, in source coordinates.
        x = (-m[2] / m[0], (canvas.width - m[2]) / m[0])
        y = (-m[5] / m[4], (canvas.height - m[5]) / m[4])
        low = (minimum(*x), minimum(*y))
        high = (maximum(*x), maximum(*y))
        edges = [
            *(minimum(maximum(old[i], low[i]), old[i + 2]) for i in (0, 1)),
            *(maximum(minimum(old[i + 2], high[i]), old[i]) for i in (0, 1)),
        ]
        self.window = [rint(edge * _SNAP) * (1.0 / _SNAP) for edge in edges]

    def color(
        self, matrix: list[Number], weight: Number = None, before: list[Number] | None = None
    ) -> None:
        """Add a colour step; the arguments are those of a :class:`Color`."""
        geometry = None
        if weight is not None:
            if np.any(weight) if isinstance(weight, np.ndarray) else weight != 0.0:
                geometry = Snapshot(self.matrix, self.canvas, self.window, self.ties)
            else:
                weight = None
        self.colors.append(Color(matrix, weight, before, geometry))

    def normalize(self, mean: list[float], std: list[float]) -> None:
        """Add v' = (v - mean) / std, for values that are floating at this point."""
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
        """Change the dtype. With `scale`, white stays white; otherwise the numbers stay."""
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

    def erase(self, rectangle: list[Number], value: list[float]) -> None:
        """Set a rectangle x1, y1, x2, y2 to a value; it may be empty."""
        self.erased.append(rectangle)
        self.erase_value = value


def _tie_shift(scale: Number, length: Number) -> Number:
    """Return by how much a resize into this length moves the image against the grid."""
    return where((scale == 1.0) | (scale == -1.0), 0.0, scale / (4.0 * maximum(length, 1.0)))


def _aligned(*lists: list[float]) -> list[tuple[float, ...]]:
    """Zip lists that hold one number for all channels, or one for each."""
    count = max(len(values) for values in lists)
    spread = [values * count if len(values) == 1 else values for values in lists]
    return list(zip(*spread, strict=True))
