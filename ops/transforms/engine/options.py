"""The options of a chain: their defaults, their checks, and what targets need of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..arguments import MASK_FILL, fail, number, whole
from ..targets.options import TargetOptions, check_options
from .source import as_whole

__all__ = [
    "DEFAULTS",
    "INHERITED",
    "given_options",
    "restored",
    "stored",
    "target_options",
]

DEFAULTS: dict[str, Any] = {
    "seed": None,
    "exact": False,
    "keys": None,
    "mask_fill": MASK_FILL,
    "boxes": "keep",
    "boxes_from": "boxes",
    "min_size": 1.0,
    "min_area": 0.0,
    "min_visibility": 0.0,
    "keypoint_convention": "integer",
    "flip_pairs": (),
    "per_frame": True,
    "layout": None,
    "memory_format": torch.contiguous_format,
}
# What a chain takes over from the one around it, where another package's container is between.
INHERITED = ("exact", "mask_fill", "boxes", "keypoint_convention", "flip_pairs")

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
    if given.get("layout", "CHW") not in ("CHW", "HWC"):
        raise ValueError(
            f"visops.transforms.{owner}: layout is {given['layout']!r}, must be 'CHW', 'HWC' or "
            "None"
        )
    if "flip_pairs" in given:
        given["flip_pairs"] = _pairs(owner, given["flip_pairs"])
    for name in ("exact", "per_frame"):
        if name in given:
            given[name] = bool(given[name])
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


def _pairs(owner: str, value: Any) -> tuple[tuple[int, int], ...]:
    """Check pairs of key points, none of which is in two."""
    allowed = "pairs of whole numbers >= 0, each in one pair at most"
    if not isinstance(value, Sequence) or isinstance(value, str):
        fail(owner, "flip_pairs", value, allowed, TypeError)
    pairs = []
    for pair in value:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            fail(owner, "flip_pairs", value, allowed)
        pairs.append(
            (
                whole(owner, "flip_pairs", pair[0], 0, allowed),
                whole(owner, "flip_pairs", pair[1], 0, allowed),
            )
        )
    points = [point for pair in pairs for point in pair]
    if len(set(points)) < len(points):
        fail(owner, "flip_pairs", value, allowed)
    return tuple(pairs)


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
