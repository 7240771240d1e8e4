"""Light and shadow on images: albumentations' gradients, plasmas, polygons and curves."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..arguments import fail, interval, is_sequence, number, one_of, whole, whole_range
from ..base import Keyed
from ..chain.random import Numbers

__all__ = [
    "Illumination",
    "PlasmaBrightnessContrast",
    "PlasmaShadow",
    "RandomShadow",
    "RandomSnow",
]


class Illumination(Keyed):
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
    Parameters: ``apply``, ``key``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> light = transforms.Illumination(p=1, effect_type="darken", mode="corner")
    >>> bool((light(torch.ones(1, 8, 8)) <= 1).all())
    True
    """

    def __init__(
        self,
        mode: str = "linear",
        intensity_range: Sequence[float] = (0.01, 0.2),
        effect_type: str = "both",
        angle_range: Sequence[float] = (0, 360),
        center_range: Sequence[float] = (0.1, 0.9),
        sigma_range: Sequence[float] = (0.2, 1.0),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        owner, shares = "Illumination", "two numbers in [0, 1] (min, max)"
        one_of(owner, "mode", mode, ("linear", "corner", "gaussian"))
        one_of(owner, "effect_type", effect_type, ("both", "brighten", "darken"))
        self.mode, self.effect_type = mode, effect_type
        self.intensity_range = interval(owner, "intensity_range", intensity_range, 0, 1, shares)
        self.angle_range = interval(owner, "angle_range", angle_range)
        self.center_range = interval(owner, "center_range", center_range, 0, 1, shares)
        allowed = "two numbers > 0 (min, max)"
        self.sigma_range = interval(owner, "sigma_range", sigma_range, 1e-6, allowed=allowed)
        self.take_p(p)

    def draw(self, numbers: Numbers, shape: Sequence[int]) -> tuple[float, ...]:
        """Return the strength, and the angle, the corner's number, or the spot's place and size."""
        strength = numbers.between(self.intensity_range)
        darkens = numbers.next() < 0.5 if self.effect_type == "both" else None
        if darkens or self.effect_type == "darken":
            strength = -strength
        if self.mode == "linear":
            return strength, numbers.between(self.angle_range)
        if self.mode == "corner":
            return strength, float(numbers.whole(4))
        x, y = numbers.between(self.center_range), numbers.between(self.center_range)
        return strength, x, y, numbers.between(self.sigma_range)

    def change(self, image: Tensor, drawn: tuple[float, ...]) -> Tensor:
        height, width = image.shape[1:]
        strength, *place = drawn
        kinds = {"dtype": image.dtype, "device": image.device}
        x, y = torch.arange(width, **kinds), torch.arange(height, **kinds)[:, None]  # type: ignore[call-overload]
        if self.mode == "linear":
            factor = _slope(x, y, place[0])
            factor = (factor if strength >= 0 else 1.0 - factor) * (2.0 * abs(strength))
            factor = factor + (1.0 - abs(strength))
        elif self.mode == "corner":
            right, bottom = ((0, 0), (1, 0), (1, 1), (0, 1))[int(place[0])]
            distance = torch.hypot(x - right * (width - 1), y - bottom * (height - 1))
            factor = 1.0 - strength * distance / math.hypot(height, width)
        else:
            square = (x - width * place[0]) ** 2 + (y - height * place[1]) ** 2
            factor = 1.0 + strength * torch.exp(
                -square / (2 * (max(height, width) * place[2]) ** 2)
            )
        return image * factor


def _slope(x: Tensor, y: Tensor, angle: float) -> Tensor:
    """Return albumentations' gradient: of a multiple of 45 degrees from 0 to 1, else not so."""
    x, y = torch.broadcast_tensors(x / max(len(x) - 1, 1), y / max(len(y) - 1, 1))
    across, down = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    if angle % 45 != 0:
        return x * across + y * down
    x, y = (own if way > -1e-9 else 1.0 - own for own, way in ((x, across), (y, down)))
    if angle % 90 == 0:
        return x if abs(across) > 0.5 else y
    return (x + y) / 2.0


def _plasma(numbers: Numbers, shape: Sequence[int], roughness: float) -> np.ndarray:
    """Return clouds in [0, 1], ``[H, W]``: albumentations' form of diamonds and squares."""
    steps = max(math.ceil(math.log2(max(*shape, 4) - 1)) - 1, 1)
    grid = 2.0 * numbers.array(3, 3).astype(np.float32) - 1.0
    for step in range(steps):
        height, width = (2 * side - 1 for side in grid.shape)
        noise = (2.0 * numbers.array(height, width).astype(np.float32) - 1.0) * roughness**step
        padded = np.zeros((height + 2, width + 2), np.float32)
        wide = padded[1:-1, 1:-1]
        wide[::2, ::2] = grid + noise[::2, ::2]
        for offsets in (((0, 0), (0, 2), (2, 0), (2, 2)), ((0, 1), (2, 1), (1, 0), (1, 2))):
            mean = sum(padded[y : y + height, x : x + width] for y, x in offsets) * 0.25
            wide += (mean + noise) * (mean > 0)
        grid = _stretched(wide)
    return _stretched(grid[: shape[0], : shape[1]])


def _stretched(grid: np.ndarray) -> np.ndarray:
    low, high = grid.min(), grid.max()
    found: np.ndarray = (grid - low) / (high - low) if high > low else np.zeros_like(grid)
    return found


class _Plasma(Keyed):
    """Has clouds of a roughness."""

    def take_roughness(self, roughness: float) -> None:
        owner, allowed = type(self).__name__, "a number in (0, 20]"
        self.roughness = number(owner, "roughness", roughness, 1e-6, 20.0, allowed)

    def clouds(self, image: Tensor, drawn: np.ndarray) -> Tensor:
        return torch.from_numpy(drawn).to(image.device, image.dtype)


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
        image = (image + brightness * clouds).clamp(0.0, 1.0)
        mean = image.mean()
        return mean + (image - mean) * (1.0 + contrast * clouds)


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
        return image * (1.0 - strength * self.clouds(image, plasma))


class RandomShadow(Keyed):
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
    Parameters: ``apply``, ``key``. A pixel is in the shadow where its middle is, and an odd number
    of edges lies on one side of it; albumentations adds the pixels that edges touch.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> shadow = transforms.RandomShadow(p=1, shadow_intensity_range=(0.5, 0.5))
    >>> shadow(torch.ones(1, 60, 60))[:, 30:].unique()
    tensor([0.2500, 0.5000, 1.0000])
    """

    def __init__(
        self,
        shadow_roi: Sequence[float] = (0, 0.5, 1, 1),
        num_shadows_limit: Sequence[int] = (1, 2),
        shadow_dimension: int = 5,
        shadow_intensity_range: Sequence[float] = (0.5, 0.5),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        owner, allowed = "RandomShadow", "four numbers in [0, 1]: left, top, right, bottom"
        if not is_sequence(shadow_roi) or len(shadow_roi) != 4:
            fail(owner, "shadow_roi", shadow_roi, allowed)
        left, top, right, bottom = shadow_roi
        x, y = (
            interval(owner, "shadow_roi", ends, 0.0, 1.0, allowed, shadow_roi)
            for ends in ((left, right), (top, bottom))
        )
        self.shadow_roi = (x[0], y[0], x[1], y[1])
        self.num_shadows_limit = whole_range(owner, "num_shadows_limit", num_shadows_limit, 1, 1000)
        self.shadow_dimension = whole(
            owner, "shadow_dimension", shadow_dimension, 3, "a whole number >= 3 and <= 1000", 1000
        )
        allowed = "two numbers in [0, 1] (min, max)"
        self.shadow_intensity_range = interval(
            owner, "shadow_intensity_range", shadow_intensity_range, 0.0, 1.0, allowed
        )
        self.take_p(p)

    def draw(self, numbers: Numbers, shape: Sequence[int]) -> list[tuple[float, np.ndarray]]:
        """Return the strength and the corners (x, y) of each polygon."""
        height, width = shape[1:]
        left, top, right, bottom = self.shadow_roi
        first = np.floor((left * width, top * height))
        size = np.maximum(np.floor((right * width, bottom * height)) - first, 1.0)
        low, high = self.num_shadows_limit
        return [
            (
                numbers.between(self.shadow_intensity_range),
                first + np.floor(numbers.array(self.shadow_dimension, 2) * size),
            )
            for _ in range(low + numbers.whole(high - low + 1))
        ]

    def change(self, image: Tensor, drawn: list[tuple[float, np.ndarray]]) -> Tensor:
        height, width = image.shape[1:]
        x, y = (
            torch.arange(side, dtype=torch.float64, device=image.device) for side in (width, height)
        )
        for strength, corners in drawn:
            inside = torch.zeros(height, width, dtype=torch.bool, device=image.device)
            ends = np.roll(corners, -1, 0).tolist()
            for (x1, y1), (x2, y2) in zip(corners.tolist(), ends, strict=True):
                if y1 != y2:
                    crosses = (y >= min(y1, y2)) & (y < max(y1, y2))
                    at = x1 + (y - y1) * ((x2 - x1) / (y2 - y1))
                    inside ^= crosses[:, None] & (x < at[:, None])
            image = torch.where(inside, image * (1.0 - strength), image)
        return image


class RandomSnow(Keyed):
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
    Parameters: ``apply``, ``key``. albumentations rounds lightness and saturation to 256 levels.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> snow = transforms.RandomSnow(p=1)
    >>> snow(torch.tensor([0.2, 0.2, 0.2]).reshape(3, 1, 1)).flatten()
    tensor([0.5000, 0.5000, 0.5000])
    """

    channels = (3,)

    def __init__(
        self,
        brightness_coeff: float = 2.5,
        snow_point_range: Sequence[float] = (0.1, 0.3),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        owner, allowed = "RandomSnow", "a number in (0, 100]"
        self.brightness_coeff = number(
            owner, "brightness_coeff", brightness_coeff, 1e-6, 100.0, allowed
        )
        allowed = "two numbers in [0, 1] (min, max)"
        self.snow_point_range = interval(
            owner, "snow_point_range", snow_point_range, 0.0, 1.0, allowed
        )
        self.take_p(p)

    def draw(self, numbers: Numbers, shape: Sequence[int]) -> float:
        """Return below which lightness a pixel is dark."""
        return 1.0 / 3.0 + numbers.between(self.snow_point_range) / 2.0

    def change(self, image: Tensor, drawn: float) -> Tensor:
        # In HLS a channel is the lightness and a share of the room to black or white.
        lightness = (image.amax(0) + image.amin(0)) / 2.0
        brighter = (lightness * self.brightness_coeff).clamp(max=1.0)
        room, new_room = (torch.minimum(own, 1.0 - own) for own in (lightness, brighter))
        share = torch.where(room > 0.0, (image - lightness) / room, torch.zeros_like(image))
        return torch.where(lightness < drawn, brighter + share * new_room, image)
