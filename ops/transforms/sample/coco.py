"""Annotations as COCO's files have them: a list with a dict for each object.

Each dict has a ``bbox`` x, y, width, height, and with it the object's ``segmentation`` as polygons,
``area``, flat ``keypoints`` and whatever else. They move like any other targets, and objects that
are dropped take their dicts along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from .leaf import Leaf

__all__ = ["Annotations", "annotation_leaves", "are_annotations"]

# Beside "bbox" and "category_id", one of these tells COCO's dicts from others.
_MARKS = frozenset(("image_id", "iscrowd", "segmentation", "area"))


def are_annotations(value: Any) -> bool:
    """Return whether this is a list of COCO's annotations; an empty one holds nothing to move."""
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(
            type(item) is dict
            and "bbox" in item
            and "category_id" in item
            and "bbox_mode" not in item  # detectron2's, whose boxes have any form
            and not _MARKS.isdisjoint(item)
            for item in value
        )
    )


@dataclass(slots=True)
class Annotations:
    """Which leaf holds what of a list of annotations."""

    container: type
    places: dict[str, int]  # by key; "": the dicts themselves

    def build(self, value_of: Callable[[int], Any], batch: int | None) -> Any:
        """Return the list with the leaves' present values; a list of them for a batch."""
        values = {key: value_of(place) for key, place in self.places.items()}
        if batch is None:
            return self._built(values)
        return [self._built({key: own[i] for key, own in values.items()}) for i in range(batch)]

    def _built(self, values: dict[str, Any]) -> Any:
        moved = []
        for index, own in enumerate(values.pop("")):
            entry = {**own, **{key: _plain(value[index]) for key, value in values.items()}}
            if "keypoints" in values and "num_keypoints" in own:
                entry["num_keypoints"] = sum(flag > 0 for flag in entry["keypoints"][2::3])
            moved.append(entry)
        return moved if self.container is list else self.container(moved)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic, Tensor)) else value


def annotation_leaves(
    value: Sequence[dict[str, Any]], name: str, key: Any, group: int, add: Callable[[Leaf], int]
) -> Annotations:
    """Make leaves of annotations, in a group of their own.

    Raises
    ------
    TypeError, ValueError
        A segmentation is an RLE; some objects have an entry that others lack; numbers are wrong.
    """
    place: dict[str, Any] = {"key": None, "group": group}
    places = {}
    for entry, kind in (("bbox", "boxes"), ("area", "area"), ("keypoints", "keypoints")):
        if not _all_have(value, entry, name):
            continue
        like = _numbers(value, entry, name)
        label = f"{name}[:][{entry!r}]"
        leaf = Leaf(kind, like, like=like, name=label, named=kind, **place)
        if kind == "boxes":
            leaf.format = "XYWH"
        elif kind == "area":
            leaf.kind, leaf.named, leaf.key = "labels", "labels", "area"
        places[entry] = add(leaf)
    if _all_have(value, "segmentation", name):
        for index, own in enumerate(value):
            if isinstance(own["segmentation"], dict):
                raise TypeError(
                    f"visops.transforms: {name}[{index}]['segmentation'] is an RLE, must be a "
                    "list of polygons (leave out crowds, whose iscrowd is 1, or decode to masks)"
                )
        objects = [own["segmentation"] for own in value]
        label = f"{name}[:]['segmentation']"
        leaf = Leaf("polygons", objects, like=objects, name=label, named="polygons", **place)
        places["segmentation"] = add(leaf)
    leaf = Leaf("labels", list(value), like=value, name=name, named="labels", **place)
    places[""] = add(leaf)
    return Annotations(type(value), places)


def _all_have(value: Sequence[dict[str, Any]], entry: str, name: str) -> bool:
    """Return whether all annotations have an entry; refuse lists in which only some do."""
    having = [entry in own for own in value]
    if any(having) and not all(having):
        raise ValueError(
            f"visops.transforms: {name}[{having.index(False)}] has no {entry!r}, "
            f"{name}[{having.index(True)}] has one; must be all or none"
        )
    return having[0]


def _numbers(value: Sequence[dict[str, Any]], entry: str, name: str) -> np.ndarray:
    try:
        array = np.array([own[entry] for own in value], np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"visops.transforms: {name}[:][{entry!r}] can't be read as numbers: {error}"
        ) from None
    rank = 1 if entry == "area" else 2
    if array.ndim != rank or (entry == "bbox" and array.shape[1] != 4):
        raise ValueError(
            f"visops.transforms: {name}[:][{entry!r}] has shape {list(array.shape)}, must be "
            f"{'[N]' if rank == 1 else '[N, 4]' if entry == 'bbox' else '[N, 3 K]'}"
        )
    return array
