"""What names and types say of values: what moves with an image, what may stay, what is refused."""

import dataclasses
import datetime
import enum
import os
import types
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from torch import Tensor

from .entries import is_sequence, rank_of
from .leaf import is_pil

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
# Numbers of objects elsewhere: where boxes are dropped, `keys` must say whether they are theirs.
LIKE_NUMBERS = frozenset(
    (
        *("ids", "track_id", "track_ids", "instance_id", "instance_ids"),
        *("object_id", "object_ids", "gt_instance_ids", "ann_ids", "annotation_ids"),
        *("conf", "confidence", "confidences", "truncated", "occluded", "ignore"),
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
    if not isinstance(keys, Mapping):
        raise TypeError(
            f"visops.transforms: keys is {keys!r}, must be a dict of lists of names by kind, such "
            "as {'mask': ['seg']}"
        )
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


# Annotations that usually come as lists of numbers or 1-d arrays, and would go unnoticed.
UNMOVABLE = frozenset(("bbox", "bndbox", "box", "landmarks", "polygon", "polygons", "segmentation"))
# What an object's attributes are called if they have to move.
TARGET_NAMES = UNMOVABLE | {"image", "img", "images", "mask", "masks", "boxes", "bboxes"}
TARGET_NAMES |= {"keypoints"}

_OPAQUE = (type, enum.Enum, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
_DEPTH = 4  # levels of an object's attributes that are searched


def must_be_named(value: Any, batch: int | None) -> bool:
    """Return whether a value without a name may have to move with its image.

    Its rank alone decides, whatever its size: a table may hold boxes or points, and a map may be a
    mask. In a batch, the first dimension is that of the samples.

    Parameters
    ----------
    value : Tensor, ndarray or sequence
    batch : int, optional
        Samples of the image; None: it is one.
    """
    rank = rank_of(value)
    if rank is None:
        return False
    if batch is None:
        return rank >= 2
    a_row_each = rank == 2 and (is_sequence(value) or value.shape[0] == batch)
    return rank >= 2 and not a_row_each


def movable_part(value: Any, name: str = "", depth: int = 0) -> str | None:
    """Return the name of an object's part that may have to move with an image; None: it has none.

    A part that may is an image or an array of at least two dimensions, or has the name of a target.
    """
    if value is None or isinstance(value, (str, bytes, bool, int, float, *_OPAQUE)):
        return None
    if is_pil(value):
        return name
    if isinstance(value, (Tensor, np.ndarray)) or hasattr(value, "__array__"):
        return name if len(getattr(value, "shape", ())) >= 2 else None
    if depth == _DEPTH:
        return None
    for key, inner in _parts(value):
        label = f"{name}{key}"
        named = key.lstrip("._") in TARGET_NAMES
        if named and inner is not None:
            return label
        found = movable_part(inner, label, depth + 1)
        if found is not None:
            return found
    return None


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [
            (f".{key}" if isinstance(key, str) else f"[{key!r}]", v) for key, v in value.items()
        ]
    if is_sequence(value):
        return [(f"[{i}]", v) for i, v in enumerate(value)]
    if isinstance(value, Set):
        return [("", v) for v in value]
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    if dataclasses.is_dataclass(value):
        slots += [field.name for field in dataclasses.fields(value)]
    own = {slot: getattr(value, slot, None) for slot in slots if isinstance(slot, str)}
    return [(f".{key}", v) for key, v in {**own, **getattr(value, "__dict__", {})}.items()]
