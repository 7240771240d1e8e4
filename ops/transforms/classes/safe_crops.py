"""Crops that keep boxes, or something of a mask: albumentations'.

As target_crops.py's, they run by themselves, sample by sample.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ..arguments import fail, is_sequence, number, up_to, whole
from ..base import ByKey
from ..chain.random import Numbers
from ..sample.leaf import Leaf
from .target_crops import Crop, Searching

__all__ = [
    "AtLeastOneBBoxRandomCrop",
    "BBoxSafeRandomCrop",
    "CropNonEmptyMaskIfExists",
    "RandomCropNearBBox",
]


class BBoxSafeRandomCrop(ByKey, Searching):
    """Crop a random part of the image that has all boxes in it.

    albumentations' transform of this name.

    Parameters
    ----------
    erosion_rate : float
        The share of the sides of what surrounds all boxes that may be lost; a single box stays
        whole.
    p : float
        Probability, for each sample.

    Raises
    ------
    TypeError
        The sample has no boxes, or rotated ones.

    Notes
    -----
    Parameters: ``apply``, ``key``. Without a single box, or where all may be lost, the crop has the
    image's shape and at least ``1 - erosion_rate`` of its height. `inverse` refuses a chain with
    it. albumentations may cut less than a pixel off a box.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> crop = transforms.Compose([transforms.BBoxSafeRandomCrop()], seed=0)
    >>> sample = {"image": torch.zeros(3, 60, 80), "boxes": torch.tensor([[20.0, 10, 60, 50]])}
    >>> x1, y1, x2, y2 = crop(sample, index=0)["boxes"][0].tolist()
    >>> x2 - x1, y2 - y1
    (40.0, 40.0)
    """

    def __init__(self, erosion_rate: float = 0.0, p: float = 1.0) -> None:
        super().__init__()
        allowed = "a number in [0, 1]"
        self.erosion_rate = number(
            "BBoxSafeRandomCrop", "erosion_rate", erosion_rate, 0.0, 1.0, allowed
        )
        self.take_p(p)

    def find(self, leaves: Sequence[Leaf], sample: int, size: tuple[int, int], key: float) -> Crop:
        numbers, sides = Numbers(key), np.array(size[::-1], np.float64)
        boxes = self.corners(leaves, sample).astype(np.float64)
        if len(boxes) == 0 or self.erosion_rate == 1.0:
            return self._any(numbers, size)
        first, last = boxes[:, :2].min(0), boxes[:, 2:].max(0)
        if len(boxes) > 1:
            eroded = (last - first) * self.erosion_rate / 2
            first, last = first + eroded, last - eroded
        first = np.clip(first, 0.0, sides)
        last = np.clip(last, first, sides)
        left, top = (math.floor(own * numbers.next()) for own in first)
        right, bottom = (
            math.ceil(own + (side - own) * numbers.next())
            for own, side in zip(last, sides, strict=True)
        )
        if right <= left or bottom <= top:  # boxes beside the image
            return self._any(numbers, size)
        return top, left, bottom - top, right - left

    def _any(self, numbers: Numbers, size: tuple[int, int]) -> Crop:
        height, width = size
        least = max(int(height * (1.0 - self.erosion_rate)), 1)
        rows = least + numbers.whole(height - least + 1)
        columns = max(rows * width // height, 1)
        top, left = numbers.whole(height - rows + 1), numbers.whole(width - columns + 1)
        return top, left, rows, columns


class _SizedCrop(ByKey, Searching):
    """A crop of a fixed size."""

    def take_size(self, height: int, width: int) -> None:
        owner, allowed = type(self).__name__, "a whole number >= 1"
        self.height = whole(owner, "height", height, 1, allowed)
        self.width = whole(owner, "width", width, 1, allowed)

    def free(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return how many rows and columns of an image the crop leaves.

        Raises
        ------
        ValueError
            The image is smaller.
        """
        rows, columns = size[0] - self.height, size[1] - self.width
        if rows < 0 or columns < 0:
            raise ValueError(
                f"visops.transforms.{type(self).__name__}: height and width are {self.height} and "
                f"{self.width}, an image has height {size[0]} and width {size[1]}; must not be "
                "larger"
            )
        return rows, columns


class AtLeastOneBBoxRandomCrop(_SizedCrop):
    """Crop a rectangle of a fixed size that has a box, or a part of it.

    albumentations' transform of this name.

    Parameters
    ----------
    height, width : int
        The crop's.
    erosion_factor : float
        The share of the box that may be lost: 0 for none, where the box fits; with 1 it must touch
        the crop.
    p : float
        Probability, for each sample.

    Raises
    ------
    TypeError
        The sample has no boxes, or rotated ones.
    ValueError
        The image is smaller than the crop.

    Notes
    -----
    Parameters: ``apply``, ``key``. Each box is as likely as the others; without a single one, the
    crop is anywhere. `inverse` refuses a chain with it.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> crop = transforms.Compose([transforms.AtLeastOneBBoxRandomCrop(30, 30)], seed=0)
    >>> sample = {"image": torch.zeros(3, 60, 80), "boxes": torch.tensor([[20.0, 10, 40, 30]])}
    >>> x1, y1, x2, y2 = crop(sample, index=0)["boxes"][0].tolist()
    >>> x2 - x1, y2 - y1
    (20.0, 20.0)
    """

    def __init__(
        self, height: int, width: int, erosion_factor: float = 0.0, p: float = 1.0
    ) -> None:
        super().__init__()
        self.take_size(height, width)
        allowed = "a number in [0, 1]"
        self.erosion_factor = number(
            "AtLeastOneBBoxRandomCrop", "erosion_factor", erosion_factor, 0.0, 1.0, allowed
        )
        self.take_p(p)

    def find(self, leaves: Sequence[Leaf], sample: int, size: tuple[int, int], key: float) -> Crop:
        most = np.array(self.free(size)[::-1], np.float64)
        numbers, least = Numbers(key), np.zeros(2)
        boxes = self.corners(leaves, sample).astype(np.float64)
        if len(boxes) > 0:
            box = boxes[numbers.whole(len(boxes))]
            kept = (box[2:] - box[:2]) * (1.0 - self.erosion_factor)
            ends = box[:2] + kept - (self.width, self.height), box[2:] - kept
            least, most = (np.clip(end, 0.0, most) for end in ends)
        left, top = (
            int(low + (high - low) * numbers.next()) for low, high in zip(least, most, strict=True)
        )
        return top, left, self.height, self.width


class RandomCropNearBBox(ByKey, Searching):
    """Crop around a box of its own that the sample holds, whose sides move at random.

    albumentations' transform of this name.

    Parameters
    ----------
    max_part_shift : float or pair of float
        By how much of the box's height and width its sides move at most; one number x means (0, x).
    cropping_bbox_key : str
        The key of the box: x1, y1, x2, y2 in pixels.
    p : float
        Probability, for each sample.

    Raises
    ------
    TypeError
        The sample is no dict with this key.

    Notes
    -----
    Parameters: ``apply``, ``key``. Where nothing would be left, the crop is a box of this size in
    the middle of the image. `inverse` refuses a chain with it.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> crop = transforms.RandomCropNearBBox((0, 0))
    >>> sample = {"image": torch.zeros(3, 60, 80), "cropping_bbox": (20, 10, 50, 30)}
    >>> crop(sample)["image"].shape
    torch.Size([3, 20, 30])
    """

    def __init__(
        self,
        max_part_shift: float | Sequence[float] = (0, 0.3),
        cropping_bbox_key: str = "cropping_bbox",
        p: float = 1.0,
    ) -> None:
        super().__init__()
        owner = "RandomCropNearBBox"
        self.max_part_shift = up_to(owner, "max_part_shift", max_part_shift, 0.0, 1.0)
        if not isinstance(cropping_bbox_key, str):
            fail(owner, "cropping_bbox_key", cropping_bbox_key, "a string", TypeError)
        self.cropping_bbox_key = cropping_bbox_key
        self.take_p(p)

    def find(self, leaves: Sequence[Leaf], sample: int, size: tuple[int, int], key: float) -> Crop:
        numbers, sides = Numbers(key), np.array(size[::-1], np.float64)
        first, last = np.clip(self._box(leaves, sample).reshape(2, 2), 0.0, sides)
        most = np.rint((last - first) * self.max_part_shift[::-1]).astype(int)
        shifts = [[numbers.whole(2 * m + 1) - m for m in most.tolist()] for _ in range(2)]
        left, top = np.clip(np.floor(first) - shifts[0], 0, sides).astype(int).tolist()
        right, bottom = np.clip(np.ceil(last) + shifts[1], 0, sides).astype(int).tolist()
        if right <= left or bottom <= top:
            columns, rows = np.clip(np.rint(last - first), 1, sides).astype(int).tolist()
            return (size[0] - rows) // 2, (size[1] - columns) // 2, rows, columns
        return top, left, bottom - top, right - left

    def _box(self, leaves: Sequence[Leaf], sample: int) -> np.ndarray:
        owner, key = "visops.transforms.RandomCropNearBBox", self.cropping_bbox_key
        own = [leaf for leaf in leaves if leaf.key == key or str(leaf.key).startswith(f"{key}[")]
        if not own:
            raise TypeError(f"{owner}: the sample has no {key!r}, must be a dict that has")
        value = own[0].samples()[sample] if len(own) == 1 else [leaf.value for leaf in own]
        box = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value, np.float64)
        if box.size != 4 or not np.isfinite(box).all():
            raise ValueError(
                f"{owner}: {key!r} is {value!r}, must be four finite numbers x1, y1, x2, y2"
            )
        return box.ravel()


class CropNonEmptyMaskIfExists(_SizedCrop):
    """Crop a rectangle of a fixed size around a random pixel of the mask.

    albumentations' transform of this name.

    Parameters
    ----------
    height, width : int
        The crop's.
    ignore_values : sequence of int, optional
        Labels that count as nothing, as 0 does.
    ignore_channels : sequence of int, optional
        Masks ``[N, H, W]`` of which these don't count.
    p : float
        Probability, for each sample.

    Raises
    ------
    TypeError
        The sample has no mask.
    ValueError
        The image is smaller than the crop.

    Notes
    -----
    Parameters: ``apply``, ``key``. Where masks are empty, the crop is anywhere. `inverse` refuses a
    chain with it.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> mask = torch.zeros(60, 80, dtype=torch.uint8)
    >>> mask[33, 44] = 1
    >>> crop = transforms.Compose([transforms.CropNonEmptyMaskIfExists(20, 20)], seed=0)
    >>> int(crop({"image": torch.zeros(3, 60, 80), "mask": mask}, index=0)["mask"].sum())
    1
    """

    def __init__(
        self,
        height: int,
        width: int,
        ignore_values: Sequence[int] | None = None,
        ignore_channels: Sequence[int] | None = None,
        p: float = 1.0,
    ) -> None:
        super().__init__()
        self.take_size(height, width)
        self.ignore_values = self._numbers("ignore_values", ignore_values)
        self.ignore_channels = self._numbers("ignore_channels", ignore_channels)
        self.take_p(p)

    @staticmethod
    def _numbers(name: str, value: Any) -> list[int] | None:
        if value is None:
            return None
        owner, allowed = "CropNonEmptyMaskIfExists", "None or a sequence of whole numbers"
        if name == "ignore_channels":
            allowed += " >= 0"
        if not is_sequence(value):
            fail(owner, name, value, allowed, TypeError)
        least = 0.0 if name == "ignore_channels" else -math.inf
        numbers = [number(owner, name, v, least, math.inf, allowed, value) for v in value]
        if not all(v.is_integer() for v in numbers):
            fail(owner, name, value, allowed)
        return [int(v) for v in numbers]

    def find(self, leaves: Sequence[Leaf], sample: int, size: tuple[int, int], key: float) -> Crop:
        rows, columns = self.free(size)
        numbers = Numbers(key)
        pixels = self._shown(leaves, sample)
        if len(pixels) == 0:
            top, left = numbers.whole(rows + 1), numbers.whole(columns + 1)
            return top, left, self.height, self.width
        y, x = pixels[numbers.whole(len(pixels))].tolist()
        left = min(max(x - numbers.whole(self.width), 0), columns)
        top = min(max(y - numbers.whole(self.height), 0), rows)
        return top, left, self.height, self.width

    def _shown(self, leaves: Sequence[Leaf], sample: int) -> np.ndarray:
        """Return the pixels (y, x) of all masks, in rows."""
        found: np.ndarray | None = None
        for leaf in leaves:
            if leaf.kind != "mask":
                continue
            value = leaf.samples()[sample]
            mask = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
            shown = mask != 0
            if self.ignore_values:
                shown &= ~np.isin(mask, self.ignore_values)
            if shown.ndim > 2:
                counts = np.ones(len(shown), bool)
                counts[[c for c in self.ignore_channels or () if c < len(shown)]] = False
                shown = shown[counts].any(0)
            found = shown if found is None else found | shown
        if found is None:
            raise TypeError(
                "visops.transforms.CropNonEmptyMaskIfExists: the sample has no mask, must have"
            )
        return np.argwhere(found)
