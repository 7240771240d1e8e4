"""Colour transforms: every step is a matrix, v' = A v + a."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._arguments import interval, is_sequence, number
from ._plan import Canvas, Plan
from ._transform import Effects, Params, RandomlyApplied, Transform

__all__ = ["GREY", "ColorJitter", "RandomGrayscale", "color_matrices"]

# ITU-R BT.601's luma, in torchvision's (and Pillow's) rounding: they add up to 0.9999.
GREY = np.array([0.2989, 0.587, 0.114])

_KEEP = np.concatenate((np.eye(3), np.zeros((3, 1))), axis=1)  # v' = v
_GRAY = np.concatenate((np.tile(GREY, (3, 1)), np.zeros((3, 1))), axis=1)
_COLORFUL = _KEEP - _GRAY


def _hue_basis() -> np.ndarray:
    """Make [3, 3, 4]: a turn of hue by t is the sum of these, times 1, cos t and sin t.

    As a turn in YIQ: about the grey axis, in the plane of equal luma. The plane's axes are those
    for which red, green and blue lie 120 degrees apart, as they do on the wheel of HSV.
    """
    luma = GREY / GREY.sum()
    third = 2.0 * np.pi / 3.0
    x = np.array([1.0, np.cos(third), np.cos(2.0 * third)])
    y = np.array([0.0, np.sin(third), np.sin(2.0 * third)])
    # The directions along the axes: x and y, moved along the grey axis to a luma of 0.
    to_x, to_y = x / 1.5, y / 1.5
    to_x, to_y = to_x - (luma * to_x).sum(), to_y - (luma * to_y).sum()
    basis = np.zeros((3, 3, 4))
    basis[0, :, :3] = np.outer(np.ones(3), luma)
    basis[1, :, :3] = np.outer(to_x, x) + np.outer(to_y, y)
    basis[2, :, :3] = np.outer(to_y, x) - np.outer(to_x, y)
    return basis


_HUE = _hue_basis()
_ORDERS = np.array(list(itertools.permutations(range(4))))

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


def color_matrices(kind: int, factor: np.ndarray, channels: int) -> np.ndarray:
    """Matrices [B, C, C+1] of one kind of step; of contrast without the grey mean."""
    if channels == 1:
        matrices = np.zeros((factor.shape[0], 1, 2))
        matrices[:, 0, 0] = 1.0 if kind >= SATURATION else factor
        return matrices
    f = factor[:, None, None]
    if kind == SATURATION:
        return f * _COLORFUL + _GRAY
    if kind == HUE:
        angle = f * (2.0 * np.pi)
        return _HUE[0] + np.cos(angle) * _HUE[1] + np.sin(angle) * _HUE[2]
    return f * _KEEP


def check_channels(owner: str, channels: int) -> None:
    if channels not in (1, 3):
        raise ValueError(
            f"visops.transforms.{owner}: the image has {channels} channels, must have 1 or 3"
        )


class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue, in random order for each sample.

    The arguments and the distribution are those of torchvision's, and so are brightness, contrast
    and saturation. Hue is different: here it turns colours about the grey axis at constant luma (a
    matrix), torchvision shifts the H of HSV (not linear, and a pure blue's luma jumps).

    Parameters
    ----------
    brightness, contrast, saturation : float or pair of float, optional
        f for a factor in [max(0, 1 - f), 1 + f], or the range itself, not negative.
    hue : float or pair of float, optional
        h for a shift in [-h, h], or the range itself, within [-0.5, 0.5]; 1 is a full turn.

    Notes
    -----
    Parameters: ``order`` ``[B, 4]`` of brightness, contrast, saturation and hue (0 to 3), and
    of those in use ``brightness``, ``contrast``, ``saturation``, ``hue``.

    Values are clamped to [0, 1] (255 for uint8) after every step with ``Compose(exact=True)``, else
    once after the last. The contrast's grey mean is that of the image at this point of the chain,
    of a grid of 32 x 32 points, or with ``exact`` of all pixels. No gradient flows through it.

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
        self._used = [
            (kind, name, span)
            for kind, (name, span) in enumerate(zip(names, ranges, strict=True))
            if span is not None
        ]

    @staticmethod
    def _range(argument: str, value: Any) -> tuple[float, float] | None:
        if value is None:
            return None
        allowed = "a number >= 0 or two of them (min, max)"
        if is_sequence(value):
            low, high = interval("ColorJitter", argument, value, 0.0, allowed=allowed)
        else:
            f = number("ColorJitter", argument, value, 0.0, allowed=allowed)
            low, high = max(1.0 - f, 0.0), 1.0 + f
        return None if low == high == 1.0 else (low, high)

    @staticmethod
    def _hue_range(value: Any) -> tuple[float, float] | None:
        if value is None:
            return None
        allowed = "a number in [0, 0.5] or two in [-0.5, 0.5] (min, max)"
        if is_sequence(value):
            low, high = interval("ColorJitter", "hue", value, -0.5, 0.5, allowed)
        else:
            high = number("ColorJitter", "hue", value, 0.0, 0.5, allowed)
            low = -high
        return None if low == high == 0.0 else (low, high)

    def effects(self) -> Effects:
        return Effects(colors=len(self._used))

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> Params:
        check_channels("ColorJitter", canvas.channels)
        params = {"order": _ORDERS[(uniforms[:, 0] * 24.0).astype(np.int64)]}
        for kind, name, (low, high) in self._used:
            params[name] = low + uniforms[:, 1 + kind] * (high - low)
        return params

    def extend(self, plan: Plan, params: Mapping[str, np.ndarray]) -> None:
        if not self._used:
            return
        channels, order = plan.canvas.channels, params["order"]
        batch, steps = order.shape[0], len(self._used)
        matrices = np.empty((batch, steps, channels, channels + 1))
        weight = None
        for step, (kind, name, _) in enumerate(self._used):
            matrices[:, step] = color_matrices(kind, params[name], channels)
            if kind == CONTRAST:
                weight = np.zeros((batch, steps))
                weight[:, step] = 1.0 - params[name]
        if steps > 1:
            if steps < 4:
                # Of the order of all four, that of those in use.
                place = np.argsort(order, axis=1)
                order = np.argsort(place[:, [kind for kind, _, _ in self._used]], axis=1)
            rows = np.arange(batch)[:, None]
            matrices = matrices[rows, order]
            weight = None if weight is None else weight[rows, order]
        plan.color(matrices, weight)


class RandomGrayscale(RandomlyApplied):
    """Make the image grey, with probability `p`; the number of channels stays.

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

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> Params:
        check_channels("RandomGrayscale", canvas.channels)
        return {"apply": uniforms[:, 0] < self.p}

    def extend(self, plan: Plan, params: Mapping[str, np.ndarray]) -> None:
        if plan.canvas.channels == 3:
            matrices = np.where(params["apply"][:, None, None], _GRAY, _KEEP)
            plan.color(matrices[:, None])
