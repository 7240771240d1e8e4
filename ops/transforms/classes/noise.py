"""Noise, and changes in HSV.

The noise of a value follows from a key that is drawn, and from the value's place in its image: it
is the same at any number of threads, in any batch and on any device.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..arguments import check_channels, fail, flag, interval, is_sequence, number, symmetric, whole
from ..base import KEY, OperationStep, fixed, limits, real
from ..chain.integers import WHITES
from ..chain.pixel_kinds import PixelKind
from ..chain.plan import Plan

__all__ = ["JPEG", "GaussianNoise", "HueSaturationValue", "RandomHSV", "SaltAndPepper", "ShotNoise"]

_TINY = math.nextafter(0.0, 1.0)


class GaussianNoise(OperationStep):
    """Add normally distributed noise to every value.

    torchvision's transform of this name.

    Parameters
    ----------
    mean : float
        With white at 1.
    sigma : float or pair of float
        Standard deviation, with white at 1, or its range.
    clip : bool
        Keep values between black and white. Otherwise uint8 wraps around.
    p : float
        Probability, for each sample; torchvision has none.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: sigma, mean, clip, key. Noise for uint8 is
    cut off to integers before it is added, as in torchvision. Normal numbers reach 4.85.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> noisy = transforms.Compose([transforms.GaussianNoise(sigma=0.1)], seed=0)
    >>> image = noisy(torch.full((3, 64, 64), 0.5), index=3)
    >>> 0.09 < float(image.std()) < 0.11
    True
    """

    kind = PixelKind.GAUSSIAN_NOISE

    def __init__(
        self,
        mean: float = 0.0,
        sigma: float | Sequence[float] = 0.1,
        clip: bool = True,
        p: float = 1.0,
    ) -> None:
        owner, allowed = "GaussianNoise", "a number >= 0 or two (min, max)"
        own_mean = number(owner, "mean", mean)
        own_sigma = limits(owner, "sigma", sigma, 0.0, np.inf, allowed)
        self.clip = flag(owner, "clip", clip)
        super().__init__(p, [real(own_sigma), fixed(own_mean), fixed(self.clip), KEY])
        self.mean, self.sigma = own_mean, own_sigma

    def set_constants(self, plan: Plan) -> None:
        if not self.clip and plan.dtype in WHITES:
            raise TypeError(
                "visops.transforms.GaussianNoise: clip is False, the image has dtype "
                f"{plan.dtype}; must be uint8, which wraps around, or floating"
            )


class ShotNoise(OperationStep):
    """Count photons, as a sensor does: noise that grows with the light.

    albumentations' transform of this name: values are made linear by a gamma of 2.2, divided by a
    scale, replaced by Poisson numbers of that mean, and brought back.

    Parameters
    ----------
    scale_range : pair of float
        Range of the scale, with white at 1: larger is noisier.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: scale, key. Means above 64 photons take a
    normal number for the Poisson one. No gradient passes.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.ShotNoise(p=1)(torch.full((3, 8, 8), 128, dtype=torch.uint8)).dtype
    torch.uint8
    """

    kind = PixelKind.SHOT_NOISE

    def __init__(self, scale_range: Sequence[float] = (0.1, 0.3), p: float = 0.5) -> None:
        allowed = "two numbers > 0 (min, max)"
        own = interval("ShotNoise", "scale_range", scale_range, 1e-6, allowed=allowed)
        super().__init__(p, [real(own), KEY])
        self.scale_range = own


class SaltAndPepper(OperationStep):
    """Make some pixels white and others black.

    albumentations' transform of this name, but that each pixel decides for itself, where that one
    picks an exact number of them.

    Parameters
    ----------
    amount : pair of float
        Range of the probability that a pixel changes.
    salt_vs_pepper : pair of float
        Range of the share of white among those that do.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: probability, share of white, key. All
    channels of a pixel change together.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> grey = torch.full((1, 64, 64), 128, dtype=torch.uint8)
    >>> transforms.SaltAndPepper((0.5, 0.5), p=1)(grey).unique()
    tensor([  0, 128, 255], dtype=torch.uint8)
    """

    kind = PixelKind.SALT_AND_PEPPER

    def __init__(
        self,
        amount: Sequence[float] = (0.01, 0.06),
        salt_vs_pepper: Sequence[float] = (0.4, 0.6),
        p: float = 0.5,
    ) -> None:
        owner, allowed = "SaltAndPepper", "two numbers in [0, 1] (min, max)"
        own_amount = interval(owner, "amount", amount, 0.0, 1.0, allowed)
        salt = interval(owner, "salt_vs_pepper", salt_vs_pepper, 0.0, 1.0, allowed)
        super().__init__(p, [real(own_amount), real(salt), KEY])
        self.amount, self.salt_vs_pepper = own_amount, salt


class RandomHSV(OperationStep):
    """Shift the hue, and multiply saturation and value, in HSV: YOLO's colour augmentation.

    Ultralytics' transform of this name, with OpenCV's formulas for uint8: the hue has 180 steps.
    Results are rounded, as by OpenCV's scalar code; its vector code cuts off, a level less.

    Parameters
    ----------
    hgain : float
        Largest shift of the hue, in turns; up to 1.
    sgain, vgain : float
        Largest change of the factors of saturation and value; up to 1.
    p : float
        Probability, for each sample.

    Raises
    ------
    TypeError
        The image doesn't have three channels.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: shift, and both factors minus 1. Floating
    images go through the same formulas without steps. :class:`ColorJitter` has a linear hue, which
    fuses.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> red = torch.tensor([200, 0, 0], dtype=torch.uint8).reshape(3, 1, 1)
    >>> darker = transforms.RandomHSV(0.0, 0.0, 0.5, p=1)(red)
    >>> darker[1:].flatten()
    tensor([0, 0], dtype=torch.uint8)
    """

    kind = PixelKind.HSV

    def __init__(
        self, hgain: float = 0.5, sgain: float = 0.5, vgain: float = 0.5, p: float = 1.0
    ) -> None:
        gains = [
            number("RandomHSV", name, gain, 0.0, 1.0, "a number in [0, 1]")
            for name, gain in (("hgain", hgain), ("sgain", sgain), ("vgain", vgain))
        ]
        super().__init__(p, [real((-gain, gain)) for gain in gains])
        self.hgain, self.sgain, self.vgain = gains

    def set_constants(self, plan: Plan) -> None:
        check_channels("RandomHSV", plan.channels, (3,))


class HueSaturationValue(OperationStep):
    """Shift hue, saturation and value by random numbers, in HSV.

    albumentations' transform of this name, with OpenCV's formulas for uint8.

    Parameters
    ----------
    hue_shift_limit : float or pair of float
        Range of what is added to the hue, which has 180 steps; one number x means [-x, x].
    sat_shift_limit, val_shift_limit : float or pair of float
        Ranges of what is added to saturation and value, in levels of 255, whatever the image's
        dtype; up to 255.
    p : float
        Probability, for each sample.

    Raises
    ------
    TypeError
        The image doesn't have three channels.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: the shift in turns, two zeros, and the shifts
    of saturation and value. Grey pixels stay grey. Floating images go through the same formulas
    without steps; albumentations makes them uint8 first. :class:`RandomHSV` multiplies.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> red = torch.tensor([200, 0, 0], dtype=torch.uint8).reshape(3, 1, 1)
    >>> transforms.HueSaturationValue((60, 60), 0, (50, 50), p=1)(red).flatten()
    tensor([  0, 250,   0], dtype=torch.uint8)
    """

    kind = PixelKind.HSV

    def __init__(
        self,
        hue_shift_limit: float | Sequence[float] = (-20, 20),
        sat_shift_limit: float | Sequence[float] = (-30, 30),
        val_shift_limit: float | Sequence[float] = (-20, 20),
        p: float = 0.5,
    ) -> None:
        given = {"hue": hue_shift_limit, "sat": sat_shift_limit, "val": val_shift_limit}
        hue, saturation, value = (
            symmetric("HueSaturationValue", f"{name}_shift_limit", limit, -most, most)
            for (name, limit), most in zip(given.items(), (180, 255, 255), strict=True)
        )
        turns = tuple(_turns(shift) for shift in hue)
        gains = fixed(0.0), fixed(0.0)
        super().__init__(p, [real((turns[0], turns[1])), *gains, real(saturation), real(value)])
        self.hue_shift_limit, self.sat_shift_limit, self.val_shift_limit = hue, saturation, value

    def set_constants(self, plan: Plan) -> None:
        check_channels("HueSaturationValue", plan.channels, (3,))


def _turns(steps: float) -> float:
    """Return a shift of the hue in turns; a whole number of steps stays one in C++."""
    turns = steps / 180.0
    near = (turns, math.nextafter(turns, math.inf), math.nextafter(turns, -math.inf))
    return next((own for own in near if own * 180.0 == steps), turns)


class JPEG(OperationStep):
    """Change the image as a JPEG file would, written and read again.

    torchvision's transform of this name, with the bits of its ``encode_jpeg`` and ``decode_jpeg``,
    and so of libjpeg-turbo's, Pillow's and OpenCV's, on all devices.

    Parameters
    ----------
    quality : int or pair of int
        From 1 to 100, or its range.
    p : float
        Probability, for each sample; torchvision has none.

    Raises
    ------
    TypeError
        The image has integers other than uint8, or neither 1 nor 3 channels.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: the quality. No file is made: what loses is
    computed, and the coding, which loses nothing, is left out. Floating images, which torchvision
    refuses, are rounded to 256 levels and back. No gradient passes.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.arange(64, dtype=torch.uint8).view(1, 8, 8)
    >>> transforms.JPEG(10)(image)[0, :, 0]
    tensor([ 7, 10, 16, 24, 32, 40, 46, 49], dtype=torch.uint8)
    """

    kind = PixelKind.JPEG

    def __init__(self, quality: int | Sequence[int], p: float = 1.0) -> None:
        allowed = "a whole number from 1 to 100, or two (min, max)"
        given: Any = quality if is_sequence(quality) else (quality, quality)
        if len(given) != 2:
            fail("JPEG", "quality", quality, allowed)
        low, high = (whole("JPEG", "quality", value, 1, allowed, 100) for value in given)
        if low > high:
            fail("JPEG", "quality", quality, f"{allowed}, the smaller first")
        super().__init__(p, [(float(low), float(high), 1)])
        self.quality = (low, high)

    def set_constants(self, plan: Plan) -> None:
        bytes_or_floats = plan.dtype == torch.uint8 or plan.dtype.is_floating_point
        if not bytes_or_floats or plan.channels not in (1, 3):
            raise TypeError(
                f"visops.transforms.JPEG: images have dtype {plan.dtype} and {plan.channels} "
                "channels, must be uint8 or floating and have 1 or 3"
            )
