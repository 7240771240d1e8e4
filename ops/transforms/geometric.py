"""Transforms that rotate, shear or tilt the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .arguments import (
    FillArgument,
    fail,
    fill_values,
    interpolation_mode,
    interval,
    is_sequence,
    number,
    spread,
)
from .engine.effects import Effects
from .engine.numbers import (
    Number,
    Params,
    all_true,
    ceil,
    cos,
    floor,
    maximum,
    minimum,
    rint,
    sin,
    trunc,
    where,
)
from .engine.plan import Canvas, Plan
from .transform import Builtin, RandomlyApplied

__all__ = ["RandomAffine", "RandomPerspective", "RandomRotation", "about", "cos_sin"]

_RADIANS = np.pi / 180.0


def cos_sin(degrees: Number) -> tuple[Number, Number]:
    """Cosine and sine, exact at multiples of 90 degrees."""
    quarters = rint(degrees * (1.0 / 90.0))
    rest = (degrees - 90.0 * quarters) * _RADIANS
    c, s = cos(rest), sin(rest)
    quarter = quarters % 4.0
    if all_true(quarter == 0.0):
        return c, s
    x = (quarter == 0.0) * 1.0 - (quarter == 2.0) * 1.0
    y = (quarter == 1.0) * 1.0 - (quarter == 3.0) * 1.0
    return x * c - y * s, y * c + x * s


def _tan(degrees: Number) -> Number:
    angle = degrees * _RADIANS
    return sin(angle) / cos(angle)


def about(
    linear: Sequence[Number], x: Number, y: Number, x_shift: Number = 0.0, y_shift: Number = 0.0
) -> list[Number]:
    """Return the affine map with linear part a, b, c, d that fixes (x, y) and then shifts."""
    a, b, c, d = linear
    return [a, b, x - (a * x + b * y) + x_shift, c, d, y - (c * x + d * y) + y_shift]


def _center(owner: str, value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    allowed = "None or two finite numbers (x, y)"
    if not is_sequence(value) or len(value) != 2:
        fail(owner, "center", value, allowed)
    x, y = (number(owner, "center", v, allowed=allowed, whole_value=value) for v in value)
    return x, y


def centre_numbers(center: tuple[float, float] | None) -> tuple[float, float, float]:
    """Return whether there is a centre, and its x and y."""
    return (0.0, 0.0, 0.0) if center is None else (1.0, *center)


class RandomAffine(Builtin):
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
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
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

    draws = 6

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Any = "bilinear",
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
        ranges = [interval(owner, "shear", pair, -inside, inside, allowed, shear) for pair in pairs]
        return tuple(value for pair in ranges for value in pair)

    def effects(self) -> Effects:
        return Effects(moves=True, aligned=False, interpolation=self.interpolation, fill=self.fill)

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        shear = self.shear or ()
        return "RandomAffine", (
            *self.degrees,
            *(self.translate or (-1.0, -1.0)),
            *(self.scale or (-1.0, -1.0)),
            float(len(shear) // 2),
            *shear,
            *[0.0] * (4 - len(shear)),
            *centre_numbers(self.center),
        )

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        low, high = self.degrees
        params = {"angle": low + uniforms[0] * (high - low)}
        if self.translate is not None:
            x, y = self.translate[0] * canvas.width, self.translate[1] * canvas.height
            params["translate_x"] = rint(x * (2.0 * uniforms[1] - 1.0))
            params["translate_y"] = rint(y * (2.0 * uniforms[2] - 1.0))
        if self.scale is not None:
            low, high = self.scale
            params["scale"] = low + uniforms[3] * (high - low)
        if self.shear is not None:
            low, high = self.shear[:2]
            params["shear_x"] = low + uniforms[4] * (high - low)
            if len(self.shear) == 4:
                low, high = self.shear[2:]
                params["shear_y"] = low + uniforms[5] * (high - low)
        return params

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        canvas = plan.canvas
        cosine, sine = cos_sin(params["angle"])
        # The product is rotation, shear along y, shear along x: in time, x shears first.
        a, c = cosine, sine
        if "shear_y" in params:
            tangent = _tan(params["shear_y"])
            a, c = cosine + sine * tangent, sine - cosine * tangent
        b, d = -sine, cosine
        if "shear_x" in params:
            tangent = _tan(params["shear_x"])
            b, d = b - a * tangent, d - c * tangent
        if "scale" in params:
            scale = params["scale"]
            a, b, c, d = a * scale, b * scale, c * scale, d * scale
        x, y = self.center or (canvas.width * 0.5, canvas.height * 0.5)
        shift = params.get("translate_x", 0.0), params.get("translate_y", 0.0)
        plan.affine(about((a, b, c, d), x, y, *shift), canvas)


class RandomRotation(Builtin):
    """Rotate the image.

    Arguments and distribution match torchvision's, except that `interpolation` defaults to
    bilinear, so that it can share a pass with the defaults of other transforms.

    Parameters
    ----------
    degrees : number or pair of number
        Range of the angle in degrees; d means [-d, d]. Positive is counter-clockwise on screen (the
        opposite of :class:`RandomAffine`, as in torchvision).
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
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

    draws = 1

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Any = "bilinear",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: FillArgument = 0,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.degrees = spread(owner, "degrees", degrees)
        self.interpolation = interpolation_mode(owner, interpolation)
        self.expand = bool(expand)
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

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        if self.expand:
            return None
        return "RandomRotation", (*self.degrees, *centre_numbers(self.center))

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        low, high = self.degrees
        return {"angle": low + uniforms[0] * (high - low)}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        canvas = plan.canvas
        cosine, sine = cos_sin(params["angle"])
        x, y = self.center or (canvas.width * 0.5, canvas.height * 0.5)
        x_shift = y_shift = 0.0
        if self.expand:
            # As torchvision and Pillow: from where the corners come, not where they go.
            canvas = _bounds(about((cosine, -sine, sine, cosine), x, y), canvas)
            if self.center is None:
                quarter = (sine == 1.0) | (sine == -1.0)
                height = where(quarter, plan.canvas.width, canvas.height)
                width = where(quarter, plan.canvas.height, canvas.width)
                canvas = Canvas(height, width, canvas.channels)
            x_shift = (canvas.width - plan.canvas.width) * 0.5
            y_shift = (canvas.height - plan.canvas.height) * 0.5
        plan.affine(about((cosine, sine, -sine, cosine), x, y, x_shift, y_shift), canvas)


def _bounds(matrix: Sequence[Number], canvas: Canvas) -> Canvas:
    """Return the bounds of the moved canvas, in whole pixels, as a canvas."""
    sides = []
    corner = canvas.width, canvas.height
    for a, b, c in (matrix[:3], matrix[3:]):
        low: Number = None
        high: Number = None
        for x, y in ((0.0, 0.0), (canvas.width, 0.0), (0.0, canvas.height), corner):
            # A corner 1e-14 beyond a pixel's edge must not add a pixel.
            moved = trunc((a * x + b * y + c) * 1e4) * 1e-4
            low = moved if low is None else minimum(low, moved)
            high = moved if high is None else maximum(high, moved)
        sides.append(ceil(high) - floor(low))
    return Canvas(sides[1], sides[0], canvas.channels)


class RandomPerspective(RandomlyApplied):
    """Move the image's four corners towards its middle.

    Arguments and distribution match torchvision's.

    Parameters
    ----------
    distortion_scale : float
        Largest move of a corner, as a fraction of half the image's sides, in [0, 1].
    p : float
        Probability, for each sample.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).

    Notes
    -----
    Parameters: ``apply``, and the new places of the corners (0, 0), (W - 1, 0), (W - 1, H - 1) and
    (0, H - 1): ``topleft_x``, ``topleft_y``, and likewise for ``topright``, ``bottomright`` and
    ``bottomleft``.

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
        fill: FillArgument = 0,
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

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        return "RandomPerspective", (self.distortion_scale, self.p)

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        params = {"apply": uniforms[0] < self.p}
        x_bound = floor(self.distortion_scale * floor(canvas.width * 0.5)) + 1.0
        y_bound = floor(self.distortion_scale * floor(canvas.height * 0.5)) + 1.0
        for corner, name in enumerate(_CORNERS):
            x = floor(uniforms[1 + 2 * corner] * x_bound)
            y = floor(uniforms[2 + 2 * corner] * y_bound)
            # On the right and at the bottom: one of the last `bound` columns or rows.
            right, bottom = name.endswith("right"), name.startswith("bottom")
            params[f"{name}_x"] = canvas.width - x_bound + x if right else x
            params[f"{name}_y"] = canvas.height - y_bound + y if bottom else y
        return params

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        corners = [(params[f"{name}_x"], params[f"{name}_y"]) for name in _CORNERS]
        matrix, regular = _rectangle_to_corners(plan.canvas, corners)
        apply = params["apply"] & regular
        identity = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
        chosen = [where(apply, m, i) for m, i in zip(matrix, identity, strict=True)]
        plan.perspective(chosen, plan.canvas)


_CORNERS = ("topleft", "topright", "bottomright", "bottomleft")


def _rectangle_to_corners(
    canvas: Canvas, corners: Sequence[tuple[Number, Number]]
) -> tuple[list[Number], Number]:
    """Return the perspective, row by row, that takes (0, 0), (W-1, 0), (W-1, H-1), (0, H-1) there.

    The second result is False where no such perspective exists: three of the corners lie on a line,
    or W or H is 1.
    """
    regular: Number = (canvas.width > 1.0) & (canvas.height > 1.0)
    for i in range(4):
        (x0, y0), (x1, y1), (x2, y2) = corners[i - 1], corners[i], corners[(i + 1) % 4]
        regular = regular & ((x0 - x1) * (y2 - y1) != (x2 - x1) * (y0 - y1))
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = corners
    ax, ay, bx, by = x1 - x2, y1 - y2, x3 - x2, y3 - y2
    cx, cy = x0 - x1 + x2 - x3, y0 - y1 + y2 - y3
    det = where(regular, ax * by - bx * ay, 1.0)
    g, h = (cx * by - bx * cy) / det, (ax * cy - cx * ay) / det
    # The closed form is for the unit square: scale the rectangle to it.
    u, v = 1.0 / maximum(canvas.width - 1.0, 1.0), 1.0 / maximum(canvas.height - 1.0, 1.0)
    return [
        *((x1 - x0 + g * x1) * u, (x3 - x0 + h * x3) * v, x0),
        *((y1 - y0 + g * y1) * u, (y3 - y0 + h * y3) * v, y0),
        *(g * u, h * v, 1.0),
    ], regular
