"""What the samples of a data set have in common.

They have the same keys, and the same types and ranks under them. So splitting the first one tells
what each entry of all others is, as long as nothing else decides that: an outline is found by all
that :func:`split_sample` looks at. Where it looks into a value (a list of dicts, an object with
attributes), a sample has no outline and is split on its own.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from .images import may_be_image
from .leaf import Leaf, is_pil, tv_kind
from .names import ATOMS, PLAIN_ATOMS, named_kinds

_MOST = 64  # structures that are kept
_TELLING = set(PLAIN_ATOMS)  # types that say what a value is: those of tv_tensors, once met, too


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

    def holders(self, sample: Any) -> list[Any]:
        """Return the sample and the dicts in it."""
        return [sample, *[sample[position] for position in self.nested]]

    def joined(self, holders: Sequence[Any]) -> Any:
        """Undo :meth:`holders`, for changed copies."""
        whole = holders[0]
        if self.container is dict:
            return whole
        for position, inner in zip(self.nested, holders[1:], strict=True):
            whole[position] = inner
        return tuple(whole)


class Outlines:
    """The outlines of the samples that a chain has seen, by structure."""

    def __init__(self, keys: Mapping[str, Sequence[str]] | None) -> None:
        self.keys = copy.deepcopy(keys)
        self.kinds = named_kinds(self.keys)
        self.known: dict[Any, Outline | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Outlines, (self.keys,)  # other processes see samples of their own

    def find(self, sample: Any, split: Callable[[Any], tuple[list[Leaf], Any]]) -> Outline | None:
        """Return a sample's outline, or None if there is more in it than an outline can say.

        `split` splits the first sample of a structure.
        """
        structure = self._structure(sample)
        if structure is None:
            return None
        if structure in self.known:
            return self.known[structure]
        outline = _outline(sample, split(sample)[0])
        if len(self.known) >= _MOST:
            self.known.clear()
        self.known[structure] = outline
        return outline

    def _structure(self, sample: Any) -> Any:
        """Return what decides what the values of a sample are; None if their contents do."""
        cls = type(sample)
        if cls is dict:
            return self._dict_structure(sample)
        if cls is tuple:
            forms: list[Any] = [tuple]
            for value in sample:
                own = type(value) is dict
                form = self._dict_structure(value) if own else _form(value, None)
                if form is None:
                    return None
                forms.append(form)
            return tuple(forms)
        if cls is list:
            return "images" if sample and all(map(may_be_image, sample)) else None
        return _form(sample, None)

    def _dict_structure(self, sample: dict[Any, Any]) -> Any:
        forms: list[Any] = [dict]
        kinds = self.kinds
        for key, value in sample.items():
            cls = type(value)
            if cls is Tensor:
                form: Any = value.ndim
            elif cls in _TELLING:
                form = cls
            else:
                form = _form(value, kinds.get(key))
                if form is None:
                    return None
            forms += (key, form)
        return tuple(forms)


def _form(value: Any, kind: str | None) -> Any:
    """Return what decides what a value is, besides its name; None if its content does."""
    cls: type = type(value)
    if cls is Tensor:
        return value.ndim
    if cls in _TELLING or kind == "other":
        return cls
    if isinstance(value, Tensor):
        if tv_kind(value) is None:
            return cls, value.ndim
        _TELLING.add(cls)
        return cls
    if isinstance(value, np.ndarray):
        return None if value.dtype.kind == "O" else (cls, value.ndim, value.dtype.kind)
    if is_pil(value):
        return cls, value.mode
    if cls is list or cls is tuple:
        if kind == "image":
            return cls
        return (cls, "atoms") if PLAIN_ATOMS.issuperset(map(type, value)) else None
    return cls if isinstance(value, ATOMS) else None


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


def _outline(sample: Any, leaves: Sequence[Leaf]) -> Outline | None:
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
            if not isinstance(value, Tensor) or leaf.partner is not None:
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
        elif isinstance(value, (Tensor, np.ndarray)):
            found["arrays"].append(entry)
    (image,) = found["image"]
    return Outline(
        container, nested, image, found["targets"], boxes, found["labels"], found["arrays"]
    )
