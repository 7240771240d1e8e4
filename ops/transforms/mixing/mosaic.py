"""Mosaic: four images of a batch on one canvas."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..._torch.options import Convention, KeptBoxes, SampleBoxFormat
from ..arguments import (
    FillArgument,
    InterpolationArgument,
    fill_values,
    flag,
    interpolation_mode,
    interval,
    size_pair,
)
from ..chain.integers import reject_out_of_range, rounded
from ..chain.operators import reject_dtype
from ..chain.plan import Plan
from ..classes.crop import CenterCrop
from ..classes.geometry import RandomAffine
from ..sample.leaf import Leaf
from ..targets.finish import finish_targets
from ..targets.move import move_targets
from ..targets.options import check_fill, mask_fill_of
from .base import Mixing, Params, mixed_samples, pictures, restacked, target_options
from .tiles import Movement, Tiles, filled, image_masks, join_pieces, lists_of_things, pieces_of


class Mosaic(Mixing):
    """Put each image of a batch on a canvas with three others, as in YOLO's training.

    The canvas is twice as high and wide as `size`. Four images, each resized to fit into `size`,
    meet at a random point of it: the sample's own image lies above and to the left of the point.
    The others are drawn from the batch and lie above right, below left and below right. Whatever
    reaches beyond the canvas is cut off; what is left over is `fill`. Each pixel of the canvas is
    written once.

    In YOLO's training the canvas then moves at random, and its middle is cut out. If `degrees`,
    `translate`, `scale` or `shear` is given, the result is that: an image of `size`, made of the
    four images by one interpolation, without the canvas.

    Boxes, masks and key points follow.

    Parameters
    ----------
    size : int or pair of int
        Height and width into which each image is fitted.
    center : pair of float
        Range of the meeting point along each axis, in units of `size`, within [0, 2].
    degrees : number or pair of number, optional
        Range of the angle that the canvas turns by, as for :class:`RandomAffine`.
    translate : pair of float, optional
        The largest shifts along x and y, in units of `size`.
    scale : pair of float, optional
        Range of the factor by which the canvas grows or shrinks.
    shear : number or sequence of number, optional
        As for :class:`RandomAffine`.
    fill : number or sequence of C numbers, or a dict of such by type
        In the image's units (white is 255 for uint8, 1 for floating images). The default is for
        uint8: floating images refuse what is not between black and white.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    antialias : bool
        Where an image shrinks, average over all pixels that an output pixel covers.
    mask_fill : int, optional
        Value of masks where there is no image: by default that of `fill` for masks, or 0.
    boxes : {"sanitize", "clamp", "keep"}
        Clip boxes to the canvas and drop those beyond it, along with what belongs to them; or only
        clip them; or leave them as they are.
    min_size, min_area, min_visibility : float, optional
        With ``boxes="sanitize"``, as for :class:`Compose`.
    keypoint_convention : {"integer", "half_pixel"}
        As for :class:`Compose`.
    seed : int, optional
        As for :class:`Compose`.
    keys : mapping of str to sequence of str, optional
        As for :class:`Compose`.
    box_format : str, default "xyxy"
        As for :class:`Compose`.
    p : float
        Probability that a sample becomes a mosaic. Others lie alone in the middle of the canvas,
        fitted into it as by :class:`Letterbox`, or into `size` where the canvas moves.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong, or the sample is not a batch.

    Notes
    -----
    The images may differ in size, if they come in a list or through :meth:`collate`. Boxes, key
    points and whatever belongs to single boxes come out as lists, the image's own first. Everything
    else is that of the image itself: its file name, its number, a label of the whole image.

    Images are resized as by :class:`Letterbox`: by one factor, with sides rounded to whole pixels,
    half to even.

    Parameters of a call: ``x``, ``y`` of the meeting point, and the numbers of the other samples,
    ``first``, ``second`` and ``third``; where the canvas moves, those of :class:`RandomAffine` and
    :class:`CenterCrop`, too, and ``mixed`` where `p` is less than 1. Source: A.
    Bochkovskiy et al., "YOLOv4: Optimal Speed and Accuracy of Object Detection", 2020.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> batch = {
    ...     "image": torch.randint(0, 256, (4, 3, 60, 80), dtype=torch.uint8),
    ...     "boxes": [torch.tensor([[10.0, 10.0, 50.0, 40.0]])] * 4,
    ...     "labels": [["cat"], ["dog"], ["cow"], ["owl"]],
    ... }
    >>> mosaics = transforms.Mosaic(64)(batch)
    >>> mosaics["image"].shape
    torch.Size([4, 3, 128, 128])
    >>> [len(boxes) == len(labels) for boxes, labels in zip(mosaics["boxes"], mosaics["labels"])]
    [True, True, True, True]
    >>> transforms.Mosaic(64, translate=(0.1, 0.1), scale=(0.5, 1.5))(batch)["image"].shape
    torch.Size([4, 3, 64, 64])
    """

    draws = 5

    def __init__(
        self,
        size: int | Sequence[int],
        *,
        center: Sequence[float] = (0.5, 1.5),
        degrees: float | Sequence[float] | None = None,
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        fill: FillArgument = 114,
        interpolation: InterpolationArgument = "bilinear",
        antialias: bool | None = True,
        mask_fill: int | None = None,
        boxes: KeptBoxes = "sanitize",
        min_size: float | None = None,
        min_area: float | None = None,
        min_visibility: float | None = None,
        keypoint_convention: Convention = "integer",
        seed: int | None = None,
        keys: Mapping[str, Sequence[str]] | None = None,
        box_format: SampleBoxFormat = "xyxy",
        p: float = 1.0,
    ) -> None:
        super().__init__(seed, keys, box_format, p, stacks=False)
        self.size = size_pair("Mosaic", "size", size)
        self.center = interval(
            "Mosaic", "center", center, 0.0, 2.0, "two numbers in [0, 2] (min, max)"
        )
        self.movement: tuple[Any, ...] = (degrees, translate, scale, shear)
        self._moves = [] if self.movement == (None,) * 4 else _moves(self.size, *self.movement)
        self.draws = 5 + sum(move.draws for move in self._moves)
        self.fill = fill_values("Mosaic", fill)
        self.interpolation = interpolation_mode("Mosaic", interpolation)
        filters = flag("Mosaic", "antialias", antialias or False)
        self.antialias = filters and self.interpolation != "nearest"
        given = {
            "mask_fill": getattr(self.fill, "mask", None) if mask_fill is None else mask_fill,
            "boxes": boxes,
            "min_size": min_size,
            "min_area": min_area,
            "min_visibility": min_visibility,
            "keypoint_convention": keypoint_convention,
        }
        other_fill = getattr(self.fill, "mask", None) or 0
        self.options = replace(target_options("Mosaic", given), other_mask_fill=other_fill)

    def extra_repr(self) -> str:
        names = ("degrees", "translate", "scale", "shear")
        given = zip(names, self.movement, strict=True)
        moved = "".join(f"{name}={value}, " for name, value in given if value is not None)
        return f"size={self.size}, center={self.center}, {moved}fill={self.fill}"

    def draw(self, uniforms: np.ndarray, sizes: np.ndarray) -> dict[str, np.ndarray]:
        low, high = self.center
        position = low + uniforms[:, :2] * (high - low)
        others = np.floor(uniforms[:, 2:5] * len(sizes))
        names = ("first", "second", "third")
        drawn = {
            "x": np.floor(position[:, 0] * self.size[1]),
            "y": np.floor(position[:, 1] * self.size[0]),
            **{name: others[:, i] for i, name in enumerate(names)},
        }
        if not self._moves:
            return drawn
        plan = Plan.of_images(np.tile(2 * np.array(self.size, np.int64), (len(sizes), 1)))
        first = 5
        for move in self._moves:
            step, last = move.chain_step(), first + move.draws
            numbers = plan.draw(step, uniforms[:, first:last])
            drawn.update(step.unpack(numbers))
            plan.add(step, numbers)
            first = last
        return drawn

    def _movement(self, params: Params, batch: int) -> Movement | None:
        if not self._moves:
            return None
        steps = []
        for move in self._moves:
            step = move.chain_step()
            own = {name: params[name] for name in step.names if name in params}
            steps.append((step, step.pack(own, batch)))
        return Movement(self.size, steps)

    def mix(
        self, leaves: Sequence[Leaf], params: Params, sizes: np.ndarray, sample: Callable[[], Any]
    ) -> None:
        batch = len(sizes)
        centers = np.stack((params["x"], params["y"]), 1)
        others = [params[name] for name in ("first", "second", "third")]
        sources = np.stack((np.arange(batch), *others), 1).astype(np.int64)
        mixed = mixed_samples(params, batch)
        movement = self._movement(params, batch)
        tiles = Tiles.of(sizes, self.size, centers, sources, mixed, movement)
        things = lists_of_things("Mosaic", leaves)
        for leaf in leaves:
            if leaf.kind == "image":
                self._draw_images(leaf, tiles)
        for leaf in image_masks(leaves, things):
            check_fill(leaf, self.options)
            self._draw_masks(leaf, tiles)
        if things and batch > 0:
            self._join_things(things, tiles, mixed)

    def _canvas(self, *shape: int) -> tuple[int, ...]:
        factor = 1 if self._moves else 2
        return (*shape, factor * self.size[0], factor * self.size[1])

    def _draw_images(self, leaf: Leaf, tiles: Tiles) -> None:
        images, pixels = pictures(leaf)
        dtype = reject_dtype(leaf, pixels.dtype)
        if len(self.fill) not in (1, pixels.channels):
            raise ValueError(
                f"visops.transforms.Mosaic: fill has {len(self.fill)} numbers, {leaf.name} has "
                f"{pixels.channels} channels"
            )
        reject_out_of_range("Mosaic", "fill", self.fill, pixels.dtype, white=True)
        value = torch.tensor(self.fill, dtype=torch.float64, device="cpu")
        if not dtype.is_floating_point:
            value = rounded(value, dtype)
        value = pixels.put(value.numpy()).to(dtype).view(-1, 1, 1)
        count = 0 if leaf.batch is None else leaf.batch * pixels.frames
        shape = self._canvas(count, pixels.channels)
        result = torch.empty(shape, dtype=dtype, device=pixels.device)
        tiles.draw_images(images, result, value, self.interpolation, self.antialias)
        pixels.store(leaf, result)

    def _draw_masks(self, leaf: Leaf, tiles: Tiles) -> None:
        values = leaf.samples()
        results = []
        for sample, own in enumerate(values):
            fill = mask_fill_of(leaf.per_box, own, self.options)
            result = filled(own, self._canvas(*own.shape[:-2]), fill)
            for tile in range(4 * sample, 4 * sample + 4):
                other = values[tiles.sources[tile]]
                tiles.put_masks(tile, tiles.masks(tile, other, fill), result)
            results.append(result)
        leaf.value = restacked(leaf, results)

    def _join_things(self, things: Sequence[Leaf], tiles: Tiles, mixed: np.ndarray) -> None:
        pieces = pieces_of(things, tiles.sources)
        for piece in pieces:
            if piece.kind == "mask":
                piece.value = [tiles.masks(tile, v) for tile, v in enumerate(piece.value)]
        moving = [piece for piece in pieces if piece.kind != "mask"]
        move_targets(moving, tiles.geometry, self.options)
        finish_targets(pieces, tiles.geometry.size_out, self.options)

        def join_masks(leaf: Leaf, values: Sequence[Any], sample: int) -> Any:
            count = sum(len(value) for value in values)
            result, start = filled(values[0], self._canvas(count), 0), 0
            for index, value in enumerate(values):
                part = result[start : start + len(value)]
                tiles.put_masks(4 * sample + index, value, part)
                start += len(value)
            return result

        join_pieces(things, pieces, 4, mixed, join_masks)


class _CanvasAffine(RandomAffine):
    """Moves canvases."""


_CanvasAffine.__name__ = "Mosaic"  # what messages speak of


def _moves(
    size: tuple[int, int], degrees: Any, translate: Any, scale: Any, shear: Any
) -> list[Any]:
    """Return what leads from a canvas of twice `size` to it."""
    moved = _CanvasAffine(0 if degrees is None else degrees, translate, scale, shear)
    if moved.translate is not None:  # a share of the canvas, there
        moved.translate = tuple(value / 2 for value in moved.translate)
    return [moved, CenterCrop(size)]
