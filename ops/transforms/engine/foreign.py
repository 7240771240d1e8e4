"""Calls of other libraries' transforms with a sample's leaves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..sample.leaf import Leaf, tv_kind

__all__ = ["call_foreign"]

_TYPED = ("image", "mask", "boxes", "keypoints")


def call_foreign(transform: Callable[..., Any], leaves: Sequence[Leaf]) -> None:
    """Call another library's transform; its results replace the leaves' values.

    A transform from ``torchvision.transforms.v2`` gets images, masks, boxes and key points as
    tv_tensors, in one call. Anything else gets one image at a time, and must keep its size if the
    sample has targets.

    Parameters
    ----------
    transform : callable
    leaves : list of Leaf
        Those of one sample, with images as tensors ``[C, H, W]``. Changed in place.

    Raises
    ------
    TypeError, ValueError
        The transform returned something unlike what it was given, dropped boxes, or resized an
        image that has targets.
    """
    v2 = sys.modules.get("torchvision.transforms.v2")
    if v2 is not None and isinstance(transform, v2.Transform):
        if "Sanitize" in type(transform).__name__:
            raise ValueError(
                f"visops.transforms: {_name(transform)} drops boxes or key points, and what "
                "belongs to them can't follow; must be left out (Compose(boxes='sanitize') drops "
                "boxes outside the picture with their labels; key points there become invisible)"
            )
        _call_v2(transform, [leaf for leaf in leaves if leaf.kind in _TYPED])
        return
    targets = [leaf for leaf in leaves if leaf.kind in _TYPED and leaf.kind != "image"]
    for leaf in leaves:
        if leaf.kind != "image":
            continue
        result = transform(leaf.value)
        name = _name(transform)
        if not isinstance(result, Tensor) or result.dim() != leaf.value.dim():
            got = list(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise TypeError(
                f"visops.transforms: {name} returned {got} for {leaf.name}, a tensor of shape "
                f"{list(leaf.value.shape)}; must return a tensor with as many dimensions"
            )
        if targets and result.shape[-2:] != leaf.value.shape[-2:]:
            raise ValueError(
                f"visops.transforms: {name} resized {leaf.name} from "
                f"{list(leaf.value.shape[-2:])} to {list(result.shape[-2:])}, and "
                f"{targets[0].name} can't follow; must be a transform of visops or of "
                "torchvision.transforms.v2"
            )
        leaf.value = result.as_subclass(Tensor)


def _name(transform: Any) -> str:
    return getattr(transform, "__name__", type(transform).__name__)


def _call_v2(transform: Callable[..., Any], leaves: Sequence[Leaf]) -> None:
    place = next(i for i, leaf in enumerate(leaves) if leaf.kind == "image")
    height, width = leaves[place].value.shape[-2:]
    results = transform(tuple(_typed(leaf, (height, width)) for leaf in leaves))
    name = _name(transform)
    if not isinstance(results, tuple) or len(results) != len(leaves):
        raise TypeError(
            f"visops.transforms: {name} returned a {type(results).__name__} for a tuple of "
            f"{len(leaves)}, must return a tuple of as many"
        )
    for leaf, result in zip(leaves, results, strict=True):
        if not isinstance(result, Tensor):
            raise TypeError(
                f"visops.transforms: {name} returned a {type(result).__name__} for {leaf.name}, "
                "must return a tensor"
            )
    size = tuple(results[place].shape[-2:])
    for leaf, result in zip(leaves, results, strict=True):
        plain = result.as_subclass(Tensor)
        if leaf.kind == "boxes":
            if plain.shape[0] != leaf.value.shape[0]:
                raise ValueError(
                    f"visops.transforms: {name} left {plain.shape[0]} of {leaf.value.shape[0]} "
                    f"boxes of {leaf.name}, and what belongs to them can't follow; must keep them "
                    "(Compose(boxes='sanitize') drops those outside the picture)"
                )
            if tv_kind(result) == "boxes":
                leaf.format = result.format.value  # type: ignore[attr-defined]
        if leaf.canvas is not None:
            leaf.canvas = np.array([getattr(result, "canvas_size", size)])
        if leaf.kind == "keypoints" and leaf.value.shape[-1] == 3:
            third = torch.as_tensor(leaf.value)[..., 2:]
            plain = torch.cat((plain, third.to(plain.dtype)), -1)
        leaf.value = plain


def _typed(leaf: Leaf, size: tuple[int, int]) -> Any:
    import torchvision.tv_tensors as tv

    value = leaf.value
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value if value.flags.writeable else value.copy())
    if leaf.kind == "image":
        return tv.Video(value) if leaf.frames else tv.Image(value)
    if leaf.kind == "mask":
        return tv.Mask(value)
    if leaf.kind == "boxes":
        return tv.BoundingBoxes(value, format=leaf.format, canvas_size=size)
    return tv.KeyPoints(value[..., :2], canvas_size=size)
