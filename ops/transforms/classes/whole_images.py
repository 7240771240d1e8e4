"""Transforms of whole images, by a matrix, in tiles or by an ellipse, and of videos' frames."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..._torch.autocast import full_product
from ..arguments import fail, one_of, size_pair, whole, whole_range
from ..base import Keyed, OperationStep, Transform, fixed
from ..chain.effects import Effects
from ..chain.operators import Pixels
from ..chain.pixel_kinds import PixelKind
from ..chain.plan import Plan, evenly
from ..chain.random import Numbers
from ..sample.leaf import Leaf
from ..targets.masks import change_each_mask
from ..targets.options import CONVENTIONS, TargetOptions
from ..targets.rows import point_width, rows_of

__all__ = [
    "LinearTransformation",
    "Morphological",
    "RandomGridShuffle",
    "UniformTemporalSubsample",
]


class _Alone(Transform):
    """Joins no pass and draws nothing."""

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add nothing: it joins no pass."""


class LinearTransformation(_Alone):
    """Multiply the flattened image, less its mean, by a matrix: whitening.

    torchvision's transform of this name.

    Parameters
    ----------
    transformation_matrix : Tensor ``[D, D]``
        D is C x H x W of the images.
    mean_vector : Tensor ``[D]``

    Raises
    ------
    TypeError, ValueError
        The image is not floating, or of another size.

    Notes
    -----
    A matrix product of torch's: results may depend on the size of the batch in the last bits.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> double = transforms.LinearTransformation(2.0 * torch.eye(4), torch.ones(4))
    >>> double(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[0., 2.],
             [4., 6.]]])
    """

    def __init__(self, transformation_matrix: torch.Tensor, mean_vector: torch.Tensor) -> None:
        super().__init__()
        owner = "LinearTransformation"
        given = {"transformation_matrix": transformation_matrix, "mean_vector": mean_vector}
        for name, value in given.items():
            if not isinstance(value, torch.Tensor):
                kind = type(value).__name__
                raise TypeError(
                    f"visops.transforms.{owner}: {name} is a {kind}, must be a torch.Tensor"
                )
        shape = tuple(transformation_matrix.shape)
        if len(shape) != 2 or shape[0] != shape[1]:
            fail(owner, "transformation_matrix", list(shape), "of shape [D, D]")
        if tuple(mean_vector.shape) != shape[:1]:
            fail(owner, "mean_vector", list(mean_vector.shape), f"of shape [{shape[0]}]")
        self.transformation_matrix = transformation_matrix
        self.mean_vector = mean_vector

    def extra_repr(self) -> str:
        return f"transformation_matrix={list(self.transformation_matrix.shape)}"

    def effects(self) -> Effects:
        return Effects(alone="it mixes all values of an image")

    def run_images(self, leaf: Leaf, params: Mapping[str, Any]) -> None:
        pixels = Pixels(leaf)
        if not pixels.dtype.is_floating_point:
            raise TypeError(
                f"visops.transforms.LinearTransformation: {leaf.name} has dtype {pixels.dtype}, "
                "must be floating"
            )
        images = pixels.tensors(leaf)
        moved = []
        for image in images:
            if image.numel() != len(self.mean_vector):
                raise ValueError(
                    f"visops.transforms.LinearTransformation: {leaf.name} has shape "
                    f"{list(image.shape)}, must have {len(self.mean_vector)} values"
                )
            own = {"device": image.device, "dtype": image.dtype}
            flat = image.reshape(1, -1) - self.mean_vector.to(**own)
            found = full_product(flat, self.transformation_matrix.to(**own))
            moved.append(found.view(image.shape))
        pixels.store(leaf, moved if pixels.listed else torch.stack(moved))


class UniformTemporalSubsample(_Alone):
    """Keep so many frames of a video, evenly spaced from the first to the last.

    torchvision's transform of this name.

    Parameters
    ----------
    num_samples : int
        May be more than there are; frames repeat then.

    Raises
    ------
    TypeError
        The sample's image is no video, or there are targets beside it.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> thin = transforms.Compose([transforms.UniformTemporalSubsample(3)], per_frame=False)
    >>> thin(torch.arange(5.0).reshape(5, 1, 1, 1)).flatten()
    tensor([0., 2., 4.])
    """

    def __init__(self, num_samples: int) -> None:
        super().__init__()
        owner, allowed = "UniformTemporalSubsample", "a whole number >= 1"
        self.num_samples = whole(owner, "num_samples", num_samples, 1, allowed)

    def effects(self) -> Effects:
        return Effects(alone="it drops frames")

    def run_leaves(self, leaves: Any, params: Mapping[str, Any], options: TargetOptions) -> None:
        for leaf in leaves:
            if leaf.kind in ("mask", "boxes", "keypoints", "polygons"):
                raise TypeError(
                    f"visops.transforms.UniformTemporalSubsample: {leaf.name} would keep all "
                    "of its frames; must be left out"
                )
            if leaf.kind == "image":
                self.run_images(leaf, params)

    def run_images(self, leaf: Leaf, params: Mapping[str, Any]) -> None:
        if not leaf.frames:
            raise TypeError(
                f"visops.transforms.UniformTemporalSubsample: {leaf.name} is no video, must be a "
                "tv_tensors.Video or come with Compose(per_frame=False)"
            )
        pixels = Pixels(leaf)
        images = pixels.tensors(leaf)
        last = pixels.frames - 1
        positions = evenly(0, last, self.num_samples).clamp(0, last).long().tolist()
        count = len(images) // pixels.frames
        kept = [
            sample * pixels.frames + position for sample in range(count) for position in positions
        ]
        pixels.frames = self.num_samples
        pixels.store(leaf, [images[i] for i in kept] if pixels.listed else images[kept])


class Morphological(OperationStep):
    """Dilate or erode the image and its masks by an ellipse.

    albumentations' transform of this name.

    Parameters
    ----------
    scale : int or pair of int
        Width and height of the ellipse, OpenCV's; one number x means (1, x).
    operation : {"dilation", "erosion"}
        Take the greatest or the least value under the ellipse.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: whether it dilates, width, height. Boxes and
    key points stay as they are; albumentations' boxes grow or shrink.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.zeros(1, 3, 4)
    >>> image[0, 1, 1] = 1
    >>> transforms.Morphological((3, 3), p=1)(image)
    tensor([[[0., 1., 0., 0.],
             [1., 1., 1., 0.],
             [0., 1., 0., 0.]]])
    """

    kind = PixelKind.MORPHOLOGY
    changes_masks = True

    def __init__(
        self,
        scale: int | Sequence[int] = (2, 3),
        operation: Literal["dilation", "erosion"] = "dilation",
        p: float = 0.5,
    ) -> None:
        if isinstance(scale, (tuple, list)):
            sides = [whole_range("Morphological", "scale", (own, own), 1, 255)[0] for own in scale]
            if len(sides) != 2:
                fail("Morphological", "scale", scale, "a whole number or two (width, height)")
            size = sides[0], sides[1]
        else:
            size = whole_range("Morphological", "scale", scale, 1, 255)
        one_of("Morphological", "operation", operation, ("dilation", "erosion"))
        super().__init__(p, map(fixed, (operation == "dilation", *size)))
        self.scale, self.operation = size, operation


def _shuffled(numbers: Numbers, count: int) -> list[int]:
    """Return 0, ..., count - 1 in random order."""
    order: list[int] = numbers.array(count).argsort(kind="stable").tolist()
    return order


class RandomGridShuffle(Keyed):
    """Cut the image, its masks and key points into tiles, and shuffle those of equal size.

    albumentations' transform of this name.

    Parameters
    ----------
    grid : pair of int
        Rows and columns of tiles.
    p : float
        Probability, for each sample.

    Raises
    ------
    TypeError
        The sample has boxes or polygons, which would fall apart.

    Notes
    -----
    Parameters: ``apply``, ``key``. `inverse` refuses a chain with it.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.arange(6.0).reshape(1, 2, 3)
    >>> transforms.RandomGridShuffle((2, 3), p=1)(image).unique()
    tensor([0., 1., 2., 3., 4., 5.])
    """

    no_inverse = "shuffles tiles, which no recorded matrix undoes"

    def __init__(self, grid: Sequence[int] = (3, 3), p: float = 0.5) -> None:
        super().__init__()
        self.grid = size_pair("RandomGridShuffle", "grid", grid)
        self.take_p(p)

    def draw(self, numbers: Numbers, shape: Sequence[int]) -> list[tuple[int, ...]]:
        """Return of each tile its place and where it goes: y, x, height, width, new y, new x."""
        lines = []
        for side, parts in zip(shape[1:], self.grid, strict=True):
            parts = min(parts, side)
            sizes = [side // parts + (k < side % parts) for k in _shuffled(numbers, parts)]
            lines.append([*zip(accumulate(sizes, initial=0), sizes, strict=False)])
        tiles = [(y, x, height, width) for y, height in lines[0] for x, width in lines[1]]
        alike: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for tile in _shuffled(numbers, len(tiles)):
            y, x, height, width = tiles[tile]
            alike.setdefault((height, width), []).append((y, x))
        places = {size: iter(own) for size, own in alike.items()}
        return [(*tile, *next(places[tile[2:]])) for tile in tiles]

    def change(self, image: Tensor, drawn: Sequence[tuple[int, ...]]) -> Tensor:
        found = torch.empty_like(image)
        for y, x, height, width, new_y, new_x in drawn:
            tile = image[..., y : y + height, x : x + width]
            found[..., new_y : new_y + height, new_x : new_x + width] = tile
        return found

    def changed(self, image: Tensor, drawn: Any) -> Tensor:
        return self.change(image, drawn)

    def move(self, leaves: Sequence[Leaf], draws: Sequence[Any], options: TargetOptions) -> None:
        def change(position: int, planes: Tensor) -> Tensor:
            drawn = draws[position]
            return planes if drawn is None else self.change(planes, drawn)

        for leaf in leaves:
            if leaf.kind == "mask":
                change_each_mask(leaf, change)
            if leaf.kind in ("boxes", "polygons"):
                raise TypeError(
                    f"visops.transforms.RandomGridShuffle: {leaf.name} would fall apart; must be "
                    "left out"
                )
            if leaf.kind == "keypoints":
                self._move_points(leaf, draws, CONVENTIONS[options.keypoint_convention])

    def _move_points(self, leaf: Leaf, draws: Sequence[Any], shift: float) -> None:
        rows, owners, restore = rows_of(leaf.value, leaf.batch, point_width(leaf))
        owner = np.zeros(len(rows), np.int64) if isinstance(owners, slice) else owners
        points = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else rows
        moved = points.copy()
        for sample, drawn in enumerate(draws):
            for y, x, height, width, new_y, new_x in drawn or ():
                at = points[:, :2] + shift
                inside = (at >= (x, y)).all(1) & (at < (x + width, y + height)).all(1)
                moved[inside & (owner == sample), :2] += (new_x - x, new_y - y)
        leaf.value = restore(
            torch.from_numpy(moved).to(rows) if isinstance(rows, Tensor) else moved
        )
