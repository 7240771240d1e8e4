"""Transforms that shift by whole pixels or mirror: crops, padding and flips."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..._native import Step
from ..._torch.options import PadMode
from ..arguments import (
    FillArgument,
    fail,
    fill_values,
    flag,
    one_of,
    padding_ltrb,
    padding_name,
    size_pair,
    whole,
)
from ..base import Builtin, RandomlyApplied, Transform
from ..chain.effects import Effects
from ..chain.plan import Canvas, Plan
from ..compose import Compose
from .views import Views

__all__ = [
    "CenterCrop",
    "FiveCrop",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomSizeCrop",
    "RandomVerticalFlip",
    "TenCrop",
]


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

    def __init__(self, size: int | Sequence[int], *, fill: float | Sequence[float] = 0) -> None:
        super().__init__()
        owner = type(self).__name__
        self.size = size_pair(owner, "size", size)
        self.fill = fill_values(owner, fill)

    def effects(self) -> Effects:
        return Effects(moves=True, fill=self.fill, inside=self.size, size=self.size)

    def chain_step(self) -> Step | None:
        return Step("CenterCrop", {"size": self.size})


class RandomCrop(Builtin):
    """Crop the image at a random place.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result.
    padding : int or sequence of 2 or 4 int, optional
        Pixels to add first: on all sides; left and right, top and bottom; or left, top, right,
        bottom.
    pad_if_needed : bool or "end"
        Pad an image smaller than `size` by what is missing, on both sides, or with "end" at the
        right and the bottom only, as segmentation's recipes do; otherwise such an image is an
        error.
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

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool | str = False,
        fill: FillArgument = 0,
        padding_mode: PadMode = "constant",
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.size = size_pair(owner, "size", size)
        self.padding = None if padding is None else padding_ltrb(owner, padding)
        self.pad_if_needed: bool | str = "end"
        if isinstance(pad_if_needed, str):
            one_of(owner, "pad_if_needed", pad_if_needed, ("end",), "a bool or 'end'")
        else:
            self.pad_if_needed = flag(owner, "pad_if_needed", pad_if_needed)
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

    def chain_step(self) -> Step | None:
        fields = {
            "size": self.size,
            "padding": self.padding or (0, 0, 0, 0),
            "padded_sides": 1 if self.pad_if_needed == "end" else 2 * bool(self.pad_if_needed),
            # What it cuts off may lie in the padding again; nothing after it can show that.
            "cuts": self.effects().fill is None or self.padding_mode == "constant",
        }
        return Step("RandomCrop", fields)


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
        padding_mode: PadMode = "constant",
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.padding = padding_ltrb(owner, padding)
        self.fill = fill_values(owner, fill)
        self.padding_mode = padding_name(owner, padding_mode)

    def effects(self) -> Effects:
        return Effects(moves=True, fill=self.fill, padding_mode=self.padding_mode)

    def chain_step(self) -> Step | None:
        return Step("Pad", {"padding": self.padding})


class _Flip(RandomlyApplied):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def effects(self) -> Effects:
        return Effects(moves=True)


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

    def chain_step(self) -> Step | None:
        return Step("RandomHorizontalFlip", {"p": self.p})


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

    def chain_step(self) -> Step | None:
        return Step("RandomVerticalFlip", {"p": self.p})


_POSITIONS = {
    "top left": (0.0, 0.0),
    "top right": (0.0, 1.0),
    "bottom left": (1.0, 0.0),
    "bottom right": (1.0, 1.0),
    "middle": (0.5, 0.5),
}


def _reject_small(owner: str, canvas: Canvas, batch: int, size: Sequence[float]) -> None:
    sides = canvas.sides(batch)
    small = (sides < np.asarray(size)).any(1)
    if small.any():
        height, width = sides[small][0]
        raise ValueError(
            f"visops.transforms.{owner}: size is ({size[0]:g}, {size[1]:g}), an image has height "
            f"{height:g} and width {width:g}; must not be larger"
        )


class _CropAt(Transform):
    """A crop of a size at a position."""

    def __init__(self, owner: str, size: tuple[int, int], position: str) -> None:
        super().__init__()
        self.owner, self.size, self.position = owner, size, position

    def effects(self) -> Effects:
        return Effects(moves=True, size=self.size)

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        _reject_small(self.owner, canvas, len(uniforms), self.size)
        sides = canvas.sides(len(uniforms))
        down, across = _POSITIONS[self.position]
        # In the middle as torchvision's: halves round to even.
        top = np.rint((sides[:, 0] - self.size[0]) * down)
        left = np.rint((sides[:, 1] - self.size[1]) * across)
        return {"top": top, "left": left}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        height, width = self.size
        canvas = Canvas(float(height), float(width), plan.channels)
        plan.shift(-params["left"], -params["top"], canvas)


class FiveCrop(Views):
    """Crop the four corners and the middle, for tests.

    torchvision's transform of this name. It is called on a sample, as :class:`Views` is, and
    returns a tuple; it can't stand within a :class:`Compose`. Targets follow.

    Parameters
    ----------
    size : int or pair of int
        Height and width of each crop.
    then : sequence of transforms
        What follows: it shares a pass with the crop.
    seed : int, optional
        For random transforms that follow.
    **options
        Those of :class:`Compose`, for targets: `boxes`, `keys`, `flip_pairs` and others.

    Notes
    -----
    Order: top left, top right, bottom left, bottom right, middle.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> crops = transforms.FiveCrop(4, then=[transforms.ToDtype(torch.float32, scale=True)])
    >>> torch.stack(crops(torch.zeros(3, 8, 9, dtype=torch.uint8))).shape
    torch.Size([5, 3, 4, 4])
    """

    def __init__(
        self,
        size: int | Sequence[int],
        then: Sequence[Any] = (),
        *,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        own = size_pair("FiveCrop", "size", size)
        crops = [_CropAt("FiveCrop", own, position) for position in _POSITIONS]
        super().__init__([Compose([crop, *then], **options) for crop in crops], seed=seed)
        self.size = own


class TenCrop(Views):
    """Crop the four corners and the middle, of the image and of its mirror image, for tests.

    torchvision's transform of this name; called as :class:`FiveCrop`.

    Parameters
    ----------
    size : int or pair of int
        Height and width of each crop.
    vertical_flip : bool
        Mirror top and bottom instead of left and right.
    then : sequence of transforms
        What follows: it shares a pass with the crop.
    seed : int, optional
        For random transforms that follow.
    **options
        Those of :class:`Compose`, for targets: `boxes`, `keys`, `flip_pairs` and others.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> len(transforms.TenCrop(4)(torch.zeros(3, 8, 9)))
    10
    >>> crops = transforms.TenCrop(4, label_pairs=[("left", "right")])
    >>> [each["labels"] for each in crops({"image": torch.zeros(3, 8, 9), "labels": "left"})][4:6]
    ['left', 'right']
    """

    def __init__(
        self,
        size: int | Sequence[int],
        vertical_flip: bool = False,
        then: Sequence[Any] = (),
        *,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        own = size_pair("TenCrop", "size", size)
        flip: Any = RandomVerticalFlip(1.0) if vertical_flip else RandomHorizontalFlip(1.0)
        super().__init__(
            [
                Compose([*mirror, _CropAt("TenCrop", own, position), *then], **options)
                for mirror in ([], [flip])
                for position in _POSITIONS
            ],
            seed=seed,
        )
        self.size, self.vertical_flip = own, flag("TenCrop", "vertical_flip", vertical_flip)


class RandomSizeCrop(Transform):
    """Crop a rectangle of a random height and width: DETR's.

    Parameters
    ----------
    min_size, max_size : int
        Height and width are drawn from `min_size` to `max_size`, or to the image's if that is
        smaller.

    Raises
    ------
    ValueError
        The image is smaller than `min_size`.

    Notes
    -----
    Parameters: ``top``, ``left``, ``height``, ``width``.

    Source: N. Carion et al., "End-to-end object detection with transformers", ECCV 2020.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> steps = [transforms.RandomSizeCrop(384, 600), transforms.Resize((64, 64))]
    >>> crop = transforms.Compose(steps)
    >>> len(crop.passes), crop(torch.zeros(3, 500, 700)).shape
    (1, torch.Size([3, 64, 64]))
    """

    draws = 4

    def __init__(self, min_size: int, max_size: int) -> None:
        super().__init__()
        owner = "RandomSizeCrop"
        self.min_size = whole(owner, "min_size", min_size, 1, "a whole number >= 1")
        self.max_size = whole(owner, "max_size", max_size, 1, "a whole number >= 1")
        if self.min_size > self.max_size:
            fail(owner, "max_size", max_size, f"at least min_size, {min_size}")

    def effects(self) -> Effects:
        return Effects(moves=True, size=(0, 0))

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        least = (self.min_size, self.min_size)
        _reject_small("RandomSizeCrop", canvas, len(uniforms), least)
        sides = canvas.sides(len(uniforms))
        most = np.minimum(sides, self.max_size)
        # DETR draws the width first.
        width = self.min_size + np.floor(uniforms[:, 0] * (most[:, 1] - self.min_size + 1))
        height = self.min_size + np.floor(uniforms[:, 1] * (most[:, 0] - self.min_size + 1))
        top = np.floor(uniforms[:, 2] * (sides[:, 0] - height + 1))
        left = np.floor(uniforms[:, 3] * (sides[:, 1] - width + 1))
        return {"top": top, "left": left, "height": height, "width": width}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        canvas = Canvas(params["height"], params["width"], plan.channels)
        plan.shift(-params["left"], -params["top"], canvas)
