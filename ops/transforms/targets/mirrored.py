"""Key points that swap names where their image is mirrored: left and right eyes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..sample.leaf import Leaf
from .coordinates import with_unit_w
from .options import Geometry

__all__ = ["swap_pairs"]


def swap_pairs(leaf: Leaf, geometry: Geometry, pairs: Sequence[tuple[int, int]]) -> None:
    """Swap pairs of each object's key points in the samples that a pass has mirrored.

    An image is mirrored where its matrix turns clockwise triangles into counter-clockwise ones.
    """
    matrix = with_unit_w(geometry.matrix, geometry.centres())
    (a, b, c), (d, e, f), (g, h, i) = matrix.transpose(1, 2, 0)
    mirrored = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) < 0.0
    if not mirrored.any():
        return
    most = max(max(pair) for pair in pairs)
    first = leaf.value[0] if isinstance(leaf.value, list) else leaf.value
    least = 2 if leaf.batch is None or isinstance(leaf.value, list) else 3
    count = first.shape[-2] if first.ndim >= least else 0
    if most >= count:
        raise ValueError(
            f"visops.transforms.Compose: flip_pairs names point {most}, {leaf.name} has "
            f"{count} for each object; must be less"
        )
    order = np.arange(count)
    for one, other in pairs:
        order[[one, other]] = order[[other, one]]
    leaf.value = _swapped(leaf, leaf.value, mirrored, order, -2)
    if leaf.visible is not None:
        leaf.visible = _swapped(leaf, leaf.visible, mirrored, order, -1)
    if leaf.partner is not None:
        leaf.partner.value = _swapped(leaf, leaf.partner.value, mirrored, order, -1)


def _swapped(leaf: Leaf, value: Any, mirrored: np.ndarray, order: np.ndarray, axis: int) -> Any:
    """Put the points of mirrored samples into another order."""
    if leaf.batch is None:
        return _ordered(value, order, axis)
    samples = [
        _ordered(own, order, axis) if turned else own
        for own, turned in zip(value, mirrored.tolist(), strict=True)
    ]
    if isinstance(value, list):
        return samples
    return torch.stack(samples) if isinstance(value, Tensor) else np.stack(samples)


def _ordered(value: Any, order: np.ndarray, axis: int) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(axis, torch.from_numpy(order).to(value.device))
    return np.take(value, order, axis)
