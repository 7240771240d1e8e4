"""Resizing, of the whole image and of a random crop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._arguments import (
    fail,
    interpolation_mode,
    interval,
    is_sequence,
    size_pair,
    whole,
)
from ._plan import Canvas, Plan
from ._transform import Effects, Params, Transform

__all__ = ["RandomResizedCrop", "Resize", "draw_rectangles", "fixed_canvas"]

ATTEMPTS = 10


def draw_rectangles(
    uniforms: np.ndarray,
    canvas: Canvas,
    scale: tuple[float, float],
    log_ratio: tuple[float, float],
    strict: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw sides by area and the logarithm of their ratio until they fit, at most ten times.

    Parameters
    ----------
    uniforms : ndarray ``[B, 20]``
    canvas : Canvas
    scale, log_ratio : pair of float
        Ranges of the area, as a fraction of the canvas's, and of log(first side / second side).
    strict : bool
        The sides are smaller than the canvas's, not equal.

    Returns
    -------
    ndarray ``[B]``, ndarray ``[B]``
        The side that is larger for a larger ratio, and the other. With `strict` these are height
        and width, else width and height: as in torchvision's two transforms.
    ndarray of bool ``[B]``
        Whether any attempt fitted; the sides mean nothing where none did.
    """
    area = (canvas.height * canvas.width)[:, None] * (
        scale[0] + uniforms[:, :ATTEMPTS] * (scale[1] - scale[0])
    )
    log_aspect = log_ratio[0] + uniforms[:, ATTEMPTS:] * (log_ratio[1] - log_ratio[0])
    aspect = np.exp(log_aspect)
    first, second = np.rint(np.sqrt(area * aspect)), np.rint(np.sqrt(area / aspect))
    if strict:
        fits = first < canvas.height[:, None]
        fits &= second < canvas.width[:, None]
    else:
        fits = first <= canvas.width[:, None]
        fits &= second <= canvas.height[:, None]
        fits &= first > 0
        fits &= second > 0
    attempt = fits.argmax(1)
    chosen = np.arange(attempt.shape[0]), attempt
    return first[chosen], second[chosen], fits[chosen]


class RandomResizedCrop(Transform):
    """Crop a random part of the image and resize it.

    The arguments and the distribution are those of torchvision's: the crop's area is uniform, its
    aspect ratio log-uniform; if ten attempts don't fit into the image, the largest central crop of
    an allowed ratio is taken.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result.
    scale : pair of float
        Range of the crop's area, as a fraction of the image's.
    ratio : pair of float
        Range of the crop's width divided by its height.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    antialias : bool
        Average over all pixels that an output pixel covers, where the crop is shrunk.

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

    draws = 2 * ATTEMPTS + 2

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        tiny = math.nextafter(0.0, 1.0)
        self.size = size_pair(owner, "size", size)
        self.scale = interval(owner, "scale", scale, tiny, allowed="two numbers > 0 (min, max)")
        self.ratio = interval(owner, "ratio", ratio, tiny, allowed="two numbers > 0 (min, max)")
        self.interpolation = interpolation_mode(owner, interpolation)
        self.antialias = bool(antialias) and self.interpolation != "nearest"
        self._log_ratio = (math.log(self.ratio[0]), math.log(self.ratio[1]))

    def effects(self) -> Effects:
        return Effects(moves=True, interpolation=self.interpolation, antialias=self.antialias)

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> Params:
        width, height, fits = draw_rectangles(
            uniforms[:, :-2], canvas, self.scale, self._log_ratio, strict=False
        )
        if not fits.all():
            whole_width = np.clip(canvas.width, None, np.rint(canvas.height * self.ratio[1]))
            whole_height = np.clip(canvas.height, None, np.rint(canvas.width / self.ratio[0]))
            width = np.where(fits, width, whole_width)
            height = np.where(fits, height, whole_height)
        free_rows, free_columns = canvas.height - height, canvas.width - width
        top = np.floor(uniforms[:, -2] * (free_rows + 1.0))
        left = np.floor(uniforms[:, -1] * (free_columns + 1.0))
        if not fits.all():
            top = np.where(fits, top, np.floor(free_rows * 0.5))
            left = np.where(fits, left, np.floor(free_columns * 0.5))
        return {"top": top, "left": left, "height": height, "width": width}

    def extend(self, plan: Plan, params: Mapping[str, np.ndarray]) -> None:
        x_scale, y_scale = self.size[1] / params["width"], self.size[0] / params["height"]
        shift = (params["left"] * -x_scale, params["top"] * -y_scale)
        plan.resize((x_scale, y_scale), shift, fixed_canvas(self.size, plan.canvas))


def fixed_canvas(size: tuple[int, int], canvas: Canvas) -> Canvas:
    height, width = np.empty((2, canvas.height.shape[0]))
    height.fill(size[0])
    width.fill(size[1])
    return Canvas(height, width, canvas.channels)


class Resize(Transform):
    """Resize the image.

    Parameters
    ----------
    size : int, pair of int, or None
        Height and width of the result; or the length of the shorter side, the longer one follows.
        None: `max_size` rules.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
        "nearest" takes the nearest pixel, as torchvision's "nearest-exact".
    max_size : int, optional
        Longest side of the result where `size` is a number; its longer side where `size` is None.
    antialias : bool
        Average over all pixels that an output pixel covers, where the image is shrunk.

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
        interpolation: Any = "bilinear",
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
        self.interpolation = interpolation_mode(owner, interpolation)
        self.antialias = bool(antialias) and self.interpolation != "nearest"

    def effects(self) -> Effects:
        return Effects(moves=True, interpolation=self.interpolation, antialias=self.antialias)

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> Params:
        if isinstance(self.size, tuple):
            fixed = fixed_canvas(self.size, canvas)
            return {"height": fixed.height, "width": fixed.width}
        short = np.minimum(canvas.height, canvas.width)
        long = np.maximum(canvas.height, canvas.width)
        if self.size is None:
            new_long = np.full_like(long, float(self.max_size or 0))
            new_short = np.floor(new_long * short / long)
        else:
            new_short = np.full_like(short, float(self.size))
            new_long = np.floor(new_short * long / short)
            if self.max_size is not None:
                limited = np.floor(self.max_size * new_short / new_long)
                new_short = np.where(new_long > self.max_size, limited, new_short)
                new_long = np.minimum(new_long, float(self.max_size))
        if not new_short.all():
            index = int(new_short.argmin())
            size = (int(canvas.height[index]), int(canvas.width[index]))
            raise ValueError(
                f"visops.transforms.Resize: max_size is {self.max_size}, for the image of size "
                f"{size} of sample {index} no row or column would be left"
            )
        upright = canvas.width <= canvas.height
        return {
            "height": np.where(upright, new_long, new_short),
            "width": np.where(upright, new_short, new_long),
        }

    def extend(self, plan: Plan, params: Mapping[str, np.ndarray]) -> None:
        canvas = Canvas(params["height"], params["width"], plan.canvas.channels)
        scale = canvas.width / plan.canvas.width, canvas.height / plan.canvas.height
        zero = np.zeros_like(canvas.width)
        plan.resize(scale, (zero, zero), canvas)
