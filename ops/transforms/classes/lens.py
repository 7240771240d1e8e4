"""What lenses do to images: albumentations' blurs by random kernels, zooms and colour fringes."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..._torch.options import Interpolation
from ...convolution.blurs import gaussian_blur
from ...convolution.filter2d import filter2d
from ...warp.augment_arguments import AugmentOptions
from ...warp.remap import remap_batch
from ..arguments import fail, interval, one_of, symmetric, up_to, whole_range
from ..base import KEY, MOST_SQUARE_TAPS, Keyed, OperationStep, fixed, odd_sides, real
from ..chain.operator_calls import run_all
from ..chain.pixel_kinds import PixelKind
from ..chain.random import Numbers

__all__ = ["AdvancedBlur", "ChromaticAberration", "Defocus", "RingingOvershoot", "ZoomBlur"]


_MOST_SIDE = 255  # of an advanced blur
_LEAST = 1e-3  # what stands for a standard deviation, or a step, of 0


class _KernelBlur(Keyed):
    """Correlates every channel with a kernel; the image is mirrored at its rim."""

    rounds_bytes = True

    def change(self, image: Tensor, drawn: np.ndarray) -> Tensor:
        found: Tensor = filter2d(image, drawn / drawn.sum())
        return found


def _odd(numbers: Numbers, sides: Sequence[float]) -> int:
    """Return an odd side from a range of such."""
    low, high = int(sides[0]), int(sides[1])
    return low + 2 * numbers.whole((high - low) // 2 + 1)


class AdvancedBlur(OperationStep):
    """Blur by a random generalized normal distribution, turned and noisy.

    albumentations' transform of this name.

    Parameters
    ----------
    blur_limit : int or pair of int
        Range of the kernel's odd side; one number x means from 3 to x.
    sigma_x_limit, sigma_y_limit : float or pair of float
        Ranges of the standard deviations along the kernel's axes; one number x means [0, x].
    rotate_limit : float or pair of float
        Range of the angle of these axes in degrees; one number x means [-x, x].
    beta_limit : pair of float
        Range of the shape, around 1, which is the normal distribution: half of all kernels are
        flatter and half steeper.
    noise_limit : pair of float
        Range of the factor of each weight.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: side, standard deviations, angle, where beta
    lies, and its limits, limits of the noise, key.

    Source: X. Wang et al., "Real-ESRGAN", 2021.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.AdvancedBlur(p=1)(torch.rand(3, 20, 30)).shape
    torch.Size([3, 20, 30])
    """

    kind = PixelKind.ADVANCED_BLUR

    def __init__(
        self,
        blur_limit: int | Sequence[int] = (3, 7),
        sigma_x_limit: float | Sequence[float] = (0.2, 1.0),
        sigma_y_limit: float | Sequence[float] = (0.2, 1.0),
        rotate_limit: float | Sequence[float] = (-90, 90),
        beta_limit: Sequence[float] = (0.5, 8.0),
        noise_limit: Sequence[float] = (0.9, 1.1),
        p: float = 0.5,
    ) -> None:
        owner = "AdvancedBlur"
        sides = odd_sides(owner, "blur_limit", blur_limit, _MOST_SIDE)
        x, y = (
            up_to(owner, name, sigmas, 0.0, 1000.0)
            for name, sigmas in (("sigma_x_limit", sigma_x_limit), ("sigma_y_limit", sigma_y_limit))
        )
        angles = symmetric(owner, "rotate_limit", rotate_limit, -360.0, 360.0)
        allowed = "two numbers (min, max) in [0, 100], below 1 and above 1"
        betas = interval(owner, "beta_limit", beta_limit, 0.0, 100.0, allowed)
        if not betas[0] < 1.0 < betas[1]:
            fail(owner, "beta_limit", beta_limit, allowed)
        allowed = "two numbers >= 0 (min, max)"
        noise = interval(owner, "noise_limit", noise_limit, 0.0, allowed=allowed)
        sigmas = [real([max(end, _LEAST) for end in ends]) for ends in (x, y)]
        place = real((0.0, 1.0))  # of beta: in the first half of this range, it is below 1
        ends = map(fixed, (*betas, *noise))
        super().__init__(p, [sides, *sigmas, real(angles), place, *ends, KEY])
        self.blur_limit, self.sigma_x_limit, self.sigma_y_limit = sides[:2], x, y
        self.rotate_limit, self.beta_limit, self.noise_limit = angles, betas, noise


class Defocus(_KernelBlur):
    """Blur by a disk, as a camera that is out of focus does.

    albumentations' transform of this name.

    Parameters
    ----------
    radius : int or pair of int
        Range of the disk's radius in pixels; one number x means from 1 to x.
    alias_blur : float or pair of float
        Range of the standard deviation by which the disk itself is blurred; one number x means
        [0, x].
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``key``.

    Source: D. Hendrycks and T. Dietterich, "Benchmarking neural network robustness to common
    corruptions and perturbations", ICLR 2019.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.Defocus(p=1)(torch.rand(3, 20, 30)).shape
    torch.Size([3, 20, 30])
    """

    def __init__(
        self,
        radius: int | Sequence[int] = (3, 10),
        alias_blur: float | Sequence[float] = (0.1, 0.5),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        self.radius = whole_range("Defocus", "radius", radius, 1, 100)
        self.alias_blur = up_to("Defocus", "alias_blur", alias_blur, 0.0, 10.0)
        self.take_p(p)

    def draw(self, numbers: Numbers, shape: Sequence[int]) -> np.ndarray:
        least, most = self.radius
        radius = least + numbers.whole(most - least + 1)
        sigma = numbers.between(self.alias_blur)
        half = max(8, radius)
        y, x = np.mgrid[-half : half + 1, -half : half + 1]
        disk = (x**2 + y**2 <= radius**2) * 1.0
        blurred: np.ndarray = gaussian_blur(disk, 3 if radius <= 8 else 5, max(sigma, _LEAST))
        return blurred


class RingingOvershoot(_KernelBlur):
    """Filter by a random circular low pass, which leaves rings beside edges.

    albumentations' transform of this name.

    Parameters
    ----------
    blur_limit : int or pair of int
        Range of the kernel's odd side; one number x means from 3 to x.
    cutoff : pair of float
        Range of the greatest frequency that passes, in radians a pixel, in (0, pi].
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``key``.

    Source: X. Wang et al., "Real-ESRGAN", 2021.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RingingOvershoot(p=1)(torch.rand(3, 20, 30)).shape
    torch.Size([3, 20, 30])
    """

    def __init__(
        self,
        blur_limit: int | Sequence[int] = (7, 15),
        cutoff: Sequence[float] = (math.pi / 4, math.pi / 2),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        owner, allowed = "RingingOvershoot", "two numbers in (0, pi] (min, max)"
        self.blur_limit = odd_sides(owner, "blur_limit", blur_limit, MOST_SQUARE_TAPS)[:2]
        self.cutoff = interval(owner, "cutoff", cutoff, 1e-6, math.pi, allowed)
        self.take_p(p)

    def draw(self, numbers: Numbers, shape: Sequence[int]) -> np.ndarray:
        side, cutoff = _odd(numbers, self.blur_limit), numbers.between(self.cutoff)
        distance = np.hypot(*(np.mgrid[:side, :side] - side // 2))
        distance[side // 2, side // 2] = 1.0
        bessel = torch.special.bessel_j1(torch.from_numpy(cutoff * distance)).numpy()
        kernel: np.ndarray = cutoff * bessel / (2.0 * np.pi * distance)
        kernel[side // 2, side // 2] = cutoff**2 / (4.0 * np.pi)
        return kernel


class ZoomBlur(Keyed):
    """Average enlargements of the image about its middle, as a lens that zooms does.

    albumentations' transform of this name.

    Parameters
    ----------
    max_factor : float or pair of float
        Range of the greatest enlargement; one number x means from 1 to x.
    step_factor : float or pair of float
        Range of the distance between enlargements, at least 0.001; one number x means [0, x].
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``key``. Enlargements are not cut to whole pixels, as those of
    albumentations are.

    Source: D. Hendrycks and T. Dietterich, "Benchmarking neural network robustness to common
    corruptions and perturbations", ICLR 2019.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.ZoomBlur(p=1)(torch.rand(3, 20, 30)).shape
    torch.Size([3, 20, 30])
    """

    def __init__(
        self,
        max_factor: float | Sequence[float] = (1, 1.31),
        step_factor: float | Sequence[float] = (0.01, 0.03),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        self.max_factor = up_to("ZoomBlur", "max_factor", max_factor, 1.0, 10.0)
        self.step_factor = up_to("ZoomBlur", "step_factor", step_factor, 0.0, 1.0)
        self.take_p(p)

    def draw(self, numbers: Numbers, shape: Sequence[int]) -> np.ndarray:
        step = max(numbers.between(self.step_factor), _LEAST)
        return np.arange(1.0, max(1.0 + step, numbers.between(self.max_factor)), step)

    def change(self, image: Tensor, drawn: np.ndarray) -> Tensor:
        height, width = image.shape[1:]
        rows = np.zeros((len(drawn), 2, 3))
        for axis, side in enumerate((width, height)):
            rows[:, axis, axis] = drawn
            rows[:, axis, 2] = side / 2 * (1.0 - drawn)
        options = AugmentOptions(padding_mode="replicate", half_pixel=True, out_dtype=image.dtype)
        copies = image.expand(len(drawn), *image.shape)
        matrices = torch.from_numpy(rows).to(image.device)
        zoomed = run_all(copies, matrices, image.shape[-2:], options)
        return (image + zoomed.sum(0)) / (len(drawn) + 1)


def _read(image: Tensor, x: Tensor, y: Tensor, mode: str) -> Tensor:
    """Read an image ``[C, H, W]`` at places ``[h, w]``; its rim goes on outside."""
    map_x, map_y = (own.to(image.device)[None] for own in (x, y))
    return remap_batch(image[None], map_x, map_y, (False, mode, "replicate", [0.0]))[0]


class ChromaticAberration(Keyed):
    """Distort red and blue radially, each by its own amount, as lenses do.

    albumentations' transform of this name.

    Parameters
    ----------
    primary_distortion_limit, secondary_distortion_limit : float or pair of float
        Ranges of the coefficients of the distance's second and fourth power; one number x means
        [-x, x].
    mode : {"green_purple", "red_blue", "random"}
        Whether red and blue move the same way, opposite ways, or each as drawn.
    interpolation : {"bilinear", "nearest", "bicubic"}
    p : float
        Probability, for each sample.

    Raises
    ------
    ValueError
        The image doesn't have three channels.

    Notes
    -----
    Parameters: ``apply``, ``key``. Floating images keep their precision, which albumentations cuts
    to 256 levels.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.rand(3, 20, 30)
    >>> torch.equal(transforms.ChromaticAberration(p=1)(image)[1], image[1])
    True
    """

    channels = (3,)
    rounds_bytes = True

    def __init__(
        self,
        primary_distortion_limit: float | Sequence[float] = (-0.02, 0.02),
        secondary_distortion_limit: float | Sequence[float] = (-0.05, 0.05),
        mode: Literal["green_purple", "red_blue", "random"] = "green_purple",
        interpolation: Interpolation = "bilinear",
        p: float = 0.5,
    ) -> None:
        super().__init__()
        owner = "ChromaticAberration"
        self.primary_distortion_limit, self.secondary_distortion_limit = (
            symmetric(owner, f"{name}_distortion_limit", ends, -1.0, 1.0)
            for name, ends in (
                ("primary", primary_distortion_limit),
                ("secondary", secondary_distortion_limit),
            )
        )
        one_of(owner, "mode", mode, ("green_purple", "red_blue", "random"))
        self.mode = mode
        one_of(owner, "interpolation", interpolation, ("bilinear", "nearest", "bicubic"))
        self.interpolation = interpolation
        self.take_p(p)

    def draw(self, numbers: Numbers, shape: Sequence[int]) -> tuple[tuple[float, float], ...]:
        """Return the coefficients of red and of blue."""
        ranges = self.primary_distortion_limit, self.secondary_distortion_limit
        red, blue = ([numbers.between(ends) for ends in ranges] for _ in range(2))
        # Both coefficients of a channel have the sign of its first.
        red[1], blue[1] = math.copysign(red[1], red[0]), math.copysign(blue[1], blue[0])
        if self.mode != "random":
            sign = 1.0 if self.mode == "green_purple" else -1.0
            blue = [math.copysign(b, sign * r) for b, r in zip(blue, red, strict=True)]
        return (red[0], red[1]), (blue[0], blue[1])

    def change(self, image: Tensor, drawn: Any) -> Tensor:
        height, width = image.shape[1:]
        x = (torch.arange(width, dtype=torch.float32) - width / 2) / width
        y = (torch.arange(height, dtype=torch.float32) - height / 2) / height
        square = x**2 + (y**2)[:, None]
        channels = list(image)
        for channel, (first, second) in zip((0, 2), drawn, strict=True):
            factor = 1.0 + first * square + second * square**2
            places = x * factor * width + width / 2, y[:, None] * factor * height + height / 2
            channels[channel] = _read(image[channel][None], *places, self.interpolation)[0]
        return torch.stack(channels)
