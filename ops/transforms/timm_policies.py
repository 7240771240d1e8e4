"""timm's RandAugment, by its configuration string."""

import re
from typing import Any

from .._native import Step
from .arguments import FillArgument, fail, fill_values, interpolation_mode
from .color import check_channels
from .engine.effects import Effects
from .engine.plan import Plan
from .transform import Builtin

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
        interpolation: Any = "bilinear",
        fill: FillArgument = 128,
    ) -> None:
        super().__init__()
        self.magnitude, self.num_layers, self.prob = magnitude, num_layers, prob
        self.magnitude_std, self.magnitude_max = magnitude_std, magnitude_max
        self.increasing = increasing
        self.interpolation = interpolation_mode("from_timm", interpolation)
        self.fill = fill_values("from_timm", fill)
        self.draws = 5 * num_layers

    def changes_values(self) -> bool:
        return True

    def effects(self) -> Effects:
        return Effects(moves=True, aligned=False, interpolation=self.interpolation, fill=self.fill)

    def settle(self, plan: Plan) -> None:
        check_channels("from_timm", plan.channels)

    def chain_step(self) -> Step | None:
        deviation = -1.0 if self.magnitude_std > 100.0 else self.magnitude_std
        numbers = (self.num_layers, self.prob, self.magnitude, deviation, self.magnitude_max)
        return Step("TimmPolicy", (*numbers, self.increasing))


def from_timm(
    config: str, *, interpolation: Any = "bilinear", fill: FillArgument = 128
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
