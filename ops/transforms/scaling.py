"""Resizing to random sizes, and images on larger canvases: what detectors train with."""

import math
from collections.abc import Sequence
from typing import Any

from .._native import Step
from .arguments import (
    FillArgument,
    fail,
    fill_values,
    interval,
    is_sequence,
    size_pair,
    whole,
)
from .engine.effects import Effects
from .resizing import Resize
from .transform import RandomlyApplied

_SIDE = "a whole number >= 1"


class _RandomSize(Resize):
    """A Resize whose size is drawn."""

    draws = 1

    def __init__(self, interpolation: Any, antialias: bool | None) -> None:
        super().__init__(1, interpolation, antialias=antialias)
        self.size = None


class ScaleJitter(_RandomSize):
    """Fit the image into a target size, times a random scale.

    Arguments and distribution match torchvision's: the aspect ratio is kept.

    Parameters
    ----------
    target_size : int or pair of int
        As in torchvision, the first number is for the image's width and the second for its height.
    scale_range : pair of float
        Range of the scale.
    interpolation : {"bilinear", "nearest", "bicubic", "lanczos"}, or sequence of such
        Or an InterpolationMode. Each sample draws one of several. "random" is bilinear or bicubic,
        as in timm. Lanczos' filter is Pillow's, and part of `antialias`.
    antialias : bool
        Where the image shrinks, average over all pixels that an output pixel covers.
    turn : bool
        Turn the target with the image: its longer side is the image's, as mmcv's scales are.

    Notes
    -----
    Parameters: ``height``, ``width`` of the result.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.ScaleJitter((40, 40), (0.5, 0.5))(torch.rand(3, 60, 80)).shape
    torch.Size([3, 15, 20])
    """

    def __init__(
        self,
        target_size: int | Sequence[int],
        scale_range: Sequence[float] = (0.1, 2.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
        *,
        turn: bool = False,
    ) -> None:
        super().__init__(interpolation, antialias)
        self.turn = bool(turn)
        tiny = math.nextafter(0.0, 1.0)
        allowed = "two numbers > 0 (min, max)"
        self.target_size = size_pair("ScaleJitter", "target_size", target_size)
        self.scale_range = interval(
            "ScaleJitter", "scale_range", scale_range, tiny, allowed=allowed
        )

    def chain_step(self) -> Step | None:
        return self.sampled(Step("ScaleJitter", (*self.target_size, *self.scale_range, self.turn)))


class RandomShortestSize(_RandomSize):
    """Resize the shorter side to a length drawn from some, the aspect ratio being kept.

    Parameters
    ----------
    min_size : int or sequence of int
        The lengths.
    max_size : int, optional
        Upper limit of the longer side.
    interpolation : {"bilinear", "nearest", "bicubic", "lanczos"}, or sequence of such
        Or an InterpolationMode. Each sample draws one of several. "random" is bilinear or bicubic,
        as in timm. Lanczos' filter is Pillow's, and part of `antialias`.
    antialias : bool
        Where the image shrinks, average over all pixels that an output pixel covers.

    Notes
    -----
    Parameters: ``height``, ``width`` of the result.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomShortestSize([30], max_size=36)(torch.rand(3, 60, 80)).shape
    torch.Size([3, 27, 36])
    """

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int | None = None,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__(interpolation, antialias)
        owner = "RandomShortestSize"
        sizes = list(min_size) if is_sequence(min_size) else [min_size]
        if not sizes:
            fail(owner, "min_size", min_size, f"{_SIDE} or a sequence of such")
        self.min_size = [whole(owner, "min_size", size, 1, _SIDE) for size in sizes]
        self.max_size = None if max_size is None else whole(owner, "max_size", max_size, 1, _SIDE)

    def chain_step(self) -> Step | None:
        return self.sampled(Step("RandomShortestSize", (self.max_size or -1, *self.min_size)))


class RandomResize(_RandomSize):
    """Resize the shorter side to a random length, the aspect ratio being kept.

    Parameters
    ----------
    min_size, max_size : int
        The length is at least `min_size` and, as in torchvision, less than `max_size`.
    interpolation : {"bilinear", "nearest", "bicubic", "lanczos"}, or sequence of such
        Or an InterpolationMode. Each sample draws one of several. "random" is bilinear or bicubic,
        as in timm. Lanczos' filter is Pillow's, and part of `antialias`.
    antialias : bool
        Where the image shrinks, average over all pixels that an output pixel covers.

    Notes
    -----
    Parameters: ``height``, ``width`` of the result.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomResize(30, 31)(torch.rand(3, 60, 80)).shape
    torch.Size([3, 30, 40])
    """

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__(interpolation, antialias)
        owner = "RandomResize"
        self.min_size = whole(owner, "min_size", min_size, 1, _SIDE)
        allowed = f"a whole number > min_size, which is {self.min_size}"
        self.max_size = whole(owner, "max_size", max_size, self.min_size + 1, allowed)

    def chain_step(self) -> Step | None:
        assert self.max_size is not None
        return self.sampled(Step("RandomResize", (self.min_size, self.max_size)))


class RandomZoomOut(RandomlyApplied):
    """Put the image at a random place of a larger canvas, with probability `p`.

    Arguments and distribution match torchvision's.

    Parameters
    ----------
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).
    side_range : pair of float
        Range of the factor, at least 1, by which both sides of the canvas grow.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``left``, ``top``, ``height``, ``width``, of the image and of the canvas.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomZoomOut(fill=9, side_range=(2, 2), p=1)(torch.zeros(3, 6, 8)).shape
    torch.Size([3, 12, 16])
    """

    draws = 4

    def __init__(
        self, fill: FillArgument = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5
    ) -> None:
        super().__init__(p)
        owner = "RandomZoomOut"
        self.fill = fill_values(owner, fill)
        allowed = "two numbers >= 1 (min, max)"
        self.side_range = interval(owner, "side_range", side_range, 1.0, allowed=allowed)

    def effects(self) -> Effects:
        return Effects(moves=True, fill=self.fill)

    def chain_step(self) -> Step | None:
        return Step("RandomZoomOut", (self.p, *self.side_range))
