"""What the samples of a data set have in common, as the first one of a structure tells.

csrc/python/chain/outline.h finds it again for the others, by all that :func:`split_sample` looks
at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from .files import Encoded, is_encoded
from .leaf import Leaf


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
