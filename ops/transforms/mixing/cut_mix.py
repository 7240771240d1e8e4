"""CutMix: a rectangle of each image of a batch taken from another one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._torch.options import Convention, KeptBoxes, SampleBoxFormat
from ..chain.operator_calls import Rectangles
from ..chain.operators import Pixels
from ..chain.random import DRAWS
from ..sample.leaf import Leaf
from ..targets.finish import finish_targets
from ..targets.masks import as_given, as_tensor
from ..targets.move import move_targets
from ..targets.options import CONVENTIONS, Geometry, TargetOptions
from ..targets.polygons import ROTATED, cover_rotated, cut_out
from ..targets.rows import (
    areas_of,
    box_areas,
    from_corners,
    inside,
    note_shares,
    note_visible,
    rows_of,
    scale_area,
    to_corners,
)
from .base import Params, mixed_samples, restacked, target_options
from .mix_up import Pairing, pairs
from .tiles import image_masks, join_pieces, joined, lists_of_things, pieces_of


class CutMix(Pairing):
    r"""Paste a rectangle of the previous image into each image of a batch; mix their labels.

    Names, arguments and the distribution of the rectangle match torchvision's. Every sample draws
    its own rectangle, where torchvision draws one for the batch. Sample 0 takes its rectangle from
    the last one, so shuffle the data set. The weight of a sample's own labels is the share of its
    area that is left.

    Parameters
    ----------
    alpha : float
        Both parameters of the Beta distribution of the share :math:`\lambda`; the rectangle's sides
        are :math:`\sqrt{1 - \lambda}` of the image's, and what lies outside is cut off.
    num_classes : int, optional
        Number of classes. May be left out where labels are probabilities already.
    labels_getter : {"default"} or callable or None
        As for :class:`MixUp`.
    boxes : {"sanitize", "clamp", "keep"}
        Clip boxes to what is visible and drop hidden ones, along with what belongs to them; or only
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
        Probability that a rectangle is pasted into a sample; others stay as they are.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong; the sample is not a batch, its images differ in size, or it has no
        labels; a label is not a class (checked on the CPU only).

    Notes
    -----
    A mask of the image follows pixel by pixel. If the sample has boxes or key points, each image
    gets its own and then those of the pasted image, along with the labels of boxes, instance masks
    and polygons. Nothing is weighted, and all of them come out as lists.
    Pasted boxes are clipped to the rectangle. An image's own box shrinks where the rectangle covers
    one end of it completely; its visible share counts for `min_visibility` and ``area``. Hidden key
    points become invisible.

    Parameters of a call: ``left``, ``top``, ``right``, ``bottom`` of the rectangle, and
    ``mixed`` where `p` is less than 1. Source: S. Yun et al., "CutMix: Regularization Strategy to
    Train Strong Classifiers with Localizable Features", ICCV 2019.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> images = torch.stack([torch.zeros(1, 8, 8), torch.ones(1, 8, 8)])
    >>> mixed, labels = transforms.CutMix(num_classes=2)(images, torch.tensor([0, 1]))
    >>> bool(torch.allclose(mixed.mean((1, 2, 3)), labels[:, 1]))
    True
    """

    draws = DRAWS + 2

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        num_classes: int | None = None,
        labels_getter: Any = "default",
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
        super().__init__(alpha, num_classes, labels_getter, seed, keys, box_format, p)
        given = {
            "boxes": boxes,
            "min_size": min_size,
            "min_area": min_area,
            "min_visibility": min_visibility,
            "keypoint_convention": keypoint_convention,
        }
        self.options = target_options("CutMix", given)

    def draw(self, uniforms: np.ndarray, sizes: np.ndarray) -> dict[str, np.ndarray]:
        half = 0.5 * np.sqrt(1.0 - self.shares(uniforms[:, :DRAWS]))
        edges = {}
        for axis, low, high in ((1, "left", "right"), (0, "top", "bottom")):
            length = sizes[:, axis].astype(np.float64)
            middle = np.floor(uniforms[:, DRAWS + 1 - axis] * length)
            reach = np.floor(half * length)
            edges[low] = np.maximum(middle - reach, 0.0)
            edges[high] = np.minimum(middle + reach, length)
        return {name: edges[name] for name in ("left", "top", "right", "bottom")}

    def mix(
        self, leaves: Sequence[Leaf], params: Params, sizes: np.ndarray, sample: Callable[[], Any]
    ) -> None:
        batch = len(sizes)
        edges = [np.asarray(params[name]) for name in ("left", "top", "right", "bottom")]
        mixed = mixed_samples(params, batch)
        boxes = np.stack(edges, 1).astype(np.int64) * mixed[:, None]
        area = box_areas(boxes)
        self.mix_labels(leaves, 1.0 - area / sizes.prod(1), sample)
        things = lists_of_things("CutMix", leaves)
        positions = boxes.tolist()
        for leaf in leaves:
            if leaf.kind == "image":
                _paste_images(leaf, positions)
        for leaf in image_masks(leaves, things):
            values = leaf.samples()
            pasted = [_pasted(values[i], values[i - 1], positions[i]) for i in range(batch)]
            leaf.value = restacked(leaf, pasted)
        if things and batch > 0:
            pieces = pieces_of(things, pairs(batch))
            _hide(pieces, boxes, sizes, self.options)
            finish_targets(pieces, sizes.repeat(2, 0), self.options)
            join_pieces(
                *(things, pieces, 2, mixed),
                lambda leaf, v, i: _joined_masks(leaf, v, positions[i]),
            )


def _paste_images(leaf: Leaf, positions: Sequence[Sequence[int]]) -> None:
    pixels = Pixels(leaf)
    images = pixels.tensors(leaf)
    if not pixels.on_cpu and not pixels.listed and positions:
        x1, y1, x2, y2 = np.array(positions).repeat(pixels.frames, 0).T
        places = np.stack((y1, x1, y2 - y1, x2 - x1), 1)
        others = images.roll(pixels.frames, 0)
        pixels.store(leaf, torch.where(Rectangles(images, places).inside, others, images))
        return
    source = list(images) if pixels.listed else images
    result = torch.stack(source) if pixels.listed else images.clone()
    for sample, (x1, y1, x2, y2) in enumerate(positions):
        for frame in range(pixels.frames):
            own = sample * pixels.frames + frame
            other = own - pixels.frames
            result[own, :, y1:y2, x1:x2] = source[other][:, y1:y2, x1:x2]
    pixels.store(leaf, result)


def _pasted(own: Any, other: Any, position: Sequence[int]) -> Any:
    """Return a mask with a rectangle of another one."""
    x1, y1, x2, y2 = position
    result = as_tensor(own).clone()
    result[..., y1:y2, x1:x2] = as_tensor(other)[..., y1:y2, x1:x2]
    return as_given(result, own)


def _joined_masks(leaf: Leaf, values: Sequence[Any], position: Sequence[int]) -> Any:
    """Join masks of single things: of the image outside of the rectangle, of the other inside."""
    x1, y1, x2, y2 = position
    joint = joined(leaf, values)
    masks, count = as_tensor(joint), values[0].shape[0]
    masks[:count, ..., y1:y2, x1:x2] = 0
    within = masks[count:, ..., y1:y2, x1:x2].clone()
    masks[count:] = 0
    masks[count:, ..., y1:y2, x1:x2] = within
    return as_given(masks, joint)


def _hide(
    pieces: Sequence[Leaf], boxes: np.ndarray, sizes: np.ndarray, options: TargetOptions
) -> None:
    """Clip boxes and points of the images outside of the rectangles, and of the others inside."""
    batch = len(sizes)
    seen = np.zeros((batch, 2, 4))
    seen[:, 0, 2:] = sizes[:, ::-1]
    seen[:, 1] = boxes
    both = sizes.repeat(2, 0)
    identity = np.tile(np.eye(3), (2 * batch, 1, 1))
    moving = [piece for piece in pieces if piece.kind != "mask"]
    move_targets(moving, Geometry(identity, both, both, seen.reshape(-1, 4)), options)
    covers = np.zeros((batch, 2, 4))  # nothing covers what is inside
    covers[:, 0] = boxes
    for piece in moving:
        if piece.kind == "boxes" and options.boxes != "keep":
            areas = areas_of(piece, moving)
            _cover_boxes(piece, areas, covers.reshape(-1, 4))
        elif piece.kind == "polygons" and options.boxes != "keep":
            cut_out(piece, covers.reshape(-1, 4))
        elif piece.kind == "keypoints":
            _cover_points(piece, covers.reshape(-1, 4), CONVENTIONS[options.keypoint_convention])


def _cover_points(leaf: Leaf, covers: np.ndarray, shift: float) -> None:
    width = leaf.value[0].shape[-1]
    rows, owners, _ = rows_of(leaf.value, leaf.batch, width)
    note_visible(leaf, ~inside(rows[:, :2], (covers - shift)[owners]))


def _cover_boxes(leaf: Leaf, areas: Sequence[Leaf], covers: np.ndarray) -> None:
    """Shrink boxes to the bounds of what rectangles leave of them."""
    if leaf.format in ROTATED:
        cover_rotated(leaf, areas, covers)
        return
    rows, owners, restore = rows_of(leaf.value, leaf.batch, 4)
    xp: Any = torch if isinstance(rows, Tensor) else np
    corners = to_corners(rows, leaf.format)
    cover = covers[owners]
    if isinstance(rows, Tensor):
        cover = torch.from_numpy(cover).to(rows.device)
    lows, highs = corners[:, :2], corners[:, 2:]
    cover_low = xp.minimum(xp.maximum(cover[:, :2], lows), highs)
    cover_high = xp.minimum(xp.maximum(cover[:, 2:], lows), highs)
    hidden = (cover_high - cover_low).prod(1)
    area = (highs - lows).prod(1)
    share = 1.0 - xp.where(area > 0, hidden / xp.where(area > 0, area, 1.0), 0.0)
    whole = (cover_low <= lows) & (cover_high >= highs) & (hidden > 0)[:, None]
    edges = []
    for axis in (0, 1):
        across = whole[:, 1 - axis]  # all of the box along the other axis
        low, high = lows[:, axis], highs[:, axis]
        from_low, from_high = cover_low[:, axis] <= low, cover_high[:, axis] >= high
        edges.append(
            (
                xp.where(across & from_low, cover_high[:, axis], low),
                xp.where(across & from_high & ~from_low, cover_low[:, axis], high),
            )
        )
    (x1, x2), (y1, y2) = edges
    leaf.value = restore(from_corners(xp.stack((x1, y1, x2, y2), -1), leaf.format))
    note_shares(leaf, share)
    for box_area in areas:
        scale_area(box_area, share)
