"""Augmentation policies: each sample draws some operations."""

import re
from collections.abc import Sequence
from typing import Any, Literal

import torch

from ..._native import Step
from ..arguments import (
    FillArgument,
    InterpolationArgument,
    check_channels,
    fail,
    fill_values,
    interpolation_mode,
    one_of,
    whole,
)
from ..base import Builtin
from ..chain.effects import Effects, Fusable
from ..chain.plan import Plan, evenly

__all__ = ["RandAugment", "TrivialAugment", "from_timm"]

OPERATIONS = (
    "Identity",
    "ShearX",
    "ShearY",
    "TranslateX",
    "TranslateY",
    "Rotate",
    "Brightness",
    "Color",
    "Contrast",
    "Sharpness",
    "Posterize",
    "Solarize",
    "AutoContrast",
    "Equalize",
    "Invert",
)
LINEAR = 9  # the first ones are linear in pixels' places or values
SIGNED = OPERATIONS[1:10]  # whose magnitudes have a random sign


def level_table(
    levels: int, shear: float, shift: float, degrees: float, factor: float, bits: float
) -> list[list[float]]:
    """Return the magnitudes of each operation by level, as torchvision computes them.

    Parameters
    ----------
    levels : int
    shear, shift, degrees, factor : float
        The largest shear, shift and angle, and the largest distance of a factor from 1.
    bits : float
        How many bits the strongest posterization drops.
    """

    def up_to(most: float) -> list[float]:
        return evenly(0.0, most, levels).tolist()  # type: ignore[no-any-return]

    zeros = [0.0] * levels
    shears, shifts, factors = up_to(shear), up_to(shift), up_to(factor)
    geometry = [shears, shears, shifts, shifts, up_to(degrees)]
    thresholds = evenly(1.0, 0.0, levels).tolist()
    values = [*[factors] * 4, kept_bits(8, bits, levels), thresholds, zeros, zeros, zeros]
    return [zeros, *geometry, *values]


def kept_bits(most: int, dropped: float, levels: int) -> list[float]:
    """Return how many bits posterization keeps at each level: fewer and fewer of `most`."""
    steps = torch.arange(levels, dtype=torch.float32, device="cpu")
    return (most - steps / ((levels - 1) / dropped)).round().tolist()  # type: ignore[no-any-return]


def _bins(owner: str, value: Any) -> int:
    """Check how many strengths there are: each is a number in a table."""
    allowed, most = "a whole number >= 2 and <= 65536", 65536
    return whole(owner, "num_magnitude_bins", value, 2, allowed, most)


class Policy(Builtin):
    """What the policies have in common.

    Their operations run value by value, in a pass of their own; masks, boxes and key points follow
    those that move pixels.
    """

    def __init__(self, owner: str, interpolation: Any, fill: FillArgument) -> None:
        super().__init__()
        self._owner = owner
        self.interpolation = interpolation_mode(owner, interpolation)
        self.fill = fill_values(owner, fill)

    def changes_values(self) -> bool:
        return True

    def effects(self) -> Effects:
        return Effects(moves=True, aligned=False, interpolation=self.interpolation, fill=self.fill)

    def set_constants(self, plan: Plan) -> None:
        check_channels(self._owner, plan.channels)


class _Linear(Builtin):
    """Some linear operations one after another, which fuse with the rest of a chain.

    Parameters
    ----------
    name : str
        The policy's.
    interpolation : str
    fill : tuple of float
    fields : dict
        Those of the step: how many operations, ...
    """

    def __init__(
        self, name: str, interpolation: str, fill: tuple[float, ...], fields: dict[str, Any]
    ) -> None:
        super().__init__()
        self._name, self._interpolation, self.fill = name, interpolation, fill
        self._fields = fields

    def effects(self) -> Effects:
        return Effects(
            moves=True,
            aligned=False,
            interpolation=self._interpolation,
            fill=self.fill,
            colors=self._fields["count"],
        )

    def chain_step(self) -> Step | None:
        return Step("LinearPolicy", self._fields)

    def set_constants(self, plan: Plan) -> None:
        check_channels(self._name, plan.channels)

    def _get_name(self) -> str:
        return f"{self._name}.operation"


class _Random(Policy):
    """A policy that draws from a space of operations, or from its linear ones."""

    def __init__(
        self,
        owner: str,
        interpolation: InterpolationArgument,
        fill: FillArgument,
        bins: int,
        operations: str,
        reach: Sequence[float],
        *,
        count: int = 1,
        level: int | None = None,
        relative: bool = False,
        numbered: bool = False,
    ) -> None:
        super().__init__(owner, interpolation, fill)
        self.num_magnitude_bins = bins
        one_of(owner, "operations", operations, ("all", "linear"))
        self.operations = operations
        fields: dict[str, Any] = {"level": level, "bins": bins, "relative": relative}
        if operations == "linear":
            shear, shift, degrees, factor, _ = reach
            greatest = (0.0, shear, shear, shift, shift, degrees, factor, factor, factor)
            fields["greatest"] = greatest
            given = (owner, self.interpolation, self.fill)
            self._linear = _Linear(*given, {**fields, "count": count, "numbered": numbered})
            one = _Linear(*given, {**fields, "count": 1, "numbered": False})
            self._single = [one] * count if numbered else []
            return
        spaces = level_table(bins, *reach)[:-1]  # without Invert
        self._fields = {
            **fields,
            "count": count,
            "numbered": numbered,
            "operations": range(len(spaces)),
            "signed": [name in SIGNED for name in OPERATIONS[: len(spaces)]],
            "magnitudes": [magnitude for space in spaces for magnitude in space],
        }

    def changes_values(self) -> bool:
        return self.operations == "all"

    def effects(self) -> Effects:
        return super().effects() if self.operations == "all" else self._linear.effects()

    def chain_step(self) -> Step | None:
        if self.operations == "all":
            return Step("RandomPolicy", self._fields)
        return self._linear.chain_step()

    def parts(self) -> list[Fusable]:
        linear = self.operations == "linear" and self._single
        return list(self._single) if linear else [self]


class RandAugment(_Random):
    """Apply randomly chosen operations one after another, all with the same magnitude.

    The operations are torchvision's, with its ranges: Identity, ShearX, ShearY, TranslateX,
    TranslateY, Rotate, Brightness, Color, Contrast, Sharpness, Posterize, Solarize, AutoContrast,
    Equalize.

    Parameters
    ----------
    num_ops : int
        Number of operations.
    magnitude : int
        Strength, from 0 to ``num_magnitude_bins - 1``.
    num_magnitude_bins : int
        Number of levels of strength.
    interpolation : {"nearest", "bilinear", "bicubic"} or InterpolationMode
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).
    operations : {"all", "linear"}
        "linear": only the first nine, which fuse with the chain around them. That is another
        policy, and a faster one.

    Notes
    -----
    Parameters: ``operation_0`` and ``magnitude_0`` for the first operation, and so on. An
    operation's number is its place in the list above.

    Source: E. D. Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced
    search space", CVPR Workshops 2020.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8)
    >>> transforms.RandAugment(num_ops=2, magnitude=9)(image).shape
    torch.Size([3, 32, 32])
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationArgument = "nearest",
        fill: FillArgument = None,
        operations: Literal["all", "linear"] = "all",
    ) -> None:
        owner = "RandAugment"
        allowed = "a whole number from 1 to 8"
        count = whole(owner, "num_ops", num_ops, 1, allowed, 8)
        bins = _bins(owner, num_magnitude_bins)
        allowed = f"a whole number from 0 to num_magnitude_bins - 1, which is {bins - 1}"
        level = whole(owner, "magnitude", magnitude, 0, allowed, bins - 1)
        reach = (0.3, 150.0 / 331.0, 30.0, 0.9, 4.0)
        given = (owner, interpolation, fill, bins, operations, reach)
        super().__init__(*given, count=count, level=level, relative=True, numbered=True)
        self.num_ops, self.magnitude = count, level


class TrivialAugment(_Random):
    """Apply one randomly chosen operation with a random magnitude.

    The operations are those of torchvision's TrivialAugmentWide, with its ranges: Identity, ShearX,
    ShearY, TranslateX, TranslateY, Rotate, Brightness, Color, Contrast, Sharpness, Posterize,
    Solarize, AutoContrast, Equalize.

    Parameters
    ----------
    num_magnitude_bins : int
        Number of levels of strength.
    interpolation : {"nearest", "bilinear", "bicubic"} or InterpolationMode
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).
    operations : {"all", "linear"}
        "linear": only the first nine, which fuse with the chain around them. That is another
        policy, and a faster one.

    Notes
    -----
    Parameters: ``operation`` and ``magnitude``. The operation's number is its place in the list
    above.

    Source: S. G. Müller and F. Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data
    Augmentation", ICCV 2021.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8)
    >>> transforms.TrivialAugment()(image).shape
    torch.Size([3, 32, 32])
    """

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationArgument = "nearest",
        fill: FillArgument = None,
        operations: Literal["all", "linear"] = "all",
    ) -> None:
        owner = "TrivialAugment"
        bins = _bins(owner, num_magnitude_bins)
        reach = (0.99, 32.0, 135.0, 0.99, 6.0)
        super().__init__(owner, interpolation, fill, bins, operations, reach)


_ALLOWED = (
    "'rand-' and sections such as m9, n2, p0.5, mstd0.5, mmax10, inc1, joined by '-'; other sets "
    "of operations (t...) are timm's own"
)
_SECTION = re.compile(r"(mstd|mmax|inc|m|n|p)(\d+(?:\.\d+)?|inf)")


class TimmRandAugment(Builtin):
    """What :func:`from_timm` makes."""

    def __init__(
        self,
        magnitude: float,
        num_layers: int,
        prob: float,
        magnitude_std: float,
        magnitude_max: float,
        increasing: bool,
        interpolation: InterpolationArgument = "bilinear",
        fill: FillArgument = 128,
    ) -> None:
        super().__init__()
        self.magnitude, self.num_layers, self.prob = magnitude, num_layers, prob
        self.magnitude_std, self.magnitude_max = magnitude_std, magnitude_max
        self.increasing = increasing
        self.interpolation = interpolation_mode("from_timm", interpolation)
        self.fill = fill_values("from_timm", fill)

    def changes_values(self) -> bool:
        return True

    def effects(self) -> Effects:
        return Effects(moves=True, aligned=False, interpolation=self.interpolation, fill=self.fill)

    def set_constants(self, plan: Plan) -> None:
        check_channels("from_timm", plan.channels)

    def chain_step(self) -> Step | None:
        fields = {
            "count": self.num_layers,
            "p": self.prob,
            "magnitude": self.magnitude,
            "deviation": None if self.magnitude_std > 100.0 else self.magnitude_std,
            "greatest": self.magnitude_max,
            "increasing": self.increasing,
        }
        return Step("TimmPolicy", fields)


def from_timm(
    config: str, *, interpolation: InterpolationArgument = "bilinear", fill: FillArgument = 128
) -> TimmRandAugment:
    """Return timm's RandAugment of a configuration string.

    Parameters
    ----------
    config : str
        ``"rand-m9-mstd0.5-inc1"``: m is the magnitude out of 10, n the number of operations (2), p
        the probability of each (0.5), mstd the standard deviation of the magnitude (above 100: it
        is uniform from 0 to m), mmax its greatest value (10), and inc1 says that all operations
        grow with it.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
        timm draws bilinear or bicubic for each operation.
    fill : number or sequence of C numbers
        The value outside the image, in the image's units; timm's is the mean, or 128.

    Raises
    ------
    ValueError
        The string is of another form, or names a set of operations other than timm's usual one.

    Notes
    -----
    Parameters: ``operation_0``, ``magnitude_0``, ...: 0 is none, 15 SolarizeAdd, others as for
    :class:`RandAugment`; factors are minus 1. Values are torchvision's, of which Pillow's may
    differ by a level; targets follow.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> policy = transforms.from_timm("rand-m9-mstd0.5-inc1")
    >>> policy(torch.zeros(3, 32, 32, dtype=torch.uint8)).shape
    torch.Size([3, 32, 32])
    """
    if not isinstance(config, str):
        fail("from_timm", "config", config, _ALLOWED, TypeError)
    first, *sections = config.split("-")
    found = {"m": 10.0, "n": 2.0, "p": 0.5, "mstd": 0.0, "mmax": 10.0, "inc": 0.0}
    for section in sections:
        match = _SECTION.fullmatch(section)
        if match is None:
            fail("from_timm", "config", config, _ALLOWED)
        found[match[1]] = float(match[2])
    whole = all(found[name].is_integer() for name in ("m", "n", "inc"))
    good = 1 <= found["n"] <= 16 and found["p"] <= 1.0 and found["mmax"] > 0.0
    if first != "rand" or not (whole and good):
        fail("from_timm", "config", config, _ALLOWED)
    return TimmRandAugment(
        found["m"],
        int(found["n"]),
        found["p"],
        found["mstd"],
        found["mmax"],
        found["inc"] > 0.0,
        interpolation,
        fill,
    )
