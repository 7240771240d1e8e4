"""Colour transforms. Every step is an affine map of the channels, v' = A v + a."""

import math
from collections.abc import Sequence
from typing import Any

from ..._native import Step
from ..arguments import check_channels, fail, interval, is_sequence, number, probability, symmetric
from ..base import Builtin, RandomlyApplied
from ..chain.effects import Effects
from ..chain.plan import Plan

__all__ = [
    "ColorJitter",
    "ColorMatrix",
    "Grayscale",
    "RGBShift",
    "RandomBrightnessContrast",
    "RandomChannelPermutation",
    "RandomGrayscale",
    "RandomPhotometricDistort",
]


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
        return Step("ColorJitter", dict(self._ranges))

    def set_constants(self, plan: Plan) -> None:
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

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def effects(self) -> Effects:
        return Effects(colors=1)

    def chain_step(self) -> Step | None:
        return Step("RandomGrayscale", {"p": self.p})

    def set_constants(self, plan: Plan) -> None:
        check_channels("RandomGrayscale", plan.channels)


class Grayscale(Builtin):
    """Make the image grey.

    A pass of its own gives the image the channels that are asked for: one by default, as in
    torchvision. :class:`RandomGrayscale` with ``p=1`` keeps the number of channels, and fuses.

    Parameters
    ----------
    num_output_channels : {1, 3}
        An image of one channel gets three equal ones.

    Notes
    -----
    Grey is 0.2989 R + 0.587 G + 0.114 B.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> red = torch.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1)
    >>> transforms.Grayscale()(red)
    tensor([[[0.2989]]])
    """

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        if num_output_channels not in (1, 3):
            fail("Grayscale", "num_output_channels", num_output_channels, "1 or 3")
        self.num_output_channels = num_output_channels

    def effects(self) -> Effects:
        return Effects(colors=1, channels=self.num_output_channels)

    def chain_step(self) -> Step | None:
        return Step("Grayscale", {})

    def set_constants(self, plan: Plan) -> None:
        check_channels("Grayscale", plan.channels)


_MIXED = range(1, 5)  # as many channels as a colour step can mix


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

    def __init__(
        self,
        brightness_limit: float | Sequence[float] = 0.2,
        contrast_limit: float | Sequence[float] = 0.2,
        p: float = 0.5,
    ) -> None:
        super().__init__(p)
        owner = "RandomBrightnessContrast"
        self.brightness_limit = symmetric(owner, "brightness_limit", brightness_limit, -1.0, 1.0)
        self.contrast_limit = symmetric(owner, "contrast_limit", contrast_limit, -1.0, 10.0)

    def effects(self) -> Effects:
        return Effects(colors=1)

    def chain_step(self) -> Step | None:
        low, high = self.contrast_limit
        fields = {"p": self.p, "scale": (1.0 + low, 1.0 + high), "shift": self.brightness_limit}
        return Step("ScaleAndShift", fields)


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
            symmetric("RGBShift", f"{name}_shift_limit", limit, -255.0, 255.0)
            for name, limit in given.items()
        )

    def effects(self) -> Effects:
        return Effects(colors=1)

    def set_constants(self, plan: Plan) -> None:
        check_channels("RGBShift", plan.channels, (3,))

    def chain_step(self) -> Step | None:
        limits = (*self.r_shift_limit, *self.g_shift_limit, *self.b_shift_limit)
        shift = [limit / 255.0 for limit in limits]
        return Step("ScaleAndShift", {"p": self.p, "scale": (1.0, 1.0), "shift": shift})


class ColorMatrix(RandomlyApplied):
    """Mix the channels by a matrix, with probability `p`: v' = (A + u B) v, u a random amount.

    A base for changes of colour of your own, which are then drawn and run in C++.

    Parameters
    ----------
    matrix : sequence of sequence of float
        A: a row for each channel, 1 to 4 of them, of as many numbers, and perhaps one more, which
        is added, with white at 1.
    variation : like `matrix`, optional
        B: what an amount of 1 adds to the matrix. The default is nothing.
    amount : pair of float
        Range of u.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``amount``. Values are clamped to what the image can hold.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> swap = transforms.ColorMatrix([[0, 0, 1], [0, 1, 0], [1, 0, 0]])
    >>> swap(torch.tensor([0.1, 0.2, 0.3]).reshape(3, 1, 1)).flatten()
    tensor([0.3000, 0.2000, 0.1000])
    """

    def __init__(
        self,
        matrix: Sequence[Sequence[float]],
        variation: Sequence[Sequence[float]] | None = None,
        amount: Sequence[float] = (0.0, 1.0),
        p: float = 1.0,
    ) -> None:
        super().__init__(p)
        self.matrix = _color_rows("matrix", matrix)
        self.variation = None if variation is None else _color_rows("variation", variation)
        if self.variation is not None and len(self.variation) != len(self.matrix):
            allowed = f"{len(self.matrix)} rows, as matrix has"
            fail("ColorMatrix", "variation", variation, allowed)
        self.amount = interval(
            "ColorMatrix", "amount", amount, -math.inf, math.inf, "two numbers (min, max)"
        )

    def effects(self) -> Effects:
        return Effects(colors=1)

    def set_constants(self, plan: Plan) -> None:
        check_channels(type(self).__name__, plan.channels, (len(self.matrix),))

    def chain_step(self) -> Step | None:
        fields = {
            "p": self.p,
            "amount": self.amount,
            "channels": len(self.matrix),
            "matrix": sum(self.matrix, ()),
            "variation": None if self.variation is None else sum(self.variation, ()),
        }
        return Step("ColorMatrix", fields)


def _color_rows(name: str, rows: Any) -> tuple[tuple[float, ...], ...]:
    """Return the rows of a colour matrix, each with what is added."""
    allowed = "1 to 4 rows of as many numbers as rows, or one more"
    count = len(rows) if is_sequence(rows) else 0
    if count not in _MIXED or not all(map(is_sequence, rows)):
        fail("ColorMatrix", name, rows, allowed)
    found = []
    for row in rows:
        if len(row) not in (count, count + 1):
            fail("ColorMatrix", name, rows, allowed)
        numbers = [number("ColorMatrix", name, v, -math.inf, math.inf, allowed) for v in row]
        found.append((*numbers, 0.0)[: count + 1])
    return tuple(found)


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

    def effects(self) -> Effects:
        return Effects(colors=1)

    def set_constants(self, plan: Plan) -> None:
        check_channels("RandomChannelPermutation", plan.channels, _MIXED)

    def chain_step(self) -> Step | None:
        return Step("ChannelPermutation", {})


class RandomPhotometricDistort(ColorJitter):
    """Distort colours as SSD does: each kind of change, and a permutation of channels, at random.

    Arguments and distribution match torchvision's. Contrast changes before or after saturation and
    hue. Hue differs as in :class:`ColorJitter`.

    Parameters
    ----------
    brightness, contrast, saturation : pair of float
        Range of the factor.
    hue : pair of float
        Range of the shift, within [-0.5, 0.5]. 1 is a full turn.
    p : float
        Probability of each kind, and of the permutation, for each sample.

    Notes
    -----
    Parameters: ``order``, ``brightness``, ``contrast``, ``saturation`` and ``hue`` as for
    :class:`ColorJitter`, neutral where they don't apply; ``permutation``, from 0 (none) to 5.

    Source: W. Liu et al., "SSD: Single shot multibox detector", ECCV 2016.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> distort = transforms.RandomPhotometricDistort()
    >>> distort(torch.rand(3, 6, 8)).shape
    torch.Size([3, 6, 8])
    """

    def __init__(
        self,
        brightness: Sequence[float] = (0.875, 1.125),
        contrast: Sequence[float] = (0.5, 1.5),
        saturation: Sequence[float] = (0.5, 1.5),
        hue: Sequence[float] = (-0.05, 0.05),
        p: float = 0.5,
    ) -> None:
        super().__init__(brightness, contrast, saturation, hue)
        self.p = probability(type(self).__name__, p)

    def effects(self) -> Effects:
        return Effects(colors=self._used + 1)

    def chain_step(self) -> Step | None:
        return Step("RandomPhotometricDistort", {**dict(self._ranges), "p": self.p})
