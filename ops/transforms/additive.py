"""Colour transforms of several channels: what is added to them, and their order."""

from collections.abc import Sequence
from typing import Any

from .._native import Step
from .arguments import interval, is_sequence, number
from .color import check_channels
from .engine.effects import Effects
from .engine.plan import Plan
from .transform import Builtin, RandomlyApplied

_MIXED = range(1, 5)  # as many channels as a colour step can mix


def _limits(owner: str, name: str, value: Any, low: float, high: float) -> tuple[float, float]:
    allowed = f"a number in [0, {high:g}] or two in [{low:g}, {high:g}] (min, max)"
    if is_sequence(value):
        return interval(owner, name, value, low, high, allowed)
    limit = number(owner, name, value, 0.0, high, allowed)
    return -limit, limit


class RandomBrightnessContrast(RandomlyApplied):
    """Multiply by a random factor and add a random share of white, with probability `p`.

    albumentations' transform of this name: v' = (1 + c) v + b, with white at 1.

    Parameters
    ----------
    brightness_limit : float or pair of float
        Range of b; one number x means [-x, x].
    contrast_limit : float or pair of float
        Range of c, likewise.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``scale``, which is 1 + c, and ``shift`` ``[B, 1]``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> change = transforms.RandomBrightnessContrast((0.1, 0.1), (1, 1), p=1)
    >>> change(torch.tensor([[[0.0, 0.2, 0.9]]]))
    tensor([[[0.1000, 0.5000, 1.0000]]])
    """

    draws = 3

    def __init__(
        self,
        brightness_limit: float | Sequence[float] = 0.2,
        contrast_limit: float | Sequence[float] = 0.2,
        p: float = 0.5,
    ) -> None:
        super().__init__(p)
        owner = "RandomBrightnessContrast"
        self.brightness_limit = _limits(owner, "brightness_limit", brightness_limit, -1.0, 1.0)
        self.contrast_limit = _limits(owner, "contrast_limit", contrast_limit, -1.0, 10.0)

    def effects(self) -> Effects:
        return Effects(colors=1)

    def chain_step(self) -> Step | None:
        low, high = self.contrast_limit
        numbers = (self.p, 1.0 + low, 1.0 + high, *self.brightness_limit)
        return Step("ScaleAndShift", numbers)


class RGBShift(RandomlyApplied):
    """Add a random number to each channel, with probability `p`.

    albumentations' transform of this name.

    Parameters
    ----------
    r_shift_limit, g_shift_limit, b_shift_limit : float or pair of float
        Range of what is added, in levels of 255, whatever the image's dtype; one number x means
        [-x, x].
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``shift`` ``[B, 3]``, with white at 1, and ``scale``, which is 1.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> shift = transforms.RGBShift((10, 10), (-20, -20), (0, 0), p=1)
    >>> shift(torch.full((3, 1, 1), 100, dtype=torch.uint8)).flatten()
    tensor([110,  80, 100], dtype=torch.uint8)
    """

    draws = 5

    def __init__(
        self,
        r_shift_limit: float | Sequence[float] = 20,
        g_shift_limit: float | Sequence[float] = 20,
        b_shift_limit: float | Sequence[float] = 20,
        p: float = 0.5,
    ) -> None:
        super().__init__(p)
        given = {"r": r_shift_limit, "g": g_shift_limit, "b": b_shift_limit}
        self.r_shift_limit, self.g_shift_limit, self.b_shift_limit = (
            _limits("RGBShift", f"{name}_shift_limit", limit, -255.0, 255.0)
            for name, limit in given.items()
        )

    def effects(self) -> Effects:
        return Effects(colors=1)

    def settle(self, plan: Plan) -> None:
        check_channels("RGBShift", plan.channels, (3,))

    def chain_step(self) -> Step | None:
        limits = (*self.r_shift_limit, *self.g_shift_limit, *self.b_shift_limit)
        return Step("ScaleAndShift", (self.p, 1.0, 1.0, *(limit / 255.0 for limit in limits)))


class RandomChannelPermutation(Builtin):
    """Put the channels into a random order.

    Notes
    -----
    Parameters: ``permutation`` ``[B, 4]``, the channel that each becomes; entries beyond the
    image's channels mean nothing. It takes images of up to four channels.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.tensor([0.1, 0.2, 0.3]).reshape(3, 1, 1)
    >>> transforms.RandomChannelPermutation()(image).flatten().sort().values
    tensor([0.1000, 0.2000, 0.3000])
    """

    draws = len(_MIXED)

    def effects(self) -> Effects:
        return Effects(colors=1)

    def settle(self, plan: Plan) -> None:
        check_channels("RandomChannelPermutation", plan.channels, _MIXED)

    def chain_step(self) -> Step | None:
        return Step("ChannelPermutation", (len(_MIXED),))
