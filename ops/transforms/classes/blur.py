"""Transforms that read neighbours: blurs, sharpening, CLAHE, downscaling.

They run in C++, one after another in place, and only on the samples that have drawn them. Images
are mirrored at the rim.
"""

import math
from collections.abc import Sequence
from typing import Any

from ..._native import Step
from ..arguments import fail, flag, interval, is_sequence, number, whole
from ..base import (
    MOST_SQUARE_TAPS,
    MOST_TAPS,
    Builtin,
    OperationStep,
    fixed,
    limits,
    odd_sides,
    real,
)
from ..chain.effects import Effects
from ..chain.pixel_kinds import PixelKind

__all__ = [
    "CLAHE",
    "Blur",
    "Downscale",
    "Emboss",
    "GaussianBlur",
    "MedianBlur",
    "MotionBlur",
    "Sharpen",
    "UnsharpMask",
]

_SHARES = "two numbers in [0, 1] (min, max)"


class Blur(OperationStep):
    """Average over a square of a random side, with probability `p`.

    albumentations' transform of this name.

    Parameters
    ----------
    blur_limit : int or pair of int
        Range of the side in pixels, odd; one number x means (3, x).
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: the side.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.zeros(1, 3, 3)
    >>> image[0, 1, 1] = 9.0
    >>> transforms.Blur(3, p=1)(image)[0, 1]
    tensor([2., 1., 2.])
    """

    kind = PixelKind.BOX_BLUR

    def __init__(self, blur_limit: int | Sequence[int] = (3, 7), p: float = 0.5) -> None:
        side = odd_sides("Blur", "blur_limit", blur_limit)
        super().__init__(p, [side])
        self.blur_limit = (int(side[0]), int(side[1]))


class MedianBlur(OperationStep):
    """Take the median of a square of a random side, with probability `p`.

    albumentations' transform of this name, with ``cv2.medianBlur``'s values: the rim is repeated.

    Parameters
    ----------
    blur_limit : int or pair of int
        Range of the side in pixels, odd; one number x means (3, x).
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: the side. Floating images are not brought to
    256 levels, as albumentations does. For sides of 7 and more, NaN is greater than all numbers.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.zeros(1, 3, 3)
    >>> image[0, 1, 1] = 9.0
    >>> float(transforms.MedianBlur(3, p=1)(image).max())
    0.0
    """

    kind = PixelKind.MEDIAN_BLUR

    def __init__(self, blur_limit: int | Sequence[int] = (3, 7), p: float = 0.5) -> None:
        side = odd_sides("MedianBlur", "blur_limit", blur_limit)
        super().__init__(p, [side])
        self.blur_limit = (int(side[0]), int(side[1]))


class MotionBlur(OperationStep):
    """Blur along a line, with probability `p`.

    albumentations' transform of this name.

    Parameters
    ----------
    blur_limit : int or pair of int
        Range of the line's length in pixels, odd; one number x means (3, x).
    allow_shifted : bool
        Whether the line may lie beside the pixel.
    angle_range : pair of float
        In degrees, clockwise on screen.
    direction_range : pair of float
        Whether the line reaches backward (-1), forward (1) or to both sides (0).
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: length, angle, direction, shifts x and y in
    quarters of the length.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.zeros(1, 3, 3)
    >>> image[0, 1, 1] = 9.0
    >>> straight = transforms.MotionBlur(3, False, (0, 0), (0, 0), p=1)
    >>> straight(image)[0, 1]
    tensor([6., 3., 6.])
    """

    kind = PixelKind.MOTION_BLUR

    def __init__(
        self,
        blur_limit: int | Sequence[int] = (3, 7),
        allow_shifted: bool = True,
        angle_range: Sequence[float] = (0, 360),
        direction_range: Sequence[float] = (-1.0, 1.0),
        p: float = 0.5,
    ) -> None:
        owner = "MotionBlur"
        side = odd_sides(owner, "blur_limit", blur_limit, MOST_SQUARE_TAPS)
        angle = interval(owner, "angle_range", angle_range)
        allowed = "two numbers in [-1, 1] (min, max)"
        direction = interval(owner, "direction_range", direction_range, -1.0, 1.0, allowed)
        self.allow_shifted = flag(owner, "allow_shifted", allow_shifted)
        shift = real((-1.0, 1.0)) if self.allow_shifted else fixed(0.0)
        super().__init__(p, [side, real(angle), real(direction), shift, shift])
        self.blur_limit = int(side[0]), int(side[1])
        self.angle_range, self.direction_range = angle, direction


class UnsharpMask(OperationStep):
    """Enlarge what a blur takes away, with probability `p`.

    albumentations' transform of this name.

    Parameters
    ----------
    blur_limit : int or pair of int
        Range of the blur's side in pixels, odd; one number x means (3, x).
    sigma_limit : float or pair of float
        Range of the blur's standard deviation; 0 lets it follow from the side.
    alpha : pair of float
        Range of the share of the difference that is added.
    threshold : int
        Differences of fewer levels of 255 stay.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: alpha, side, sigma, threshold.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.UnsharpMask(p=1)(torch.rand(3, 8, 8)).shape
    torch.Size([3, 8, 8])
    """

    kind = PixelKind.UNSHARP_MASK

    def __init__(
        self,
        blur_limit: int | Sequence[int] = (3, 7),
        sigma_limit: float | Sequence[float] = 0.0,
        alpha: Sequence[float] = (0.2, 0.5),
        threshold: int = 10,
        p: float = 0.5,
    ) -> None:
        owner, allowed = "UnsharpMask", "a number >= 0 or two (min, max)"
        side = odd_sides(owner, "blur_limit", blur_limit)
        sigma = limits(owner, "sigma_limit", sigma_limit, 0.0, math.inf, allowed)
        share = interval(owner, "alpha", alpha, 0.0, 1.0, _SHARES)
        levels = whole(owner, "threshold", threshold, 0, "a whole number from 0 to 255", 255)
        super().__init__(p, [real(share), side, real(sigma), fixed(levels)])
        self.blur_limit, self.sigma_limit = (int(side[0]), int(side[1])), sigma
        self.alpha, self.threshold = share, levels


class Sharpen(OperationStep):
    """Blend with a sharpened image, with probability `p`.

    albumentations' transform of this name, by its kernel.

    Parameters
    ----------
    alpha : pair of float
        Range of the sharpened image's share.
    lightness : pair of float
        Range of its lightness.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: alpha, lightness. :class:`UnsharpMask` is the
    Gaussian way.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.Sharpen((1, 1), (1, 1), p=1)(torch.full((1, 3, 3), 0.5))[0, 1]
    tensor([0.5000, 0.5000, 0.5000])
    """

    kind = PixelKind.SHARPEN

    def __init__(
        self,
        alpha: Sequence[float] = (0.2, 0.5),
        lightness: Sequence[float] = (0.5, 1.0),
        p: float = 0.5,
    ) -> None:
        share = interval("Sharpen", "alpha", alpha, 0.0, 1.0, _SHARES)
        light = interval("Sharpen", "lightness", lightness, 0.0)
        super().__init__(p, [real(share), real(light)])
        self.alpha, self.lightness = share, light


class Emboss(OperationStep):
    """Blend with an embossed image, with probability `p`.

    albumentations' transform of this name.

    Parameters
    ----------
    alpha : pair of float
        Range of the embossed image's share.
    strength : pair of float
        Range of its strength.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: alpha, strength.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.Emboss(p=1)(torch.full((1, 3, 3), 0.5))[0, 1]
    tensor([0.5000, 0.5000, 0.5000])
    """

    kind = PixelKind.EMBOSS

    def __init__(
        self,
        alpha: Sequence[float] = (0.2, 0.5),
        strength: Sequence[float] = (0.2, 0.7),
        p: float = 0.5,
    ) -> None:
        share = interval("Emboss", "alpha", alpha, 0.0, 1.0, _SHARES)
        force = interval("Emboss", "strength", strength, 0.0)
        super().__init__(p, [real(share), real(force)])
        self.alpha, self.strength = share, force


class CLAHE(OperationStep):
    """Equalize histograms within tiles, with limited contrast and probability `p`.

    albumentations' transform of this name, with ``cv2.createCLAHE``'s values: of three channels, of
    the lightness of CIE Lab; of others, of each.

    Parameters
    ----------
    clip_limit : float or pair of float
        Range of the limit; one number x means (1, x). 0 doesn't limit.
    tile_grid_size : pair of int
        Tiles along x and y.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: clip limit, rows and columns of tiles. One
    channel has OpenCV's values. Colours go through Lab in float32 instead of its fixed point: most
    differ by a few levels, some by 16 and more. Floating images are brought to 256 levels. On a
    GPU, images in float64 or that track a gradient, and all with more than 256 rows or columns of
    tiles, are copied to the CPU for it. No gradient passes.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.arange(64, dtype=torch.uint8).reshape(1, 8, 8)
    >>> int(transforms.CLAHE((40, 40), (1, 1), p=1)(image).max())
    255
    """

    kind = PixelKind.CLAHE

    def __init__(
        self,
        clip_limit: float | Sequence[float] = 4.0,
        tile_grid_size: Sequence[int] = (8, 8),
        p: float = 0.5,
    ) -> None:
        owner, allowed = "CLAHE", "a number >= 1 or two >= 0 (min, max)"
        given: Any = clip_limit
        if not is_sequence(clip_limit):
            given = (1.0, number(owner, "clip_limit", clip_limit, 1.0, allowed=allowed))
        clip = interval(owner, "clip_limit", given, 0.0, allowed=allowed)
        # Each tile has a table of its own, whether pixels lie in it or not.
        most = 1024
        allowed = f"two whole numbers >= 1 and <= {most} (x, y)"
        if not is_sequence(tile_grid_size) or len(tile_grid_size) != 2:
            fail(owner, "tile_grid_size", tile_grid_size, allowed)
        x, y = (whole(owner, "tile_grid_size", v, 1, allowed, most) for v in tile_grid_size)
        super().__init__(p, [real(clip), fixed(y), fixed(x)])
        self.clip_limit, self.tile_grid_size = clip, (x, y)


class Downscale(OperationStep):
    """Make the image small and large again, by the nearest pixels, with probability `p`.

    albumentations' transform of this name, with its default interpolations.

    Parameters
    ----------
    scale_range : pair of float
        Range of the smaller image's share of the sides, in (0, 1).
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: scale.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> row = torch.arange(8.0).reshape(1, 1, 8)
    >>> transforms.Downscale((0.5, 0.5), p=1)(row)
    tensor([[[0., 0., 2., 2., 4., 4., 6., 6.]]])
    """

    kind = PixelKind.DOWNSCALE

    def __init__(self, scale_range: Sequence[float] = (0.25, 0.25), p: float = 0.5) -> None:
        allowed = "two numbers in (0, 1) (min, max)"
        own = interval("Downscale", "scale_range", scale_range, 1e-6, 1.0 - 1e-9, allowed)
        super().__init__(p, [real(own)])
        self.scale_range = own


class GaussianBlur(Builtin):
    """Blur the image with a Gaussian of a random width.

    Arguments and distribution match torchvision's.

    Parameters
    ----------
    kernel_size : int or pair of int
        Width and height of the kernel in pixels, odd.
    sigma : float or pair of float
        Standard deviation in pixels, or its range.

    Raises
    ------
    ValueError
        An argument is wrong; the image is not larger than half of the kernel.

    Notes
    -----
    Parameters: ``sigma``. The image is mirrored at its rim. Masks, boxes and key points stay as
    they are.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.zeros(1, 5, 5)
    >>> image[0, 2, 2] = 1.0
    >>> transforms.GaussianBlur(3, sigma=0.8)(image)[0, 2]
    tensor([0.0000, 0.1248, 0.2725, 0.1248, 0.0000])
    """

    def __init__(
        self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)
    ) -> None:
        super().__init__()
        owner = "GaussianBlur"
        allowed = f"an odd whole number or two of them (width, height), at most {MOST_TAPS}"
        given: Any = kernel_size if is_sequence(kernel_size) else (kernel_size, kernel_size)
        sizes = [whole(owner, "kernel_size", size, 1, allowed, MOST_TAPS) for size in given]
        if len(sizes) != 2 or any(size % 2 == 0 for size in sizes):
            fail(owner, "kernel_size", kernel_size, allowed)
        self.kernel_size: tuple[int, int] = (sizes[0], sizes[1])
        allowed = "a number > 0 or two of them (min, max)"
        tiny = math.nextafter(0.0, 1.0)
        if is_sequence(sigma) and len(sigma) == 1:  # torchvision's second version takes one
            sigma = sigma[0]
        if is_sequence(sigma):
            self.sigma = interval(owner, "sigma", sigma, tiny, allowed=allowed)
        else:
            self.sigma = (number(owner, "sigma", sigma, tiny, allowed=allowed),) * 2

    def changes_values(self) -> bool:
        return True

    def effects(self) -> Effects:
        return Effects()

    def chain_step(self) -> Step | None:
        return Step("GaussianBlur", {"kernel_size": self.kernel_size, "sigma": self.sigma})
