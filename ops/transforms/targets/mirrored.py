"""What swaps names where its image is mirrored: left and right eyes, hands, kidneys.

An image is mirrored where its matrix turns clockwise triangles into counter-clockwise ones.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..sample.entries import is_sequence, rank_of, rebuilt, regrouped, ungrouped
from ..sample.leaf import TARGETS, Leaf
from ..sample.names import LIKE_LABELS
from .options import Geometry, TargetOptions, holds
from .rows import with_unit_w

# What has a label's name, and is no class.
_NO_CLASSES = ("scores", "area", "iscrowd", "difficult")
_CATEGORY = "category_id"  # in a dict of COCO's annotations
_BOOLEANS = (torch.bool, np.dtype(bool))
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


# Right triangles of points u, v [5, 3, 2], in shares of an image's width and height: they go round
# clockwise, until a mirror turns them. Each part of the image has one, so that a crop leaves some.
_CORNERS = np.array([(0.4, 0.4), (0.05, 0.05), (0.75, 0.05), (0.05, 0.75), (0.75, 0.75)])
PROBE = _CORNERS[:, None] + 0.2 * np.array([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])


def is_mirrored(probe: np.ndarray) -> bool:
    """Return whether something that moved `PROBE` to these pixels ``[5, 3, 2]`` has mirrored it."""
    along, down = probe[:, 1] - probe[:, 0], probe[:, 2] - probe[:, 0]
    return float((along[:, 0] * down[:, 1] - along[:, 1] * down[:, 0]).sum()) < 0.0


def followers(leaves: Sequence[Leaf], options: TargetOptions) -> list[Leaf]:
    """Return what has to follow the images.

    Raises
    ------
    ValueError
        Labels are to swap, and what may be one has no name that says so.
    TypeError
        Classes of masks are to swap, and the masks hold none.
    """
    if options.mask_pairs:
        _reject_stacks(leaves)
    if options.label_pairs:
        _reject_scores_of_classes(leaves)
        nothing_named = not any(_has_classes(leaf) for leaf in leaves)
        for leaf in leaves:
            unclear = leaf.key in LIKE_LABELS or (leaf.key is None and nothing_named)
            if unclear and leaf.named is None and leaf.kind == "other" and leaf.value is not None:
                raise ValueError(
                    f"visops.transforms: label_pairs is given, and {leaf.name} may be a label; "
                    "must be in a dict under 'labels', or under a name in keys={'labels': [...]} "
                    "or keys={'other': [...]}"
                )
    return [leaf for leaf in leaves if leaf.kind in TARGETS or may_swap(leaf, options)]


def _reject_stacks(leaves: Sequence[Leaf]) -> None:
    """Refuse stacks of boolean masks, unless they stand beside masks that hold classes."""
    masks = [(leaf, _mask_of_one(leaf)) for leaf in leaves if leaf.kind == "mask"]
    own = [(leaf, *found) for leaf, found in masks if not leaf.per_box and found is not None]
    if not all(dtype in _BOOLEANS for _, dtype, _ in own):
        return
    for leaf, dtype, shape in own:
        if len(shape) > 2:
            raise TypeError(
                f"visops.transforms.Compose: mask_pairs is given, and {leaf.name} has dtype "
                f"{dtype} and shape {shape}; must hold whole numbers, which are classes: a one-hot "
                "stack [N, H, W] becomes its argmax(0)"
            )


def _reject_scores_of_classes(leaves: Sequence[Leaf]) -> None:
    """Refuse a score for each class: it would stay in its class's place."""
    for leaf in leaves:
        if leaf.kind != "labels" or leaf.key != "scores":
            continue
        for value in leaf.samples():
            if (rank_of(value) or 0) > 1:
                raise TypeError(
                    f"visops.transforms.Compose: label_pairs is given, and {leaf.name} has shape "
                    f"{list(np.shape(value))}, whose columns may be classes, which would not swap; "
                    "must be a vector beside labels, or be in keys={'other': [...]}"
                )


def _mask_of_one(leaf: Leaf) -> tuple[Any, list[int]] | None:
    """Return dtype and shape of a sample's mask, or None where there is none."""
    value = leaf.value
    if isinstance(value, list):
        return None if len(value) == 0 else (value[0].dtype, list(value[0].shape))
    return value.dtype, list(value.shape[leaf.batch is not None :])


def _has_classes(leaf: Leaf) -> bool:
    return leaf.kind == "labels" and leaf.key not in _NO_CLASSES


def may_swap(leaf: Leaf, options: TargetOptions) -> bool:
    """Return whether labels differ after a pass that has mirrored some samples of a batch."""
    return bool(options.label_pairs) and _has_classes(leaf)


def mirrored_by(geometry: Geometry) -> np.ndarray:
    """Return which samples a pass has mirrored, bool ``[B]``."""
    matrix = with_unit_w(geometry.matrix, geometry.centres())
    (a, b, c), (d, e, f), (g, h, i) = matrix.transpose(1, 2, 0)
    found: np.ndarray = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) < 0.0
    return found


def swap_names(leaves: Sequence[Leaf], mirrored: np.ndarray, options: TargetOptions) -> None:
    """Swap pairs of key points, and of classes of labels and masks, in samples that are mirrored.

    Parameters
    ----------
    leaves : sequence of Leaf
        Moved already.
    mirrored : ndarray of bool, ``[B]``
    options : TargetOptions
    """
    if not mirrored.any():
        return
    batched = any(leaf.kind == "image" and leaf.batch is not None for leaf in leaves)
    for leaf in leaves:
        if leaf.kind == "keypoints" and options.flip_pairs:
            _swap_points(leaf, mirrored, options.flip_pairs)
        pairs: Sequence[tuple[Any, Any]] = ()
        if may_swap(leaf, options):
            pairs = options.label_pairs
        elif leaf.kind == "mask" and not leaf.per_box:
            pairs = options.mask_pairs
        if not pairs:
            continue
        table = {a: b for pair in pairs for a, b in (pair, pair[::-1])}
        if leaf.batch is not None or batched:
            swap = functools.partial(_swapped_classes, leaf, table)
            leaf.value = _in_mirrored(leaf, leaf.value, mirrored, swap)
        else:
            leaf.value = _swapped_classes(leaf, table, leaf.value)


def _in_mirrored(leaf: Leaf, value: Any, mirrored: np.ndarray, swap: Callable[[Any], Any]) -> Any:
    """Return a batch whose mirrored samples are what `swap` makes of them."""
    samples = ungrouped(value, len(mirrored), leaf.name)
    return regrouped(
        value, [swap(own) if turned else own for own, turned in zip(samples, mirrored, strict=True)]
    )


def _swapped_classes(leaf: Leaf, table: Mapping[Any, Any], value: Any) -> Any:
    """Return the classes of the mirrored image: a number, a name, or any nesting of them."""
    if isinstance(value, (Tensor, np.ndarray)) and value.ndim > 0:
        return _swapped_array(leaf, value, table)
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        found = table.get(value.item(), value.item())
        return value.new_tensor(found) if isinstance(value, Tensor) else value.dtype.type(found)
    if isinstance(value, Mapping):
        category = value.get(_CATEGORY)
        return {**value, _CATEGORY: table.get(category, category)} if _CATEGORY in value else value
    if is_sequence(value):
        if (
            leaf.kind == "labels"
            and len(value) > 0
            and all(_is_row_of_numbers(own) for own in value)
        ):
            _reject_one_hot(leaf, False, [len(value), *{len(own) for own in value}])
        return rebuilt(value, [_swapped_classes(leaf, table, own) for own in value])
    return table.get(value, value) if isinstance(value, Hashable) else value


def _is_row_of_numbers(value: Any) -> bool:
    return is_sequence(value) and len(value) > 0 and all(isinstance(own, Integral) for own in value)


def _reject_one_hot(leaf: Leaf, is_bool: bool, shape: Sequence[int]) -> None:
    """Refuse labels whose places, not values, are classes: swapped values would be nonsense."""
    if is_bool or len(shape) > 1:
        got = "dtype bool" if is_bool else f"shape {shape}"
        raise TypeError(
            f"visops.transforms.Compose: {leaf.name} has {got}, must be a vector of whole numbers "
            "or names where classes swap in mirrored images; classes of a one-hot matrix are its "
            "argmax(1)"
        )


def _swapped_array(leaf: Leaf, value: Any, table: Mapping[Any, Any]) -> Any:
    if isinstance(value, Tensor):
        kind = "f" if value.is_floating_point() or value.is_complex() else "i"
    else:
        kind = value.dtype.kind
    if kind in "fc":
        raise TypeError(
            f"visops.transforms.Compose: {leaf.name} has dtype {value.dtype}, must hold whole "
            "numbers or names where classes swap in mirrored images"
        )
    if kind not in "iub":
        names = [table.get(own, own) for own in value.ravel().tolist()]
        return np.array(names).reshape(value.shape)
    if leaf.kind == "labels":
        _reject_one_hot(leaf, value.dtype in _BOOLEANS, list(value.shape))
    if isinstance(value, Tensor):
        # torch compares and fills no unsigned integers but bytes; int64 has their bits.
        wide = value.to(torch.int64) if value.dtype in _UNSIGNED else value
        swapped: Any = wide.clone()
    else:
        wide, swapped = value, value.copy()
    for one, other in table.items():
        if isinstance(one, str):
            continue
        if not holds(value.dtype, other):
            if value.dtype in _BOOLEANS:
                continue  # it holds no classes, but stands beside masks that do
            raise ValueError(
                f"visops.transforms.Compose: {leaf.name} has dtype {value.dtype}, must be one that "
                f"holds class {other} of pair {(one, other)}"
            )
        swapped[wide == one] = other
    return swapped.to(value.dtype) if isinstance(value, Tensor) else swapped


def _swap_points(leaf: Leaf, mirrored: np.ndarray, pairs: Sequence[tuple[int, int]]) -> None:
    """Swap pairs of each object's key points in the samples that are mirrored."""

    def ordered(value: Any, axis: int) -> Any:
        if 0 in value.shape:
            return value  # a sample without objects may have come as an empty list
        return _ordered(value, _order(leaf, value, axis, pairs), axis)

    def swapped(value: Any, axis: int) -> Any:
        if leaf.batch is None:
            return ordered(value, axis)
        return _in_mirrored(leaf, value, mirrored, lambda own: ordered(own, axis))

    leaf.value = swapped(leaf.value, -2)
    if leaf.visible is not None:
        leaf.visible = swapped(leaf.visible, -1)
    if leaf.partner is not None:
        leaf.partner.value = swapped(leaf.partner.value, -1)


def _order(leaf: Leaf, value: Any, axis: int, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return where each of an object's points comes from."""
    count = value.shape[axis] if value.ndim >= -axis else 0
    most = max(max(pair) for pair in pairs)
    if most >= count:
        raise ValueError(
            f"visops.transforms.Compose: flip_pairs names point {most}, {leaf.name} has "
            f"{count} for each object; must be less"
        )
    order = np.arange(count)
    for one, other in pairs:
        order[[one, other]] = order[[other, one]]
    return order


def _ordered(value: Any, order: np.ndarray, axis: int) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(axis, torch.from_numpy(order).to(value.device))
    return np.take(value, order, axis)
