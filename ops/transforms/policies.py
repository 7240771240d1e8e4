"""Augmentation policies: each sample draws one of the linear operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._native import Step
from .arguments import FillArgument, fill_values, interpolation_mode, whole
from .color import check_channels
from .engine.effects import Effects, Fusable
from .engine.plan import Plan
from .transform import Builtin

__all__ = ["OPERATIONS", "RandAugment", "TrivialAugment"]

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
)


class _Policy(Builtin):
    """Apply some of `OPERATIONS` one after another, drawn for each sample.

    Parameters
    ----------
    owner : str
        Name of the transform.
    reach : sequence of float
        Largest magnitude of each operation.
    relative : bool
        Whether those of shifts are fractions of the image's sides.
    magnitude : int, optional
        Level of strength; None draws it.
    bins : int
        Number of levels.
    count : int
        Number of operations.
    numbered : bool
        Whether names of parameters end with the place of their operation.
    """

    def __init__(
        self,
        owner: str,
        reach: Sequence[float],
        relative: bool,
        magnitude: int | None,
        bins: int,
        interpolation: str,
        fill: tuple[float, ...],
        count: int = 1,
        numbered: bool = False,
    ) -> None:
        super().__init__()
        self._owner, self._interpolation, self.fill, self._count = owner, interpolation, fill, count
        self.draws = 3 * count
        level = -1 if magnitude is None else magnitude
        self._numbers = (count, level, bins, relative, numbered, *reach)

    def effects(self) -> Effects:
        return Effects(
            moves=True,
            aligned=False,
            interpolation=self._interpolation,
            fill=self.fill,
            colors=self._count,
        )

    def chain_step(self) -> Step | None:
        return Step("LinearPolicy", self._numbers)

    def settle(self, plan: Plan) -> None:
        check_channels(self._owner, plan.channels)

    def _get_name(self) -> str:
        return f"{self._owner}.operation"


class _Linear(Builtin):
    """A policy by its public name: its argument names, and the policy that does it."""

    _policy: _Policy

    def effects(self) -> Effects:
        return self._policy.effects()

    def chain_step(self) -> Step | None:
        return self._policy.chain_step()

    def settle(self, plan: Plan) -> None:
        self._policy.settle(plan)


class RandAugment(_Linear):
    """Apply randomly chosen operations one after another, all with the same magnitude.

    The operations are the linear ones of torchvision's RandAugment, with its ranges: Identity,
    ShearX, ShearY, TranslateX, TranslateY, Rotate, Brightness, Color, Contrast. (Left out:
    Sharpness, Posterize, Solarize, AutoContrast, Equalize.)

    Parameters
    ----------
    num_ops : int
        Number of operations.
    magnitude : int
        Strength, from 0 to ``num_magnitude_bins - 1``.
    num_magnitude_bins : int
        Number of levels of strength.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).

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
        interpolation: Any = "bilinear",
        fill: FillArgument = None,
    ) -> None:
        super().__init__()
        owner = "RandAugment"
        allowed = "a whole number from 1 to 8"
        self.num_ops = whole(owner, "num_ops", num_ops, 1, allowed, 8)
        bins = whole(owner, "num_magnitude_bins", num_magnitude_bins, 2, "a whole number >= 2")
        self.num_magnitude_bins = bins
        allowed = f"a whole number from 0 to num_magnitude_bins - 1, which is {bins - 1}"
        self.magnitude = whole(owner, "magnitude", magnitude, 0, allowed, bins - 1)
        self.interpolation = interpolation_mode(owner, interpolation)
        self.fill = fill_values(owner, fill)
        shift = 150.0 / 331.0
        reach = (0.0, 0.3, 0.3, shift, shift, 30.0, 0.9, 0.9, 0.9)
        given = (owner, reach, True, self.magnitude, bins, self.interpolation, self.fill)
        self._policy = _Policy(*given, count=self.num_ops, numbered=True)
        self._operations = [_Policy(*given)] * self.num_ops
        self.draws = self._policy.draws

    def parts(self) -> list[Fusable]:
        return list(self._operations)


class TrivialAugment(_Linear):
    """Apply one randomly chosen operation with a random magnitude.

    The operations are the linear ones of torchvision's TrivialAugmentWide, with its ranges:
    Identity, ShearX, ShearY, TranslateX, TranslateY, Rotate, Brightness, Color, Contrast.

    Parameters
    ----------
    num_magnitude_bins : int
        Number of levels of strength.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).

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

    draws = 3

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: Any = "bilinear",
        fill: FillArgument = None,
    ) -> None:
        super().__init__()
        owner = "TrivialAugment"
        bins = whole(owner, "num_magnitude_bins", num_magnitude_bins, 2, "a whole number >= 2")
        self.num_magnitude_bins = bins
        self.interpolation = interpolation_mode(owner, interpolation)
        self.fill = fill_values(owner, fill)
        reach = (0.0, 0.99, 0.99, 32.0, 32.0, 135.0, 0.99, 0.99, 0.99)
        self._policy = _Policy(owner, reach, False, None, bins, self.interpolation, self.fill)
