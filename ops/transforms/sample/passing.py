"""What may stay as it is beside a moving image, and what looks as if it had to move."""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
from torch import Tensor

from .images import sizes_of
from .leaf import Leaf, is_pil

__all__ = ["TARGET_NAMES", "UNMOVABLE", "looks_like_target", "movable_part"]

# Annotations that usually come as lists of numbers or 1-d arrays, and would go unnoticed.
UNMOVABLE = frozenset(("bbox", "box", "landmarks", "polygon", "polygons", "segmentation"))
# What an object's attributes are called if they have to move.
TARGET_NAMES = UNMOVABLE | {"image", "img", "images", "mask", "masks", "boxes", "bboxes"}
TARGET_NAMES |= {"keypoints"}

_OPAQUE = (type, enum.Enum, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
_DEPTH = 4  # levels of an object's attributes that are searched


def looks_like_target(leaf: Leaf, image: Leaf) -> bool:
    """Return whether a plain array of at least two dimensions may have to move with its image.

    Boxes and points end in 2, 3 or 4 numbers. Masks and maps of any stride have the image's aspect
    ratio.
    """
    shape = tuple(leaf.value.shape)
    if image.batch is not None and shape[0] == image.batch:
        shape = shape[1:]  # an entry per sample
    if len(shape) < 2:
        return False
    if shape[-1] in (2, 3, 4):
        return True
    planes = [shape[-2:], shape[-3:-1]] if len(shape) > 2 else [shape]
    sizes = sizes_of(image).tolist()
    return any(
        abs(rows * width - columns * height) <= max(height, width)
        for rows, columns in planes
        for height, width in sizes
    )


def movable_part(value: Any, name: str = "", depth: int = 0) -> str | None:
    """Return the name of an object's part that may have to move with an image; None: it has none.

    A part that may is an image or an array of at least two dimensions, or has the name of a target.
    """
    if value is None or isinstance(value, (str, bytes, bool, int, float, *_OPAQUE)):
        return None
    if is_pil(value):
        return name
    if isinstance(value, (Tensor, np.ndarray)):
        return name if value.ndim >= 2 else None
    if depth == _DEPTH:
        return None
    for key, inner in _parts(value):
        place = f"{name}{key}"
        named = key.lstrip("._") in TARGET_NAMES
        if named and inner is not None:
            return place
        found = movable_part(inner, place, depth + 1)
        if found is not None:
            return found
    return None


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [
            (f".{key}" if isinstance(key, str) else f"[{key!r}]", v) for key, v in value.items()
        ]
    if isinstance(value, (list, tuple)):
        return [(f"[{i}]", v) for i, v in enumerate(value)]
    if isinstance(value, Set):
        return [("", v) for v in value]
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    if dataclasses.is_dataclass(value):
        slots += [field.name for field in dataclasses.fields(value)]
    own = {slot: getattr(value, slot, None) for slot in slots if isinstance(slot, str)}
    return [(f".{key}", v) for key, v in {**own, **getattr(value, "__dict__", {})}.items()]
