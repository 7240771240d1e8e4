"""Makes a chain of another library's pipeline, and says what does not map."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from . import (
    additive,
    auto_augment,
    bending,
    blurring,
    box_steps,
    choosing,
    color,
    compressing,
    conversions,
    cropping,
    distortion,
    dropping,
    dtypes,
    erasing,
    geometric,
    linear,
    neighbourhoods,
    noise,
    policies,
    resizing,
    scaling,
    searching,
    symmetries,
    values,
)
from .arguments import fail
from .compose import Compose
from .engine.effects import Fusable
from .engine.nesting import Chain, Container, OfBatches

__all__ = ["convert"]

_MODULES = (
    *(additive, auto_augment, blurring, box_steps, color, conversions, cropping, distortion),
    *(dtypes, erasing, geometric, policies, resizing, scaling, symmetries, values),
    *(bending, compressing, linear, noise, searching),
)
# Our classes with torchvision's names and arguments.
_SAME: dict[str, Any] = {
    name: getattr(module, name)
    for module in _MODULES
    for name in module.__all__
    if name[0].isupper()
}
_CHOOSERS = ("RandomApply", "RandomChoice", "RandomOrder")
# cv2's interpolations by number; area is what antialias does.
_CV2 = {0: "nearest", 1: "bilinear", 2: "bicubic", 3: "bilinear"}


def convert(pipeline: Any, **options: Any) -> Compose:
    """Turn a pipeline of torchvision or albumentations into a chain.

    Parameters
    ----------
    pipeline : callable or sequence of callable
        A ``Compose`` of ``torchvision.transforms``, ``torchvision.transforms.v2`` or
        albumentations, an ``nn.Sequential``, or a list of transforms.
    **options
        Those of the :class:`Compose` that is returned: ``seed=0``.

    Returns
    -------
    Compose
        Its `print` shows the passes.

    Raises
    ------
    TypeError
        A transform can't be in a chain; the message says what to use.

    Warns
    -----
    UserWarning
        Names what stays the other library's and runs on its own, and what differs.

    Examples
    --------
    >>> from torchvision.transforms import v2
    >>> from visops import transforms
    >>> theirs = v2.Compose([v2.RandomHorizontalFlip(0.2), v2.Resize((32, 32))])
    >>> transforms.convert(theirs, seed=0)
    Compose(seed=0
      pass 1 (one pass)
        RandomHorizontalFlip(p=0.2)
        Resize(size=(32, 32), interpolation='bilinear', antialias=True)
    )
    """
    notes: list[str] = []
    steps = _converted(pipeline, notes)
    if not steps:
        fail("convert", "pipeline", pipeline, "a pipeline of at least one transform")
    chain = Compose(steps, **options)
    if notes:
        warnings.warn("visops.transforms.convert: " + "; ".join(notes), stacklevel=2)
    return chain


def _converted(given: Any, notes: list[str]) -> list[Any]:
    """Return the steps that do what a transform, or a list of them, does."""
    if isinstance(given, (list, tuple, nn.Sequential)):
        return [step for item in given for step in _converted(item, notes)]
    if isinstance(given, (Fusable, Chain, Container)):
        return [given]
    cls = type(given)
    name, library = cls.__name__, cls.__module__.partition(".")[0]
    if library == "torchvision" and "transforms" in cls.__module__:
        return _from_torchvision(given, name, notes)
    if library == "albumentations":
        return _from_albumentations(given, name, notes)
    if not callable(given) or isinstance(given, OfBatches):
        fail("convert", "pipeline", given, "transforms of single samples", TypeError)
    notes.append(f"{getattr(given, '__name__', name)} runs as it is, on each sample's image")
    return [given]


def _from_torchvision(given: Any, name: str, notes: list[str]) -> list[Any]:
    if name == "Compose":
        return _converted(list(given.transforms), notes)
    if name in _CHOOSERS:
        inner = [_group(item, notes) for item in given.transforms]
        weights = {} if name == "RandomOrder" else {"p": given.p}
        return [getattr(choosing, name)(inner, **weights)]
    if name in ("FiveCrop", "TenCrop", "MixUp", "CutMix"):
        use = "a chain for each crop" if "Crop" in name else f"visops.transforms.{name} of batches"
        raise TypeError(
            f"visops.transforms.convert: {name} can't be in a chain of single samples; use {use}"
        )
    ours = _SAME.get(name)
    if ours is None:
        notes.append(f"{name} stays torchvision's and runs on its own")
        return [given]
    arguments = {}
    for argument in list(inspect.signature(ours.__init__).parameters)[1:]:
        value = getattr(given, argument, None)
        if value is not None and not (argument == "labels_getter" and callable(value)):
            arguments[argument] = value
    return [ours(**arguments)]


def _group(item: Any, notes: list[str]) -> Any:
    """Return one transform of a chooser: a chain, where it becomes several."""
    steps = _converted(item, notes)
    return steps[0] if len(steps) == 1 else Compose(steps)


def _from_albumentations(given: Any, name: str, notes: list[str]) -> list[Any]:
    if name in ("Compose", "Sequential"):
        if any(given.processors.values() if hasattr(given, "processors") else ()):
            notes.append(
                "bbox_params and keypoint_params are left out: boxes are x1, y1, x2, y2 under "
                "'boxes', and Compose(boxes='sanitize', min_area=...) drops them"
            )
        steps = _converted(list(given.transforms), notes)
        return _at_times(steps, getattr(given, "p", 1.0))
    if name in ("OneOf", "RandomOrder"):
        inner = [_group(item, notes) for item in given.transforms]
        weights = [float(item.p) for item in given.transforms]
        one = (
            choosing.RandomChoice(inner, weights)
            if name == "OneOf"
            else choosing.RandomOrder(inner)
        )
        return _at_times([one], given.p)
    make = _ALBUMENTATIONS.get(name)
    if name in _ALIKE and (arguments := _arguments(given, _ALIKE[name])) is not None:
        return [_ALIKE[name](**arguments)]
    if make is None:
        notes.append(f"{name} stays albumentations' and runs on its own, on the image alone")
        return [given]
    return make(given)


def _at_times(steps: Sequence[Any], p: float) -> list[Any]:
    """Return steps that are taken with a probability."""
    if p >= 1.0 or not steps:
        return list(steps)
    return [choosing.RandomApply(steps, p)]


def _mode(given: Any) -> str:
    return _CV2.get(getattr(given, "interpolation", 1), "bilinear")


# Classes with albumentations' names and arguments.
_ALIKE: dict[str, Any] = {
    name: getattr(module, name)
    for module in (bending, dropping, neighbourhoods, noise)
    for name in module.__all__
    if name not in ("ElasticTransform", "GaussianNoise", "RandomHSV")
}
_BORDERS = {0: "constant", 1: "replicate", 2: "symmetric", 3: "circular", 4: "reflect"}  # cv2's
# Arguments that ours don't have, and the values with which that makes no difference.
_PLAIN: dict[str, Any] = {
    "fill_mask": (None, 0),
    "interpolation_pair": ({"downscale": 0, "upscale": 0},),
    "method": ("kernel",),
}


def _arguments(given: Any, ours: Any) -> dict[str, Any] | None:
    """Return the arguments for our class of the same name, or None where it can't do the same."""
    for name, alike in _PLAIN.items():
        if hasattr(given, name) and getattr(given, name) not in alike:
            return None
    if str(getattr(given, "fill", "")).startswith("inpaint"):
        return None
    arguments = {}
    for name in list(inspect.signature(ours.__init__).parameters)[1:]:
        if name == "interpolation":
            arguments[name] = _mode(given)
        elif name == "padding_mode":
            arguments[name] = _BORDERS.get(given.border_mode, "constant")
        elif hasattr(given, name):
            arguments[name] = getattr(given, name)
    return arguments


def _normalize(given: Any) -> list[Any]:
    steps = [
        dtypes.ToDtype(torch.float32, scale=given.max_pixel_value == 255.0),
        dtypes.Normalize(list(given.mean), list(given.std)),
    ]
    if given.max_pixel_value not in (255.0, 1.0):
        white = [given.max_pixel_value]
        steps.insert(1, dtypes.Normalize([0.0], white))
    return _at_times(steps, given.p)


_ALBUMENTATIONS: dict[str, Callable[[Any], list[Any]]] = {
    "HorizontalFlip": lambda t: [cropping.RandomHorizontalFlip(t.p)],
    "VerticalFlip": lambda t: [cropping.RandomVerticalFlip(t.p)],
    "ToGray": lambda t: [color.RandomGrayscale(t.p)],
    "ToTensorV2": lambda t: [],
    "NoOp": lambda t: [],
    "Normalize": _normalize,
    "RandomCrop": lambda t: _at_times([cropping.RandomCrop((t.height, t.width))], t.p),
    "CenterCrop": lambda t: _at_times([cropping.CenterCrop((t.height, t.width))], t.p),
    "Resize": lambda t: _at_times([resizing.Resize((t.height, t.width), _mode(t))], t.p),
    "SmallestMaxSize": lambda t: _at_times([resizing.Resize(t.max_size, _mode(t))], t.p),
    "RandomResizedCrop": lambda t: _at_times(
        [resizing.RandomResizedCrop(t.size, t.scale, t.ratio, _mode(t))], t.p
    ),
    "Rotate": lambda t: _at_times([geometric.RandomRotation(t.limit, _mode(t))], t.p),
    "ColorJitter": lambda t: _at_times(
        [color.ColorJitter(t.brightness, t.contrast, t.saturation, t.hue)], t.p
    ),
}
