"""Polygons of a sample: read from COCO's lists and from points, and given back in the same type.

An object has one polygon or several. A polygon is a flat list ``x1, y1, x2, y2, ...``, as in COCO's
``segmentation``, or points ``[K, 2]``. Inside a leaf, every object is a list of float64 arrays
``[K, 2]``.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ... import _native
from .leaf import Leaf, is_pil

Objects = list[list[np.ndarray]]  # of one sample

_EXPECTED = (
    "a list of objects, each a list of polygons [x1, y1, x2, y2, ...] or [K, 2] with at least "
    "three points"
)


def prepare_polygons(leaf: Leaf, image: Leaf) -> None:
    """Turn the value of a leaf of polygons into arrays, for one sample or a list of samples."""
    value = leaf.value
    if image.batch is None:
        leaf.value = _objects(value, leaf.name)
        leaf.visible = _present(leaf.value)
        return
    if len(value) != image.batch:
        raise ValueError(
            f"visops.transforms: {leaf.name} has {len(value)} entries, {image.name} holds "
            f"{image.batch} images; must be one for each"
        )
    leaf.value = [_objects(item, f"{leaf.name}[{i}]") for i, item in enumerate(value)]
    leaf.visible = [_present(objects) for objects in leaf.value]
    leaf.batch = image.batch


def _present(objects: Objects) -> np.ndarray:
    """Return which objects have a polygon at all, bool ``[N]``."""
    return np.array([len(polygons) > 0 for polygons in objects], bool)


def _objects(value: Any, name: str) -> Objects:
    if not isinstance(value, (list, tuple)):
        _reject(name, f"is a {type(value).__name__}")
    found = _native.read_flat_polygons(value)
    if found is not None:
        points, counts, sizes = found
        return grouped(split_points(points, counts.tolist()), sizes)
    return [_object(item, f"{name}[{index}]") for index, item in enumerate(value)]


def _object(value: Any, name: str) -> list[np.ndarray]:
    if _is_polygon(value):
        return [_polygon(value, name)]
    if not isinstance(value, (list, tuple)):
        _reject(name, f"is a {type(value).__name__}")
    return [_polygon(item, f"{name}[{index}]") for index, item in enumerate(value)]


def _is_polygon(value: Any) -> bool:
    """Return whether this is one polygon, rather than a list of them."""
    if isinstance(value, (Tensor, np.ndarray)):
        return True
    if not isinstance(value, (list, tuple)) or not value:
        return False
    first = value[0]
    return not isinstance(first, (list, tuple, Tensor, np.ndarray, dict)) or (
        len(first) == 2 and all(np.ndim(number) == 0 for number in first)
    )


def _polygon(value: Any, name: str) -> np.ndarray:
    if isinstance(value, Tensor):
        value = value.detach().to("cpu", torch.float64).numpy()
    if is_pil(value) or isinstance(value, (dict, str, bytes)):
        _reject(name, f"is a {type(value).__name__}")
    try:
        points = np.array(value, np.float64)
    except (TypeError, ValueError):
        _reject(name, "is not made of numbers")
    shape = list(points.shape)
    if points.ndim == 1 and points.size % 2 == 0:
        points = points.reshape(-1, 2)
    if points.ndim != 2 or points.shape[1] != 2 or points.shape[0] < 3:
        _reject(name, f"has shape {shape}")
    if not np.isfinite(points).all():
        position = int((~np.isfinite(points)).any(1).argmax())
        point = points[position].tolist()
        raise ValueError(
            f"visops.transforms: point {position} of {name} is {point}, must be finite"
        )
    return points


def _reject(name: str, problem: str) -> NoReturn:
    raise ValueError(f"visops.transforms: {name} {problem}, must be {_EXPECTED}")


def points_of(objects: Objects) -> np.ndarray:
    """Return all points of a sample's polygons, float64 ``[P, 2]``."""
    flat = [points for polygons in objects for points in polygons]
    return np.concatenate(flat) if flat else np.zeros((0, 2))


def split_points(points: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    """Return the polygons, views, whose points lie one after another in ``[P, 2]``."""
    polygons, start = [], 0
    for count in counts:
        polygons.append(points[start : start + count])
        start += count
    return polygons


def with_points(objects: Objects, points: np.ndarray) -> Objects:
    """Return polygons like these with other points, ``[P, 2]``."""
    counts = [len(polygon) for polygons in objects for polygon in polygons]
    return grouped(split_points(points, counts), map(len, objects))


def grouped(parts: Iterable[Any], sizes: Iterable[int]) -> list[list[Any]]:
    """Return parts, one after another, as lists of these sizes."""
    rest = iter(parts)
    return [list(itertools.islice(rest, size)) for size in sizes]


def restored_polygons(leaf: Leaf) -> Any:
    """Return the polygons of a leaf as lists of objects, polygons in the type they came in."""
    if leaf.batch is None:
        return _restored(leaf.value, _example(leaf.like))
    likes: Sequence[Any] = leaf.like
    return [
        _restored(objects, _example(like)) for objects, like in zip(leaf.value, likes, strict=True)
    ]


def _example(objects: Any) -> Any:
    """Return the first polygon of a sample; None if there is none."""
    for item in objects:
        if _is_polygon(item):
            return item
        if len(item) > 0:
            return item[0]
    return None


def _restored(objects: Objects, like: Any) -> list[list[Any]]:
    return [[_typed(points, like) for points in polygons] for polygons in objects]


def _typed(points: np.ndarray, like: Any) -> Any:
    if isinstance(like, Tensor):
        values = torch.from_numpy(points if like.dim() == 2 else points.reshape(-1))
        values = values if like.is_floating_point() else values.round()
        return values.to(like.device, like.dtype)
    if isinstance(like, np.ndarray):
        array = points if like.ndim == 2 else points.reshape(-1)
        return (array if like.dtype.kind == "f" else np.rint(array)).astype(like.dtype)
    nested = like is not None and np.ndim(like) == 2
    return points.tolist() if nested else points.reshape(-1).tolist()
