"""Sequences of any type: how many entries they have, their rank, and a selection of them.

Labels come as lists, tuples, tensors and arrays, and just as well as ``deque``, ``range``,
``array.array``, ``UserList`` or a pandas Series. What holds for one of them holds for all.
"""

import array
import dataclasses
import datetime
import enum
import os
import types
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .files import Encoded, is_encoded
from .leaf import Leaf, is_pil

_TEXT = (str, bytes, bytearray, memoryview)
_NUMBERS = (bool, int, float, complex, np.generic)


def is_sequence(value: Any) -> bool:
    """Return whether a value has entries in an order: a list, but neither an array nor a text."""
    if isinstance(value, (list, tuple)):
        return True
    if isinstance(value, (*_TEXT, Tensor, np.ndarray)):
        return False
    return isinstance(value, Sequence) or _dimensions(value) == 1


def _dimensions(value: Any) -> int:
    """Return the dimensions of what another library calls an array, or a table; 0: it is none."""
    return len(getattr(value, "shape", ())) if hasattr(value, "__array__") else 0


def count_of(value: Any) -> int | None:
    """Return how many entries a value has; None if they have no order, or if it has none."""
    if isinstance(value, (Tensor, np.ndarray)):
        return value.shape[0] if value.ndim else None
    return len(value) if is_sequence(value) or _dimensions(value) > 1 else None


def rank_of(value: Any) -> int | None:
    """Return the dimensions of a value made of numbers: 2 for a list of rows, a table or a map.

    None: there is something else in it, or entries differ in rank. An empty sequence has one
    dimension.
    """
    if isinstance(value, Tensor):
        return value.dim()
    if isinstance(value, np.ndarray) and (value.dtype.kind != "O" or value.ndim > 1):
        return value.ndim if value.dtype.kind in "biufcO" else None
    if isinstance(value, _NUMBERS):
        return 0
    if is_pil(value):
        return 2
    if not isinstance(value, np.ndarray):
        if _dimensions(value) > 1:
            return _dimensions(value)
        if not is_sequence(value):
            return None
    ranks = set(map(rank_of, value))
    if len(ranks) > 1:
        return None
    inner = ranks.pop() if ranks else 0
    return None if inner is None else 1 + inner


def rebuilt(like: Any, items: Iterable[Any]) -> Any:
    """Return a sequence of the type of `like` with other entries; a list where it can't hold them.

    A range and a named tuple have no room for any entries but their own.
    """
    if isinstance(like, array.array):
        return array.array(like.typecode, items)
    if isinstance(like, range) or hasattr(like, "_fields") or _dimensions(like):
        return list(items)
    return type(like)(items)


def ungrouped(value: Any, count: int, name: str) -> list[Any]:
    """Return what each of a batch's samples has of an array or a sequence.

    Raises
    ------
    ValueError
        It has another number of entries.
    """
    length = count_of(value)
    if length != count:
        raise ValueError(
            f"visops.transforms: {name} has {'no' if length is None else length} entries, must "
            f"have one for each of {count} images"
        )
    return list(value)


def regrouped(like: Any, samples: Sequence[Any]) -> Any:
    """Undo `ungrouped`, with other entries."""
    if isinstance(like, Tensor):
        return torch.stack(list(samples))
    return np.stack(samples) if isinstance(like, np.ndarray) else rebuilt(like, samples)


def selected(value: Any, flags: np.ndarray) -> Any:
    """Return the entries of a sequence that have a flag, in a sequence of the same type."""
    if hasattr(value, "iloc"):  # pandas: with the names of its rows
        return value.iloc[np.flatnonzero(flags)]
    if _dimensions(value) and hasattr(value, "filter"):  # polars
        return value.filter(flags.tolist())
    return rebuilt(value, [item for item, keep in zip(value, flags.tolist(), strict=True) if keep])


# What the samples of a data set have in common, as the first one of a structure tells.
#
# csrc/python/chain/outline.h finds it again for the others, by all that :func:`split_sample` looks
# at.


@dataclass(slots=True)
class Entry:
    """One value of a sample."""

    holder: int  # 0: the sample; then the dicts in it
    key: Any
    kind: str
    name: str
    rank: int  # how many dimensions it has
    per_box: bool
    flagged: bool  # key points whose visibilities get an entry of their own


@dataclass(slots=True)
class Outline:
    """What samples of one structure hold: an image, and what belongs to it."""

    container: type | None  # dict or tuple; None: an image by itself
    nested: list[int]  # places of the dicts in a tuple
    image: Entry
    targets: list[Entry] = field(default_factory=list)
    boxes: Entry | None = None
    labels: list[Entry] = field(default_factory=list)
    arrays: list[Entry] = field(default_factory=list)  # of fewer than two dimensions


def _positions(sample: Any) -> tuple[type | None, list[int], list[tuple[int, Any, Any]]]:
    """Return the container, the places of dicts in it, and all entries: holder, key, value."""
    if type(sample) is dict:
        return dict, [], [(0, key, value) for key, value in sample.items()]
    if type(sample) is not tuple:
        return None, [], [(0, None, sample)]
    nested, entries = [], []
    for index, value in enumerate(sample):
        if type(value) is dict:
            nested.append(index)
            entries += [(len(nested), key, inner) for key, inner in value.items()]
        else:
            entries.append((0, index, value))
    return tuple, nested, entries


def outline(sample: Any, leaves: Sequence[Leaf]) -> Outline | None:
    """Return what a sample's leaves say of all samples of its structure; None: they can't."""
    container, nested, positions = _positions(sample)
    images = [leaf for leaf in leaves if leaf.kind == "image"]
    if len(positions) != len(leaves) or len(images) != 1:
        return None
    found: dict[str, list[Entry]] = {"image": [], "targets": [], "labels": [], "arrays": []}
    boxes = None
    for (holder, key, value), leaf in zip(positions, leaves, strict=True):
        kind = leaf.kind
        if leaf.like is not value or leaf.frames:
            return None
        if leaf.batch is not None and kind != "image":
            return None
        rank = getattr(value, "ndim", 0)
        flagged = kind == "keypoints" and isinstance(leaf.key, str)
        entry = Entry(holder, key, kind, leaf.name, rank, leaf.per_box, flagged)
        if kind in ("mask", "boxes", "keypoints"):
            if not isinstance(value, (Tensor, np.ndarray)) or leaf.partner is not None:
                return None
            if kind == "boxes":
                if boxes is not None:
                    return None
                boxes = entry
            found["targets"].append(entry)
        elif kind == "labels" and rank >= 2 and images[0].batch is not None:
            return None  # whether it has a row per sample is a question of its size
        elif kind in ("image", "labels"):
            found["labels" if kind == "labels" else kind].append(entry)
        elif kind != "other":
            return None
        elif isinstance(images[0].value, Encoded) and is_encoded(value) and leaf.named is None:
            return None  # whether that is a photo, too, is a question of its content
        elif isinstance(value, (Tensor, np.ndarray)):
            found["arrays"].append(entry)
    (image,) = found["image"]
    return Outline(
        container, nested, image, found["targets"], boxes, found["labels"], found["arrays"]
    )


# What names and types say of values: what moves with an image, what may stay, what is refused.

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
