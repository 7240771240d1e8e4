"""Colour transforms. Every step is an affine map of the channels, v' = A v + a."""

from collections.abc import Sequence
from typing import Any

from .._native import Step
from .arguments import interval, is_sequence, number
from .engine.effects import Effects
from .engine.plan import Plan
from .transform import Builtin, RandomlyApplied


def check_channels(owner: str, channels: int, allowed: Sequence[int] = (1, 3)) -> None:
    """Refuse an image whose number of channels is not an allowed one."""
    if channels not in allowed:
        *others, last = map(str, allowed)
        raise ValueError(
            f"visops.transforms.{owner}: the image has {channels} channels, must have "
            + (f"{', '.join(others)} or {last}" if others else last)
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
        self._used = sum(span is not None for _, span in self._ranges)

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
        return Effects(colors=self._used)

    def chain_step(self) -> Step | None:
        return Step("ColorJitter", self._numbers())

    def _numbers(self) -> list[float]:
        """Return, for each kind of change, whether it is in use, and its range."""
        numbers: list[float] = []
        for _, span in self._ranges:
            numbers += (0.0, 0.0, 0.0) if span is None else (1.0, *span)
        return numbers

    def settle(self, plan: Plan) -> None:
        if (self.contrast, self.saturation, self.hue) != (None, None, None):  # these need a grey
            check_channels(type(self).__name__, plan.channels)


class RandomGrayscale(RandomlyApplied):
    """Make the image grey with probability `p`; the number of channels stays the same.

    Parameters
    ----------
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``. Grey is 0.2989 R + 0.587 G + 0.114 B, as in torchvision. Values are not
    clamped, unless another change of colours in the same pass does so.

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

    def chain_step(self) -> Step | None:
        return Step("RandomGrayscale", (self.p,))

    def settle(self, plan: Plan) -> None:
        check_channels("RandomGrayscale", plan.channels)
