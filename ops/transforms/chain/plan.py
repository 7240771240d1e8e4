"""What one pass does to each sample: transforms add to a plan before any pixel is touched.

The arithmetic is in csrc/core/chain. Here are the forms in which a transform written in Python
calls it, and what is the same for all samples: normalisation, dtypes and the erased value.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._native import Plan as NativePlan
from .integers import WHITES

# A number for each sample: an array [B], or a float that all samples share.
Number = Any
Params = dict[str, Any]


def columns(numbers: Sequence[Number], batch: int) -> np.ndarray:
    """Put numbers side by side, float64 ``[B, len(numbers)]``."""
    out = np.empty((batch, len(numbers)))
    for column, number in enumerate(numbers):
        out[:, column] = number
    return out


def evenly(first: float, last: float, count: int) -> Tensor:
    """Return evenly spaced numbers in float32, whatever torch's default dtype and device are."""
    return torch.linspace(first, last, count, dtype=torch.float32, device="cpu")


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

    def sides(self, batch: int) -> np.ndarray:
        """Return heights and widths, float64 ``[B, 2]``."""
        return columns((self.height, self.width), batch)


def full_scale(dtype: torch.dtype) -> float:
    """Return the value of white in a dtype."""
    return 255.0 if dtype is torch.uint8 else WHITES.get(dtype, 1.0)


class Plan(NativePlan):
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
    dtype : torch.dtype
        That of the results so far.
    mean, std : list of float
        Normalize and unscaled conversions combined; empty where there are none.
    erase_value : list of float, optional
        In the units of the values so far; None where nothing is erased.
    """

    mean: list[float]
    std: list[float]
    erase_value: list[float] | None

    def __init__(
        self,
        canvas: Canvas,
        batch: int = 1,
        dtype: torch.dtype = torch.uint8,
        exact: bool = False,
    ) -> None:
        super().__init__(canvas.sides(batch).astype(np.int64), canvas.channels, exact)
        self._begin(dtype)

    @classmethod
    def of_images(
        cls,
        sizes: np.ndarray,
        channels: int = 3,
        dtype: torch.dtype = torch.uint8,
        exact: bool = False,
    ) -> "Plan":
        """Return the plan for images of these heights and widths, int64 ``[B, 2]``."""
        plan = cls.__new__(cls)
        NativePlan.__init__(plan, sizes, channels, exact)
        plan._begin(dtype)
        return plan

    @property
    def constants(self) -> tuple[list[float], list[float], list[float] | None, torch.dtype]:
        """What is the same for all samples: mean, std, erased value and dtype so far."""
        return self.mean, self.std, self.erase_value, self.dtype

    @constants.setter
    def constants(
        self, values: tuple[list[float], list[float], list[float] | None, torch.dtype]
    ) -> None:
        self.mean, self.std, self.erase_value, self.dtype = values

    def _begin(self, dtype: torch.dtype) -> None:
        self.source_dtype = self.dtype = dtype
        self.mean, self.std, self.erase_value = [], [], None

    @property
    def canvas(self) -> Canvas:
        """The image that the next transform receives."""
        return Canvas(*self.canvas_sides(), self.channels)

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
        numbers = self._columns((x_scale, y_scale, x_shift, y_shift))
        self.add_scale(numbers, canvas.sides(self.batch), cuts)

    def shift(self, x: Number, y: Number, canvas: Canvas, cuts: bool = True) -> None:
        """Shift; `canvas` and `cuts` are those of `scale`."""
        self.add_shift(self._columns((x, y)), canvas.sides(self.batch), cuts)

    def affine(self, matrix: Sequence[Number], canvas: Canvas) -> None:
        """Apply x' = a x + b y + c, y' = d x + e y + f, `matrix` being a, b, c, d, e, f."""
        self.add_affine(self._columns(matrix), canvas.sides(self.batch))

    def perspective(self, matrix: Sequence[Number], canvas: Canvas) -> None:
        """Apply a perspective of 9 numbers, row by row."""
        self.add_perspective(self._columns(matrix), canvas.sides(self.batch))

    def color(
        self,
        matrix: Sequence[Number],
        weight: Number = None,
        before: Sequence[Number] | None = None,
    ) -> None:
        """Add a colour step v' = A v + a, for values with white at 1.

        Parameters
        ----------
        matrix : sequence of float or ndarray ``[B]``
            C rows of C + 1 numbers.
        weight : float or ndarray ``[B]``, optional
            The share of the grey mean that is added to every channel: 1 - c for a contrast of
            factor c.
        before : like `matrix`, optional
            The part of the step that comes before the mean is taken.
        """
        weights = None if weight is None else self._columns((weight,))
        first = None if before is None else self._columns(before)
        self.add_color(self._columns(matrix), weights, first)

    def normalize(self, mean: list[float], std: list[float]) -> None:
        """Add v' = (v - mean) / std, for values that are floating at this point."""
        if self.erase_value is not None:
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
            if self.erase_value is not None:
                self.erase_value = [v * ratio for v in self.erase_value]
        else:
            self.mean = self.mean or [0.0]
            self.std = [s * ratio for s in self.std or [1.0]]

    def erase(self, rectangle: Sequence[Number], value: list[float]) -> None:
        """Set a rectangle x1, y1, x2, y2 to a value; it may be empty."""
        self.add_erase(self._columns(rectangle))
        self.erase_value = value

    @contextmanager
    def only(self, condition: Number) -> Iterator[None]:
        """Let what is added within apply only to samples for which a condition holds."""
        self.begin_if(np.broadcast_to(condition, (self.batch,)))
        yield
        self.finish_if()

    def for_parts(self, parts: np.ndarray) -> "Plan":
        """Return the plan for decoded parts of its images.

        Parameters
        ----------
        parts : ndarray, int64 ``[B, 5]``
            top, left, reduction of a :class:`Part`, height and width of its pixels.
        """
        moved = Plan.of_images(self.source_sizes, self.channels, self.source_dtype, self.exact)
        moved.become_parts(self, parts)
        moved.dtype, moved.erase_value = self.dtype, self.erase_value
        moved.mean, moved.std = self.mean, self.std
        return moved

    def _columns(self, numbers: Sequence[Any]) -> np.ndarray:
        return columns(numbers, self.batch)


def empty_plan() -> Plan:
    """Return a plan for nothing, which C++ fills."""
    plan = Plan.__new__(Plan)
    NativePlan.__init__(plan)
    return plan


def _aligned(*lists: list[float]) -> list[tuple[float, ...]]:
    """Zip lists that hold one number for all channels, or one for each."""
    count = max(len(values) for values in lists)
    spread = [values * count if len(values) == 1 else values for values in lists]
    return list(zip(*spread, strict=True))
