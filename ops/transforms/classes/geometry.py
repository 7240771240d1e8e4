"""Transforms that rotate, shear or tilt the image."""

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
    number,
    spread,
)
from ..base import RandomlyApplied, Sampled
from ..chain.effects import Effects

__all__ = [
    "D4",
    "RandomAffine",
    "RandomPerspective",
    "RandomRotate90",
    "RandomRotation",
    "Transpose",
]


def _center(owner: str, value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    allowed = "None or two finite numbers (x, y)"
    if not is_sequence(value) or len(value) != 2:
        fail(owner, "center", value, allowed)
    x, y = (number(owner, "center", v, allowed=allowed, whole_value=value) for v in value)
    return x, y


class RandomAffine(Sampled):
    """Rotate, shift, scale and shear the image.

    Arguments and distribution match torchvision's, except that `interpolation` defaults to
    bilinear, so that it can share a pass with the defaults of other transforms.

    Parameters
    ----------
    degrees : number or pair of number
        Range of the angle in degrees; d means [-d, d]. Positive is clockwise on screen.
    translate : pair of float, optional
        Largest shift along x and y, as fractions of width and height; draws are whole pixels.
    scale : pair of float, optional
        Range of the scale factor.
    shear : number or sequence of 2 or 4 numbers, optional
        Range of the shear angle along x, in degrees; the third and fourth numbers are for y.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode, or sequence of such
        Each sample draws one of several. "random" is bilinear or bicubic, as in timm.
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).
    center : pair of float, optional
        Fixed point (x, y) in pixels from the upper left corner. Default: the middle.

    Notes
    -----
    Parameters: ``angle``, ``translate_x``, ``translate_y``, ``scale``, ``shear_x``, ``shear_y``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> turn = transforms.RandomAffine(degrees=(90, 90))
    >>> turn(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[3., 1.],
             [4., 2.]]])
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: InterpolationArgument = "bilinear",
        fill: FillArgument = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.degrees = spread(owner, "degrees", degrees)
        self.translate: tuple[float, ...] | None = None
        if translate is not None:
            allowed = "None or two numbers (x, y) in [0, 1]"
            if not is_sequence(translate) or len(translate) != 2:
                fail(owner, "translate", translate, allowed)
            self.translate = tuple(
                number(owner, "translate", value, 0.0, 1.0, allowed, translate)
                for value in translate
            )
        self.scale: tuple[float, float] | None = None
        if scale is not None:
            allowed = "None or two numbers > 0 (min, max)"
            self.scale = interval(owner, "scale", scale, math.nextafter(0.0, 1.0), allowed=allowed)
        self.shear = self._shear(owner, shear)
        self.sample_by(interpolation)
        self.fill = fill_values(owner, fill)
        self.center = _center(owner, center)

    @staticmethod
    def _shear(owner: str, shear: Any) -> tuple[float, ...] | None:
        if shear is None:
            return None
        allowed = (
            "None, a number >= 0, or 2 or 4 numbers (min, max along x and then y) in (-90, 90)"
        )
        if is_sequence(shear) and len(shear) not in (2, 4):
            fail(owner, "shear", shear, allowed)
        values = shear if is_sequence(shear) else spread(owner, "shear", shear)
        pairs = [values[:2], values[2:]] if len(values) == 4 else [values]
        inside = math.nextafter(90.0, 0.0)
        ranges = [interval(owner, "shear", pair, -inside, inside, allowed, shear) for pair in pairs]
        return tuple(value for pair in ranges for value in pair)

    def effects(self) -> Effects:
        return Effects(moves=True, aligned=False, interpolation=self.interpolation, fill=self.fill)

    def chain_step(self) -> Step | None:
        names = ("degrees", "translate", "scale", "shear", "center")
        return self.sampled(Step("RandomAffine", {name: getattr(self, name) for name in names}))


class RandomRotation(Sampled):
    """Rotate the image.

    Arguments and distribution match torchvision's, except that `interpolation` defaults to
    bilinear, so that it can share a pass with the defaults of other transforms.

    Parameters
    ----------
    degrees : number or pair of number
        Range of the angle in degrees; d means [-d, d]. Positive is counter-clockwise on screen (the
        opposite of :class:`RandomAffine`, as in torchvision).
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode, or sequence of such
        Each sample draws one of several. "random" is bilinear or bicubic, as in timm.
    expand : bool
        Enlarge the canvas to hold the whole rotated image; otherwise it keeps its size.
    center : pair of float, optional
        Fixed point (x, y) in pixels from the upper left corner. Default: the middle.
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).

    Notes
    -----
    Parameters: ``angle``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> turn = transforms.RandomRotation((90, 90), expand=True)
    >>> turn(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[3.],
             [2.],
             [1.]]])
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: InterpolationArgument = "bilinear",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: FillArgument = 0,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.degrees = spread(owner, "degrees", degrees)
        self.sample_by(interpolation)
        self.expand = flag(owner, "expand", expand)
        self.center = _center(owner, center)
        self.fill = fill_values(owner, fill)

    def effects(self) -> Effects:
        return Effects(
            moves=True,
            aligned=False,
            interpolation=self.interpolation,
            fill=self.fill,
            size=(0, 0) if self.expand else None,
        )

    def chain_step(self) -> Step | None:
        fields = {"degrees": self.degrees, "expand": self.expand, "center": self.center}
        return self.sampled(Step("RandomRotation", fields))


class RandomPerspective(RandomlyApplied, Sampled):
    """Move the image's four corners towards its middle.

    Arguments and distribution match torchvision's.

    Parameters
    ----------
    distortion_scale : float
        Largest move of a corner, as a fraction of half the image's sides, in [0, 1].
    p : float
        Probability, for each sample.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode, or sequence of such
        Each sample draws one of several. "random" is bilinear or bicubic, as in timm.
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).

    Notes
    -----
    Parameters: ``apply``, and the new places of the corners (0, 0), (W - 1, 0), (W - 1, H - 1) and
    (0, H - 1): ``topleft_x``, ``topleft_y``, and likewise for ``topright``, ``bottomright`` and
    ``bottomleft``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomPerspective(0.3, p=1)(torch.rand(3, 20, 30)).shape
    torch.Size([3, 20, 30])
    """

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: InterpolationArgument = "bilinear",
        fill: FillArgument = 0,
    ) -> None:
        super().__init__(p)
        owner = type(self).__name__
        allowed = "a number in [0, 1]"
        self.distortion_scale = number(
            owner, "distortion_scale", distortion_scale, 0.0, 1.0, allowed
        )
        self.sample_by(interpolation)
        self.fill = fill_values(owner, fill)

    def effects(self) -> Effects:
        return Effects(moves=True, aligned=False, interpolation=self.interpolation, fill=self.fill)

    def chain_step(self) -> Step | None:
        fields = {"distortion_scale": self.distortion_scale, "p": self.p}
        return self.sampled(Step("RandomPerspective", fields))


class _Symmetry(RandomlyApplied):
    _mirrors = False
    _transposes = False

    def effects(self) -> Effects:
        return Effects(moves=True, aligned=False, size=(0, 0))

    def chain_step(self) -> Step | None:
        fields = {"p": self.p, "mirrors": self._mirrors, "transposes": self._transposes}
        return Step("Symmetry", fields)


class RandomRotate90(_Symmetry):
    """Turn the image by a random number of quarters, with probability `p`.

    albumentations' transform of this name.

    Parameters
    ----------
    p : float
        Probability, for each sample; the number may be 0.

    Notes
    -----
    Parameters: ``apply``, ``quarters``, from 0 to 3, counter-clockwise on screen. An odd number
    swaps height and width, so the images of a batch should be square.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    >>> params = transforms.Parameters(
    ...     ["RandomRotate90"], [{"apply": [True], "quarters": [1]}], torch.tensor([[2, 2]]).numpy()
    ... )
    >>> transforms.Compose([transforms.RandomRotate90()])(image, params=params)
    tensor([[[2., 4.],
             [1., 3.]]])
    """

    def __init__(self, p: float = 1.0) -> None:
        super().__init__(p)


class D4(_Symmetry):
    """Apply one of the eight symmetries of a square, each as likely as the others.

    albumentations' transform of this name: for images without an up, from above or through a
    microscope.

    Parameters
    ----------
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``quarters`` as for :class:`RandomRotate90`, and ``mirror``, whether left
    and right are swapped before.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.D4()(torch.rand(3, 8, 8)).shape
    torch.Size([3, 8, 8])
    """

    _mirrors = True

    def __init__(self, p: float = 1.0) -> None:
        super().__init__(p)


class Transpose(_Symmetry):
    """Swap rows and columns, with probability `p`.

    albumentations' transform of this name.

    Parameters
    ----------
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.Transpose(p=1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[1.],
             [2.],
             [3.]]])
    """

    _transposes = True

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
