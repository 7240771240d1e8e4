"""The options of a chain: their defaults, their checks, and what targets need of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NoReturn

import torch

from ..arguments import MASK_FILL, fail, flag, number, one_of, plain_number, whole
from ..sample.leaf import Leaf
from ..targets.options import TargetOptions, check_options
from .source import as_whole

DEFAULTS: dict[str, Any] = {
    "seed": None,
    "exact": False,
    "keys": None,
    "mask_fill": MASK_FILL,
    "boxes": "keep",
    "boxes_from": "boxes",
    "box_format": "xyxy",
    "min_size": 1.0,
    "min_area": 0.0,
    "min_visibility": 0.0,
    "keypoint_convention": "integer",
    "flip_pairs": (),
    "label_pairs": (),
    "mask_pairs": (),
    "per_frame": True,
    "layout": None,
    "memory_format": torch.contiguous_format,
}
_PAIRS = ("flip_pairs", "label_pairs", "mask_pairs")  # of what swaps in mirrored images
# What a chain takes over from the one around it, where another package's container is between.
_INHERITED = ("exact", "mask_fill", "boxes", "keypoint_convention", *_PAIRS)
# Beside the options of the chain around it: that one swaps, whatever mirrors within.
SWAPPED_OUTSIDE = "swapped outside"

_LIMITS = {"min_size": torch.inf, "min_area": torch.inf, "min_visibility": 1.0}


def given_options(options: Mapping[str, Any], owner: str = "Compose") -> dict[str, Any]:
    """Check the options of a chain, and return those that are given."""
    given = {name: value for name, value in options.items() if value is not None}
    seed, memory_format = options["seed"], given.get("memory_format", torch.contiguous_format)
    if seed is not None and as_whole(seed) is None:
        raise TypeError(
            f"visops.transforms.{owner}: seed is {seed!r}, must be a whole number or None"
        )
    if memory_format not in (torch.contiguous_format, torch.channels_last):
        raise ValueError(
            f"visops.transforms.{owner}: memory_format is {memory_format}, must be "
            "torch.contiguous_format or torch.channels_last"
        )
    if "mask_fill" in given:
        fill, allowed = given["mask_fill"], "a whole number of at most 64 bits"
        given["mask_fill"] = whole(owner, "mask_fill", fill, -(2**63), allowed, 2**63 - 1)
    if "layout" in given:
        one_of(owner, "layout", given["layout"], ("CHW", "HWC"), "'CHW', 'HWC' or None")
    for name in _PAIRS:
        if name in given:
            given[name] = _pairs(owner, name, given[name])
    for name in ("exact", "per_frame"):
        if name in given:
            given[name] = flag(owner, name, given[name])
    for name, most in _LIMITS.items():
        if name not in given:
            continue
        allowed = "a number in [0, 1]" if most == 1.0 else "a finite number >= 0"
        given[name] = number(owner, name, given[name], 0.0, most, allowed)
        if given.get("boxes") != "sanitize":
            raise ValueError(
                f"visops.transforms.{owner}: {name} is {given[name]:g}, must be left out unless "
                "boxes='sanitize'"
            )
    return given


def _pairs(owner: str, name: str, value: Any) -> tuple[tuple[Any, Any], ...]:
    """Check pairs of key points or classes, none of which is in two."""
    takes_names = name == "label_pairs"
    things = "names or of whole numbers >= 0" if takes_names else "whole numbers >= 0"
    allowed = f"pairs of {things}, each in one pair at most"
    if not isinstance(value, Sequence) or isinstance(value, str):
        fail(owner, name, value, allowed, TypeError)
    pairs: list[tuple[Any, Any]] = []
    for pair in value:
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            fail(owner, name, value, allowed)
        one, other = map(plain_number, pair)
        named = takes_names and isinstance(one, str) and isinstance(other, str)
        if not named and not all(map(_is_position, (one, other))):
            fail(owner, name, value, allowed)
        pairs.append((one, other))
    both = [own for pair in pairs for own in pair]
    if len(set(both)) < len(both):
        fail(owner, name, value, allowed)
    return tuple(pairs)


def _is_position(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def options_within(
    outer: Mapping[str, Any], named: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a chain that another package's container holds.

    Parameters
    ----------
    outer : mapping
        Those of the chain around it.
    named, given : mapping
        All of its own, and those that its caller gave it.
    """
    options = {name: outer[name] for name in _INHERITED} | dict(given)
    if outer.get(SWAPPED_OUTSIDE):
        options |= dict.fromkeys(_PAIRS, ())
    if named["mask_fill"] != MASK_FILL:
        options["mask_fill"] = named["mask_fill"]  # a fill may have said so
    if "boxes" not in given and options["boxes"] == "sanitize":
        options["boxes"] = "clamp"  # the outer chain drops them, with what belongs to them
    return options


def target_options(named: Mapping[str, Any]) -> TargetOptions:
    """Return the part of a chain's options that concerns targets, and check it."""
    fields = TargetOptions.__dataclass_fields__
    options = TargetOptions(**{name: named[name] for name in fields if name in named})
    check_options([], options)
    return options


def stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dict in which a memory format is its name: older pickles can't hold formats."""
    return {
        name: str(value).removeprefix("torch.") if isinstance(value, torch.memory_format) else value
        for name, value in values.items()
    }


def restored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `stored` was given."""
    found = dict(values)
    if "memory_format" in found:
        found["memory_format"] = getattr(torch, found["memory_format"])
    return found


@dataclass(frozen=True, slots=True)
class OutputTypes:
    """The types of a chain's results, where its transforms say so."""

    image: str = ""
    targets: str = ""

    def apply(self, leaves: Sequence[Leaf]) -> None:
        """Note the types in the leaves."""
        if self.image or self.targets:
            for leaf in leaves:
                leaf.form = self.image if leaf.kind == "image" else self.targets


def output_types_of(transforms: Sequence[Any]) -> OutputTypes:
    """Return what a chain's results come out as; its last word counts."""
    image = targets = ""
    for transform in transforms:
        if image.startswith("pil"):
            raise ValueError(
                "visops.transforms.ToPILImage: it is followed by "
                f"{type(transform).__name__}, must be the last transform of a chain"
            )
        form = getattr(transform, "form", "")
        if isinstance(form, str) and form:
            image = form
            targets = "pure" if form == "pure" else targets
    return OutputTypes(image, targets)


# What arguments of albumentations' Compose are here.
OF_ALBUMENTATIONS = {
    "bbox_params": "use box_format=, boxes='sanitize' and keys={'labels': [...]}",
    "keypoint_params": "use keypoint_convention=",
    "additional_targets": "use keys={'image': [...], 'mask': [...]}",
    "p": "use RandomApply(transforms, p)",
    "is_check_shapes": "leave it out: shapes are checked",
}


def reject_named(named: Mapping[str, Any]) -> NoReturn:
    """Raise the error of a call that gives a sample's parts by name, as albumentations takes it."""
    names = ", ".join(f"{name}=..." for name in named)
    entries = ", ".join(f"{name!r}: ..." for name in named)
    raise TypeError(
        f"visops.transforms.Compose: got {names}, takes the sample as one dict: "
        f"chain({{{entries}}})"
    )
