"""Crops that look at the sample's targets before they choose.

They run by themselves, sample by sample; only the crop's key is recorded, since the targets decide
the rest.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arguments import fail, interval, number, size_pair, whole
from ..base import Transform
from ..chain.effects import Effects
from ..chain.operators import Pixels
from ..chain.plan import Canvas, Plan
from ..chain.random import Numbers
from ..sample.images import sizes_of
from ..sample.leaf import Leaf
from ..targets.move import move_targets
from ..targets.options import Geometry, TargetOptions
from ..targets.polygons import ROTATED
from ..targets.rows import box_areas, from_corners, rows_of, to_corners

__all__ = ["CropByCategory", "RandomIoUCrop"]

Crop = tuple[int, int, int, int]  # top, left, height, width


class Searching(Transform):
    """Crops each sample; `find` says where."""

    no_inverse = "chooses its crop by the targets, which no parameters record"
    draws = 1

    def effects(self) -> Effects:
        return Effects(alone="it looks at targets", size=(0, 0))

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        return {"key": uniforms[:, 0].copy()}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add nothing: it joins no pass."""

    @abstractmethod
    def find(self, leaves: Sequence[Leaf], sample: int, size: tuple[int, int], key: float) -> Crop:
        """Return a sample's crop, within the image or beyond its right and lower edge."""

    def run_leaves(
        self, leaves: Sequence[Leaf], params: Mapping[str, Any], options: TargetOptions
    ) -> None:
        images = [leaf for leaf in leaves if leaf.kind == "image"]
        sizes = sizes_of(images[0])
        applies = params.get("apply")
        crops: list[Crop] = []
        for sample, (height, width) in enumerate(sizes.tolist()):
            if applies is not None and not applies[sample]:
                crops.append((0, 0, height, width))
                continue
            crops.append(self.find(leaves, sample, (height, width), float(params["key"][sample])))
        for leaf in images:
            _crop_images(leaf, crops)
        matrix = np.tile(np.eye(3), (len(crops), 1, 1))
        matrix[:, 0, 2] = [-crop[1] for crop in crops]
        matrix[:, 1, 2] = [-crop[0] for crop in crops]
        after = np.array([crop[2:] for crop in crops])
        self.before_move(leaves, crops)
        targets = [leaf for leaf in leaves if leaf.kind != "image"]
        move_targets(targets, Geometry(matrix, sizes, after), options)

    def before_move(self, leaves: Sequence[Leaf], crops: Sequence[Crop]) -> None:
        """Look at targets before they move."""

    def corners(self, leaves: Sequence[Leaf], sample: int) -> np.ndarray:
        """Return a sample's boxes x1, y1, x2, y2, ``[R, 4]``.

        Raises
        ------
        TypeError
            The sample has no boxes, or rotated ones.
        """
        owner = f"visops.transforms.{type(self).__name__}"
        boxes = next((leaf for leaf in leaves if leaf.kind == "boxes"), None)
        if boxes is None:
            raise TypeError(f"{owner}: the sample has no boxes, must have")
        if boxes.format in ROTATED:
            raise TypeError(
                f"{owner}: {boxes.name} has the format {boxes.format}, must be XYXY, XYWH or CXCYWH"
            )
        rows, _, _ = rows_of(boxes.samples()[sample], None, 4)
        plain = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else rows
        return np.asarray(to_corners(plain, boxes.format))


def _crop_images(leaf: Leaf, crops: Sequence[Crop]) -> None:
    pixels = Pixels(leaf)
    images = pixels.tensors(leaf)
    parts = []
    for index, image in enumerate(images):
        top, left, height, width = crops[index // pixels.frames]
        parts.append(image[:, top : top + height, left : left + width])
    same = len({part.shape for part in parts}) <= 1
    if pixels.listed or not same:
        if leaf.batch is None:
            leaf.layout, leaf.value = "CHW", torch.stack(parts) if leaf.frames else parts[0]
            return
        pixels.store(leaf, [part.contiguous() for part in parts])
        return
    pixels.store(leaf, torch.stack(parts))


class RandomIoUCrop(Searching):
    """Crop the image so that a box keeps a random overlap with the crop: SSD's.

    torchvision's transform of this name. Boxes whose centres are outside become 0, 0, 0, 0;
    ``Compose(boxes="sanitize")`` drops them, with what belongs to them.

    Parameters
    ----------
    min_scale, max_scale : float
        Range of the crop's sides, as shares of the image's.
    min_aspect_ratio, max_aspect_ratio : float
        Range of width / height.
    sampler_options : sequence of float, optional
        Least overlaps, of which one is drawn; 1 or more keeps the whole image. By default 0, 0.1,
        0.3, 0.5, 0.7, 0.9, 1.
    trials : int
        Attempts before another overlap is drawn.

    Raises
    ------
    TypeError
        The sample has no boxes, or rotated ones.

    Notes
    -----
    Parameters: ``key``. `make_params` takes the image to keep its size. `inverse` refuses a chain
    with it. A sample without a single box, for which torchvision would search forever, stays whole.

    Source: W. Liu et al., "SSD: Single shot multibox detector", ECCV 2016.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> crop = transforms.Compose([transforms.RandomIoUCrop()], seed=0, boxes="sanitize")
    >>> sample = {
    ...     "image": torch.zeros(3, 60, 80),
    ...     "boxes": torch.tensor([[20.0, 10, 60, 50]]),
    ...     "labels": torch.tensor([1]),
    ... }
    >>> len(crop(sample, index=1)["boxes"])
    1
    """

    def __init__(
        self,
        min_scale: float = 0.3,
        max_scale: float = 1.0,
        min_aspect_ratio: float = 0.5,
        max_aspect_ratio: float = 2.0,
        sampler_options: Sequence[float] | None = None,
        trials: int = 40,
    ) -> None:
        super().__init__()
        owner, allowed = "RandomIoUCrop", "a number in (0, 1], the smaller first"
        scales = interval(owner, "min_scale", (min_scale, max_scale), 1e-9, 1.0, allowed)
        self.min_scale, self.max_scale = scales
        allowed = "a number > 0, the smaller first"
        pair = (min_aspect_ratio, max_aspect_ratio)
        ratios = interval(owner, "min_aspect_ratio", pair, 1e-9, allowed=allowed)
        self.min_aspect_ratio, self.max_aspect_ratio = ratios
        given = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0) if sampler_options is None else sampler_options
        if len(given) == 0:
            fail(owner, "sampler_options", given, "at least one number >= 0")
        self.sampler_options = [
            number(owner, "sampler_options", value, 0.0, allowed="numbers >= 0") for value in given
        ]
        self.trials = whole(owner, "trials", trials, 1, "a whole number >= 1")

    def find(self, leaves: Sequence[Leaf], sample: int, size: tuple[int, int], key: float) -> Crop:
        corners = self.corners(leaves, sample)
        height, width = size
        if len(corners) == 0:
            return 0, 0, height, width
        numbers = Numbers(key)
        for _ in range(1000):
            least = self.sampler_options[numbers.whole(len(self.sampler_options))]
            if least >= 1.0:
                break
            for _ in range(self.trials):
                crop = self._attempt(numbers, size)
                if crop is not None and _overlaps(corners, crop, least):
                    return crop
        return 0, 0, height, width

    def _attempt(self, numbers: Numbers, size: tuple[int, int]) -> Crop | None:
        height, width = size
        span = self.max_scale - self.min_scale
        new_width = int(width * (self.min_scale + span * numbers.next()))
        new_height = int(height * (self.min_scale + span * numbers.next()))
        if new_width < 1 or new_height < 1:
            return None
        if not self.min_aspect_ratio <= new_width / new_height <= self.max_aspect_ratio:
            return None
        left = int((width - new_width) * numbers.next())
        top = int((height - new_height) * numbers.next())
        return top, left, new_height, new_width

    def before_move(self, leaves: Sequence[Leaf], crops: Sequence[Crop]) -> None:
        """Make boxes empty whose centres are outside."""
        for leaf in leaves:
            if leaf.kind != "boxes":
                continue
            rows, owners, restore = rows_of(leaf.value, leaf.batch, 4)
            corners = to_corners(rows, leaf.format)
            owner = np.zeros(len(rows), np.int64) if isinstance(owners, slice) else owners
            numbers = np.array(crops, np.float64)[owner]
            xp: Any = torch if isinstance(rows, Tensor) else np
            top, left, height, width = (
                torch.from_numpy(n).to(rows.device) if isinstance(rows, Tensor) else n
                for n in numbers.T.copy()
            )
            x, y = (corners[:, 0] + corners[:, 2]) / 2, (corners[:, 1] + corners[:, 3]) / 2
            kept = (left < x) & (x < left + width) & (top < y) & (y < top + height)
            nothing = xp.stack((left, top, left, top), -1)  # 0, 0, 0, 0 once moved
            leaf.value = restore(
                from_corners(xp.where(kept[:, None], corners, nothing), leaf.format)
            )


def _overlaps(corners: np.ndarray, crop: Crop, least: float) -> bool:
    """Whether a box with its centre in the crop has enough in common with it."""
    top, left, height, width = crop
    right, bottom = left + width, top + height
    x, y = (corners[:, 0] + corners[:, 2]) / 2, (corners[:, 1] + corners[:, 3]) / 2
    own = corners[(left < x) & (x < right) & (top < y) & (y < bottom)]
    if len(own) == 0:
        return False
    wide = np.minimum(own[:, 2], right) - np.maximum(own[:, 0], left)
    high = np.minimum(own[:, 3], bottom) - np.maximum(own[:, 1], top)
    common = wide.clip(0) * high.clip(0)
    areas = box_areas(own)
    return bool((common / (areas + width * height - common)).max() >= least)


class CropByCategory(Searching):
    """Crop the image where no class takes up too much of the mask: mmsegmentation's RandomCrop.

    Parameters
    ----------
    crop_size : int or pair of int
        Height and width; a smaller image keeps its own.
    cat_max_ratio : float
        The greatest share of a class among the labelled pixels of a crop.
    ignore_index : int
        The label that doesn't count.

    Raises
    ------
    TypeError
        The sample has no mask of integers ``[H, W]``.

    Notes
    -----
    Parameters: ``key``. Ten crops are drawn, and the last one is taken where none is good.
    `make_params` takes the image to keep its size. `inverse` refuses a chain with it.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> mask = torch.zeros(40, 40, dtype=torch.uint8)
    >>> mask[:20] = 1
    >>> crop = transforms.Compose([transforms.CropByCategory(20, 0.75)], seed=0)
    >>> cut = crop({"image": torch.zeros(3, 40, 40), "mask": mask}, index=0)["mask"]
    >>> bool(0.25 <= cut.float().mean() <= 0.75)
    True
    """

    def __init__(
        self, crop_size: int | Sequence[int], cat_max_ratio: float = 0.75, ignore_index: int = 255
    ) -> None:
        super().__init__()
        owner = "CropByCategory"
        self.crop_size = size_pair(owner, "crop_size", crop_size)
        allowed = "a number in (0, 1]"
        self.cat_max_ratio = number(owner, "cat_max_ratio", cat_max_ratio, 1e-9, 1.0, allowed)
        self.ignore_index = whole(owner, "ignore_index", ignore_index, -(2**31), "a whole number")

    def find(self, leaves: Sequence[Leaf], sample: int, size: tuple[int, int], key: float) -> Crop:
        labels = next((leaf for leaf in leaves if leaf.kind == "mask" and not leaf.per_box), None)
        if labels is None:
            raise TypeError("visops.transforms.CropByCategory: the sample has no mask, must have")
        mask = labels.samples()[sample]
        mask = mask if isinstance(mask, Tensor) else torch.from_numpy(np.ascontiguousarray(mask))
        if mask.dim() != 2 or mask.is_floating_point():
            raise TypeError(
                f"visops.transforms.CropByCategory: {labels.name} has shape {list(mask.shape)} and "
                f"dtype {mask.dtype}, must be [H, W] of integers"
            )
        numbers = Numbers(key)
        height, width = (min(a, b) for a, b in zip(self.crop_size, size, strict=True))
        crop: Crop = (0, 0, height, width)
        for _ in range(10):
            top = numbers.whole(size[0] - height + 1)
            left = numbers.whole(size[1] - width + 1)
            crop = (top, left, height, width)
            counts = torch.unique(mask[top : top + height, left : left + width], return_counts=True)
            kept = counts[1][counts[0] != self.ignore_index].double()
            if len(kept) > 1 and float(kept.max() / kept.sum()) < self.cat_max_ratio:
                break
        return crop
