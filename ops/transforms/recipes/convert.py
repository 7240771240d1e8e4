"""Names of ``torchvision.transforms.v2`` that this package doesn't have itself.

Those that run in a chain as they are, sample by sample, are torchvision's own classes under the
same name, so that a recipe ports by changing its import. Others say what to use instead.
"""

import importlib
import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from torch import nn

from ..arguments import fail
from ..chain.effects import Fusable
from ..chain.nesting import Chain, Container, OfBatches
from ..classes import (
    blur,
    boxes,
    choosing,
    color,
    crop,
    curves,
    distortion,
    dropout,
    geometry,
    learned_policies,
    noise,
    policies,
    resize,
    target_crops,
    types,
    whole_images,
)
from ..compose import Compose
from .from_albumentations import from_albumentations, from_file
from .job import Job, other_hue, public_classes

# torchvision's own, which a chain runs outside its passes.
BORROWED = frozenset(
    (
        *("ClampKeyPoints", "InterpolationMode"),
        *("Lambda", "RGB", "SetClampingMode"),
    )
)
# What can't run in a chain, or isn't needed there, and what to use.
_INSTEAD = {
    "functional": "visops.augment, visops.warp_affine and torchvision.transforms.v2.functional",
    "ToTensorV2": "nothing: a chain returns tensors (ToDtype converts them)",
    "HorizontalFlip": "RandomHorizontalFlip",
    "VerticalFlip": "RandomVerticalFlip",
    "LongestMaxSize": "Letterbox or Resize(size, max_size=...)",
    "SmallestMaxSize": "Resize(size)",
    "Rotate": "RandomRotation",
    "Affine": "RandomAffine",
    "ShiftScaleRotate": "RandomAffine",
    "OneOf": "RandomChoice",
    "Sequential": "Compose",
    "BboxParams": "Compose(box_format=..., boxes='sanitize')",
    "KeypointParams": "Compose(keypoint_convention=...)",
    "GaussNoise": "GaussianNoise",
    "ImageCompression": "JPEG",
    "ToFloat": "ToDtype(torch.float32, scale=True)",
    "ToGray": "RandomGrayscale",
    "ChannelShuffle": "RandomChannelPermutation",
    "InvertImg": "RandomInvert",
}


def find(name: str) -> Any:
    """Return torchvision's class of a name.

    Raises
    ------
    AttributeError
        There is none that a chain can run, or torchvision isn't installed; the message says what to
        use instead.
    """
    if name in BORROWED:
        if importlib.util.find_spec("torchvision") is not None:
            return getattr(importlib.import_module("torchvision.transforms.v2"), name)
        reason = f"visops.transforms.{name} is torchvision's own, and torchvision isn't installed"
        raise AttributeError(reason)
    instead = _INSTEAD.get(name) or _spelt_otherwise(name)
    hint = "" if instead is None else f"; use {instead}"
    raise AttributeError(f"module 'visops.transforms' has no attribute {name!r}{hint}")


def _spelt_otherwise(name: str) -> str | None:
    """Return the public name that differs by capitals, or by torchvision's "Random"."""
    public: list[str] = sys.modules[__package__.removesuffix(".recipes")].__all__  # type: ignore[union-attr]
    spelt = {own.lower(): own for own in public}
    return spelt.get(name.lower()) or spelt.get(f"random{name.lower()}")


_MODULES = (
    *(blur, boxes, color, crop, curves, distortion, dropout, geometry),
    *(learned_policies, noise, policies, resize, target_crops, types, whole_images),
)
_SAME = public_classes(*_MODULES)  # with torchvision's names and arguments
_CHOOSERS = ("RandomApply", "RandomChoice", "RandomOrder")


def convert(pipeline: Any, **options: Any) -> Compose:
    """Turn a pipeline of torchvision or albumentations into a chain.

    Parameters
    ----------
    pipeline : callable or sequence of callable
        A ``Compose`` of ``torchvision.transforms``, ``torchvision.transforms.v2`` or
        albumentations, an ``nn.Sequential``, or a list of transforms. Also what
        ``albumentations.to_dict`` returned, or the path of what ``albumentations.save`` wrote.
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
    job = Job(converted, fills_masks="mask_fill" not in options)
    steps = converted(pipeline, job)
    if not steps and not (isinstance(pipeline, Sequence) and len(pipeline) == 0):
        steps = [types.Identity()]  # of transforms that do nothing to a chain's tensors
    if not steps:
        fail("convert", "pipeline", pipeline, "a pipeline of at least one transform")
    chain = Compose(steps, **{**job.options, **options})
    if job.notes:
        warnings.warn("visops.transforms.convert: " + "; ".join(job.notes), stacklevel=2)
    return chain


def converted(given: Any, job: Job) -> list[Any]:
    """Return the steps that do what a transform, or a list of them, does."""
    if isinstance(given, (str, os.PathLike)) or (isinstance(given, dict) and "transform" in given):
        given = from_file(given)
    if isinstance(given, (list, tuple, nn.Sequential)):
        return [step for item in given for step in converted(item, job)]
    if isinstance(given, (Fusable, Chain, Container)):
        return [given]
    cls = type(given)
    name, library = cls.__name__, cls.__module__.partition(".")[0]
    if library == "torchvision" and "transforms" in cls.__module__:
        return _from_torchvision(given, name, job)
    if library == "albumentations":
        return from_albumentations(given, name, job)
    if not callable(given) or isinstance(given, OfBatches):
        fail("convert", "pipeline", given, "transforms of single samples", TypeError)
    job.notes.append(f"{getattr(given, '__name__', name)} runs as it is, on each sample's image")
    return [given]


def _from_torchvision(given: Any, name: str, job: Job) -> list[Any]:
    if name == "Compose":
        return converted(list(given.transforms), job)
    if name in _CHOOSERS:
        inner = [job.group(item) for item in given.transforms]
        weights = {} if name == "RandomOrder" else {"p": given.p}
        return [getattr(choosing, name)(inner, **weights)]
    if name in ("FiveCrop", "TenCrop", "MixUp", "CutMix"):
        use = "a chain for each crop" if "Crop" in name else f"visops.transforms.{name} of batches"
        raise TypeError(
            f"visops.transforms.convert: {name} can't be in a chain of single samples; use {use}"
        )
    ours = _SAME.get(name)
    if ours is None:
        job.notes.append(f"{name} stays torchvision's and runs on its own")
        return [given]
    if name == "RandomPhotometricDistort" or (name == "ColorJitter" and given.hue is not None):
        job.notes.append(other_hue(name, "torchvision"))
    arguments = {}
    for argument in list(inspect.signature(ours.__init__).parameters)[1:]:
        value = getattr(given, argument, None)
        if value is not None and not (argument == "labels_getter" and callable(value)):
            arguments[argument] = value
    return [ours(**arguments)]
