"""The names by which plain values in dicts are known, and the types that are never looked into."""

import datetime
import os
from collections.abc import Mapping, Sequence

import numpy as np

PLAIN_ATOMS = frozenset((bool, int, float, complex, str, bytes, type(None)))
ATOMS = (
    *(bool, int, float, complex, np.generic, str, bytes),
    *(os.PathLike, datetime.date, datetime.time),
)

# Kinds, and the dict keys that plain values of each kind have.
NAMES: dict[str, tuple[str, ...]] = {
    "image": ("image", "img", "images"),
    "mask": ("mask",),
    "masks": ("masks",),  # one per box, if there are boxes
    "boxes": ("boxes", "bboxes"),
    "keypoints": ("keypoints",),
    "polygons": ("polygons", "segmentation"),  # of one object per box, if there are boxes
    # One per box, if there are boxes. Without boxes, a map of the image is a mask.
    "labels": (
        *("labels", "scores", "area", "iscrowd"),
        *("class_labels", "class_ids", "category_id", "category_ids", "cls", "difficult"),
    ),
    "other": (),  # does not move
}
# The kinds of targets that move with the image.
MOVING = ("mask", "masks", "boxes", "keypoints", "polygons")
# What holds classes elsewhere, of an image as often as of its boxes. Where labels have to follow,
# `keys` must say what it is.
LIKE_LABELS = frozenset(
    (
        *("label", "class", "class_id", "class_label", "class_name", "classes", "category"),
        *("categories", "target", "targets", "y", "gt_label", "gt_labels", "gt_bboxes_labels"),
    )
)
DEFAULT_KINDS = {name: kind for kind, names in NAMES.items() for name in names}


# Maps of vectors, by the names that data sets give them.
_VECTORS = frozenset(
    (
        *("flow", "flows", "optical_flow", "flow_gt", "gt_flow", "forward_flow", "backward_flow"),
        *("normal", "normals", "normal_map", "surface_normal", "surface_normals", "gt_normal"),
    )
)


def _reject_vectors(kind: str, names: Sequence[str]) -> None:
    """Refuse to move vectors as masks, which would leave them where they point."""
    for name in names:
        if name.lower() in _VECTORS:
            raise ValueError(
                f"visops.transforms: keys[{kind!r}] names {name!r}: a mask's values stay as they "
                "are, but vectors turn and stretch with the image; must be of kind 'other', or "
                "under a name that says they are no vectors"
            )


def named_kinds(keys: Mapping[str, Sequence[str]] | None) -> dict[str, str]:
    """Return the kind of each name: the usual ones, and those of a chain's `keys`."""
    if keys is None:
        return DEFAULT_KINDS
    kinds = dict(DEFAULT_KINDS)
    for kind, names in keys.items():
        if kind not in NAMES:
            allowed = ", ".join(NAMES)
            raise ValueError(
                f"visops.transforms: keys names the kind {kind!r}, must be one of {allowed}"
            )
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise TypeError(
                f"visops.transforms: keys[{kind!r}] is {names!r}, must be a list of names"
            )
        if kind in ("mask", "masks"):
            _reject_vectors(kind, names)
        kinds.update(dict.fromkeys(names, kind))
    return kinds
