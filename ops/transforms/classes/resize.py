"""Resizing of the whole image or of a random crop."""

import math
from collections.abc import Sequence
from typing import Any

from ..._native import Step
from ..arguments import (
    FillArgument,
    InterpolationArgument,
    fail,
    fill_values,
    flag,
    interval,
    is_sequence,
    size_pair,
    whole,
)
from ..base import RandomlyApplied, Sampled
from ..chain.effects import Effects
from ..chain.integers import reject_out_of_range
from ..chain.plan import Plan

__all__ = [
    "Letterbox",
    "RandomResize",
    "RandomResizedCrop",
    "RandomShortestSize",
    "RandomZoomOut",
    "Resize",
    "ScaleJitter",
]


class RandomResizedCrop(Sampled):
    """Crop a random part of the image and resize it.

    Arguments and distribution match torchvision's: the crop's area is uniform, its aspect ratio
    log-uniform; if none of ten attempts fits into the image, the largest central crop of an allowed
    ratio is taken.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result.
    scale : pair of float
        Range of the crop's area, as a fraction of the image's.
    ratio : pair of float
        Range of the crop's width divided by its height.
    interpolation : {"bilinear", "nearest", "bicubic", "lanczos"}, or sequence of such
        Or an InterpolationMode. Each sample draws one of several. "random" is bilinear or bicubic,
        as in timm. Lanczos' filter is Pillow's, and part of `antialias`.
    antialias : bool
        Where the crop shrinks, average over all pixels that an output pixel covers.

    Notes
    -----
    Parameters: ``top``, ``left``, ``height``, ``width`` of the crop, in pixels.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> crop = transforms.RandomResizedCrop(32, scale=(0.5, 1.0))
    >>> crop(torch.rand(3, 60, 80)).shape
    torch.Size([3, 32, 32])
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: InterpolationArgument = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        tiny = math.nextafter(0.0, 1.0)
        self.size = size_pair(owner, "size", size)
        self.scale = interval(owner, "scale", scale, 0.0, allowed="two numbers >= 0 (min, max)")
        self.ratio = interval(owner, "ratio", ratio, tiny, allowed="two numbers > 0 (min, max)")
        self.sample_by(interpolation, flag(owner, "antialias", antialias or False))
        self._log_ratio = (math.log(self.ratio[0]), math.log(self.ratio[1]))

    def effects(self) -> Effects:
        return Effects(
            moves=True,
            interpolation=self.interpolation,
            antialias=self.antialias,
            size=self.size,
        )

    def chain_step(self) -> Step | None:
        fields = {
            "size": self.size,
            "scale": self.scale,
            "log_ratio": self._log_ratio,
            "ratio": self.ratio,
        }
        return self.sampled(Step("RandomResizedCrop", fields))


class Resize(Sampled):
    """Resize the image.

    Parameters
    ----------
    size : int, pair of int, or None
        Height and width of the result; or the length of its shorter side, the aspect ratio being
        kept; or None, for `max_size` to decide.
    interpolation : {"bilinear", "nearest", "bicubic", "lanczos"}, or sequence of such
        Or an InterpolationMode. Each sample draws one of several. "random" is bilinear or bicubic,
        as in timm. Lanczos' filter is Pillow's, and part of `antialias`.
        "nearest" is torchvision's "nearest-exact" without its rounding errors: pixel i of n takes
        pixel ``floor((i + 0.5) * old / n)``, for images of up to 20,000 pixels a side.
    max_size : int, optional
        Upper limit of the longer side where `size` is a number; its length where `size` is None.
    antialias : bool
        Where the image shrinks, average over all pixels that an output pixel covers.

    Notes
    -----
    Parameters: ``height``, ``width`` of the result.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.Resize(30)(torch.rand(3, 60, 80)).shape
    torch.Size([3, 30, 40])
    """

    def __init__(
        self,
        size: int | Sequence[int] | None,
        interpolation: InterpolationArgument = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.size: int | tuple[int, int] | None = None
        if size is not None:
            pair = size_pair(owner, "size", size)
            self.size = pair if is_sequence(size) and len(size) == 2 else pair[0]  # type: ignore[arg-type]
        self.max_size = None
        if max_size is not None:
            self.max_size = whole(owner, "max_size", max_size, 1, "a whole number >= 1")
        if self.size is None and max_size is None:
            fail(owner, "max_size", None, "given where size is None")
        if isinstance(self.size, tuple) and max_size is not None:
            fail(owner, "max_size", max_size, "None where size is a pair (height, width)")
        if isinstance(self.size, int) and self.max_size is not None and self.max_size <= self.size:
            fail(owner, "max_size", max_size, f"larger than size, which is {self.size}")
        self.sample_by(interpolation, flag(owner, "antialias", antialias or False))

    def effects(self) -> Effects:
        size = (0, 0)
        if isinstance(self.size, tuple):
            size = self.size
        elif self.size is not None and self.max_size is None:
            size = (self.size, self.size)
        return Effects(
            moves=True,
            interpolation=self.interpolation,
            antialias=self.antialias,
            size=size,
        )

    def chain_step(self) -> Step | None:
        if isinstance(self.size, tuple):
            return self.sampled(Step("Resize", {"size": self.size}))
        fields = {"size": self.size, "max_size": self.max_size}
        return self.sampled(Step("ResizeSide", fields))


class Letterbox(Sampled):
    """Resize the image to fit into a size, keep its shape, and fill the bars beside it.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result.
    fill : number or sequence of C numbers
        The bars' value, in the image's units (white is 255 for uint8, 1 for floating images). The
        default is for uint8: floating images refuse what is not between black and white.
    center : bool
        Whether the bars on both sides are equal, but for an odd pixel at the right or the bottom.
        Otherwise the image is at the top left.
    scaleup : bool
        Whether to enlarge images that are smaller than `size`.
    interpolation : {"bilinear", "nearest", "bicubic", "lanczos"}, or sequence of such
        Or an InterpolationMode. Each sample draws one of several. "random" is bilinear or bicubic,
        as in timm. Lanczos' filter is Pillow's, and part of `antialias`.
    antialias : bool
        Where the image shrinks, average over all pixels that an output pixel covers.

    Notes
    -----
    Both sides are multiplied by min(height / h, width / w), at most 1 without `scaleup`, and
    rounded to whole pixels, half to even. ``Compose.inverse`` takes boxes found in the result back.

    Parameters: ``height``, ``width``, ``top``, ``left`` of the resized image in the result.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.ones(1, 2, 4)
    >>> transforms.Letterbox((4, 4), fill=0.5)(image)[0, :, 0]
    tensor([0.5000, 1.0000, 1.0000, 0.5000])
    >>> sample = {"image": image, "boxes": torch.tensor([[1.0, 0.0, 3.0, 2.0]])}
    >>> transforms.Letterbox(8, fill=0)(sample)["boxes"]
    tensor([[2., 2., 6., 6.]])
    """

    def __init__(
        self,
        size: int | Sequence[int],
        fill: float | Sequence[float] = 114,
        center: bool = True,
        scaleup: bool = True,
        interpolation: InterpolationArgument = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.size = size_pair(owner, "size", size)
        self.fill = fill_values(owner, fill)
        self.center = flag(owner, "center", center)
        self.scaleup = flag(owner, "scaleup", scaleup)
        self.sample_by(interpolation, flag(owner, "antialias", antialias or False))

    def effects(self) -> Effects:
        return Effects(
            moves=True,
            interpolation=self.interpolation,
            antialias=self.antialias,
            fill=self.fill,
            size=self.size,
        )

    def set_constants(self, plan: Plan) -> None:
        reject_out_of_range("Letterbox", "fill", self.fill, plan.source_dtype, white=True)

    def chain_step(self) -> Step | None:
        fields = {"size": self.size, "center": self.center, "scaleup": self.scaleup}
        return self.sampled(Step("Letterbox", fields))


_SIDE = "a whole number >= 1"


class _RandomSize(Resize):
    """A Resize whose size is drawn."""

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
        interpolation: InterpolationArgument = "bilinear",
        antialias: bool | None = True,
        *,
        turn: bool = False,
    ) -> None:
        super().__init__(interpolation, antialias)
        self.turn = flag(type(self).__name__, "turn", turn)
        tiny = math.nextafter(0.0, 1.0)
        allowed = "two numbers > 0 (min, max)"
        self.target_size = size_pair("ScaleJitter", "target_size", target_size)
        self.scale_range = interval(
            "ScaleJitter", "scale_range", scale_range, tiny, allowed=allowed
        )

    def chain_step(self) -> Step | None:
        fields = {
            "target_size": self.target_size,
            "scale": self.scale_range,
            "turn": self.turn,
        }
        return self.sampled(Step("ScaleJitter", fields))


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
        interpolation: InterpolationArgument = "bilinear",
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
        fields = {"min_size": self.min_size, "max_size": self.max_size}
        return self.sampled(Step("RandomShortestSize", fields))


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
        interpolation: InterpolationArgument = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__(interpolation, antialias)
        owner = "RandomResize"
        self.min_size = whole(owner, "min_size", min_size, 1, _SIDE)
        allowed = f"a whole number > min_size, which is {self.min_size}"
        self.max_size = whole(owner, "max_size", max_size, self.min_size + 1, allowed)

    def chain_step(self) -> Step | None:
        fields = {"min_size": self.min_size, "max_size": self.max_size}
        return self.sampled(Step("RandomResize", fields))


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
        return Step("RandomZoomOut", {"p": self.p, "side_range": self.side_range})
