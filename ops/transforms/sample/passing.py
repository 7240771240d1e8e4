"""What may stay as it is beside a moving image, and what looks as if it had to move."""

import dataclasses
import enum
import types
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
from torch import Tensor

from .entries import is_sequence, rank_of
from .leaf import is_pil

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
