"""What belongs to single boxes: labels, masks and key points under names that say so.

NOTE on names. Beside boxes, only a name says that a value has an entry for each of them. A value of
as many entries may as well be the image's height and width beside two boxes.
"""

from collections.abc import Sequence, Set
from typing import Any

import numpy as np
from torch import Tensor

from .entries import count_of, is_sequence, rank_of
from .leaf import Leaf
from .names import LIKE_LABELS, LIKE_NUMBERS

# What to do where nothing tells whether a value has an entry per box.
WHAT_BELONGS = (
    "must be in one dict with them, under a name in keys={'labels': [...]} or keys={'masks': "
    "[...]} if it has an entry per box, otherwise in keys={'other': [...]}"
)


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
        values = [leaf.value] if dense else leaf.samples()
        counts = boxes.samples()
        for index, value in enumerate(values):
            # Nothing tells what the key points of no objects would look like.
            nothing = not dense and value.shape[0] == counts[index].shape[0] == 0
            if value.ndim - dense != 3 and not nothing:
                return
        lengths = [value.shape[0] for value in leaf.samples()]
    else:
        return
    if lengths is None:
        return
    for index, (length, value) in enumerate(zip(lengths, boxes.samples(), strict=True)):
        if length != value.shape[0]:
            suffix = "" if leaf.batch is None and boxes.batch is None else f"[{index}]"
            got = "no length" if length is None else f"length {length}"
            # What has to move can't be declared as something else.
            hint = ""
            if leaf.kind == "labels":
                hint = " (or be named in keys={'mask': [...]} or keys={'other': [...]})"
            raise ValueError(
                f"visops.transforms: {leaf.name}{suffix} has {got}, {boxes.name}{suffix} has "
                f"{value.shape[0]} boxes; must be the same{hint}"
            )
    leaf.per_box = True
    leaf.batch = boxes.batch
    if leaf.partner is not None:
        leaf.partner.per_box = True
    if leaf.key == "area":
        leaf.kind = "area"
        if is_sequence(leaf.value):
            leaf.value = (
                plain_array(leaf.value)
                if leaf.batch is None
                else [plain_array(item) for item in leaf.value]
            )


def _lengths(leaf: Leaf, boxes: Leaf) -> list[int | None] | None:
    """Return how many labels each sample has; None if the labels belong to images."""
    value = leaf.value
    _check_form(leaf, boxes)
    if boxes.batch is None:
        length = count_of(value)
        return None if length is None else [length]
    if isinstance(value, (Tensor, np.ndarray)):
        if value.ndim < 2 or value.shape[0] != boxes.batch:
            return None
        return [value.shape[1]] * boxes.batch
    if not is_sequence(value):
        return None
    if len(value) != boxes.batch:
        raise ValueError(
            f"visops.transforms: {leaf.name} has {len(value)} entries, {boxes.name} is for "
            f"{boxes.batch} images; must be one for each"
        )
    lengths = [count_of(item) for item in value]
    return None if all(length is None for length in lengths) else lengths


def _check_form(leaf: Leaf, boxes: Leaf) -> None:
    """Refuse labels that can't have an entry per box: they may be a map, or have no order."""
    value = leaf.value
    rank = rank_of(value)
    if rank is not None and rank - (boxes.batch is not None) > 2:
        shape = f" of shape {list(value.shape)}" if hasattr(value, "shape") else ""
        raise TypeError(
            f"visops.transforms: {leaf.name} is a {type(value).__name__}{shape} beside "
            f"{boxes.name}, and may be a map; must have one or two dimensions, or be in "
            "keys={'mask': [...]} or keys={'other': [...]}"
        )
    if isinstance(value, Set):
        raise TypeError(
            f"visops.transforms: {leaf.name} is a {type(value).__name__}, whose entries have no "
            f"order; must be a sequence with one for each of {boxes.name}"
        )


def unclear_beside(boxes: Leaf, leaves: Sequence[Leaf]) -> Leaf | None:
    """Return a leaf that may have an entry for each of these boxes, or not; None: there is none.

    It is beside them without a name that tells, or elsewhere under a name that would.
    """
    boxed = {leaf.group for leaf in leaves if leaf.kind == "boxes"}
    own_names = {leaf.key for leaf in leaves if leaf.group == boxes.group}
    for leaf in leaves:
        if leaf is boxes or leaf.per_box:
            continue
        if leaf.group == boxes.group:
            unclear = leaf.kind == "boxes" or _may_be_per_box(leaf, boxes)
        else:
            beside_none = leaf.group not in boxed and leaf.key not in own_names
            unclear = beside_none and _has_entries(leaf, boxes)
        if unclear:
            return leaf
    return None


def _has_entries(leaf: Leaf, boxes: Leaf) -> bool:
    """Return whether a leaf would have an entry per box if it were beside some."""
    if leaf.kind == "labels":
        return leaf.named == "labels" and _is_counted(leaf, boxes)
    return leaf.named == "masks" and _is_stack(leaf)


def _is_counted(leaf: Leaf, boxes: Leaf) -> bool:
    """Return whether a value has a number of entries, in any sample of a batch."""
    several = boxes.batch is not None and count_of(leaf.value) is not None
    samples = list(leaf.value) if several else [leaf.value]
    return any(count_of(own) is not None for own in samples)


def _is_stack(leaf: Leaf) -> bool:
    """Return whether masks or points have a dimension that may be that of boxes."""
    dense = leaf.batch is not None and not isinstance(leaf.value, list)
    values = leaf.value if isinstance(leaf.value, list) else [leaf.value]
    return any(value.ndim - dense >= 3 for value in values)


def _may_be_per_box(leaf: Leaf, boxes: Leaf) -> bool:
    """Return whether a leaf may have an entry per box, though no name tells."""
    if leaf.named is not None or leaf.kind in ("image", "visible"):
        return False
    if leaf.kind == "other":  # in a tuple, where nothing has a name, or under one that says little
        if leaf.key is None:
            return count_of(leaf.value) is not None
        named = leaf.key in LIKE_LABELS or leaf.key in LIKE_NUMBERS
        return named and _is_counted(leaf, boxes)
    return _is_stack(leaf)
