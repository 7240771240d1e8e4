"""Names of ``torchvision.transforms.v2`` that this package doesn't have itself.

Those that run in a chain as they are, sample by sample, are torchvision's own classes under the
same name, so that a recipe ports by changing its import. Others say what to use instead.
"""

import copy
import importlib
import importlib.util
import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from ..arguments import fail
from ..chain.effects import Fusable
from ..chain.nesting import Chain, Container, OfBatches
from ..classes import blur as blurring
from ..classes import blur as neighbourhoods
from ..classes import boxes as box_steps
from ..classes import choosing, color, noise, policies
from ..classes import color as additive
from ..classes import color as distortion
from ..classes import crop as cropping
from ..classes import curves as values
from ..classes import distortion as bending
from ..classes import dropout as dropping
from ..classes import dropout as erasing
from ..classes import geometry as geometric
from ..classes import geometry as symmetries
from ..classes import learned_policies as auto_augment
from ..classes import noise as compressing
from ..classes import resize as resizing
from ..classes import resize as scaling
from ..classes import target_crops as searching
from ..classes import types as conversions
from ..classes import types as dtypes
from ..classes import whole_images as linear
from ..compose import Compose

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
    "Perspective": "RandomPerspective",
    "OneOf": "RandomChoice",
    "Sequential": "Compose",
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
    instead = _INSTEAD.get(name)
    hint = "" if instead is None else f"; use {instead}"
    raise AttributeError(f"module 'visops.transforms' has no attribute {name!r}{hint}")


_MODULES = (
    *(additive, auto_augment, blurring, box_steps, color, conversions, cropping, distortion),
    *(dtypes, erasing, geometric, policies, resizing, scaling, symmetries, values),
    *(bending, compressing, linear, noise, searching),
)


def _classes(*modules: Any) -> dict[str, Any]:
    """Return the public classes that modules define."""
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and name[0] != "_"
    }


_SAME = _classes(*_MODULES)  # with torchvision's names and arguments
_CHOOSERS = ("RandomApply", "RandomChoice", "RandomOrder")
# cv2's interpolations by number; area is what antialias does.
_AREA = 3
_CV2 = {0: "nearest", 1: "bilinear", 2: "bicubic", _AREA: "bilinear", 5: "bilinear", 6: "nearest"}


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
    job = _Job(fills_masks="mask_fill" not in options)
    steps = _converted(pipeline, job)
    if not steps and not (isinstance(pipeline, Sequence) and len(pipeline) == 0):
        steps = [conversions.Identity()]  # of transforms that do nothing to a chain's tensors
    if not steps:
        fail("convert", "pipeline", pipeline, "a pipeline of at least one transform")
    chain = Compose(steps, **{**job.options, **options})
    if job.notes:
        warnings.warn("visops.transforms.convert: " + "; ".join(job.notes), stacklevel=2)
    return chain


@dataclass
class _Job:
    """One call of `convert`."""

    fills_masks: bool  # whether transforms say what masks are outside the image, as theirs do
    notes: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)  # of the chain, where the caller has none


def _converted(given: Any, job: _Job) -> list[Any]:
    """Return the steps that do what a transform, or a list of them, does."""
    if isinstance(given, (list, tuple, nn.Sequential)):
        return [step for item in given for step in _converted(item, job)]
    if isinstance(given, (Fusable, Chain, Container)):
        return [given]
    cls = type(given)
    name, library = cls.__name__, cls.__module__.partition(".")[0]
    if library == "torchvision" and "transforms" in cls.__module__:
        return _from_torchvision(given, name, job)
    if library == "albumentations":
        return _from_albumentations(given, name, job)
    if not callable(given) or isinstance(given, OfBatches):
        fail("convert", "pipeline", given, "transforms of single samples", TypeError)
    job.notes.append(f"{getattr(given, '__name__', name)} runs as it is, on each sample's image")
    return [given]


def _from_torchvision(given: Any, name: str, job: _Job) -> list[Any]:
    if name == "Compose":
        return _converted(list(given.transforms), job)
    if name in _CHOOSERS:
        inner = [_group(item, job) for item in given.transforms]
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
    arguments = {}
    for argument in list(inspect.signature(ours.__init__).parameters)[1:]:
        value = getattr(given, argument, None)
        if value is not None and not (argument == "labels_getter" and callable(value)):
            arguments[argument] = value
    return [ours(**arguments)]


def _group(item: Any, job: _Job) -> Any:
    """Return one transform of a chooser: a chain, where it becomes several."""
    steps = _converted(item, job) or [conversions.Identity()]
    return steps[0] if len(steps) == 1 else Compose(steps)


def _from_albumentations(given: Any, name: str, job: _Job) -> list[Any]:
    if name in ("Compose", "Sequential"):
        for target, processor in getattr(given, "processors", {}).items():
            if target == "bboxes":
                _take_box_options(processor.params, job)
            else:
                job.notes.append(f"what {target} are is left out: Compose has keypoint_convention=")
        steps = _converted(list(given.transforms), job)
        return _at_times(steps, getattr(given, "p", 1.0))
    if name == "OneOf":
        # Their p are weights: what is chosen is applied.
        inner = [_group(_always(item), job) for item in given.transforms]
        weights = [float(item.p) for item in given.transforms]
        return _at_times([choosing.RandomChoice(inner, weights)], given.p)
    if name in ("RandomOrder", "SomeOf") and (chosen := _some_of(given, name, job)) is not None:
        return _at_times([chosen], given.p)
    if name in _ALIKE and (arguments := _arguments(given, name, job)) is not None:
        return [_ALIKE[name](**arguments)]
    make = _ALBUMENTATIONS.get(name)
    converted = make(given, job) if make is not None and _is_plain(given, name) else None
    if converted is not None:
        return converted
    job.notes.append(f"{name} stays albumentations' and runs on its own, on the image alone")
    return [given]


_BOX_FORMATS = {"coco": "xywh", "pascal_voc": "xyxy"}  # the others have the same names


def _take_box_options(params: Any, job: _Job) -> None:
    """Let the chain read and drop boxes as albumentations' BboxParams say."""
    form = _BOX_FORMATS.get(params.format, params.format)
    job.options |= {"box_format": form, "boxes": "sanitize"}
    job.options |= {"min_area": params.min_area, "min_visibility": params.min_visibility}
    job.options["min_size"] = max(params.min_width, params.min_height)
    if params.min_width != params.min_height:
        job.notes.append("both sides of a box must have the larger of min_width and min_height")
    if getattr(params, "max_accept_ratio", None) is not None:
        job.notes.append("max_accept_ratio is left out")
    if params.label_fields:
        job.options["keys"] = {"labels": list(params.label_fields)}


def _always(given: Any) -> Any:
    """Return a transform that OneOf has chosen: it leaves the decision to the others."""
    if type(given).__name__ in ("SomeOf", "RandomOrder"):
        return given
    forced = copy.copy(given)
    forced.p = 1.0
    return forced


def _some_of(given: Any, name: str, job: _Job) -> Any:
    """Return what applies some of a container's transforms; None where there is nothing alike."""
    if given.n == 1:
        return choosing.RandomChoice([_group(item, job) for item in given.transforms])
    if name == "RandomOrder" and given.n == len(given.transforms) and not given.replace:
        return choosing.RandomOrder([_group(item, job) for item in given.transforms])
    return None


def _at_times(steps: Sequence[Any], p: float) -> list[Any]:
    """Return steps that are taken with a probability."""
    if p >= 1.0 or not steps:
        return list(steps)
    return [choosing.RandomApply(steps, p)]


# Classes with albumentations' names and arguments.
_ALIKE = {
    name: cls
    for name, cls in _classes(
        additive, bending, dropping, neighbourhoods, noise, symmetries
    ).items()
    if name not in ("ElasticTransform", "GaussianNoise", "RandomHSV", "RandomChannelPermutation")
}
_BORDERS = {0: "constant", 1: "replicate", 2: "symmetric", 3: "circular", 4: "reflect"}  # cv2's
# Arguments that ours don't have, and the values with which that makes no difference.
_PLAIN: dict[str, Any] = {
    "interpolation": tuple(_CV2),
    "mask_interpolation": (0,),
    "interpolation_pair": ({"downscale": 0, "upscale": 0},),
    "method": ("kernel", "weighted_average"),
    "brightness_by_max": (True,),
    "ensure_safe_range": (False,),
    "normalization": ("standard",),
    "num_output_channels": (3,),
    "pad_if_needed": (False,),
    "crop_border": (False,),
    "rotate_method": ("largest_box",),
    "max_size_hw": (None,),
}


def _is_plain(given: Any, name: str) -> bool:
    """Return whether a transform has no argument that ours would ignore."""
    if any(getattr(given, own, alike[0]) not in alike for own, alike in _PLAIN.items()):
        return False
    if name in _classes(dropping):  # ours leave masks, and have one value for all channels
        fill = getattr(given, "fill", 0)
        known = not isinstance(fill, (tuple, list)) and not str(fill).startswith("inpaint")
        return known and getattr(given, "fill_mask", None) is None
    outside = getattr(given, "fill_mask", 0)
    return not isinstance(outside, (tuple, list)) and float(outside).is_integer()


def _arguments(given: Any, name: str, job: _Job) -> dict[str, Any] | None:
    """Return the arguments for our class of the same name, or None where it can't do the same."""
    if not _is_plain(given, name):
        return None
    arguments: dict[str, Any] = {}
    for own in list(inspect.signature(_ALIKE[name].__init__).parameters)[1:]:
        if own == "interpolation":
            arguments[own] = _CV2[given.interpolation]
        elif own == "padding_mode":
            arguments[own] = _BORDERS[given.border_mode]
        elif own == "fill" and hasattr(given, "border_mode"):
            arguments[own] = _fill(given, job)
        elif hasattr(given, own):
            arguments[own] = getattr(given, own)
    if name == "GridDropout" and given.holes_number_xy:
        arguments["holes_number_xy"] = tuple(given.holes_number_xy)[::-1]  # theirs are rows first
    return arguments


def _fill(given: Any, job: _Job) -> Any:
    """Return what shows outside the image, and, unless the chain says so, outside masks."""
    return {"Image": given.fill, "Mask": given.fill_mask} if job.fills_masks else given.fill


def _resized(given: Any, job: _Job, make: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return a transform that resizes: theirs doesn't filter, unless it averages over areas."""
    filters = given.interpolation == _AREA or getattr(given, "area_for_downscale", None) is not None
    if filters:
        job.notes.append(f"{type(given).__name__} averages with another filter than OpenCV's")
    elif given.interpolation == 0:
        job.notes.append(f"{type(given).__name__} takes the pixels of OpenCV's INTER_NEAREST_EXACT")
    step = make(*arguments, interpolation=_CV2[given.interpolation], antialias=filters)
    return _at_times([step], given.p)


def _normalize(given: Any, job: _Job) -> list[Any]:
    # Whatever the dtype: theirs divides by max_pixel_value, and knows no white.
    white = given.max_pixel_value
    mean, std = ([white * v for v in np.ravel(own).tolist()] for own in (given.mean, given.std))
    return _at_times([dtypes.ToDtype(torch.float32), dtypes.Normalize(mean, std)], given.p)


def _rotate(given: Any, job: _Job) -> list[Any] | None:
    if _BORDERS[given.border_mode] != "constant":
        return None
    mode, fill = _CV2[given.interpolation], _fill(given, job)
    return _at_times([geometric.RandomRotation(given.limit, mode, fill=fill)], given.p)


def _smallest(given: Any, job: _Job) -> list[Any] | None:
    if isinstance(given.max_size, (tuple, list)):
        return None
    job.notes.append("SmallestMaxSize rounds the longer side down")
    return _resized(given, job, resizing.Resize, given.max_size)


def _compressed(given: Any, job: _Job) -> list[Any] | None:
    if given.compression_type != "jpeg":
        return None
    job.notes.append("ImageCompression codes red as blue, and blue as red; JPEG doesn't")
    return [compressing.JPEG(given.quality_range, given.p)]


# From their transform to ours; None: ours can't do it.
_ALBUMENTATIONS: dict[str, Callable[[Any, _Job], list[Any] | None]] = {
    "HorizontalFlip": lambda t, _: [cropping.RandomHorizontalFlip(t.p)],
    "VerticalFlip": lambda t, _: [cropping.RandomVerticalFlip(t.p)],
    "ToGray": lambda t, _: [color.RandomGrayscale(t.p)],
    "ToTensorV2": lambda t, _: [],
    "NoOp": lambda t, _: [],
    "Normalize": _normalize,
    "RandomCrop": lambda t, _: _at_times([cropping.RandomCrop((t.height, t.width))], t.p),
    "CenterCrop": lambda t, _: _at_times([cropping.CenterCrop((t.height, t.width))], t.p),
    "Resize": lambda t, job: _resized(t, job, resizing.Resize, (t.height, t.width)),
    "SmallestMaxSize": _smallest,
    "ImageCompression": _compressed,
    "RandomResizedCrop": lambda t, job: _resized(
        t, job, resizing.RandomResizedCrop, t.size, t.scale, t.ratio
    ),
    "Rotate": _rotate,
    "ColorJitter": lambda t, _: _at_times(
        [color.ColorJitter(t.brightness, t.contrast, t.saturation, t.hue)], t.p
    ),
    "RandomGamma": lambda t, _: [
        values.RandomGamma([percent / 100.0 for percent in t.gamma_limit], t.p)
    ],
}
