"""Targets of several samples, moved on their own and then joined in one sample.

NOTE on pieces. Where an output shows k samples, its boxes, masks and key points are theirs in turn.
Every target that is a list of things (boxes, their labels, masks of single things, key points) is
first repeated as k pieces for each output, in one leaf of k B samples. Pieces are then moved,
clipped and dropped like the targets of any batch, and joined at the end.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..sample.entries import count_of, rebuilt
from ..sample.leaf import TARGETS, Leaf
from ..sample.per_box import WHAT_BELONGS, unclear_beside
from ..targets.rotated import joined_outlines

Join = Callable[[Leaf, Sequence[Any], int], Any]


def lists_of_things(owner: str, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return the leaves that list what is in an image; the rest belong to the image.

    Raises
    ------
    ValueError
        It isn't clear whether a leaf has an entry for each box, or some samples' have and others'
        have not.
    """
    for leaf in leaves:
        if leaf.kind == "keypoints":
            _shape_alike(leaf)
        _reject_mixed_forms(owner, leaf)
    for boxes in leaves:
        if boxes.kind != "boxes":
            continue
        for leaf in leaves:
            if leaf.group == boxes.group and leaf.kind in ("labels", "area"):
                leaf.per_box = _has_entries(owner, leaf, boxes)
        other = unclear_beside(boxes, leaves)
        if other is not None:
            raise ValueError(
                f"visops.transforms.{owner}: can't tell whether {other.name} belongs to "
                f"{boxes.name}; {WHAT_BELONGS}"
            )
    kinds = ("boxes", "keypoints", "polygons", "area", "visible")
    return [leaf for leaf in leaves if leaf.kind in kinds or leaf.per_box or _masks_of_things(leaf)]


def _shape_alike(leaf: Leaf) -> None:
    """Give key points of samples without objects, such as [], the shape that the others have."""
    full = next((i for i, value in enumerate(leaf.value) if 0 not in value.shape), None)
    if full is None:
        return
    for values in (leaf.value, leaf.visible):
        if isinstance(values, list):
            inner = values[full].shape[1:]
            values[:] = [own.reshape(0, *inner) if len(own) == 0 else own for own in values]


def _reject_mixed_forms(owner: str, leaf: Leaf) -> None:
    """Refuse key points with and without visibilities, and masks of images of several ranks."""
    if leaf.kind == "keypoints":
        part = slice(-1, None)
    elif leaf.kind == "mask" and not _masks_of_things(leaf):
        part = slice(None, -2)
    else:
        return
    shapes = [(index, value.shape) for index, value in enumerate(leaf.samples())]
    if leaf.kind == "keypoints":
        shapes = [(index, shape) for index, shape in shapes if 0 not in shape]
    for index, shape in shapes[1:]:
        first, expected = shapes[0]
        if shape[part] != expected[part]:
            raise ValueError(
                f"visops.transforms.{owner}: {leaf.name} has {list(shape)} in sample {index}, "
                f"{list(expected)} in sample {first}; must be alike"
            )


def _has_entries(owner: str, leaf: Leaf, boxes: Leaf) -> bool:
    """Return whether a leaf has an entry for each box: in all samples, but those without boxes."""
    if count_of(leaf.value) != boxes.batch:
        return leaf.per_box
    counts = [count_of(own) for own in leaf.value]
    if all(count is None for count in counts):
        return False
    for index, (count, own) in enumerate(zip(counts, boxes.value, strict=True)):
        if count != len(own) and (len(own) > 0 or leaf.value[index] is not None):
            got = "no length" if count is None else f"length {count}"
            raise ValueError(
                f"visops.transforms.{owner}: {leaf.name} of sample {index} has {got}, {boxes.name} "
                f"has {len(own)} boxes; must be the same"
            )
    return True


def _masks_of_things(leaf: Leaf) -> bool:
    if leaf.kind != "mask" or leaf.named != "masks":
        return False
    return all(value.ndim == 3 for value in leaf.samples())


def image_masks(leaves: Sequence[Leaf], things: Sequence[Leaf]) -> list[Leaf]:
    """Return the masks that say what each pixel of the image is."""
    listed = {id(leaf) for leaf in things}
    return [leaf for leaf in leaves if leaf.kind == "mask" and id(leaf) not in listed]


def pieces_of(leaves: Sequence[Leaf], sources: Sequence[int]) -> list[Leaf]:
    """Return leaves that hold, in turn, what the given samples have in these."""
    pieces = [_repeated(leaf, sources) for leaf in leaves]
    by_leaf = {id(leaf): piece for leaf, piece in zip(leaves, pieces, strict=True)}
    for piece in pieces:
        if piece.partner is not None:
            piece.partner = by_leaf[id(piece.partner)]
    return pieces


def _repeated(leaf: Leaf, sources: Sequence[int]) -> Leaf:
    like = leaf.like
    if isinstance(like, (list, tuple)):
        like = [like[s] for s in sources]
    return dataclasses.replace(
        leaf,
        value=[leaf.value[s] for s in sources],
        batch=len(sources),
        like=like,
        canvas=None if leaf.canvas is None else leaf.canvas[list(sources)],
        visible=None if leaf.visible is None else [leaf.visible[s] for s in sources],
    )


def join_pieces(
    leaves: Sequence[Leaf],
    pieces: Sequence[Leaf],
    count: int,
    mixed: np.ndarray,
    join_masks: Join | None = None,
) -> None:
    """Set leaves to their pieces, `count` for each sample; where it isn't `mixed`, to the first.

    `join_masks` is given a leaf, the masks of a sample's pieces, and the sample's number.
    """
    for leaf, piece in zip(leaves, pieces, strict=True):
        own = join_masks if piece.kind == "mask" and join_masks is not None else _join
        firsts = range(0, len(piece.value), count)
        ends = [
            slice(first, first + (count if is_mixed else 1))
            for first, is_mixed in zip(firsts, mixed.tolist(), strict=True)
        ]
        parts = [piece.value[end] for end in ends]
        leaf.value = [own(leaf, part, sample) for sample, part in enumerate(parts)]
        leaf.outlines = joined_outlines(piece, parts, leaf.value)
        if piece.visible is not None and leaf.kind in TARGETS:
            leaf.visible = [joined(leaf, piece.visible[end]) for end in ends]
        leaf.batch, leaf.kind, leaf.format = len(parts), piece.kind, piece.format
        leaf.canvas = None if piece.canvas is None else piece.canvas[::count]


def _join(leaf: Leaf, values: Sequence[Any], sample: int) -> Any:
    return joined(leaf, values)


def joined(leaf: Leaf, values: Sequence[Any]) -> Any:
    """Concatenate the entries of several samples: tensors, arrays or lists."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    try:
        if any(isinstance(value, Tensor) for value in present):
            return torch.cat(
                [
                    value if isinstance(value, Tensor) else torch.as_tensor(value, device="cpu")
                    for value in present
                ]
            )
        if any(isinstance(value, np.ndarray) for value in present):
            return np.concatenate(present)
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(
            f"visops.transforms: {leaf.name} can't be joined with those of other samples: {error}"
        ) from None
    return rebuilt(present[0], [item for value in present for item in value])
