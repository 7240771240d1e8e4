"""Windows of the image, which may reach beyond it: albumentations' crops, padding and scales."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Literal

from ..._native import Step
from ..._torch.options import PadMode
from ..arguments import (
    FillArgument,
    InterpolationArgument,
    fail,
    flag,
    interval,
    is_sequence,
    number,
    one_of,
    size_pair,
    whole,
)
from ..base import Occasional, Sampled
from ..chain.effects import Effects

__all__ = [
    "Crop",
    "CropAndPad",
    "PadIfNeeded",
    "RandomCropFromBorders",
    "RandomSizedCrop",
]


class _Placing(IntEnum):
    """How csrc/core/chain/steps/crop.cpp places windows, and by which numbers."""

    FIXED = 0
    PADDED = 1
    BORDERS = 2
    SIZED = 3
    ADDED = 4


class _Window(Occasional, Sampled):
    """Shows a rectangle of the image, and perhaps resizes it."""

    _size: tuple[int, int] | None = None  # of the result, wherever the window is
    _placing: _Placing

    def effects(self) -> Effects:
        is_known = self._size is not None and self.p == 1.0
        return Effects(
            moves=True,
            interpolation=self.interpolation,
            antialias=self.antialias,
            fill=self.fill,
            padding_mode=self.padding_mode,
            size=self._size if is_known else (0, 0),
        )

    @abstractmethod
    def _numbers(self) -> Sequence[float]:
        """Return what places the window."""

    def chain_step(self) -> Step | None:
        fields = {
            "placing": self._placing,
            "numbers": self._numbers(),
            "p": self.p,
            "pads": self.fill is not None,
            "resizes": self.interpolation is not None,
            "size": self._size,
        }
        return self.sampled(Step("Window", fields))


class Crop(_Window):
    """Crop a rectangle that is given by its pixels.

    albumentations' transform of this name.

    Parameters
    ----------
    x_min, y_min, x_max, y_max : int
        The first column and row of the crop, and those behind its last.
    p : float
        Probability, for each sample.

    Raises
    ------
    ValueError
        The rectangle reaches beyond the image.

    Notes
    -----
    Parameters: ``apply``, ``top``, ``left``, ``height``, ``width``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.Crop(1, 0, 3, 1)(torch.arange(6.0).reshape(1, 2, 3))
    tensor([[[1., 2.]]])
    """

    _placing = _Placing.FIXED

    def __init__(
        self, x_min: int = 0, y_min: int = 0, x_max: int = 1024, y_max: int = 1024, p: float = 1.0
    ) -> None:
        super().__init__()
        allowed = "a whole number >= 0"
        self.x_min = whole("Crop", "x_min", x_min, 0, allowed)
        self.y_min = whole("Crop", "y_min", y_min, 0, allowed)
        more = "a whole number greater than {}, which is {}"
        self.x_max = whole("Crop", "x_max", x_max, x_min + 1, more.format("x_min", x_min))
        self.y_max = whole("Crop", "y_max", y_max, y_min + 1, more.format("y_min", y_min))
        self.take_p(p)
        self._size = self.y_max - self.y_min, self.x_max - self.x_min

    def _numbers(self) -> Sequence[float]:
        return (self.y_min, self.x_min, self.y_max - self.y_min, self.x_max - self.x_min)


_POSITIONS = {
    "center": (-1.0, -1.0),  # C++'s kMiddle and kAnywhere
    "random": (-2.0, -2.0),
    "top_left": (0.0, 0.0),
    "top_right": (0.0, 1.0),
    "bottom_left": (1.0, 0.0),
    "bottom_right": (1.0, 1.0),
}


class PadIfNeeded(_Window):
    """Pad the image to a least size, or until its sides are multiples of a number.

    albumentations' transform of this name.

    Parameters
    ----------
    min_height, min_width : int, optional
        A larger image keeps its sides.
    pad_height_divisor, pad_width_divisor : int, optional
        What the sides must be multiples of; either this or a least side is None.
    position : {"center", "top_left", "top_right", "bottom_left", "bottom_right", "random"}
        Where the padding goes: an odd pixel of "center" to the right and the bottom.
    fill : number, sequence of C numbers, or dict of such by type
        The padding's value, in the image's units (white is 255 for uint8).
    padding_mode : {"constant", "edge", "reflect", "symmetric", "circular"}
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``top``, ``left``, which are 0 or negative, ``height``, ``width``. With
    "top_left" the image stays there, as albumentations has it.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.PadIfNeeded(2, 4, fill=9)(torch.ones(1, 2, 2))
    tensor([[[9., 1., 1., 9.],
             [9., 1., 1., 9.]]])
    """

    _placing = _Placing.PADDED

    def __init__(
        self,
        min_height: int | None = 1024,
        min_width: int | None = 1024,
        pad_height_divisor: int | None = None,
        pad_width_divisor: int | None = None,
        position: Literal[
            "center", "top_left", "top_right", "bottom_left", "bottom_right", "random"
        ] = "center",
        fill: FillArgument = 0,
        padding_mode: PadMode = "constant",
        p: float = 1.0,
    ) -> None:
        super().__init__()
        self.min_height, self.pad_height_divisor = self._side(
            "height", min_height, pad_height_divisor
        )
        self.min_width, self.pad_width_divisor = self._side("width", min_width, pad_width_divisor)
        one_of("PadIfNeeded", "position", position, _POSITIONS, f"one of {', '.join(_POSITIONS)}")
        self.position = position
        self.take_padding(fill, padding_mode)
        self.take_p(p)

    @staticmethod
    def _side(name: str, least: Any, divisor: Any) -> tuple[int | None, int | None]:
        """Check a least side and a divisor, of which one is None."""
        given = {f"min_{name}": least, f"pad_{name}_divisor": divisor}
        if (least is None) == (divisor is None):
            allowed = f"given where pad_{name}_divisor is None, and None where it is given"
            fail("PadIfNeeded", f"min_{name}", least, allowed)
        least, divisor = (
            None if value is None else whole("PadIfNeeded", own, value, 1, "a whole number >= 1")
            for own, value in given.items()
        )
        return least, divisor

    def _numbers(self) -> Sequence[float]:
        shares = _POSITIONS[self.position]
        rows = (self.min_height or 0, self.pad_height_divisor or 0, shares[0])
        return (*rows, self.min_width or 0, self.pad_width_divisor or 0, shares[1])


class RandomCropFromBorders(_Window):
    """Cut random strips off the borders.

    albumentations' transform of this name.

    Parameters
    ----------
    crop_left, crop_right, crop_top, crop_bottom : float
        The greatest share of the image that each strip takes; those of opposite borders are at most
        1 together.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``top``, ``left``, ``height``, ``width``. One pixel is left at least.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> cut = transforms.Compose([transforms.RandomCropFromBorders(), transforms.Resize((8, 8))])
    >>> len(cut.passes), cut(torch.rand(3, 20, 30)).shape
    (1, torch.Size([3, 8, 8]))
    """

    _placing = _Placing.BORDERS

    def __init__(
        self,
        crop_left: float = 0.1,
        crop_right: float = 0.1,
        crop_top: float = 0.1,
        crop_bottom: float = 0.1,
        p: float = 1.0,
    ) -> None:
        super().__init__()
        given = {"left": crop_left, "right": crop_right, "top": crop_top, "bottom": crop_bottom}
        allowed = "a number in [0, 1]"
        self.crop_left, self.crop_right, self.crop_top, self.crop_bottom = (
            number("RandomCropFromBorders", f"crop_{name}", share, 0.0, 1.0, allowed)
            for name, share in given.items()
        )
        for first, last in (("left", "right"), ("top", "bottom")):
            if given[first] + given[last] > 1.0:
                allowed = f"at most 1 together with crop_{first}, which is {given[first]}"
                fail("RandomCropFromBorders", f"crop_{last}", given[last], allowed)
        self.take_p(p)

    def _numbers(self) -> Sequence[float]:
        return self.crop_top, self.crop_bottom, self.crop_left, self.crop_right


class RandomSizedCrop(_Window):
    """Crop a part of a random height and a fixed shape, and resize it.

    albumentations' transform of this name.

    Parameters
    ----------
    min_max_height : pair of int
        Range of the crop's height in pixels; a larger crop has the image's.
    size : int or pair of int
        Height and width of the result.
    w2h_ratio : float
        The crop's width divided by its height.
    interpolation : {"bilinear", "nearest", "bicubic", "lanczos"}, or sequence of such
        Or an InterpolationMode. Each sample draws one of several.
    antialias : bool
        Where the crop shrinks, average over all pixels that an output pixel covers; albumentations
        does so with `area_for_downscale`.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``top``, ``left``, ``height``, ``width`` of the crop.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomSizedCrop((10, 20), 16)(torch.rand(3, 40, 50)).shape
    torch.Size([3, 16, 16])
    """

    _placing = _Placing.SIZED

    def __init__(
        self,
        min_max_height: Sequence[int],
        size: int | Sequence[int],
        w2h_ratio: float = 1.0,
        interpolation: InterpolationArgument = "bilinear",
        antialias: bool | None = True,
        p: float = 1.0,
    ) -> None:
        super().__init__()
        owner, allowed = "RandomSizedCrop", "two whole numbers >= 1 (min, max)"
        low, high = interval(owner, "min_max_height", min_max_height, 1.0, allowed=allowed)
        if not (low.is_integer() and high.is_integer()):
            fail(owner, "min_max_height", min_max_height, allowed)
        self.min_max_height = int(low), int(high)
        self.size = self._size = size_pair(owner, "size", size)
        tiny = math.nextafter(0.0, 1.0)
        self.w2h_ratio = number(owner, "w2h_ratio", w2h_ratio, tiny, allowed="a number > 0")
        self.sample_by(interpolation, flag(type(self).__name__, "antialias", antialias or False))
        self.take_p(p)

    def _numbers(self) -> Sequence[float]:
        return (*self.min_max_height, self.w2h_ratio)


class CropAndPad(_Window):
    """Cut strips off the borders, or pad them, and perhaps bring the image back to its size.

    albumentations' transform of this name.

    Parameters
    ----------
    px : int, pair or 4 of int, or 4 pairs of int, optional
        Pixels that are added, or taken away where they are negative, at the top, the right, the
        bottom and the left. A pair is a range whose upper end is excluded.
    percent : float, pair or 4 of float, or 4 pairs of float, optional
        Shares of the image's sides instead.
    keep_size : bool
        Resize the result to the image's size.
    sample_independently : bool
        Draw a number for each border, of one range for all; otherwise one for all borders.
    interpolation : {"bilinear", "nearest", "bicubic", "lanczos"}, or sequence of such
        Or an InterpolationMode. Each sample draws one of several.
    antialias : bool
        Where the image shrinks, average over all pixels that an output pixel covers.
    fill : number, sequence of C numbers, or dict of such by type
        The padding's value, in the image's units (white is 255 for uint8).
    padding_mode : {"constant", "edge", "reflect", "symmetric", "circular"}
    p : float
        Probability, for each sample.

    Raises
    ------
    ValueError
        Nothing would be left of an image.

    Notes
    -----
    Parameters: ``apply``, ``top``, ``left``, ``height``, ``width`` of the window in the image.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> step = transforms.CropAndPad(px=(1, 0, 0, -1), keep_size=False)
    >>> step(torch.ones(1, 1, 3))
    tensor([[[0., 0.],
             [1., 1.]]])
    """

    _placing = _Placing.ADDED

    def __init__(
        self,
        px: Any = None,
        percent: Any = None,
        keep_size: bool = True,
        sample_independently: bool = True,
        interpolation: InterpolationArgument = "bilinear",
        antialias: bool | None = False,
        fill: FillArgument = 0,
        padding_mode: PadMode = "constant",
        p: float = 1.0,
    ) -> None:
        super().__init__()
        if (px is None) == (percent is None):
            fail("CropAndPad", "px", px, "given where percent is None, and None where it is given")
        self.px, self.percent = px, percent
        self._pixels = px is not None
        self._ranges = self._borders(
            "px" if self._pixels else "percent", px if self._pixels else percent
        )
        independent = flag("CropAndPad", "sample_independently", sample_independently)
        self.sample_independently = independent
        self.keep_size = flag("CropAndPad", "keep_size", keep_size)
        if self.keep_size:
            self.sample_by(
                interpolation, flag(type(self).__name__, "antialias", antialias or False)
            )
        self.take_padding(fill, padding_mode)
        self.take_p(p)

    def _borders(self, name: str, value: Any) -> list[tuple[float, float]]:
        """Return the range of each border: of one number, a pair, 4 numbers or 4 pairs."""
        what = "whole numbers" if self._pixels else "numbers > -1"
        allowed = f"a number, a pair (min, max), 4 numbers or 4 pairs, of {what}"
        given = list(value) if is_sequence(value) else [value]
        if len(given) not in (1, 2, 4):
            fail("CropAndPad", name, value, allowed)
        self._is_one_range = len(given) <= 2
        pairs = [given] * 4 if self._is_one_range else given
        ranges = []
        for pair in pairs:
            own = list(pair) if is_sequence(pair) else [pair]
            least = -math.inf if self._pixels else math.nextafter(-1.0, 0.0)
            low, high = interval(
                "CropAndPad", name, (own[0], own[-1]), least, allowed=allowed, whole_value=value
            )
            is_whole = low.is_integer() and high.is_integer()
            if len(own) > 2 or (self._pixels and not is_whole):
                fail("CropAndPad", name, value, allowed)
            if self._pixels and len(own) == 2:
                high -= 1.0
                if high < low:
                    fail("CropAndPad", name, value, f"{allowed}; a range holds a number at least")
            ranges.append((low, high))
        return ranges

    def _numbers(self) -> Sequence[float]:
        shared = not self.sample_independently and self._is_one_range
        top, right, bottom, left = self._ranges
        ends = (*top, *bottom, *left, *right)
        return (*ends, self._pixels, shared)
