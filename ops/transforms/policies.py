"""Augmentation policies: each sample draws one of the linear operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .arguments import FillArgument, fill_values, interpolation_mode, whole
from .color import check_channels, jitter, rows_of
from .engine.effects import Effects, Fusable
from .engine.numbers import Number, Params, floor, trunc, where
from .engine.plan import Canvas, Plan
from .geometric import about, cos_sin
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
(_SHEAR_X, _SHEAR_Y, _TRANSLATE_X, _TRANSLATE_Y, _ROTATE, _BRIGHTNESS, _COLOR, _CONTRAST) = range(
    1, 9
)


class _Choice(Builtin):
    """Apply one of `OPERATIONS`, drawn for each sample."""

    draws = 3

    def __init__(
        self,
        owner: str,
        reach: Sequence[float],
        relative: bool,
        magnitude: int | None,
        bins: int,
        interpolation: str,
        fill: tuple[float, ...],
    ) -> None:
        super().__init__()
        self._owner = owner
        self._reach = tuple(reach)  # largest magnitude of each operation
        self._reaches = np.array(reach)
        self._relative = relative  # shifts are fractions of the image's sides
        self._bins = bins
        self._magnitude = magnitude
        self._interpolation = interpolation
        self.fill = fill

    def effects(self) -> Effects:
        return Effects(
            moves=True,
            aligned=False,
            interpolation=self._interpolation,
            fill=self.fill,
            colors=1,
        )

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        check_channels(self._owner, canvas.channels)
        place = uniforms[0] * float(len(OPERATIONS))
        if type(place) is float:
            operation: Any = int(place)
            reach: Number = self._reach[operation]
        else:
            operation = place.astype(np.int64)
            reach = self._reaches[operation]
        level = self._magnitude
        magnitude = reach * (
            (floor(uniforms[1] * self._bins) if level is None else level) / (self._bins - 1.0)
        )
        if self._relative:
            magnitude = magnitude * where(operation == _TRANSLATE_X, canvas.width, 1.0)
            magnitude = magnitude * where(operation == _TRANSLATE_Y, canvas.height, 1.0)
        magnitude = where(uniforms[2] <= 0.5, -magnitude, magnitude)
        return {"operation": operation, "magnitude": magnitude}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        apply_operations(plan, params["operation"], params["magnitude"])

    def _get_name(self) -> str:
        return f"{self._owner}.operation"


def apply_operations(plan: Plan, operation: Any, magnitude: Number) -> None:
    """Add each sample's operation to the plan: its geometry and its colour step."""
    canvas = plan.canvas
    # At most one of the operations is not the identity. Shears fix the upper left corner, as in
    # AutoAugment's policies.
    turns = (operation == _ROTATE) * 1.0
    cosine, sine = cos_sin(magnitude * turns)
    b = sine - magnitude * (operation == _SHEAR_X)
    c = -sine - magnitude * (operation == _SHEAR_Y)
    x_shift = trunc(magnitude * (operation == _TRANSLATE_X))
    y_shift = trunc(magnitude * (operation == _TRANSLATE_Y))
    x, y = turns * canvas.width * 0.5, turns * canvas.height * 0.5
    plan.affine(about((cosine, b, c, cosine), x, y, x_shift, y_shift), canvas)

    contrast = magnitude * (operation == _CONTRAST)
    scale = 1.0 + magnitude * (operation == _BRIGHTNESS) + contrast
    if canvas.channels == 1:
        linear = [scale]
    else:
        linear = jitter(scale, 1.0 + magnitude * (operation == _COLOR))
    plan.color(rows_of(linear), -contrast)


class RandAugment(Builtin):
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
        self._choices = [
            _Choice(owner, reach, True, self.magnitude, bins, self.interpolation, self.fill)
        ] * self.num_ops
        self.draws = 3 * self.num_ops

    def effects(self) -> Effects:
        return Effects(
            moves=True,
            aligned=False,
            interpolation=self.interpolation,
            fill=self.fill,
            colors=self.num_ops,
        )

    def parts(self) -> list[Fusable]:
        return list(self._choices)

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        params: Params = {}
        for step, choice in enumerate(self._choices):
            own = choice.draw(uniforms[3 * step : 3 * step + 3], canvas)
            params.update({f"{name}_{step}": value for name, value in own.items()})
        return params

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        for step in range(self.num_ops):
            apply_operations(plan, params[f"operation_{step}"], params[f"magnitude_{step}"])


class TrivialAugment(Builtin):
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
        self._choice = [_Choice(owner, reach, False, None, bins, self.interpolation, self.fill)]

    def effects(self) -> Effects:
        return self._choice[0].effects()

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        return self._choice[0].draw(uniforms, canvas)

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        apply_operations(plan, params["operation"], params["magnitude"])
