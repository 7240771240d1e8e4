"""Transforms that shift by whole pixels or mirror: crops, padding and flips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .arguments import FillArgument, fill_values, padding_ltrb, padding_name, size_pair
from .engine.effects import Effects
from .engine.numbers import Number, Params, any_true, floor, maximum, rint, where
from .engine.plan import Canvas, Plan
from .transform import Builtin, RandomlyApplied

__all__ = ["CenterCrop", "Pad", "RandomCrop", "RandomHorizontalFlip", "RandomVerticalFlip"]


class CenterCrop(Builtin):
    """Crop the middle of the image, padding it where it is too small.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result.
    fill : number or sequence of C numbers
        The padding's value, in the image's units (white is 255 for uint8).

    Notes
    -----
    Parameters: ``top``, ``left`` of the crop, negative where the image is padded.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.CenterCrop((2, 4))(torch.arange(24.0).reshape(1, 4, 6))
    tensor([[[ 7.,  8.,  9., 10.],
             [13., 14., 15., 16.]]])
    """

    def __init__(self, size: int | Sequence[int], fill: float | Sequence[float] = 0) -> None:
        super().__init__()
        owner = type(self).__name__
        self.size = size_pair(owner, "size", size)
        self.fill = fill_values(owner, fill)

    def effects(self) -> Effects:
        return Effects(moves=True, fill=self.fill, inside=self.size, size=self.size)

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        return "CenterCrop", self.size

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        offsets = []
        for length, wanted in ((canvas.height, self.size[0]), (canvas.width, self.size[1])):
            free = (length - wanted) * 0.5
            # As in torchvision: round a crop's position half to even, and padding down.
            offsets.append(where(free < 0.0, -floor(-free), rint(free)))
        return {"top": offsets[0], "left": offsets[1]}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        canvas = Canvas(float(self.size[0]), float(self.size[1]), plan.canvas.channels)
        plan.shift(-params["left"], -params["top"], canvas)


class RandomCrop(Builtin):
    """Crop the image at a random place.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result.
    padding : int or sequence of 2 or 4 int, optional
        Pixels to add first: on all sides; left and right, top and bottom; or left, top, right,
        bottom.
    pad_if_needed : bool
        Pad an image smaller than `size` by what is missing, on both sides; otherwise such an image
        is an error.
    fill : number, sequence of C numbers, or dict of such by type
        The padding's value, in the image's units (white is 255 for uint8).
    padding_mode : {"constant", "edge", "reflect", "symmetric", "circular"}

    Notes
    -----
    Parameters: ``top``, ``left`` of the crop in the unpadded image.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomCrop(32, padding=4)(torch.rand(3, 32, 32)).shape
    torch.Size([3, 32, 32])
    """

    draws = 2

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: FillArgument = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.size = size_pair(owner, "size", size)
        self.padding = None if padding is None else padding_ltrb(owner, padding)
        self.pad_if_needed = bool(pad_if_needed)
        self.fill = fill_values(owner, fill)
        self.padding_mode = padding_name(owner, padding_mode)

    def effects(self) -> Effects:
        if self.padding is not None and any(self.padding):
            mode = self.padding_mode
            return Effects(moves=True, fill=self.fill, padding_mode=mode, size=self.size)
        if not self.pad_if_needed:
            return Effects(moves=True, size=self.size)
        return Effects(
            moves=True,
            fill=self.fill,
            padding_mode=self.padding_mode,
            inside=self.size,
            size=self.size,
        )

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        return "RandomCrop", (*self.size, *(self.padding or (0, 0, 0, 0)), self.pad_if_needed)

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        left, top, right, bottom = self.padding or (0, 0, 0, 0)
        sides = (
            (canvas.height, self.size[0], top, bottom),
            (canvas.width, self.size[1], left, right),
        )
        offsets = []
        for axis, (length, wanted, before, after) in enumerate(sides):
            padded, first = length + float(before + after), float(-before)
            if self.pad_if_needed:
                missing = maximum(wanted - padded, 0.0)
                padded, first = padded + 2.0 * missing, first - missing
            if any_true(padded < wanted):
                self._refuse(canvas.describe(padded < wanted))
            offsets.append(first + floor(uniforms[axis] * (padded - wanted + 1.0)))
        return {"top": offsets[0], "left": offsets[1]}

    def _refuse(self, image: str) -> None:
        padded = f", padded by {self.padding}" if self.padding else ""
        raise ValueError(
            f"visops.transforms.RandomCrop: size is {self.size}, {image}{padded}; must not be "
            "larger, unless pad_if_needed"
        )

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        canvas = Canvas(float(self.size[0]), float(self.size[1]), plan.canvas.channels)
        plan.shift(-params["left"], -params["top"], canvas)


class Pad(Builtin):
    """Add pixels around the image.

    Parameters
    ----------
    padding : int or sequence of 2 or 4 int
        On all sides; left and right, top and bottom; or left, top, right, bottom.
    fill : number, sequence of C numbers, or dict of such by type
        Their value, in the image's units (white is 255 for uint8).
    padding_mode : {"constant", "edge", "reflect", "symmetric", "circular"}

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.Pad((1, 0), fill=9)(torch.ones(1, 2, 2))
    tensor([[[9., 1., 1., 9.],
             [9., 1., 1., 9.]]])
    """

    def __init__(
        self,
        padding: int | Sequence[int],
        fill: FillArgument = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.padding = padding_ltrb(owner, padding)
        self.fill = fill_values(owner, fill)
        self.padding_mode = padding_name(owner, padding_mode)

    def effects(self) -> Effects:
        return Effects(moves=True, fill=self.fill, padding_mode=self.padding_mode)

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        return "Pad", self.padding

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        left, top, right, bottom = self.padding
        old = plan.canvas
        canvas = Canvas(old.height + (top + bottom), old.width + (left + right), old.channels)
        plan.shift(float(left), float(top), canvas, cuts=False)


class _Flip(RandomlyApplied):
    draws = 1

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def effects(self) -> Effects:
        return Effects(moves=True)

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        return {"apply": uniforms[0] < self.p}


class RandomHorizontalFlip(_Flip):
    """Swap left and right, with probability `p`.

    Parameters
    ----------
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomHorizontalFlip(p=1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[3., 2., 1.]]])
    """

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        return "RandomHorizontalFlip", (self.p,)

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        flips, canvas = params["apply"], plan.canvas
        plan.scale(1.0 - 2.0 * flips, 1.0, flips * canvas.width, 0.0, canvas, cuts=False)


class RandomVerticalFlip(_Flip):
    """Swap top and bottom, with probability `p`.

    Parameters
    ----------
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomVerticalFlip(p=1)(torch.tensor([[[1.0], [2.0]]]))
    tensor([[[2.],
             [1.]]])
    """

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        return "RandomVerticalFlip", (self.p,)

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        flips, canvas = params["apply"], plan.canvas
        plan.scale(1.0, 1.0 - 2.0 * flips, 0.0, flips * canvas.height, canvas, cuts=False)
