"""Splits a sample into leaves, and puts it together again.

A sample is an image, or a nest of dicts, tuples and lists of images and what belongs to them. Typed
values (torchvision's tv_tensors, Pillow images) say what they are; plain tensors and arrays are
known by their key in a dict. Anything that might be an unknown target raises: a mask left behind by
its image would be noticed only much later, in the trained model.
"""

import copy
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from .coco import (
    Annotations,
    annotation_leaves,
    annotation_leaves_of_batch,
    are_annotations,
    are_lists_of_annotations,
)
from .entries import is_sequence, rank_of
from .files import Encoded, EncodedOptions, encoded_leaf, is_encoded, looks_like_file
from .images import PIL_MASKS, image_leaf, may_be_image, restored_image
from .leaf import AS_THEY_ARE, Leaf, Reading, is_pil, tv_kind
from .names import ATOMS, PLAIN_ATOMS, UNMOVABLE, movable_part, must_be_named, named_kinds
from .target_leaves import prepare_targets, restored_target, visibility_of

_EXPECTED: dict[str | None, str] = {
    "image": "an image",
    "mask": "a mask [H, W]",
    "masks": "masks [N, H, W]",
    "boxes": "boxes [N, 4]",
    "keypoints": "key points [..., 2]",
    "polygons": "a list of each object's polygons",
}

Rebuild = Callable[[list[Leaf]], Any]


def split_sample(
    sample: Any,
    keys: Mapping[str, Sequence[str]] | None = None,
    reading: Reading = AS_THEY_ARE,
    *,
    canvas: Leaf | None = None,
    files: EncodedOptions | None = None,
) -> tuple[list[Leaf], Rebuild]:
    """Split a sample or a batch into leaves.

    Parameters
    ----------
    sample : Tensor, ndarray, PIL image, or dict, tuple or list of such, nested at will
        An image ``[C, H, W]`` or ``[H, W, C]``, a batch ``[B, ...]`` or a list of images of
        different sizes, and what belongs to it.
    keys : mapping of kind to names, optional
        Dict keys in addition to the usual ones: ``{"mask": ["seg"]}``. The kinds are image, mask,
        masks (one per box), boxes, keypoints, polygons (of one object per box), labels (one per
        box) and other (left alone).
    reading : Reading
        How to read plain values.
    canvas : Leaf, optional
        Stands for the image of a sample that has none. It is not among the leaves.
    files : EncodedOptions, optional
        Images are JPEG files, at least one of them.

    Returns
    -------
    list of Leaf
    callable
        Puts leaves, with their current values, together in the structure of `sample`.

    Raises
    ------
    TypeError, ValueError
        There is no image; a value may or may not be a target; a target's shape, dtype or values
        are wrong. The message names the place.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms.sample.split import split_sample
    >>> sample = {"image": torch.zeros(3, 4, 6), "boxes": [[0, 0, 2, 2]], "labels": ["cat"]}
    >>> leaves, rebuild = split_sample(sample)
    >>> [(leaf.kind, leaf.name) for leaf in leaves]
    [('image', "sample['image']"), ('boxes', "sample['boxes']"), ('labels', "sample['labels']")]
    >>> rebuild(leaves)["boxes"]
    [[0.0, 0.0, 2.0, 2.0]]
    """
    if files is None and (type(sample) is Tensor or type(sample) is np.ndarray):
        return [image_leaf(sample, "the sample", reading)], _only_image
    splitter = _Splitter(named_kinds(keys), reading, files)
    spec = splitter.split(sample, canvas)
    return splitter.leaves, lambda leaves: _build(spec, leaves)


def _only_image(leaves: list[Leaf]) -> Any:
    return restored_image(leaves[0])


class _Place(NamedTuple):
    """Where in a sample a value is: see the fields of Leaf."""

    name: str
    key: Any = None
    group: int = -1
    kind: str | None = None  # what its key stands for

    def origin(self) -> dict[str, Any]:
        """Return the fields of a leaf of this place."""
        return {"key": self.key, "group": self.group, "named": self.kind}


class _Splitter:
    """The walk through one sample."""

    def __init__(
        self,
        kinds: Mapping[str, str],
        reading: Reading,
        files: EncodedOptions | None,
    ) -> None:
        self.kinds = kinds
        self.files = files
        self.reading = reading
        self.leaves: list[Leaf] = []
        self.groups = 0
        self.untyped: list[Leaf] = []  # plain values with at least two dimensions
        self.unnamed_files: list[Leaf] = []

    def split(self, sample: Any, canvas: Leaf | None = None) -> Any:
        """Return the sample's structure, with indices in place of leaves."""
        if type(sample) is list and sample and all(may_be_image(item) for item in sample):
            spec: Any = self.add(image_leaf(sample, "the sample", self.reading))
        else:
            alone = self.is_file(sample) or isinstance(sample, Tensor)
            name = "the sample" if alone else "sample"
            spec = self.walk(sample, _Place(name))
        self.resolve_files()
        self.resolve_untyped()
        if self.files is not None:
            _reject_decoded(self.leaves)
        images = [leaf for leaf in self.leaves if leaf.kind == "image"]
        if not images and canvas is None:
            images = self.stand_in()
        if not images and self.leaves and canvas is not None:
            images = [canvas]
        if not images:
            files = _FILES_ARE["image"] if isinstance(sample, (str, bytes)) else ""
            raise TypeError(
                f"visops.transforms: found no image in the sample, a {type(sample).__name__}; must "
                f"be an image, or hold one under a known name (see keys=) or as a tv_tensor{files}"
            )
        for leaf in images:
            if leaf.batch != images[0].batch:
                raise ValueError(
                    f"visops.transforms: {images[0].name} holds {_count(images[0])}, {leaf.name} "
                    f"holds {_count(leaf)}; must be the same"
                )
        self.resolve_labels(images[0].batch)
        if len(images) > 1:
            _reject_unmarked_masks(images)
        if len(self.leaves) > 1 or images[0] is canvas:
            prepare_targets(self.leaves, images[0], self.reading.box_format)
        return spec

    def stand_in(self) -> list[Leaf]:
        """Add an image, which nobody gets back, to targets that say the size of theirs."""
        for leaf in self.leaves:
            typed = tv_kind(leaf.value) if isinstance(leaf.value, Tensor) else None
            if typed in ("mask", "boxes", "keypoints"):
                size = leaf.value.shape[-2:] if typed == "mask" else leaf.value.canvas_size
                pixels = torch.zeros((), device="cpu").expand(3, *size)
                image = Leaf("image", pixels, like=pixels, name="the image")
                self.add(image)
                return [image]
        return []

    def walk(self, value: Any, place: _Place) -> Any:
        """Return the index of a leaf, or a container and its walked contents."""
        cls, kind = type(value), place.kind
        if cls is Tensor and self.files is None and kind != "other":
            return self.walk_array(value, place)
        if kind in (None, "image") and self.is_file(value):
            return self.walk_file(value, place)
        if kind == "other":
            return self.keep("other", value, place)
        if cls in PLAIN_ATOMS:
            if kind in _EXPECTED and value is not None:
                shown = "bytes" if cls is bytes else repr(value)
                is_file = cls in (str, bytes)
                _reject_kind(place, shown, _FILES_ARE.get(kind or "", "") if is_file else "")
            return self.keep(kind if kind in ("labels", "visible") else "other", value, place)
        if isinstance(value, (Tensor, np.ndarray)) or is_pil(value):
            return self.walk_array(value, place)
        if kind == "labels" and is_sequence(value):
            return self.walk_labels(value, place)
        if isinstance(value, (list, tuple)):
            if kind is None:
                return self.walk_sequence(value, place)
            if kind == "image":
                return self.add(image_leaf(value, place.name, self.reading, **place.origin()))
            # One sample's numbers, or one value per sample: prepare_targets tells which.
            return self.keep("mask" if kind == "masks" else kind, value, place)
        if isinstance(value, MutableMapping):
            return self.walk_mapping(value, place.name)
        return self.walk_object(value, place)

    def walk_object(self, value: Any, place: _Place) -> int:
        """Keep a value of any other type as it is, or labels; refuse it if it may have to move."""
        cls, kind = type(value).__name__, place.kind
        if kind in _EXPECTED:
            _reject_kind(place, f"a {cls}")
        rank = 0 if isinstance(value, ATOMS) else rank_of(value)
        if kind is None and rank is not None and rank >= 2:
            _reject_untyped(place.name, f"{cls} of rows")
        part = movable_part(value) if rank is None else None
        if part is not None:
            raise TypeError(
                f"visops.transforms: {place.name} is a {cls}, whose {part.lstrip('.')} may have "
                "to move with the image; must consist of dicts, lists and tuples, or have a name "
                "in keys={'other': [...]}"
            )
        return self.keep("labels" if kind == "labels" else "other", value, place)

    def is_file(self, value: Any) -> bool:
        """Return whether this may be a JPEG file, or a list of such."""
        return self.files is not None and is_encoded(value)

    def walk_file(self, value: Any, place: _Place) -> int:
        assert self.files is not None
        if place.kind == "image":
            return self.add(encoded_leaf(value, place.name, self.files, **place.origin()))
        index = self.keep("other", value, place)
        self.unnamed_files.append(self.leaves[index])
        return index

    def walk_mapping(self, value: MutableMapping[Any, Any], name: str) -> Any:
        self.groups += 1
        group = self.groups
        items = []
        for key, inner in value.items():
            kind = self.kind_of(key, value) if isinstance(key, str) else None
            label = f"{name}[{key!r}]"
            unmovable = kind is None and key in UNMOVABLE and inner is not None
            if unmovable and not _known_by_type(inner):
                raise TypeError(
                    f"visops.transforms: {label} can't be moved in this form; must be boxes "
                    "[N, 4], key points [..., 2] or masks [N, H, W] under a name that says so "
                    "(add names with keys=; kind 'other' is for what doesn't move)"
                )
            items.append((key, self.walk(inner, _Place(label, key, group, kind))))
        return value, items

    def walk_labels(self, value: Sequence[Any], place: _Place) -> Any:
        """Walk labels: they stay whole, unless they hold dicts of targets, or are maps."""
        whole = not isinstance(value, (list, tuple)) or PLAIN_ATOMS.issuperset(map(type, value))
        if whole or rank_of(value) is not None:
            return self.keep("labels", value, place)
        leaves, untyped = len(self.leaves), len(self.untyped)
        spec = self.walk_sequence(value, place._replace(kind=None))
        nothing_moves = all(x.kind == "other" for x in self.leaves[leaves:])
        if nothing_moves and len(self.untyped) == untyped:
            del self.leaves[leaves:]
            return self.keep("labels", value, place)
        return spec

    def kind_of(self, key: str, siblings: Mapping[Any, Any]) -> str | None:
        """Return the kind that a dict's key stands for."""
        kind = self.kinds.get(key)
        if key in UNMOVABLE and not isinstance(siblings[key], (list, tuple, type(None))):
            return None  # not polygons, but perhaps a mask
        base = key.removesuffix("_visible")
        if kind is not None or base == key or base not in siblings:
            return kind
        kinds = (self.kinds.get(base), _first_kind(siblings[base]))
        return "visible" if "keypoints" in kinds else None

    def walk_sequence(self, value: Sequence[Any], place: _Place) -> Any:
        name, key = place.name, place.key
        if are_annotations(value):
            self.groups += 1
            return annotation_leaves(value, name, key, self.groups, self.add)
        if are_lists_of_annotations(value):
            self.groups += 1
            return annotation_leaves_of_batch(value, name, key, self.groups, self.add)
        plain = PLAIN_ATOMS.issuperset(map(type, value))
        rows = plain or all(rank_of(item) == 1 for item in value)
        if rows and not any(map(self.is_file, value)):
            return self.keep("other", value, place) if plain else self.walk_table(value, place)
        if self.reading.frames and type(value) is list and value and all(map(_is_frame, value)):
            return self.add(image_leaf(value, name, self.reading, **place.origin()))
        self.groups += 1
        group = self.groups
        places = (_Place(f"{name}[{i}]", None, group) for i in range(len(value)))
        return value, list(map(self.walk, value, places))

    def walk_table(self, value: Sequence[Any], place: _Place) -> int:
        """Keep rows of numbers together: in a batch of images, arrays may be one for each."""
        if not all(isinstance(item, (Tensor, np.ndarray)) for item in value):
            _reject_untyped(place.name, f"{type(value).__name__} of lists of numbers")
        index = self.keep("other", value, place)
        self.untyped.append(self.leaves[index])
        return index

    def walk_array(self, value: Any, place: _Place) -> Any:
        kind = tv_kind(value) or ("mask" if place.kind == "masks" else place.kind)
        if type(value) is not Tensor and is_pil(value):
            kind = "mask" if kind in ("mask", "labels") else "image"
        if kind == "image":
            return self.add(image_leaf(value, place.name, self.reading, **place.origin()))
        index = self.keep(kind or "other", value, place)
        if kind is None and value.ndim >= 2:
            self.untyped.append(self.leaves[index])
        return index

    def keep(self, kind: str, value: Any, place: _Place) -> int:
        """Add a leaf that isn't an image."""
        return self.add(Leaf(kind, value, like=value, name=place.name, **place.origin()))

    def add(self, leaf: Leaf) -> int:
        self.leaves.append(leaf)
        return len(self.leaves) - 1

    def resolve_files(self) -> None:
        """Find the image among files without a name, and refuse others that may be one."""
        if self.files is None:
            return
        found = any(leaf.kind == "image" for leaf in self.leaves)
        for leaf in self.unnamed_files:
            if not found and leaf.key is None:
                image = encoded_leaf(leaf.value, leaf.name, self.files)
                leaf.kind, leaf.value, leaf.batch = "image", image.value, image.batch
                leaf.layout, found = image.layout, True
            elif looks_like_file(leaf.value):
                _reject_untyped(leaf.name, "JPEG file beside the image")

    def resolve_untyped(self) -> None:
        """Find the image among a tuple's plain arrays, and refuse others that may have to move."""
        if not self.untyped:
            return
        image = next((leaf for leaf in self.leaves if leaf.kind == "image"), None)
        rest = []
        for leaf in self.untyped:
            table = isinstance(leaf.value, (list, tuple))
            if image is None and leaf.key is None and not table and may_be_image(leaf.value):
                found = image_leaf(leaf.value, leaf.name, self.reading)
                leaf.kind, leaf.value, leaf.batch = "image", found.value, found.batch
                leaf.layout, leaf.frames, image = found.layout, found.frames, leaf
            else:
                rest.append(leaf)
        for leaf in rest:
            if image is None or must_be_named(leaf.value, image.batch):
                cls = type(leaf.value).__name__
                shape = getattr(leaf.value, "shape", None)
                what = f"{cls} of rows" if shape is None else f"plain {cls} of shape {list(shape)}"
                _reject_untyped(leaf.name, what)

    def resolve_labels(self, batch: int | None) -> None:
        """Find the maps among labels: values of at least two dimensions that no boxes explain."""
        boxed = {leaf.group for leaf in self.leaves if leaf.kind == "boxes"}
        for leaf in self.leaves:
            if leaf.kind != "labels" or leaf.group in boxed:
                continue
            rank = rank_of(leaf.value) or 0
            if rank - (batch is not None) >= 2:
                leaf.kind = "mask"
            elif rank == 2 and must_be_named(leaf.value, batch):
                raise ValueError(
                    f"visops.transforms: {leaf.name} has shape {list(leaf.value.shape)} in a batch "
                    f"of {batch} images; must have an entry for each, or a name in "
                    "keys={'other': [...]}"
                )


def _is_frame(value: Any) -> bool:
    """Return whether a value in a list without a name can only be an image."""
    return may_be_image(value) and (is_pil(value) or value.ndim == 3)


def _reject_unmarked_masks(images: Sequence[Leaf]) -> None:
    """Refuse a PIL image of one band beside another image: it may well be a mask."""
    for leaf in reversed(images):
        picture = leaf.like
        if leaf.named is None and is_pil(picture) and picture.mode in PIL_MASKS:
            other = next(image for image in images if image is not leaf)
            raise TypeError(
                f"visops.transforms: {leaf.name} is a PIL image of mode {picture.mode!r} beside "
                f"{other.name}, and may be a mask; must be in a dict under 'mask' or 'image' (add "
                "names with keys={'mask': [...]}), or a tv_tensors.Mask or tv_tensors.Image"
            )


# Where files and their paths may stand for what is in them.
_FILES_ARE = {
    "image": " (DecodeJpeg, first in a chain, takes files and their paths)",
    "mask": " (a Loader reads the files of masks)",
}
_FILES_ARE["masks"] = _FILES_ARE["mask"]


def _reject_kind(place: _Place, what: str, hint: str = "") -> NoReturn:
    raise TypeError(
        f"visops.transforms: {place.name} is {what}, must be {_EXPECTED[place.kind]}{hint}"
    )


def _reject_untyped(name: str, what: str) -> None:
    raise TypeError(
        f"visops.transforms: {name} is a {what}, which may have to move with the image; must be a "
        "tv_tensor, or in a dict under a name that says what it is (add names with "
        "keys={'mask': [...]}; kind 'other' is for what doesn't move; a list of samples is for "
        "Compose.collate)"
    )


def _count(leaf: Leaf) -> str:
    return "one image" if leaf.batch is None else f"{leaf.batch} images"


def _reject_decoded(leaves: Sequence[Leaf]) -> None:
    """Refuse a sample without a file."""
    if not any(_holds_files(leaf) for leaf in leaves):
        decoded = next((leaf.name for leaf in leaves if leaf.kind == "image"), None)
        got = "no image" if decoded is None else f"{decoded}, which is decoded already"
        raise TypeError(
            f"visops.transforms.DecodeJpeg: found {got}; must be a JPEG file: a path, bytes or a "
            "1-d uint8 array, alone, first in a tuple, or under a known name"
        )


def _holds_files(leaf: Leaf) -> bool:
    first = leaf.value[0] if isinstance(leaf.value, list) and leaf.value else leaf.value
    return isinstance(first, Encoded)


def _known_by_type(value: Any) -> bool:
    """Return whether a value's type tells its kind, or will get it refused."""
    return tv_kind(value) is not None or is_pil(value) or getattr(value, "ndim", 0) >= 2


def _first_kind(value: Any) -> str | None:
    """Return the kind that the type of a value, or of its first entry, tells."""
    return tv_kind(value[0] if isinstance(value, (list, tuple)) and value else value)


def _build(spec: Any, leaves: list[Leaf]) -> Any:
    if type(spec) is int:
        leaf = leaves[spec]
        return restored_image(leaf) if leaf.kind == "image" else restored_target(leaf)
    if isinstance(spec, Annotations):
        batch = leaves[spec.indices["bbox"]].batch
        return spec.build(lambda index: restored_target(leaves[index]), batch)
    container, items = spec
    if type(container) is dict or isinstance(container, MutableMapping):
        out = container.copy() if type(container) is dict else copy.copy(container)
        for key, inner in items:
            out[key] = _build(inner, leaves)
            if type(inner) is int and leaves[inner].kind == "keypoints":
                visible = visibility_of(leaves[inner])
                if visible is not None:
                    out[f"{key}_visible"] = visible
        return out
    values = [_build(inner, leaves) for inner in items]
    if hasattr(container, "_fields"):  # a namedtuple
        return type(container)(*values)
    return type(container)(values)
