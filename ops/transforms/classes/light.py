"""Light and shadow on images: albumentations' gradients, plasmas, polygons and curves."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..._native import make_fields
from ..arguments import (
    check_channels,
    fail,
    interval,
    is_sequence,
    number,
    one_of,
    whole,
    whole_range,
)
from ..base import KEY, Keyed, OperationStep, fixed, real
from ..chain.pixel_kinds import PixelKind
from ..chain.plan import Plan
from ..chain.random import Numbers

__all__ = [
    "Illumination",
    "PlasmaBrightnessContrast",
    "PlasmaShadow",
    "RandomShadow",
    "RandomSnow",
]


class Illumination(OperationStep):
    """Brighten or darken a side, a corner or a spot of the image.

    albumentations' transform of this name.

    Parameters
    ----------
    mode : {"linear", "corner", "gaussian"}
        A gradient of any angle, the distance from a random corner, or a spot.
    intensity_range : pair of float
        Range of the strength, in [0, 1].
    effect_type : {"both", "brighten", "darken"}
    angle_range : pair of float
        Range of the gradient's angle in degrees.
    center_range : pair of float
        Range of the spot's place along each side, as a share of it.
    sigma_range : pair of float
        Range of the spot's standard deviation, as a share of the longer side.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: strength, number of the mode, three numbers
    (the angle; the corner's; the spot's place and standard deviation), whether it darkens.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> light = transforms.Illumination(p=1, effect_type="darken", mode="corner")
    >>> bool((light(torch.ones(1, 8, 8)) <= 1).all())
    True
    """

    kind = PixelKind.ILLUMINATION

    def __init__(
        self,
        mode: Literal["linear", "corner", "gaussian"] = "linear",
        intensity_range: Sequence[float] = (0.01, 0.2),
        effect_type: Literal["both", "brighten", "darken"] = "both",
        angle_range: Sequence[float] = (0, 360),
        center_range: Sequence[float] = (0.1, 0.9),
        sigma_range: Sequence[float] = (0.2, 1.0),
        p: float = 0.5,
    ) -> None:
        owner, shares = "Illumination", "two numbers in [0, 1] (min, max)"
        modes = ("linear", "corner", "gaussian")
        one_of(owner, "mode", mode, modes)
        one_of(owner, "effect_type", effect_type, ("both", "brighten", "darken"))
        strengths = interval(owner, "intensity_range", intensity_range, 0, 1, shares)
        angles = interval(owner, "angle_range", angle_range)
        centers = interval(owner, "center_range", center_range, 0, 1, shares)
        allowed = "two numbers > 0 (min, max)"
        sigmas = interval(owner, "sigma_range", sigma_range, 1e-6, allowed=allowed)
        places = {
            "linear": (real(angles), fixed(0), fixed(0)),
            "corner": ((0.0, 3.0, 1), fixed(0), fixed(0)),
            "gaussian": (real(centers), real(centers), real(sigmas)),
        }
        darkens = (0.0, 1.0, 1) if effect_type == "both" else fixed(effect_type == "darken")
        super().__init__(p, [real(strengths), fixed(modes.index(mode)), *places[mode], darkens])
        self.mode, self.effect_type, self.intensity_range = mode, effect_type, strengths
        self.angle_range, self.center_range, self.sigma_range = angles, centers, sigmas


def _shaded(image: Tensor, factor: Tensor) -> Tensor:
    """Multiply the pixels of an image, those of bytes as levels."""
    if image.dtype is torch.uint8:
        return _as_bytes(image.float().mul_(factor))
    return image * factor


def _as_bytes(levels: Tensor) -> Tensor:
    """Round levels of bytes, in place. By way of int32 torch takes less time."""
    return levels.round_().clamp_(0.0, 255.0).to(torch.int32).to(torch.uint8)


def _map_type(image: Tensor) -> dict[str, Any]:
    """Return dtype and device of numbers that pixels are computed with."""
    dtype = torch.float32 if image.dtype is torch.uint8 else image.dtype
    return {"dtype": dtype, "device": image.device}


def _plasma(numbers: Numbers, shape: Sequence[int], roughness: float) -> np.ndarray:
    """Return clouds in [0, 1], ``[H, W]``: albumentations' form of diamonds and squares."""
    height, width = shape
    clouds = np.empty((height, width), np.float32)
    values = {"key": numbers.next(), "roughness": roughness}
    make_fields([("clouds", values, height, width, clouds.ctypes.data)])
    return clouds


class _Plasma(Keyed):
    """Has clouds of a roughness."""

    rounds_bytes = True

    def take_roughness(self, roughness: float) -> None:
        owner, allowed = type(self).__name__, "a number in (0, 20]"
        self.roughness = number(owner, "roughness", roughness, 1e-6, 20.0, allowed)

    def clouds(self, image: Tensor, drawn: np.ndarray) -> Tensor:
        return torch.from_numpy(drawn).to(**_map_type(image))


class PlasmaBrightnessContrast(_Plasma):
    """Change brightness and contrast, here more and there less, as random clouds say.

    albumentations' transform of this name.

    Parameters
    ----------
    brightness_range : pair of float
        Range of what is added where clouds are densest, with white at 1.
    contrast_range : pair of float
        Range of what is added there to the factor of the distance from the image's mean.
    roughness : float
        The factor of the noise from each scale of the clouds to the next finer one.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``key``. Values are clamped after each of the two changes. albumentations
    takes negative amounts for 0, and its contrast darkens what is bright.

    Source: A. Fournier et al., "Computer rendering of stochastic models", CACM 1982.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.PlasmaBrightnessContrast(p=1)(torch.rand(3, 20, 30)).shape
    torch.Size([3, 20, 30])
    """

    def __init__(
        self,
        brightness_range: Sequence[float] = (-0.3, 0.3),
        contrast_range: Sequence[float] = (-0.3, 0.3),
        roughness: float = 3.0,
        p: float = 0.5,
    ) -> None:
        super().__init__()
        owner, allowed = "PlasmaBrightnessContrast", "two numbers in [-1, 1] (min, max)"
        self.brightness_range = interval(
            owner, "brightness_range", brightness_range, -1.0, 1.0, allowed
        )
        self.contrast_range = interval(owner, "contrast_range", contrast_range, -1.0, 1.0, allowed)
        self.take_roughness(roughness)
        self.take_p(p)

    def draw(self, numbers: Numbers, shape: Sequence[int]) -> tuple[float, float, np.ndarray]:
        ranges = self.brightness_range, self.contrast_range
        brightness, contrast = (numbers.between(ends) for ends in ranges)
        return brightness, contrast, _plasma(numbers, shape[1:], self.roughness)

    def change(self, image: Tensor, drawn: tuple[float, float, np.ndarray]) -> Tensor:
        brightness, contrast, plasma = drawn
        clouds = self.clouds(image, plasma)
        white = 255.0 if image.dtype is torch.uint8 else 1.0
        lighter = (image + (brightness * white) * clouds).clamp_(0.0, white)
        mean = lighter.mean()
        found = lighter.sub_(mean).mul_(1.0 + contrast * clouds).add_(mean)
        return _as_bytes(found) if image.dtype is torch.uint8 else found


class PlasmaShadow(_Plasma):
    """Darken the image as random clouds say.

    albumentations' transform of this name.

    Parameters
    ----------
    shadow_intensity_range : pair of float
        Range of the share of light that is lost where clouds are densest.
    roughness : float
        The factor of the noise from each scale of the clouds to the next finer one.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``key``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> bool(transforms.PlasmaShadow(p=1)(torch.ones(3, 20, 30)).min() < 0.8)
    True
    """

    def __init__(
        self,
        shadow_intensity_range: Sequence[float] = (0.3, 0.7),
        roughness: float = 3.0,
        p: float = 0.5,
    ) -> None:
        super().__init__()
        owner, allowed = "PlasmaShadow", "two numbers in [0, 1] (min, max)"
        self.shadow_intensity_range = interval(
            owner, "shadow_intensity_range", shadow_intensity_range, 0.0, 1.0, allowed
        )
        self.take_roughness(roughness)
        self.take_p(p)

    def draw(self, numbers: Numbers, shape: Sequence[int]) -> tuple[float, np.ndarray]:
        strength = numbers.between(self.shadow_intensity_range)
        return strength, _plasma(numbers, shape[1:], self.roughness)

    def change(self, image: Tensor, drawn: tuple[float, np.ndarray]) -> Tensor:
        strength, plasma = drawn
        return _shaded(image, 1.0 - strength * self.clouds(image, plasma))


class RandomShadow(OperationStep):
    """Darken random polygons.

    albumentations' transform of this name.

    Parameters
    ----------
    shadow_roi : 4 of float
        Where corners may be: left, top, right and bottom, as shares of the image's sides.
    num_shadows_limit : pair of int
        Range of the number of polygons.
    shadow_dimension : int
        Corners of each; edges may cross.
    shadow_intensity_range : pair of float
        Range of the share of light that is lost.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: number of polygons, key, `shadow_roi`,
    corners, limits of the light that is lost. A pixel is in the shadow where its middle is, and an
    odd number of edges lies on one side of it; albumentations adds the pixels that edges touch.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> shadow = transforms.RandomShadow(num_shadows_limit=(1, 1), p=1)
    >>> shadow(torch.ones(1, 60, 60))[:, 30:].unique()
    tensor([0.5000, 1.0000])
    """

    kind = PixelKind.SHADOWS

    def __init__(
        self,
        shadow_roi: Sequence[float] = (0, 0.5, 1, 1),
        num_shadows_limit: Sequence[int] = (1, 2),
        shadow_dimension: int = 5,
        shadow_intensity_range: Sequence[float] = (0.5, 0.5),
        p: float = 0.5,
    ) -> None:
        owner, allowed = "RandomShadow", "four numbers in [0, 1]: left, top, right, bottom"
        if not is_sequence(shadow_roi) or len(shadow_roi) != 4:
            fail(owner, "shadow_roi", shadow_roi, allowed)
        left, top, right, bottom = shadow_roi
        x, y = (
            interval(owner, "shadow_roi", ends, 0.0, 1.0, allowed, shadow_roi)
            for ends in ((left, right), (top, bottom))
        )
        low, high = whole_range(owner, "num_shadows_limit", num_shadows_limit, 1, 1000)
        allowed = "a whole number >= 3 and <= 1000"
        corners = whole(owner, "shadow_dimension", shadow_dimension, 3, allowed, 1000)
        allowed = "two numbers in [0, 1] (min, max)"
        dark = interval(owner, "shadow_intensity_range", shadow_intensity_range, 0.0, 1.0, allowed)
        place = x[0], y[0], x[1], y[1]
        numbers = map(fixed, (*place, corners, *dark))
        super().__init__(p, [(float(low), float(high), 1), KEY, *numbers])
        self.shadow_roi, self.num_shadows_limit = place, (low, high)
        self.shadow_dimension, self.shadow_intensity_range = corners, dark


class RandomSnow(OperationStep):
    """Brighten dark colours until they look like snow.

    albumentations' transform of this name, with its ``method="bleach"``.

    Parameters
    ----------
    brightness_coeff : float
        The factor of the lightness of dark pixels; hue and saturation stay.
    snow_point_range : pair of float
        Range of s: pixels are dark below a lightness of 1/3 + s/2.
    p : float
        Probability, for each sample.

    Raises
    ------
    ValueError
        The image doesn't have three channels.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: the factor, and the lightness below which
    pixels are dark. albumentations rounds lightness and saturation to 256 levels.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> snow = transforms.RandomSnow(p=1)
    >>> snow(torch.tensor([0.2, 0.2, 0.2]).reshape(3, 1, 1)).flatten()
    tensor([0.5000, 0.5000, 0.5000])
    """

    kind = PixelKind.BLEACH

    def __init__(
        self,
        brightness_coeff: float = 2.5,
        snow_point_range: Sequence[float] = (0.1, 0.3),
        p: float = 0.5,
    ) -> None:
        owner, allowed = "RandomSnow", "a number in (0, 100]"
        factor = number(owner, "brightness_coeff", brightness_coeff, 1e-6, 100.0, allowed)
        allowed = "two numbers in [0, 1] (min, max)"
        points = interval(owner, "snow_point_range", snow_point_range, 0.0, 1.0, allowed)
        super().__init__(p, [fixed(factor), real([1.0 / 3.0 + point / 2.0 for point in points])])
        self.brightness_coeff, self.snow_point_range = factor, points

    def set_constants(self, plan: Plan) -> None:
        check_channels("RandomSnow", plan.channels, (3,))
