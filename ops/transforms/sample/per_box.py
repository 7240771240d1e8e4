"""What belongs to single boxes: labels, masks and anything else with an entry for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from .leaf import Leaf

__all__ = ["extras_of", "length_of", "match_to_boxes", "may_be_per_box", "plain_array"]

# Entries beside boxes that describe the image, even if they are as long as the list of boxes.
_OF_THE_IMAGE = {
    *("id", "image_id", "img_id", "index", "idx", "path", "file", "file_name", "filename"),
    *("size", "orig_size", "original_size", "image_size", "img_size", "canvas_size"),
    *("shape", "image_shape", "img_shape", "ori_shape", "orig_shape", "pad_shape"),
    *("resolution", "scale", "scale_factor", "mean", "std", "height", "width"),
}


def plain_array(value: Any) -> Any:
    """Return a tensor as it is and anything else as an array."""
    return value if isinstance(value, Tensor) else np.asarray(value)


def match_to_boxes(leaf: Leaf, boxes: Leaf) -> None:
    """Decide whether a leaf has one entry per box of its group, and check the count."""
    if leaf.kind == "labels":
        lengths = _lengths(leaf, boxes)
    elif leaf.kind == "polygons":
        lengths = [len(value) for value in leaf.samples()]
    elif (leaf.kind == "mask" and leaf.named == "masks") or (
        leaf.kind == "keypoints" and leaf.named == "keypoints"
    ):
        dense = leaf.batch is not None and not isinstance(leaf.value, list)
        values = leaf.value if isinstance(leaf.value, list) else [leaf.value]
        if any(value.ndim - dense != 3 for value in values):
            return
        lengths = [value.shape[0] for value in leaf.samples()]
    else:
        return
    if lengths is None:
        return
    for index, (length, value) in enumerate(zip(lengths, boxes.samples(), strict=True)):
        if length != value.shape[0]:
            place = "" if leaf.batch is None and boxes.batch is None else f"[{index}]"
            got = "no length" if length is None else f"length {length}"
            # What has to move can't be declared as something else.
            hint = " (or be named in keys={'other': [...]})" if leaf.kind == "labels" else ""
            raise ValueError(
                f"visops.transforms: {leaf.name}{place} has {got}, {boxes.name}{place} has "
                f"{value.shape[0]} boxes; must be the same{hint}"
            )
    leaf.per_box = True
    leaf.batch = boxes.batch
    if leaf.partner is not None:
        leaf.partner.per_box = True
    if leaf.key == "area":
        leaf.kind = "area"
        if isinstance(leaf.value, (list, tuple)):
            leaf.value = (
                plain_array(leaf.value)
                if leaf.batch is None
                else [plain_array(item) for item in leaf.value]
            )


def _lengths(leaf: Leaf, boxes: Leaf) -> list[int | None] | None:
    """Return how many labels each sample has; None if the labels belong to images."""
    value = leaf.value
    if boxes.batch is None:
        length = length_of(value)
        return None if length is None else [length]
    if isinstance(value, (Tensor, np.ndarray)):
        if value.ndim < 2 or value.shape[0] != boxes.batch:
            return None
        return [value.shape[1]] * boxes.batch
    if not isinstance(value, (list, tuple)):
        return None
    if len(value) != boxes.batch:
        raise ValueError(
            f"visops.transforms: {leaf.name} has {len(value)} entries, {boxes.name} is for "
            f"{boxes.batch} images; must be one for each"
        )
    lengths = [length_of(item) for item in value]
    return None if all(length is None for length in lengths) else lengths


def length_of(value: Any) -> int | None:
    """Return how many entries a value has, if it has any order of them."""
    if isinstance(value, (Tensor, np.ndarray)):
        return value.shape[0] if value.ndim else None
    return len(value) if isinstance(value, (list, tuple)) else None


def extras_of(boxes: Leaf, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return the leaves beside boxes, in a dict, that have one entry per box without saying so.

    These are flat tensors, arrays and lists that are as long as the boxes, except those under a
    name given in `keys` and those whose name is known to describe the image.
    """
    found = []
    for leaf in leaves:
        if _may_be_extra(leaf, boxes) and _entries_agree(leaf, boxes):
            found.append(leaf)
    return found


def _may_be_extra(leaf: Leaf, boxes: Leaf) -> bool:
    return (
        leaf.group == boxes.group
        and leaf.kind == "other"
        and leaf.named is None
        and isinstance(leaf.key, str)
        and leaf.key not in _OF_THE_IMAGE
        and not hasattr(leaf.value, "_fields")  # a namedtuple's entries have names of their own
    )


def _entries_agree(leaf: Leaf, boxes: Leaf) -> bool:
    """Return whether a leaf has as many entries as there are boxes, in every sample."""
    value = leaf.value
    if boxes.batch is not None:
        if length_of(value) != boxes.batch:
            return False
        samples = list(value)
    else:
        samples = [value]
    counts = [int(own.shape[0]) for own in boxes.samples()]
    return [length_of(own) for own in samples] == counts


def may_be_per_box(leaf: Leaf, boxes: Leaf) -> bool:
    """Return whether a leaf may have an entry per box, though neither name nor shape are clear."""
    if leaf.named is not None or leaf.kind in ("image", "visible"):
        return False
    if leaf.kind == "other":
        if leaf.key is None:  # in a tuple, where nothing has a name
            sequence = isinstance(leaf.value, (list, tuple, Tensor, np.ndarray))
            return sequence and getattr(leaf.value, "ndim", 1) > 0
        # A table with a row per box may as well be one of the image's.
        return _rank(leaf, boxes) > 1 and _may_be_extra(leaf, boxes) and _entries_agree(leaf, boxes)
    dense = leaf.batch is not None and not isinstance(leaf.value, list)
    values = leaf.value if isinstance(leaf.value, list) else [leaf.value]
    return any(value.ndim - dense >= 3 for value in values)


def _rank(leaf: Leaf, boxes: Leaf) -> int:
    """Return the number of dimensions of one sample's entries; 1 for lists."""
    value: Any = leaf.value
    if boxes.batch is None:
        return getattr(value, "ndim", 1)
    if isinstance(value, (Tensor, np.ndarray)):
        return value.ndim - 1
    return max((getattr(item, "ndim", 1) for item in value), default=1)
