"""Transforms that turn, shear or tilt the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._arguments import (
    fail,
    fill_values,
    interpolation_mode,
    interval,
    is_sequence,
    number,
    spread,
)
from ._plan import Canvas, Plan
from ._transform import Effects, Params, RandomlyApplied, Transform

__all__ = ["RandomAffine", "RandomPerspective", "RandomRotation", "cos_sin"]


def cos_sin(degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine, exact at multiples of 90 degrees."""
    quarters = np.rint(degrees * (1.0 / 90.0))
    rest = (degrees - 90.0 * quarters) * (np.pi / 180.0)
    cos, sin = np.cos(rest), np.sin(rest)
    if not quarters.any():
        return cos, sin
    quarter = quarters % 4.0
    x = (quarter == 0.0) * 1.0 - (quarter == 2.0)
    y = (quarter == 1.0) * 1.0 - (quarter == 3.0)
    return x * cos - y * sin, y * cos + x * sin


def about(
    linear: np.ndarray, x: np.ndarray, y: np.ndarray, to_x: np.ndarray, to_y: np.ndarray
) -> np.ndarray:
    """Shift [2, B] with which `linear` takes the point (x, y) to (to_x, to_y)."""
    shift = np.empty((2, x.shape[0]))
    shift[0] = to_x - (linear[0, 0] * x + linear[0, 1] * y)
    shift[1] = to_y - (linear[1, 0] * x + linear[1, 1] * y)
    return shift


def _center(owner: str, value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    allowed = "None or two finite numbers (x, y)"
    if not is_sequence(value) or len(value) != 2:
        fail(owner, "center", value, allowed)
    x, y = (number(owner, "center", v, allowed=allowed) for v in value)
    return x, y


class RandomAffine(Transform):
    """Turn, shift, scale and shear the image.

    The arguments and the distribution are those of torchvision's, but for the default of
    `interpolation`: bilinear, that it may share its pass with other transforms' defaults.

    Parameters
    ----------
    degrees : number or pair of number
        Range of the angle in degrees; d means [-d, d]. Positive turns clockwise on the screen.
    translate : pair of float, optional
        Largest shift along x and y, as a fraction of width and height; whole pixels are drawn.
    scale : pair of float, optional
        Range of the scale factor.
    shear : number or sequence of 2 or 4 numbers, optional
        Range of the shear angle along x, in degrees; the third and fourth number: along y.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    fill : number or sequence of C numbers
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

    draws = 6

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Any = "bilinear",
        fill: float | Sequence[float] = 0,
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
                number(owner, "translate", value, 0.0, 1.0, allowed) for value in translate
            )
        self.scale: tuple[float, float] | None = None
        if scale is not None:
            allowed = "None or two numbers > 0 (min, max)"
            self.scale = interval(owner, "scale", scale, np.nextafter(0.0, 1.0), allowed=allowed)
        self.shear = self._shear(owner, shear)
        self.interpolation = interpolation_mode(owner, interpolation)
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
        inside = np.nextafter(90.0, 0.0)
        ranges = [interval(owner, "shear", pair, -inside, inside, allowed) for pair in pairs]
        return tuple(value for pair in ranges for value in pair)

    def effects(self) -> Effects:
        return Effects(moves=True, aligned=False, interpolation=self.interpolation, fill=self.fill)

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> Params:
        low, high = self.degrees
        params = {"angle": low + uniforms[:, 0] * (high - low)}
        if self.translate is not None:
            reach_x, reach_y = self.translate[0] * canvas.width, self.translate[1] * canvas.height
            params["translate_x"] = np.rint(reach_x * (2.0 * uniforms[:, 1] - 1.0))
            params["translate_y"] = np.rint(reach_y * (2.0 * uniforms[:, 2] - 1.0))
        if self.scale is not None:
            low, high = self.scale
            params["scale"] = low + uniforms[:, 3] * (high - low)
        if self.shear is not None:
            low, high = self.shear[:2]
            params["shear_x"] = low + uniforms[:, 4] * (high - low)
            if len(self.shear) == 4:
                low, high = self.shear[2:]
                params["shear_y"] = low + uniforms[:, 5] * (high - low)
        return params

    def extend(self, plan: Plan, params: Mapping[str, np.ndarray]) -> None:
        canvas = plan.canvas
        cos, sin = cos_sin(params["angle"])
        linear = np.empty((2, 2, plan.batch))
        # Rotation, then after it in the product (before it in time) the shears along y and x.
        a, c = cos, sin
        if "shear_y" in params:
            tangent = np.tan(params["shear_y"] * (np.pi / 180.0))
            a, c = cos + sin * tangent, sin - cos * tangent
        b, d = -sin, cos
        if "shear_x" in params:
            tangent = np.tan(params["shear_x"] * (np.pi / 180.0))
            b, d = b - a * tangent, d - c * tangent
        linear[0, 0], linear[0, 1], linear[1, 0], linear[1, 1] = a, b, c, d
        if "scale" in params:
            linear *= params["scale"]
        if self.center is None:
            x, y = canvas.width * 0.5, canvas.height * 0.5
        else:
            x, y = np.full((2, plan.batch), np.array(self.center)[:, None])
        shift = about(linear, x, y, x, y)
        if "translate_x" in params:
            shift[0] += params["translate_x"]
            shift[1] += params["translate_y"]
        plan.affine(linear, shift, canvas)


class RandomRotation(Transform):
    """Turn the image.

    The arguments and the distribution are those of torchvision's, but for the default of
    `interpolation`: bilinear, that it may share its pass with other transforms' defaults.

    Parameters
    ----------
    degrees : number or pair of number
        Range of the angle in degrees; d means [-d, d]. Positive turns counter-clockwise on the
        screen (the other way round than :class:`RandomAffine`, as in torchvision).
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    expand : bool
        Make the result as large as the turned image; else it is as large as the image was.
    center : pair of float, optional
        Fixed point (x, y) in pixels from the upper left corner. Default: the middle.
    fill : number or sequence of C numbers
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

    draws = 1

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Any = "bilinear",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: float | Sequence[float] = 0,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.degrees = spread(owner, "degrees", degrees)
        self.interpolation = interpolation_mode(owner, interpolation)
        self.expand = bool(expand)
        self.center = _center(owner, center)
        self.fill = fill_values(owner, fill)

    def effects(self) -> Effects:
        return Effects(moves=True, aligned=False, interpolation=self.interpolation, fill=self.fill)

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> Params:
        low, high = self.degrees
        return {"angle": low + uniforms[:, 0] * (high - low)}

    def extend(self, plan: Plan, params: Mapping[str, np.ndarray]) -> None:
        canvas = plan.canvas
        cos, sin = cos_sin(params["angle"])
        linear = np.empty((2, 2, plan.batch))
        linear[0, 0], linear[0, 1], linear[1, 0], linear[1, 1] = cos, sin, -sin, cos
        x, y = canvas.width * 0.5, canvas.height * 0.5
        if self.center is not None:
            x, y = np.full((2, plan.batch), np.array(self.center)[:, None])
        shift = about(linear, x, y, x, y)
        if self.expand:
            # torchvision and Pillow look where the corners come from.
            back = linear.transpose(1, 0, 2)
            old, canvas = canvas, self._expanded(back, about(back, x, y, x, y), canvas)
            shift[0] += (canvas.width - old.width) * 0.5
            shift[1] += (canvas.height - old.height) * 0.5
        plan.affine(linear, shift, canvas)

    @staticmethod
    def _expanded(linear: np.ndarray, shift: np.ndarray, canvas: Canvas) -> Canvas:
        """Size of the moved image's bounds in whole pixels."""
        x = np.stack((0.0 * canvas.width, canvas.width, canvas.width, 0.0 * canvas.width))
        y = np.stack((0.0 * canvas.height, 0.0 * canvas.height, canvas.height, canvas.height))
        sides = []
        for row, offset in zip(linear, shift, strict=True):
            # A corner 1e-14 beyond a pixel's edge doesn't ask for another pixel.
            moved = np.trunc((row[0] * x + row[1] * y + offset) * 1e4) * 1e-4
            sides.append(np.ceil(moved.max(0)) - np.floor(moved.min(0)))
        return Canvas(sides[1], sides[0], canvas.channels)


class RandomPerspective(RandomlyApplied):
    """Move the image's four corners towards its middle.

    The arguments and the distribution are those of torchvision's.

    Parameters
    ----------
    distortion_scale : float
        How far a corner moves at most, as a fraction of half the image's sides, in [0, 1].
    p : float
        Probability, for each sample.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    fill : number or sequence of C numbers
        The value outside the image, in the image's units (white is 255 for uint8).

    Notes
    -----
    Parameters: ``apply``, and ``endpoints`` ``[B, 4, 2]``, where the corners (0, 0), (W - 1, 0),
    (W - 1, H - 1) and (0, H - 1) come to lie.

    Source of the closed form: P. Heckbert, "Fundamentals of Texture Mapping and Image Warping",
    1989, section 2.2.3.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomPerspective(0.3, p=1)(torch.rand(3, 20, 30)).shape
    torch.Size([3, 20, 30])
    """

    draws = 9

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = "bilinear",
        fill: float | Sequence[float] = 0,
    ) -> None:
        super().__init__(p)
        owner = type(self).__name__
        allowed = "a number in [0, 1]"
        self.distortion_scale = number(
            owner, "distortion_scale", distortion_scale, 0.0, 1.0, allowed
        )
        self.interpolation = interpolation_mode(owner, interpolation)
        self.fill = fill_values(owner, fill)

    def effects(self) -> Effects:
        return Effects(moves=True, aligned=False, interpolation=self.interpolation, fill=self.fill)

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> Params:
        half = np.floor(np.stack((canvas.width, canvas.height), 1) * 0.5)  # [B, 2]
        bound = np.floor(self.distortion_scale * half) + 1.0
        corners = np.floor(uniforms[:, 1:].reshape(-1, 4, 2) * bound[:, None])
        # From the far sides: the last `bound` rows or columns.
        corners[:, 1:3, 0] += (canvas.width - bound[:, 0])[:, None]
        corners[:, 2:, 1] += (canvas.height - bound[:, 1])[:, None]
        return {"apply": uniforms[:, 0] < self.p, "endpoints": corners}

    def extend(self, plan: Plan, params: Mapping[str, np.ndarray]) -> None:
        canvas = plan.canvas
        matrix, regular = _rectangle_to_corners(canvas, params["endpoints"].transpose(1, 2, 0))
        identity = np.eye(3)[..., None]
        plan.project(np.where(params["apply"] & regular, matrix, identity), canvas)


def _rectangle_to_corners(canvas: Canvas, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Perspective [3, 3, B] of (0, 0), (W-1, 0), (W-1, H-1), (0, H-1) to `corners` [4, 2, B].

    The second result is False where three of the corners lie on a line, or W or H is 1: there is
    no such perspective.
    """
    p0, p1, p2, p3 = corners
    (x1, y1), (x2, y2), (x3, y3) = p1 - p2, p3 - p2, p0 - p1 + p2 - p3
    det = x1 * y2 - x2 * y1
    before, after = np.roll(corners, 1, 0) - corners, np.roll(corners, -1, 0) - corners
    areas = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    regular = areas.all(0) & (canvas.width > 1.0) & (canvas.height > 1.0)
    det = np.where(regular, det, 1.0)
    g, h = (x3 * y2 - x2 * y3) / det, (x1 * y3 - x3 * y1) / det
    matrix = np.empty((3, 3, det.shape[0]))
    matrix[:2, 0] = p1 - p0 + g * p1
    matrix[:2, 1] = p3 - p0 + h * p3
    matrix[:2, 2] = p0
    matrix[2] = g, h, np.ones_like(g)
    # So far for a square of side 1.
    matrix[:, 0] /= np.maximum(canvas.width - 1.0, 1.0)
    matrix[:, 1] /= np.maximum(canvas.height - 1.0, 1.0)
    return matrix, regular
