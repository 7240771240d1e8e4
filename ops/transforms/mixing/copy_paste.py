"""CopyPaste: objects of one image pasted onto another."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..._torch.options import SampleBoxFormat
from ...warp.augment import augment
from ..arguments import InterpolationArgument, flag, interpolation_mode
from ..chain.integers import WHITES, choose, from_float, to_float
from ..chain.operators import Pixels, reject_dtype
from ..chain.random import uniforms as draw_uniforms
from ..sample.leaf import Leaf
from ..targets.finish import boxes_from_members, finish_targets, keep_only, sides_of
from ..targets.masks import as_given, as_tensor
from ..targets.move import move_targets
from ..targets.options import CONVENTIONS, Geometry
from ..targets.polygons import numbers_on_cpu
from ..targets.rows import note_visible, point_width, rows_of
from .base import Mixing, Params, mixed_samples, restacked, target_options
from .mix_up import pairs
from .tiles import image_masks, join_pieces, lists_of_things, pieces_of

_RIM = 2  # pixels around an object that `blending` takes along


class CopyPaste(Mixing):
    """Paste objects of the previous image of a batch onto each image, by their masks.

    torchvision's ``SimpleCopyPaste``, of its references for detection. Of N objects, N are drawn
    with replacement; so at least one is pasted, and about two thirds; but none whose ``iscrowd`` or
    ``ignore`` is set, as COCO marks groups and regions without labels. What they cover of the
    image's own masks is removed, and objects of which nothing is left are dropped, along with what
    belongs to them. Where images differ in size, the other one is resized to the image's own.

    Parameters
    ----------
    blending : bool
        Paste a rim of two pixels around each object as well: what the 5 x 5 blur of a mask does
        in torchvision.
    resize_interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
        For images that are resized; masks take the nearest pixel.
    seed : int, optional
        As for :class:`Compose`.
    keys : mapping of str to sequence of str, optional
        As for :class:`Compose`.
    box_format : str, default "xyxy"
        As for :class:`Compose`.
    p : float
        Probability that objects are pasted onto a sample; others stay as they are.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong; the sample is not a batch, or has not one set of boxes with a mask
        ``[H, W]`` for each; boxes are rotated; there are polygons, which can't be cut by masks.

    Notes
    -----
    A sample has boxes and, for each, a mask; labels and others under the names of
    :class:`Compose` follow. Boxes of the image itself become the bounds of what is left of their
    masks, measured from pixel corners, so the right and lower edges are one more than
    torchvision's. ``area`` becomes the number of a mask's pixels. All of them come out as lists,
    the image's own first. A mask of the image shows the other image's classes where pixels are
    pasted. If the other image has no objects, the sample stays as it is.

    Parameters of a call: ``key``, from which the drawn objects follow, and ``mixed`` where `p` is
    less than 1. Source: G. Ghiasi et al.,
    "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation", CVPR 2021.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> masks = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    >>> masks[0, 0, :3, :3], masks[1, 0, 5:, 5:] = 1, 1
    >>> batch = {
    ...     "image": torch.stack([torch.zeros(3, 8, 8), torch.ones(3, 8, 8)]),
    ...     "boxes": [torch.tensor([[0.0, 0, 3, 3]]), torch.tensor([[5.0, 5, 8, 8]])],
    ...     "masks": list(masks),
    ...     "labels": [torch.tensor([1]), torch.tensor([2])],
    ... }
    >>> pasted = transforms.CopyPaste(blending=False)(batch)
    >>> pasted["labels"]
    [tensor([1, 2]), tensor([2, 1])]
    >>> pasted["image"][0, 0].sum()
    tensor(9.)
    """

    draws = 1

    def __init__(
        self,
        blending: bool = True,
        resize_interpolation: InterpolationArgument = "bilinear",
        *,
        seed: int | None = None,
        keys: Mapping[str, Sequence[str]] | None = None,
        box_format: SampleBoxFormat = "xyxy",
        p: float = 1.0,
    ) -> None:
        super().__init__(seed, keys, box_format, p, stacks=False)
        self.blending = flag("CopyPaste", "blending", blending)
        self.resize_interpolation = interpolation_mode(
            "CopyPaste", resize_interpolation, "resize_interpolation"
        )
        self.options = target_options("CopyPaste", {})

    def extra_repr(self) -> str:
        return f"blending={self.blending}, resize_interpolation={self.resize_interpolation!r}"

    def draw(self, uniforms: np.ndarray, sizes: np.ndarray) -> dict[str, np.ndarray]:
        return {"key": uniforms[:, 0]}

    def mix(
        self, leaves: Sequence[Leaf], params: Params, sizes: np.ndarray, sample: Callable[[], Any]
    ) -> None:
        things = lists_of_things("CopyPaste", leaves)
        boxes_at, masks_at = _positions(things)
        batch = len(sizes)
        if batch == 0:
            return
        pieces = pieces_of(things, pairs(batch))
        sources, both = sizes[pairs(batch)], sizes.repeat(2, 0)
        if (sources != both).any():
            move_targets(pieces, Geometry(_scales(sources, both), sources, both), self.options)
        boxes, masks = pieces[boxes_at], pieces[masks_at]
        mixed = mixed_samples(params, batch)
        single = _single(pieces, masks)
        chosen = [
            _chosen(float(key), single[2 * index + 1]) & mixed[index]
            for index, key in enumerate(np.asarray(params["key"]))
        ]
        alphas = [self._alpha(masks.value[2 * index + 1], own) for index, own in enumerate(chosen)]
        for leaf in leaves:
            if leaf.kind == "image":
                _paste_images(leaf, alphas, self.resize_interpolation)
        for leaf in image_masks(leaves, things):
            _paste_masks(leaf, alphas)
        self._cut(pieces, boxes, masks, chosen, alphas)
        finish_targets(pieces, both, self.options)
        join_pieces(things, pieces, 2, mixed)

    def _alpha(self, masks: Any, chosen: np.ndarray) -> Tensor | None:
        """Return where pixels are pasted, bool ``[H, W]``; None: nowhere."""
        if not chosen.any():
            return None
        values = as_tensor(masks)
        alpha = (values[torch.from_numpy(chosen).to(values.device)] != 0).any(0)
        if self.blending and alpha.numel() > 0:
            side = 2 * _RIM + 1
            alpha = F.max_pool2d(alpha[None, None].float(), side, 1, _RIM)[0, 0] > 0
        return alpha

    def _cut(
        self,
        pieces: Sequence[Leaf],
        boxes: Leaf,
        masks: Leaf,
        chosen: Sequence[np.ndarray],
        alphas: Sequence[Tensor | None],
    ) -> None:
        """Remove what is covered from an image's own objects, and keep what is drawn of others."""
        given = list(boxes.value)
        counts: list[Tensor] = []
        for index, alpha in enumerate(alphas):
            own = as_tensor(masks.value[2 * index])
            if alpha is not None:
                own = choose(alpha, torch.zeros_like(own), own)
                masks.value[2 * index] = as_given(own, masks.value[2 * index])
            counts += [(as_tensor(m) != 0).sum((1, 2)) for m in masks.value[2 * index :][:2]]
        for leaf in pieces:
            if leaf.kind == "keypoints":
                _cover_points(leaf, alphas, CONVENTIONS[self.options.keypoint_convention])
        boxes_from_members(boxes, pieces, "masks")
        bounds, keeps = list(boxes.value), []
        for piece in range(len(given)):
            alpha, is_other = alphas[piece // 2], piece % 2 == 1
            boxes.value[piece] = given[piece] if is_other or alpha is None else bounds[piece]
            if alpha is None:
                keeps.append(np.full(len(given[piece]), not is_other))
                continue
            keep = (sides_of(boxes.value[piece], boxes.format) > 0).all(-1)
            keep = keep.cpu().numpy() if isinstance(keep, Tensor) else keep
            left = chosen[piece // 2] if is_other else counts[piece].cpu().numpy() > 0
            keeps.append(keep & left)
        for area in pieces:
            if area.kind == "area":
                area.value = [
                    own if alphas[piece // 2] is None else _like(counts[piece], own)
                    for piece, own in enumerate(area.value)
                ]
        keep_only(boxes, [piece for piece in pieces if piece is not boxes], keeps)


def _positions(things: Sequence[Leaf]) -> tuple[int, int]:
    """Return which leaf holds the boxes, and which their masks."""
    boxes = [index for index, leaf in enumerate(things) if leaf.kind == "boxes"]
    masks = [index for index, leaf in enumerate(things) if leaf.kind == "mask" and leaf.per_box]
    if len(boxes) != 1 or len(masks) != 1:
        _reject(
            f"the sample has {len(boxes)} sets of boxes and {len(masks)} sets of masks for them, "
            "must have one of each: 'boxes', and 'masks' with a mask [H, W] for each box"
        )
    for leaf in things:
        if leaf.kind == "polygons":
            _reject(f"{leaf.name} are polygons, which can't be cut by masks; must be left out")
        if leaf.group != things[boxes[0]].group:
            _reject(f"{leaf.name} doesn't belong to {things[boxes[0]].name}; must be left out")
    return boxes[0], masks[0]


def _reject(problem: str) -> NoReturn:
    raise ValueError(f"visops.transforms.CopyPaste: {problem}")


def _single(pieces: Sequence[Leaf], masks: Leaf) -> list[np.ndarray]:
    """Return which of each sample's masks show a single object, bool ``[N]``: no crowd."""
    single = [np.ones(len(own), bool) for own in masks.value]
    for leaf in pieces:
        if leaf.key in ("iscrowd", "ignore"):
            for own, flags in zip(single, leaf.value, strict=True):
                if flags is not None:
                    own &= np.asarray(flags.cpu() if isinstance(flags, Tensor) else flags) == 0
    return single


def _chosen(key: float, single: np.ndarray) -> np.ndarray:
    """Return which objects are pasted: of those in `single`, which as many draws have hit."""
    places = np.flatnonzero(single)
    hit = np.zeros(len(single), bool)
    if len(places) > 0:
        drawn = draw_uniforms(int(key * 2.0**53), 0, [0], len(places))[0]
        hit[places[np.floor(drawn * len(places)).astype(np.int64)]] = True
    return hit


def _cover_points(leaf: Leaf, alphas: Sequence[Tensor | None], shift: float) -> None:
    """Hide an image's own key points where pixels are pasted."""
    rows, owners, _ = rows_of(leaf.value, leaf.batch, point_width(leaf))
    pixels = np.floor(numbers_on_cpu(rows)[:, :2] + shift)
    seen = np.ones(len(pixels), bool)
    for index, alpha in enumerate(alphas):
        own = np.flatnonzero(owners == 2 * index)
        if alpha is None or len(own) == 0:
            continue
        inside = ((pixels[own] >= 0) & (pixels[own] < alpha.shape[::-1])).all(1)
        own = own[inside]
        x, y = pixels[own].astype(np.int64).T
        seen[own] = ~alpha.cpu().numpy()[y, x]
    note_visible(leaf, torch.from_numpy(seen).to(rows.device) if isinstance(rows, Tensor) else seen)


def _scales(sources: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    matrix = np.tile(np.eye(3), (len(sizes), 1, 1))
    matrix[:, 0, 0] = sizes[:, 1] / np.maximum(sources[:, 1], 1)
    matrix[:, 1, 1] = sizes[:, 0] / np.maximum(sources[:, 0], 1)
    return matrix


def _paste_images(leaf: Leaf, alphas: Sequence[Tensor | None], mode: str) -> None:
    pixels = Pixels(leaf)
    reject_dtype(leaf, pixels.dtype)
    images = list(pixels.tensors(leaf))
    results = []
    for index, own in enumerate(images):
        alpha = alphas[index // pixels.frames]
        other = images[index - pixels.frames]
        if alpha is None:
            results.append(own)
            continue
        if other.shape != own.shape:
            other = _resized(other, own.shape[-2:], mode)
        results.append(choose(alpha.to(own.device), other, own))
    pixels.store(leaf, results if pixels.listed else torch.stack(results))


def _resized(image: Tensor, size: Sequence[int], mode: Any) -> Tensor:
    floats = to_float(image[None])
    (height, width), (rows, columns) = image.shape[-2:], size
    result: Tensor = augment(
        floats,
        [[columns / width, 0.0, 0.0], [0.0, rows / height, 0.0]],
        (rows, columns),
        mode=mode,
        antialias=mode != "nearest",
        padding_mode="constant" if mode != "nearest" else "replicate",
        convention="half_pixel",
        layout="CHW",
        out_dtype=floats.dtype,
    )
    return from_float(result, image.dtype)[0] if image.dtype in WHITES else result[0]  # type: ignore[no-any-return]


def _nearest(count: int, old: int) -> Tensor:
    """Return which of `old` pixels are nearest to the centres of `count`."""
    centres = torch.arange(count, dtype=torch.float32, device="cpu") + 0.5
    return (centres * (old / count)).long().clamp(max=old - 1)


def _paste_masks(leaf: Leaf, alphas: Sequence[Tensor | None]) -> None:
    """Show the other image's classes where its pixels are."""
    values, results = leaf.samples(), []
    for index, (own, alpha) in enumerate(zip(values, alphas, strict=True)):
        if alpha is None:
            results.append(own)
            continue
        other = as_tensor(values[index - 1])
        if other.shape != own.shape:
            rows, columns = (
                _nearest(n, old) for n, old in zip(own.shape[-2:], other.shape[-2:], strict=True)
            )
            other = other[..., rows.to(other.device)[:, None], columns.to(other.device)]
        mixed = choose(alpha.to(other.device), other, as_tensor(own))
        results.append(as_given(mixed, own))
    leaf.value = restacked(leaf, results)


def _like(counts: Tensor, value: Any) -> Any:
    """Return numbers of pixels as areas, in the form of the given ones."""
    if isinstance(value, Tensor):
        return counts.to(value.device, torch.float64)
    return counts.cpu().numpy().astype(np.float64)
