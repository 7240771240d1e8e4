"""Annotations as COCO's files have them: a list with a dict for each object.

Each dict has a ``bbox`` x, y, width, height, and with it the object's ``segmentation``, ``area``,
flat ``keypoints`` and whatever else. They move like any other targets, and objects that are dropped
take their dicts along. A segmentation is a list of polygons or, mostly of crowds, an RLE, which
moves as a mask; some objects may have none. Polygons of fewer than three points enclose nothing and
are left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from ...masks.rle import masks_to_rle, rle_to_masks
from .leaf import Leaf

# Beside "bbox" and "category_id", one of these tells COCO's dicts from others.
_MARKS = frozenset(("image_id", "iscrowd", "segmentation", "area"))
_FEWEST = 6  # numbers of a polygon that encloses something


def is_about_annotations(error: Exception) -> bool:
    """Return whether an error says that annotations can't be read: a loader may skip them."""
    return getattr(error, "about_annotations", False)


def _unreadable(message: str) -> ValueError:
    error = ValueError(message)
    error.about_annotations = True  # type: ignore[attr-defined]
    return error


def are_annotations(value: Any) -> bool:
    """Return whether this is a list of COCO's annotations; an empty one holds nothing to move."""
    return type(value) is _OfBatch or (
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


class _OfBatch(list[dict[str, Any]]):
    """Annotations of one sample of a batch, where all must have the same entries."""

    def __init__(self, own: Sequence[dict[str, Any]], every: Sequence[dict[str, Any]]) -> None:
        super().__init__(own)
        self.container, self.every = type(own), every


def with_same_entries(samples: Sequence[Any]) -> Sequence[Any]:
    """Return samples whose lists of annotations, empty ones too, will have the same leaves."""
    if any(map(are_annotations, samples)):
        if all(are_annotations(s) or (isinstance(s, (list, tuple)) and not s) for s in samples):
            every = [item for sample in samples for item in sample]
            return [_OfBatch(sample, every) for sample in samples]
        return samples
    first = samples[0]
    if isinstance(first, dict):
        keys = [key for key in first if all(isinstance(s, dict) and key in s for s in samples)]
        columns = {key: with_same_entries([s[key] for s in samples]) for key in keys}
        return [
            {**sample, **{key: column[i] for key, column in columns.items()}}
            for i, sample in enumerate(samples)
        ]
    if type(first) in (list, tuple) and first and all(type(s) is type(first) for s in samples):
        if any(len(sample) != len(first) for sample in samples):
            return samples
        parts = [with_same_entries([s[i] for s in samples]) for i in range(len(first))]
        return [type(first)(part[i] for part in parts) for i in range(len(samples))]
    return samples


def _is_rle(annotation: dict[str, Any]) -> bool:
    return isinstance(annotation.get("segmentation"), dict)


@dataclass(slots=True)
class ObjectMasks:
    """RLEs of objects, None for those with polygons, before the image's size is known."""

    rles: list[dict[str, Any] | None]
    name: str

    def decode(self, size: tuple[int, int]) -> np.ndarray:
        """Return masks, uint8 ``[N, H, W]``, of which those of polygons are empty."""
        masks = np.zeros((len(self.rles), *size), np.uint8)
        for index, rle in enumerate(self.rles):
            if rle is None:
                continue
            label = f"visops.transforms: {self.name}[{index}]['segmentation']"
            try:
                mask = rle_to_masks(rle, out="uint8").numpy()
            except (TypeError, ValueError, KeyError) as error:
                raise _unreadable(f"{label} is no RLE: {error}") from None
            if mask.shape != size:
                raise _unreadable(
                    f"{label} is an RLE of {mask.shape[0]} x {mask.shape[1]} pixels, the image has "
                    f"{size[0]} x {size[1]}"
                )
            masks[index] = mask
        return masks


def _encoded(mask: Any, like: dict[str, Any]) -> dict[str, Any]:
    """Return a mask as an RLE whose counts have the type of another's."""
    counts = like["counts"]
    compressed = isinstance(counts, (str, bytes))
    rle: dict[str, Any] = masks_to_rle(mask != 0, compressed=compressed)
    if isinstance(counts, str):
        rle["counts"] = rle["counts"].decode()
    return {**like, **rle}


@dataclass(slots=True)
class Annotations:
    """Which leaf holds what of a list of annotations."""

    container: type
    indices: dict[str, int]  # by key; "": the dicts themselves

    def build(self, value_of: Callable[[int], Any], batch: int | None) -> Any:
        """Return the list with the leaves' present values; a list of them for a batch."""
        values = {key: value_of(index) for key, index in self.indices.items()}
        if batch is None:
            return self._built(values)
        return [self._built({key: own[i] for key, own in values.items()}) for i in range(batch)]

    def _built(self, values: dict[str, Any]) -> Any:
        moved = []
        masks, annotations = values.pop("masks", None), values.pop("")
        columns = {key: _plain(value) for key, value in values.items()}
        for index, own in enumerate(annotations):
            entry = {**own, **{key: column[index] for key, column in columns.items()}}
            if "segmentation" in columns and not _has_outline(own):
                del entry["segmentation"]
                entry.update({key: None for key in own if key == "segmentation"})
            if "keypoints" in columns:
                points = entry["keypoints"] = _labelled(entry["keypoints"])
                if "num_keypoints" in own:
                    entry["num_keypoints"] = sum(flag > 0 for flag in points[2::3])
            if masks is not None and _is_rle(own):
                entry["segmentation"] = _encoded(masks[index], own["segmentation"])
            moved.append(entry)
        return moved if self.container is list else self.container(moved)


def _labelled(keypoints: list[float]) -> list[float]:
    """Return an object's key points; those without a label, or lost, lie at 0, 0 in COCO."""
    return [
        0 * number if keypoints[i - i % 3 + 2] == 0 else number
        for i, number in enumerate(keypoints)
    ]


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, Tensor)) else value


def annotation_leaves(
    value: Sequence[dict[str, Any]], name: str, key: Any, group: int, add: Callable[[Leaf], int]
) -> Annotations:
    """Make leaves of annotations, in a group of their own.

    Raises
    ------
    ValueError
        Some objects have an area or key points that others lack; numbers are wrong.
    """
    container, every = type(value), value
    if isinstance(value, _OfBatch):
        container, every = value.container, value.every
    example = every[:1]
    origin: dict[str, Any] = {"key": None, "group": group}
    indices = {}
    for entry, kind in (("bbox", "boxes"), ("area", "area"), ("keypoints", "keypoints")):
        if not _all_have(value, example, entry, name):
            continue
        like = _numbers(value or example, entry, name)[: len(value)]
        label = f"{name}[:][{entry!r}]"
        leaf = Leaf(kind, like, like=like, name=label, named=kind, **origin)
        if kind == "boxes":
            leaf.format = "XYWH"
        elif kind == "area":
            leaf.kind, leaf.named, leaf.key = "labels", "labels", "area"
        indices[entry] = add(leaf)
    if any(map(_has_outline, every)):
        label = f"{name}[:]['segmentation']"
        objects = [_polygons(own, f"{name}[{index}]") for index, own in enumerate(value)]
        leaf = Leaf("polygons", objects, like=objects, name=label, named="polygons", **origin)
        indices["segmentation"] = add(leaf)
        if any(map(_is_rle, every)):
            masks = ObjectMasks(
                [own["segmentation"] if _is_rle(own) else None for own in value], name
            )
            leaf = Leaf("mask", masks, like=masks, name=label, named="masks", **origin)
            indices["masks"] = add(leaf)
    leaf = Leaf("labels", list(value), like=value, name=name, named="labels", **origin)
    indices[""] = add(leaf)
    return Annotations(container, indices)


def are_lists_of_annotations(value: Any) -> bool:
    """Return whether this is a list of each sample's annotations, some of which may be empty."""
    return (
        isinstance(value, (list, tuple))
        and any(map(are_annotations, value))
        and all(are_annotations(own) or (type(own) in (list, tuple) and not own) for own in value)
    )


def annotation_leaves_of_batch(
    value: Sequence[Sequence[dict[str, Any]]],
    name: str,
    key: Any,
    group: int,
    add: Callable[[Leaf], int],
) -> Annotations:
    """Make leaves of the annotations of a batch: each holds a list with an entry per sample."""
    samples: list[list[Leaf]] = []
    for index, own in enumerate(with_same_entries(value)):
        leaves: list[Leaf] = []

        def numbered(leaf: Leaf, leaves: list[Leaf] = leaves) -> int:
            leaves.append(leaf)
            return len(leaves) - 1

        found = annotation_leaves(own, f"{name}[{index}]", key, group, numbered)
        samples.append(leaves)
    joined = [
        replace(same[0], value=[leaf.value for leaf in same], like=[leaf.like for leaf in same])
        for same in zip(*samples, strict=True)
    ]
    return Annotations(list, {entry: add(joined[at]) for entry, at in found.indices.items()})


def _has_outline(annotation: dict[str, Any]) -> bool:
    return annotation.get("segmentation") is not None


def _polygons(annotation: dict[str, Any], name: str) -> list[Any]:
    """Return an object's polygons of at least three points; none where it has no outline."""
    found = annotation.get("segmentation")
    if found is None or isinstance(found, dict):
        return []
    if type(found) is not list:
        return found  # type: ignore[no-any-return]
    kept = []
    for index, polygon in enumerate(found):
        flat = type(polygon) is list and not (polygon and isinstance(polygon[0], (list, tuple)))
        if flat and len(polygon) % 2 == 1:
            raise _unreadable(
                f"visops.transforms: {name}['segmentation'][{index}] has {len(polygon)} numbers, "
                "must be x1, y1, x2, y2, ..."
            )
        if not flat or len(polygon) >= _FEWEST:
            kept.append(polygon)
    return kept


def _all_have(
    value: Sequence[dict[str, Any]], example: Sequence[dict[str, Any]], entry: str, name: str
) -> bool:
    """Return whether all annotations have an entry; refuse lists in which only some do."""
    having = [entry in own for own in value or example]
    if any(having) and not all(having):
        raise _unreadable(
            f"visops.transforms: {name}[{having.index(False)}] has no {entry!r}, "
            f"{name}[{having.index(True)}] has one; must be all or none"
        )
    return having[0]


def _numbers(value: Sequence[dict[str, Any]], entry: str, name: str) -> np.ndarray:
    try:
        array = np.array([own[entry] for own in value], np.float64)
    except (TypeError, ValueError) as error:
        raise _unreadable(
            f"visops.transforms: {name}[:][{entry!r}] can't be read as numbers: {error}"
        ) from None
    rank = 1 if entry == "area" else 2
    if array.ndim != rank or (entry == "bbox" and array.shape[1] != 4):
        raise _unreadable(
            f"visops.transforms: {name}[:][{entry!r}] has shape {list(array.shape)}, must be "
            f"{'[N]' if rank == 1 else '[N, 4]' if entry == 'bbox' else '[N, 3 K]'}"
        )
    return array
