"""Channels and rectangles that are filled."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..._native import Step
from ..arguments import fail, flag, interval, is_sequence, number, one_of, whole
from ..base import KEY, OperationStep, RandomlyApplied, Range, fixed
from ..chain.effects import Effects
from ..chain.foreign import erase_with_noise
from ..chain.integers import reject_out_of_range
from ..chain.pixel_kinds import PixelKind
from ..chain.plan import Plan

__all__ = ["ChannelDropout", "CoarseDropout", "GridDropout", "RandomErasing"]

_FILLINGS = {"random": 1, "random_uniform": 2}


def _filling(owner: str, fill: Any) -> tuple[float, int]:
    """Return the value of a fill, and its kind."""
    if isinstance(fill, str):
        one_of(owner, "fill", fill, _FILLINGS, "a finite number, 'random' or 'random_uniform'")
        return 0.0, _FILLINGS[fill]
    return number(owner, "fill", fill, allowed="a finite number, 'random' or 'random_uniform'"), 0


def _check_fill(owner: str, fill: float | str, plan: Plan) -> None:
    if not isinstance(fill, str):
        reject_out_of_range(owner, "fill", [fill], plan.dtype)


# Holes of an image: each has numbers of its own.
_MOST_HOLES = 65536


def _counts(
    owner: str, name: str, value: Any, least: int, most: float = math.inf
) -> tuple[int, int]:
    limit = f" and <= {most}" if math.isfinite(most) else ""
    allowed = f"two whole numbers >= {least}{limit} (min, max)"
    low, high = interval(owner, name, value, least, most, allowed)
    if not (low.is_integer() and high.is_integer()):
        fail(owner, name, value, allowed)
    return int(low), int(high)


class ChannelDropout(OperationStep):
    """Fill some channels, with probability `p`.

    albumentations' transform of this name.

    Parameters
    ----------
    channel_drop_range : pair of int
        Range of their number.
    fill : float
        In the image's units; integers cut a fraction off, as albumentations does.
    p : float
        Probability, for each sample.

    Raises
    ------
    ValueError
        The image has no more channels than may be filled.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: fill, the range, key.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> dropped = transforms.ChannelDropout(p=1)(torch.ones(3, 2, 2))
    >>> dropped.sum()
    tensor(8.)
    """

    kind = PixelKind.DROP_CHANNELS

    def __init__(
        self, channel_drop_range: Sequence[int] = (1, 1), fill: float = 0, p: float = 0.5
    ) -> None:
        owner = "ChannelDropout"
        counts = _counts(owner, "channel_drop_range", channel_drop_range, 1)
        own_fill = number(owner, "fill", fill)
        super().__init__(p, [fixed(own_fill), fixed(counts[0]), fixed(counts[1]), KEY])
        self.channel_drop_range, self.fill = counts, own_fill

    def set_constants(self, plan: Plan) -> None:
        _check_fill("ChannelDropout", self.fill, plan)
        if self.channel_drop_range[1] >= plan.channels:
            raise ValueError(
                f"visops.transforms.ChannelDropout: channel_drop_range is "
                f"{self.channel_drop_range}, the image has {plan.channels} channels; must leave one"
            )


class CoarseDropout(OperationStep):
    """Fill some rectangles, with probability `p`.

    albumentations' transform of this name. Masks, boxes and key points stay as they are.

    Parameters
    ----------
    num_holes_range : pair of int
        Range of the number of rectangles.
    hole_height_range, hole_width_range : pair of number
        Ranges of their sides: shares of the image's if the greater is below 1, else pixels.
    fill : float, "random" or "random_uniform"
        In the image's units, of which integers cut a fraction off, as albumentations does; or a
        random value for each pixel, or for each rectangle, and channel.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: fill, key, and the arguments. All rectangles
    follow from the key and the image's size.

    Sources: T. DeVries and G. W. Taylor, "Improved regularization of convolutional neural networks
    with Cutout", 2017; Z. Zhong et al., "Random erasing data augmentation", AAAI 2020.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> holes = transforms.CoarseDropout((1, 1), (2, 2), (3, 3), p=1)
    >>> int((holes(torch.ones(1, 9, 9)) == 0).sum())
    6
    """

    kind = PixelKind.HOLES

    def __init__(
        self,
        num_holes_range: Sequence[int] = (1, 2),
        hole_height_range: Sequence[float] = (0.1, 0.2),
        hole_width_range: Sequence[float] = (0.1, 0.2),
        fill: float | str = 0,
        p: float = 0.5,
    ) -> None:
        owner, allowed = "CoarseDropout", "two numbers >= 0 (min, max), both below 1 or both whole"
        counts = _counts(owner, "num_holes_range", num_holes_range, 0, _MOST_HOLES)
        sides = []
        for name, given in (
            ("hole_height_range", hole_height_range),
            ("hole_width_range", hole_width_range),
        ):
            low, high = interval(owner, name, given, 0.0, allowed=allowed)
            if high >= 1.0 and not (low.is_integer() and high.is_integer()):
                fail(owner, name, given, allowed)
            sides.append((low, high))
        value, filling = _filling(owner, fill)
        ranges = [fixed(v) for pair in (counts, *sides) for v in pair]
        super().__init__(p, [fixed(value), KEY, *ranges, fixed(filling)])
        self.num_holes_range, self.fill = counts, fill
        self.hole_height_range, self.hole_width_range = sides

    def set_constants(self, plan: Plan) -> None:
        _check_fill("CoarseDropout", self.fill, plan)


class GridDropout(OperationStep):
    """Fill a rectangle in each cell of a grid, with probability `p`.

    albumentations' transform of this name. Masks, boxes and key points stay as they are.

    Parameters
    ----------
    ratio : float
        The rectangle's share of a cell's sides, in (0, 1].
    random_offset : bool
        Shift each rectangle at random within its cell; otherwise all by `shift_xy`.
    unit_size_range : pair of int, optional
        A cell's side in pixels is drawn from this range, the upper end excluded.
    holes_number_xy : pair of int, optional
        Cells along x and y, which count before `unit_size_range`. Without both, cells are a tenth
        of the image's sides. albumentations 2.0.8 says the same, and takes the first for y.
    shift_xy : pair of int
    fill : float, "random" or "random_uniform"
        As for :class:`CoarseDropout`.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: fill, key, and the arguments. What is left of
    an image beyond whole cells is given to some of them, in a random order.

    Source: P. Chen et al., "GridMask data augmentation", 2020.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> grid = transforms.GridDropout(0.5, holes_number_xy=(2, 2), p=1)
    >>> int((grid(torch.ones(1, 8, 8)) == 0).sum())
    16
    """

    kind = PixelKind.GRID_HOLES

    def __init__(
        self,
        ratio: float = 0.5,
        random_offset: bool = True,
        unit_size_range: Sequence[int] | None = None,
        holes_number_xy: Sequence[int] | None = None,
        shift_xy: Sequence[int] = (0, 0),
        fill: float | str = 0,
        p: float = 0.5,
    ) -> None:
        owner = "GridDropout"
        tiny = math.nextafter(0.0, 1.0)
        own_ratio = number(owner, "ratio", ratio, tiny, 1.0, "a number in (0, 1]")
        grid, numbers = 0, (0, 0)
        if holes_number_xy is not None:
            grid, numbers = 2, _two(owner, "holes_number_xy", holes_number_xy, 1)
        elif unit_size_range is not None:
            grid, numbers = 1, _counts(owner, "unit_size_range", unit_size_range, 2)
        shift = _two(owner, "shift_xy", shift_xy, 0)
        shifted = flag(owner, "random_offset", random_offset)
        value, filling = _filling(owner, fill)
        rest: list[Range] = [
            *(fixed(own_ratio), fixed(shifted), fixed(grid)),
            *(fixed(n) for n in (*numbers, *shift, filling)),
        ]
        super().__init__(p, [fixed(value), KEY, *rest])
        self.ratio, self.random_offset, self.shift_xy = own_ratio, shifted, shift
        self.unit_size_range = None if unit_size_range is None else tuple(unit_size_range)
        self.holes_number_xy = None if holes_number_xy is None else tuple(holes_number_xy)
        self.fill = fill

    def set_constants(self, plan: Plan) -> None:
        _check_fill("GridDropout", self.fill, plan)


def _two(owner: str, name: str, value: Any, least: int) -> tuple[int, int]:
    allowed = f"two whole numbers >= {least} (x, y)"
    if not isinstance(value, Sequence) or len(value) != 2:
        fail(owner, name, value, allowed)
    x, y = (whole(owner, name, v, least, allowed) for v in value)
    return x, y


class RandomErasing(RandomlyApplied):
    """Erase a random rectangle, with probability `p`.

    Arguments and distribution match torchvision's: the area is uniform, the aspect ratio
    log-uniform; if none of ten attempts fits into the image, nothing is erased. Masks, boxes and
    key points are left alone.

    Parameters
    ----------
    p : float
        Probability, for each sample.
    scale : pair of float
        Range of the rectangle's area, as a fraction of the image's.
    ratio : pair of float
        Range of its height divided by its width.
    value : number, sequence of C numbers, or "random"
        The fill, in the image's units at that point, which have to be able to hold it: torchvision
        lets integers overflow. "random" draws every value from the normal distribution, identically
        on every device, in a separate pass.
    inplace : bool
        Ignored; accepted for compatibility with torchvision.

    Notes
    -----
    Parameters: ``apply``, ``top``, ``left``, ``height``, ``width``, and with random values
    ``noise``, the number that determines them all.

    Source: Z. Zhong et al., "Random Erasing Data Augmentation", AAAI 2020.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> erase = transforms.RandomErasing(p=1, scale=(0.25, 0.25), ratio=(1, 1), value=7)
    >>> int((erase(torch.zeros(1, 8, 8)) == 7).sum())
    16
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0.0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p)
        owner = "RandomErasing"
        tiny = math.nextafter(0.0, 1.0)
        self.scale = interval(owner, "scale", scale, 0.0, 1.0, "two numbers in [0, 1] (min, max)")
        self.ratio = interval(owner, "ratio", ratio, tiny, allowed="two numbers > 0 (min, max)")
        self._log_ratio = (math.log(self.ratio[0]), math.log(self.ratio[1]))
        allowed = "a finite number, one per channel, or 'random'"
        self.value: list[float] | None = None
        if isinstance(value, str):
            if value != "random":
                fail(owner, "value", value, allowed)
        elif is_sequence(value):
            if len(value) == 0:
                fail(owner, "value", value, allowed)
            self.value = [number(owner, "value", v, allowed=allowed) for v in value]
        else:
            self.value = [number(owner, "value", value, allowed=allowed)]

    def effects(self) -> Effects:
        if self.value is None:
            return Effects(alone="it erases with random values")
        return Effects(erases=tuple(self.value))

    def chain_step(self) -> Step | None:
        fields = {
            "p": self.p,
            "scale": self.scale,
            "log_ratio": self._log_ratio,
            "noise": self.value is None,
        }
        return Step("RandomErasing", fields)

    def set_constants(self, plan: Plan) -> None:
        if self.value is None:
            return
        if len(self.value) not in (1, plan.channels):
            raise ValueError(
                f"visops.transforms.RandomErasing: value has {len(self.value)} numbers, the image "
                f"has {plan.channels} channels"
            )
        reject_out_of_range("RandomErasing", "value", self.value, plan.dtype)
        plan.erase_value = self.value

    def run_images(self, leaf: Any, params: Mapping[str, Any]) -> None:
        erase_with_noise(leaf, params)

    def extra_repr(self) -> str:
        value = "random" if self.value is None else self.value
        return f"p={self.p}, scale={self.scale}, ratio={self.ratio}, value={value!r}"
