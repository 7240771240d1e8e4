"""Augmentation policies: a random choice among the linear operations, for each sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._arguments import fill_values, interpolation_mode, whole
from ._color import BRIGHTNESS, CONTRAST, SATURATION, check_channels, color_matrices
from ._geometric import about, cos_sin
from ._plan import Canvas, Plan
from ._transform import Effects, Params, Transform

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
_SHEAR_X, _SHEAR_Y, _TRANSLATE_X, _TRANSLATE_Y, _ROTATE = range(1, 6)
_COLORS = {6: BRIGHTNESS, 7: SATURATION, 8: CONTRAST}


class _Choice(Transform):
    """One operation for each sample, of `OPERATIONS`."""

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
        self._reach = np.array(reach)  # largest magnitude of each operation
        self._relative = relative  # shifts are in units of the image's sides
        self._bins = bins
        self._magnitude = magnitude
        self._interpolation = interpolation
        self._fill = fill

    def effects(self) -> Effects:
        return Effects(
            moves=True,
            aligned=False,
            interpolation=self._interpolation,
            fill=self._fill,
            colors=1,
        )

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> Params:
        check_channels(self._owner, canvas.channels)
        operation = np.floor(uniforms[:, 0] * len(OPERATIONS)).astype(np.int64)
        if self._magnitude is None:
            level = np.floor(uniforms[:, 1] * self._bins)
        else:
            level = float(self._magnitude)
        magnitude = self._reach[operation] * (level / max(self._bins - 1.0, 1.0))
        if self._relative:
            magnitude *= np.where(operation == _TRANSLATE_X, canvas.width, 1.0)
            magnitude *= np.where(operation == _TRANSLATE_Y, canvas.height, 1.0)
        magnitude *= np.where(uniforms[:, 2] <= 0.5, -1.0, 1.0)
        return {"operation": operation, "magnitude": magnitude}

    def extend(self, plan: Plan, params: Mapping[str, np.ndarray]) -> None:
        apply_operations(plan, params["operation"], params["magnitude"])

    def _get_name(self) -> str:
        return f"{self._owner}.operation"


def apply_operations(plan: Plan, operation: np.ndarray, magnitude: np.ndarray) -> None:
    """Add each sample's operation to the plan: its geometry and its colour step."""
    canvas = plan.canvas
    batch = operation.shape[0]
    cos, sin = cos_sin(magnitude * (operation == _ROTATE))
    linear = np.empty((2, 2, batch))
    # One of the operations at most is not the identity. Shears keep the upper left corner where it
    # is, as in AutoAugment's policies.
    linear[0, 0], linear[1, 1] = cos, cos
    linear[0, 1] = sin - magnitude * (operation == _SHEAR_X)
    linear[1, 0] = -sin - magnitude * (operation == _SHEAR_Y)
    turns = operation == _ROTATE
    x, y = turns * canvas.width * 0.5, turns * canvas.height * 0.5
    shift = about(linear, x, y, x, y)
    shift[0] += np.trunc(magnitude * (operation == _TRANSLATE_X))
    shift[1] += np.trunc(magnitude * (operation == _TRANSLATE_Y))
    plan.affine(linear, shift, canvas)

    channels = canvas.channels
    matrices = np.empty((batch, 1, channels, channels + 1))
    matrices[:] = np.eye(channels, channels + 1)
    factor = 1.0 + magnitude
    for number, kind in _COLORS.items():
        chosen = operation == number
        if chosen.any():
            matrices[chosen, 0] = color_matrices(kind, factor[chosen], channels)
    contrast = operation == OPERATIONS.index("Contrast")
    plan.color(matrices, np.where(contrast, 1.0 - factor, 0.0)[:, None])


class RandAugment(Transform):
    """Apply operations chosen at random in turn, all of one magnitude.

    Of the operations of torchvision's RandAugment these are the linear ones: Identity, ShearX,
    ShearY, TranslateX, TranslateY, Rotate, Brightness, Color, Contrast, with its ranges. (Not:
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
    fill : number or sequence of C numbers
        The value outside the image, in the image's units (white is 255 for uint8).

    Notes
    -----
    Parameters: ``operation`` and ``magnitude``, both ``[B, num_ops]``; the operation's number is
    its place in the list above.

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
        fill: float | Sequence[float] | None = None,
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

    def parts(self) -> list[Transform]:
        return list(self._choices)

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> Params:
        draws = uniforms.reshape(uniforms.shape[0], self.num_ops, 3)
        each = [c.make_params(draws[:, i], canvas) for i, c in enumerate(self._choices)]
        return {name: np.stack([p[name] for p in each], 1) for name in each[0]}

    def extend(self, plan: Plan, params: Mapping[str, np.ndarray]) -> None:
        for step in range(self.num_ops):
            apply_operations(plan, params["operation"][:, step], params["magnitude"][:, step])


class TrivialAugment(Transform):
    """Apply one operation chosen at random, of random magnitude.

    Of the operations of torchvision's TrivialAugmentWide these are the linear ones: Identity,
    ShearX, ShearY, TranslateX, TranslateY, Rotate, Brightness, Color, Contrast, with its ranges.

    Parameters
    ----------
    num_magnitude_bins : int
        Number of levels of strength.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    fill : number or sequence of C numbers
        The value outside the image, in the image's units (white is 255 for uint8).

    Notes
    -----
    Parameters: ``operation`` and ``magnitude``; the operation's number is its place in the list
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
        fill: float | Sequence[float] | None = None,
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

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> Params:
        return self._choice[0].make_params(uniforms, canvas)

    def extend(self, plan: Plan, params: Mapping[str, np.ndarray]) -> None:
        apply_operations(plan, params["operation"], params["magnitude"])
