"""Transforms that scale, turn or tilt the image by random amounts: albumentations'."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments import (
    FillArgument,
    InterpolationArgument,
    flag,
    interval,
    is_sequence,
    number,
    spread,
)
from ..base import Occasional
from ..chain.effects import Effects
from ..chain.plan import Canvas, Plan, columns
from ..chain.random import normal

__all__ = ["Perspective", "RandomScale", "SafeRotate"]


class RandomScale(Occasional):
    """Resize the image by a random factor.

    albumentations' transform of this name.

    Parameters
    ----------
    scale_limit : float or pair of float
        Range of the factor minus 1; one number x means [-x, x].
    interpolation : {"bilinear", "nearest", "bicubic", "lanczos"} or InterpolationMode
    antialias : bool
        Where the image shrinks, average over all pixels that an output pixel covers; albumentations
        does so with `area_for_downscale`.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``height``, ``width`` of the result, which are rounded down.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomScale((-0.5, -0.5), p=1)(torch.rand(3, 40, 51)).shape
    torch.Size([3, 20, 25])
    """

    draws = 2

    def __init__(
        self,
        scale_limit: float | Sequence[float] = (-0.1, 0.1),
        interpolation: InterpolationArgument = "bilinear",
        antialias: bool | None = True,
        p: float = 0.5,
    ) -> None:
        super().__init__()
        allowed = "a number in [0, 1) or two > -1 (min, max)"
        if is_sequence(scale_limit):
            least = math.nextafter(-1.0, 0.0)
            ends = interval("RandomScale", "scale_limit", scale_limit, least, allowed=allowed)
        else:
            most = math.nextafter(1.0, 0.0)
            limit = number("RandomScale", "scale_limit", scale_limit, 0.0, most, allowed)
            ends = -limit, limit
        self.scale_limit = ends
        self.take_sampling(interpolation, antialias or False)
        self.take_p(p)

    def effects(self) -> Effects:
        mode, antialias = self.interpolation, self.antialias
        return Effects(moves=True, interpolation=mode, antialias=antialias, size=(0, 0))

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        low, high = self.scale_limit
        applies, factor = uniforms[:, 0] < self.p, low + uniforms[:, 1] * (high - low) + 1.0
        sides = canvas.sides(len(uniforms))
        scaled = np.maximum(np.floor(sides * factor[:, None]), 1.0)
        height, width = np.where(applies[:, None], scaled, sides).T.copy()
        return {"apply": applies, "height": height, "width": width}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        old, rows, columns = plan.canvas, params["height"], params["width"]
        canvas = Canvas(rows, columns, plan.channels)
        with plan.only(params["apply"]):
            plan.scale(columns / old.width, rows / old.height, 0.0, 0.0, canvas, cuts=False)


class _Tilted(Occasional):
    """A change after which rows and columns are not straight, or not level."""

    def effects(self) -> Effects:
        mode = self.interpolation
        return Effects(moves=True, aligned=False, interpolation=mode, fill=self.fill)


class SafeRotate(_Tilted):
    """Rotate the image, and scale it so that all of it is shown in its own size.

    albumentations' transform of this name.

    Parameters
    ----------
    limit : float or pair of float
        Range of the angle in degrees; d means [-d, d]. Positive is counter-clockwise on screen.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``angle``. Each axis has a scale of its own. albumentations moves images
    by up to half a pixel beside their boxes.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.SafeRotate((90, 90), p=1)(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[2., 4.],
             [1., 3.]]])
    """

    draws = 2

    def __init__(
        self,
        limit: float | Sequence[float] = (-90, 90),
        interpolation: InterpolationArgument = "bilinear",
        fill: FillArgument = 0,
        p: float = 0.5,
    ) -> None:
        super().__init__()
        self.limit = spread("SafeRotate", "limit", limit)
        self.take_sampling(interpolation)
        self.take_padding(fill)
        self.take_p(p)

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        low, high = self.limit
        angle = low + uniforms[:, 1] * (high - low)
        return {"apply": uniforms[:, 0] < self.p, "angle": angle}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        canvas = plan.canvas
        height, width, angle = canvas.height, canvas.width, np.asarray(params["angle"])
        c, s = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
        c, s = (np.where(angle % 90 == 0, np.rint(own), own) for own in (c, s))
        # albumentations rounds the sides of what holds the turned image down.
        columns = np.maximum(np.floor(height * abs(s) + width * abs(c)), 1.0)
        rows = np.maximum(np.floor(height * abs(c) + width * abs(s)), 1.0)
        x_scale, y_scale = width / columns, height / rows
        x, y = width / 2, height / 2
        across = (c * x_scale, s * x_scale, (columns / 2 - c * x - s * y) * x_scale)
        down = (-s * y_scale, c * y_scale, (rows / 2 + s * x - c * y) * y_scale)
        with plan.only(params["apply"]):
            plan.affine((*across, *down), canvas)


_MOST_MOVED = 0.32  # of a side, by which corners move
# Each with whether it is at the right, and at the bottom.
_CORNERS = (
    ("topleft", 0, 0),
    ("topright", 1, 0),
    ("bottomright", 1, 1),
    ("bottomleft", 0, 1),
)


class Perspective(_Tilted):
    """Stretch a random quadrangle of the image to the whole of it.

    albumentations' transform of this name.

    Parameters
    ----------
    scale : float or pair of float
        Range of the standard deviation by which corners move inwards, as a share of the sides; one
        number x means [0, x].
    keep_size : bool
        Give the result the image's size; otherwise it has the quadrangle's longer sides.
    fit_output : bool
        Show the whole image, tilted likewise, and not the quadrangle alone.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, and the quadrangle's corners in pixels: ``topleft_x``, ``topleft_y``, and
    likewise for ``topright``, ``bottomright`` and ``bottomleft``. albumentations 2.0.8 enlarges the
    result once more by the quadrangle's shares of the sides, and so cuts it off.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.Perspective(p=1)(torch.rand(3, 20, 30)).shape
    torch.Size([3, 20, 30])
    """

    draws = 18

    def __init__(
        self,
        scale: float | Sequence[float] = (0.05, 0.1),
        keep_size: bool = True,
        fit_output: bool = False,
        interpolation: InterpolationArgument = "bilinear",
        fill: FillArgument = 0,
        p: float = 0.5,
    ) -> None:
        super().__init__()
        allowed = "a number >= 0 or two of them (min, max)"
        ends = (
            scale
            if is_sequence(scale)
            else (0.0, number("Perspective", "scale", scale, 0.0, allowed=allowed))
        )
        self.scale = interval("Perspective", "scale", ends, 0.0, allowed=allowed)
        self.keep_size = flag("Perspective", "keep_size", keep_size)
        self.fit_output = flag("Perspective", "fit_output", fit_output)
        self.take_sampling(interpolation)
        self.take_padding(fill)
        self.take_p(p)

    def effects(self) -> Effects:
        found = super().effects()
        return found if self.keep_size else dataclasses.replace(found, size=(0, 0))

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        low, high = self.scale
        deviation = low + uniforms[:, 1] * (high - low)
        moved = np.abs(normal(uniforms[:, 2:10], uniforms[:, 10:])) * deviation[:, None]
        sides = canvas.sides(len(uniforms))
        params: dict[str, np.ndarray] = {"apply": uniforms[:, 0] < self.p}
        for corner, (name, right, bottom) in enumerate(_CORNERS):
            for axis, (along, far) in enumerate((("x", right), ("y", bottom))):
                inwards = moved[:, 2 * corner + axis] % _MOST_MOVED
                share = 1.0 - inwards if far else inwards
                params[f"{name}_{along}"] = share * sides[:, 1 - axis]
        return params

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        corners = np.empty((plan.batch, 4, 2))
        for corner, (name, _, _) in enumerate(_CORNERS):
            corners[:, corner] = columns((params[f"{name}_x"], params[f"{name}_y"]), plan.batch)
        sides = plan.canvas.sides(plan.batch)[:, ::-1]
        size = sides if self.keep_size else _longer_sides(corners)
        x, y, depth = _onto_square(corners)
        x, y = x * size[:, :1], y * size[:, 1:]
        if self.fit_output:
            # Where the image's own corners go is to be between 0, 0 and the size.
            ends = np.concatenate((sides[:, None] * _SQUARE, np.ones((plan.batch, 4, 1))), 2)
            far, right, down = ((ends * row[:, None]).sum(2) for row in (depth, x, y))
            to = np.stack((right / far, down / far), 2)
            first, span = to.min(1), np.ptp(to, 1)
            size = sides if self.keep_size else np.maximum(np.rint(span), 1.0)
            scale = size / span
            x = (x - first[:, :1] * depth) * scale[:, :1]
            y = (y - first[:, 1:] * depth) * scale[:, 1:]
        canvas = Canvas(size[:, 1], size[:, 0], plan.channels)
        with plan.only(params["apply"]):
            plan.perspective([*np.concatenate((x, y, depth), 1).T], canvas)


_SQUARE = np.array([[right, bottom] for _, right, bottom in _CORNERS], np.float64)


def _onto_square(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows, each ``[B, 3]``, of what takes quadrangles to 0, 0, 1, 1.

    Source: P. Heckbert, "Fundamentals of texture mapping and image warping", 1989, 2.2.3, for the
    way back, of which this is the adjugate.
    """
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = np.moveaxis(corners, 0, 2)
    ax, ay, bx, by = x1 - x2, y1 - y2, x3 - x2, y3 - y2
    cx, cy = x0 - x1 + x2 - x3, y0 - y1 + y2 - y3
    determinant = ax * by - bx * ay
    g, h = (cx * by - bx * cy) / determinant, (ax * cy - cx * ay) / determinant
    a, b, c = x1 - x0 + g * x1, x3 - x0 + h * x3, x0
    d, e, f = y1 - y0 + g * y1, y3 - y0 + h * y3, y0
    depth = a * e - b * d  # the last element of the adjugate, which becomes 1
    rows = (
        (e - f * h, c * h - b, b * f - c * e),
        (f * g - d, a - c * g, c * d - a * f),
        (d * h - e * g, b * g - a * h, depth),
    )
    x, y, last = (np.stack(row, 1) / depth[:, None] for row in rows)
    return x, y, last


def _longer_sides(corners: np.ndarray) -> np.ndarray:
    """Return width and height of a quadrangle, ``[B, 2]``: its longer sides, rounded down."""
    lengths = np.hypot(*np.moveaxis(corners - np.roll(corners, -1, 1), 2, 0))  # from the top on
    return np.maximum(np.floor(np.maximum(lengths[:, :2], lengths[:, 2:])), 1.0)
