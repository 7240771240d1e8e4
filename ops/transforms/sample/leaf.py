"""One value of a sample, and what types say about it.

torchvision and Pillow are looked at only where the caller has imported them already: without them
there can be none of their values.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["Leaf", "is_pil", "tv_kind"]


@dataclass(slots=True)
class Leaf:
    """One value of a sample, or of a batch of samples."""

    kind: str  # image, mask, boxes, keypoints, visible, labels or other
    value: Any
    batch: int | None = None  # samples in `value`: its first dimension, or a list; None: one
    layout: str = "CHW"  # of images: where the channels are, the batch's dimension aside
    frames: bool = False  # a dimension of frames before the image's own three
    like: Any = None  # what was in the sample
    name: str = "the sample"  # for messages
    key: Any = None  # under which its dict holds it
    group: int = -1  # the container that holds it
    named: str | None = None  # the kind that its key stands for
    per_box: bool = False  # has an entry for each box of its group
    format: str = "XYXY"  # of boxes
    canvas: np.ndarray | None = None  # [B, 2] of boxes and key points, once they have moved
    visible: Any = None  # bool, of key points: False for those lost on the way
    partner: Leaf | None = None  # of key points: the leaf that holds their visibility
    source: Leaf | None = None  # the batch's leaf that this is one sample of

    def samples(self) -> list[Any]:
        """Return the values of the samples, one by one."""
        return [self.value] if self.batch is None else list(self.value)


def is_pil(value: Any) -> bool:
    """Whether this is a Pillow image."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def tv_kind(value: Any) -> str | None:
    """Return which kind of leaf one of torchvision's typed tensors is; None for anything else."""
    if type(value) is Tensor or not isinstance(value, Tensor):
        return None
    tv = sys.modules.get("torchvision.tv_tensors")
    if tv is None or not isinstance(value, tv.TVTensor):
        return None
    if isinstance(value, (tv.Image, tv.Video)):
        return "image"
    # KeyPoints came with torchvision 0.23.
    for kind, cls in (("mask", "Mask"), ("boxes", "BoundingBoxes"), ("keypoints", "KeyPoints")):
        if isinstance(value, getattr(tv, cls, ())):
            return kind
    raise TypeError(
        f"visops.transforms: can't move a {type(value).__name__}, must be an Image, Video, Mask, "
        "BoundingBoxes or KeyPoints"
    )


def tv_wrap(value: Tensor, like: Tensor, **fields: Any) -> Tensor:
    """Return `value` as the typed tensor that `like` is."""
    import torchvision.tv_tensors as tv

    wrapped: Tensor = tv.wrap(value, like=like, **fields)
    return wrapped
