"""Colour transforms. Every step is an affine map of the channels, v' = A v + a."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .arguments import interval, is_sequence, number
from .engine.effects import STATIC, Effects
from .engine.numbers import GREY, Number, Params, columns, cos, sin, where
from .engine.plan import Canvas, Plan
from .transform import Builtin, RandomlyApplied

__all__ = ["ColorJitter", "RandomGrayscale", "check_channels", "jitter", "rows_of"]

_KEEP = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
_GRAY = GREY * 3
_ORDERS = tuple(itertools.permutations(range(4)))
_ORDER_ARRAY = np.array(_ORDERS)

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


def _hue_basis() -> tuple[tuple[float, float, float], ...]:
    """Return nine triples (p, q, r): a hue shift by t has matrix elements p + q cos t + r sin t.

    As in YIQ, hue turns about the grey axis in planes of equal luma. Each plane's axes are chosen
    so that red, green and blue lie 120 degrees apart, as they do on HSV's wheel.
    """
    total = sum(GREY)
    luma = [weight / total for weight in GREY]
    x = [math.cos(i * 2.0 * math.pi / 3.0) for i in range(3)]
    y = [math.sin(i * 2.0 * math.pi / 3.0) for i in range(3)]
    # The axes' directions: x and y, shifted along the grey axis to a luma of 0.
    x_luma = sum(w * v for w, v in zip(luma, x, strict=True))
    y_luma = sum(w * v for w, v in zip(luma, y, strict=True))
    to_x, to_y = [(v - x_luma) / 1.5 for v in x], [(v - y_luma) / 1.5 for v in y]
    return tuple(
        (luma[j], to_x[i] * x[j] + to_y[i] * y[j], to_y[i] * x[j] - to_x[i] * y[j])
        for i in range(3)
        for j in range(3)
    )


_HUE = _hue_basis()


def jitter(scale: Number, saturation: Number = None, hue: Number = None) -> list[Number]:
    """Return the 9 linear elements of brightness and contrast (`scale`), saturation and hue."""
    turned: Sequence[Number] = _KEEP
    if hue is not None:
        angle = hue * (2.0 * math.pi)
        c, s = cos(angle), sin(angle)
        turned = [still + c * along + s * across for still, along, across in _HUE]
    if saturation is not None:
        turned = [saturation * (t - g) + g for t, g in zip(turned, _GRAY, strict=True)]
    return [scale * t for t in turned]


def rows_of(linear: Sequence[Number]) -> list[Number]:
    """Add zero offsets to a linear part: a colour matrix, C rows of C + 1."""
    if len(linear) == 1:
        return [linear[0], 0.0]
    return [*linear[:3], 0.0, *linear[3:6], 0.0, *linear[6:], 0.0]


def check_channels(owner: str, channels: int) -> None:
    """Refuse an image that is neither grey nor RGB."""
    if channels not in (1, 3):
        raise ValueError(
            f"visops.transforms.{owner}: the image has {channels} channels, must have 1 or 3"
        )


class ColorJitter(Builtin):
    """Change brightness, contrast, saturation and hue, in a random order for each sample.

    Arguments, distribution, brightness, contrast and saturation match torchvision's. Hue differs:
    here it turns colours about the grey axis at constant luma, which is linear; torchvision shifts
    HSV's H, which is not, and makes the luma of a pure blue jump.

    Parameters
    ----------
    brightness, contrast, saturation : float or pair of float, optional
        f for a factor in [max(0, 1 - f), 1 + f], or the range itself, which must not be negative.
    hue : float or pair of float, optional
        h for a shift in [-h, h], or the range itself, within [-0.5, 0.5]. 1 is a full turn.

    Notes
    -----
    Parameters: ``order`` ``[B, 4]``, the order of brightness, contrast, saturation and hue (0 to
    3), and those of ``brightness``, ``contrast``, ``saturation`` and ``hue`` that are in use.

    Values are clamped to [0, 1] (uint8: 255) once, after the last step; with
    ``Compose(exact=True)``, after every step. Contrast takes the grey mean of the image at its
    point of the chain, over a grid of 32 x 32 points, or over all pixels with ``exact``. No
    gradient flows through that mean.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> twice = transforms.ColorJitter(brightness=(2, 2))
    >>> twice(torch.tensor([0.1, 0.2, 0.6]).reshape(3, 1, 1)).flatten()
    tensor([0.2000, 0.4000, 1.0000])
    """

    draws = 5

    def __init__(
        self,
        brightness: float | Sequence[float] | None = None,
        contrast: float | Sequence[float] | None = None,
        saturation: float | Sequence[float] | None = None,
        hue: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.brightness = self._range("brightness", brightness)
        self.contrast = self._range("contrast", contrast)
        self.saturation = self._range("saturation", saturation)
        self.hue = self._hue_range(hue)
        ranges = (self.brightness, self.contrast, self.saturation, self.hue)
        names = ("brightness", "contrast", "saturation", "hue")
        self._ranges = list(zip(names, ranges, strict=True))
        self._used = [(k, name) for k, (name, span) in enumerate(self._ranges) if span is not None]

    @classmethod
    def _range(cls, argument: str, value: Any) -> tuple[float, float] | None:
        if value is None:
            return None
        allowed = "a number >= 0 or two of them (min, max)"
        if is_sequence(value):
            low, high = interval(cls.__name__, argument, value, 0.0, allowed=allowed)
        else:
            f = number(cls.__name__, argument, value, 0.0, allowed=allowed)
            low, high = max(1.0 - f, 0.0), 1.0 + f
        return None if low == high == 1.0 else (low, high)

    @classmethod
    def _hue_range(cls, value: Any) -> tuple[float, float] | None:
        if value is None:
            return None
        allowed = "a number in [0, 0.5] or two in [-0.5, 0.5] (min, max)"
        if is_sequence(value):
            low, high = interval(cls.__name__, "hue", value, -0.5, 0.5, allowed)
        else:
            high = number(cls.__name__, "hue", value, 0.0, 0.5, allowed)
            low = -high
        return None if low == high == 0.0 else (low, high)

    def effects(self) -> Effects:
        return Effects(colors=len(self._used))

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        if not self._used:
            return STATIC
        numbers: list[float] = []
        for _, span in self._ranges:
            numbers += (0.0, 0.0, 0.0) if span is None else (1.0, *span)
        return "ColorJitter", [*numbers, *itertools.chain.from_iterable(_HUE)]

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        check_channels(type(self).__name__, canvas.channels)
        place = uniforms[0] * 24.0
        if type(place) is float:
            params: Params = {"order": _ORDERS[int(place)]}
        else:
            params = {"order": _ORDER_ARRAY[place.astype(np.int64)]}
        for kind, (name, span) in enumerate(self._ranges):
            if span is not None:
                params[name] = span[0] + uniforms[1 + kind] * (span[1] - span[0])
        return params

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        if not self._used:
            return
        gray = plan.canvas.channels == 1
        brightness, contrast = params.get("brightness"), params.get("contrast")
        saturation = None if gray else params.get("saturation")
        hue = None if gray else params.get("hue")
        if plan.exact:
            self._extend_by_steps(plan, params["order"], (brightness, contrast, saturation, hue))
            return
        # Unclamped, the steps commute: S H = s H + (1 - s) G, since H keeps luma and grey. Nor
        # does the grey mean depend on their order, except on where brightness comes: it may clamp.
        scale: Number = 1.0 if contrast is None else contrast
        scale = scale if brightness is None else scale * brightness
        matrix = _step(scale, saturation, hue, gray)
        if contrast is None:
            plan.color(matrix)
            return
        weight, before = 1.0 - contrast, None
        if brightness is not None:
            earlier = _before_contrast(params["order"])
            weight = where(earlier, weight, weight * brightness)
            before = _step(where(earlier, brightness, 1.0), None, None, gray)
        plan.color(matrix, weight, before)

    def _extend_by_steps(self, plan: Plan, order: Any, factors: Sequence[Number]) -> None:
        """Add a step for each kind in use, in each sample's order; each clamps its values."""
        gray = plan.canvas.channels == 1
        steps = {}
        for kind, factor in enumerate(factors):
            if factor is not None:
                saturation = factor if kind == SATURATION else None
                hue = factor if kind == HUE else None
                scale = factor if kind in (BRIGHTNESS, CONTRAST) else 1.0
                steps[kind] = _step(scale, saturation, hue, gray)
        contrast = factors[CONTRAST]
        if isinstance(order, np.ndarray):
            place = np.argsort(order, axis=1)
            order = np.argsort(place[:, list(steps)], axis=1).T  # [K, B], indices into `steps`
            matrices = np.stack([columns(step, plan.batch) for step in steps.values()])
            kinds = np.array(list(steps))
            for chosen in order:
                matrix = list(matrices[chosen, np.arange(plan.batch)].T)
                takes = kinds[chosen] == CONTRAST
                weight = None if contrast is None else np.where(takes, 1.0 - contrast, 0.0)
                plan.color(matrix, weight)
            return
        for kind in order:
            if kind in steps:
                plan.color(steps[kind], 1.0 - contrast if kind == CONTRAST else None)


def _step(scale: Number, saturation: Number, hue: Number, gray: bool) -> list[Number]:
    return rows_of([scale] if gray else jitter(scale, saturation, hue))


def _before_contrast(order: Any) -> Number:
    """Return whether brightness comes before contrast."""
    if isinstance(order, np.ndarray):
        place = np.argsort(order, axis=1).T
        return place[BRIGHTNESS] < place[CONTRAST]
    return order.index(BRIGHTNESS) < order.index(CONTRAST)


class RandomGrayscale(RandomlyApplied):
    """Make the image grey with probability `p`; the number of channels stays the same.

    Parameters
    ----------
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``. Grey is 0.2989 R + 0.587 G + 0.114 B, as in torchvision.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> gray = transforms.RandomGrayscale(p=1)
    >>> gray(torch.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1)).flatten()
    tensor([0.2989, 0.2989, 0.2989])
    """

    draws = 1

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def effects(self) -> Effects:
        return Effects(colors=1)

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        return "RandomGrayscale", (self.p,)

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        check_channels("RandomGrayscale", canvas.channels)
        return {"apply": uniforms[0] < self.p}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        if plan.canvas.channels == 3:
            apply = params["apply"]
            plan.color(rows_of([where(apply, g, k) for g, k in zip(_GRAY, _KEEP, strict=True)]))
