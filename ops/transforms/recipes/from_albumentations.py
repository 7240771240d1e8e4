"""albumentations' transforms as those of a chain.

albumentations is archived; these are the transforms of its last release, 2.0.8, that have a
counterpart here. What a counterpart can't do, such as an argument that it doesn't have, stays
theirs and runs on the image alone.
"""

import copy
import inspect
from collections.abc import Callable
from typing import Any

from ..classes import (
    blur,
    choosing,
    color,
    curves,
    distortion,
    dropout,
    geometry,
    lens,
    light,
    noise,
    safe_crops,
    tilts,
    whole_images,
    windows,
)
from .albumentations_rows import BORDERS, CV2, ROWS, at_times, fill_of
from .job import Job, other_hue, public_classes


def from_albumentations(given: Any, name: str, job: Job) -> list[Any]:
    """Return the steps that do what a transform of theirs does, or itself."""
    if name in ("Compose", "Sequential"):
        for target, processor in getattr(given, "processors", {}).items():
            if target == "bboxes":
                _take_box_options(processor.params, job)
            else:
                job.notes.append(f"what {target} are is left out: Compose has keypoint_convention=")
        if getattr(given, "additional_targets", None):
            job.notes.append("additional_targets is left out: Compose has keys={'image': [...]}")
        steps = job.steps(list(given.transforms))
        return at_times(steps, getattr(given, "p", 1.0))
    if name == "OneOf":
        # Their p are weights: what is chosen is applied.
        inner = [job.group(_always(item)) for item in given.transforms]
        weights = [float(item.p) for item in given.transforms]
        return at_times([choosing.RandomChoice(inner, weights)], given.p)
    if name in ("RandomOrder", "SomeOf") and (chosen := _some_of(given, name, job)) is not None:
        return at_times([chosen], given.p)
    if name in _ALIKE and (arguments := _arguments(given, name, job)) is not None:
        ours = _ALIKE[name](**arguments)
        if name in _DIFFERS:
            differs, note = _DIFFERS[name]
            job.notes += [note] if differs(given) else []
        return [ours] if "p" in arguments else at_times([ours], given.p)
    make = ROWS.get(name)
    converted = make(given, job) if make is not None and _is_plain(given, name) else None
    if converted is not None:
        return converted
    near = f" ({_NEAR[name]} is near)" if name in _NEAR else ""
    moves = any(cls.__name__ == "DualTransform" for cls in type(given).__mro__)
    refuses = ", and refuses masks, boxes and key points beside it" if moves else ""
    job.notes.append(
        f"{name} stays albumentations' and runs on its own, on the image alone{refuses}{near}"
    )
    return [given]


def from_file(given: Any) -> Any:
    """Return the pipeline that ``albumentations.to_dict`` or ``albumentations.save`` wrote."""
    try:
        import albumentations
    except ImportError:
        raise ImportError(
            "visops.transforms.convert: a saved pipeline wants albumentations; run: "
            "pip install albumentations"
        ) from None
    if isinstance(given, dict):
        return albumentations.from_dict(given)
    form: Any = "yaml" if str(given).lower().endswith((".yaml", ".yml")) else "json"
    return albumentations.load(given, data_format=form)


# What to write instead of transforms that have no counterpart which does the same.
_NEAR = {
    "AdditiveNoise": "GaussianNoise",
    "CenterCrop3D": "CenterCrop(size) of a video",
    "CoarseDropout3D": "CoarseDropout",
    "ConstrainedCoarseDropout": "CoarseDropout",
    "GlassBlur": "AdvancedBlur",
    "GridElasticDeform": "GridDistortion",
    "ISONoise": "ShotNoise",
    "MaskDropout": "CoarseDropout",
    "Mosaic": "Mosaic(size) of a batch",
    "Pad3D": "Pad(padding) of a video",
    "PadIfNeeded3D": "PadIfNeeded(height, width) of a video",
    "PiecewiseAffine": "ElasticTransform",
    "PixelDropout": "SaltAndPepper",
    "PlanckianJitter": "ColorMatrix",
    "RandomCrop3D": "RandomCrop(size) of a video",
    "RandomFog": "PlasmaBrightnessContrast",
}


_BOX_FORMATS = {"coco": "xywh", "pascal_voc": "xyxy"}  # the others have the same names


def _take_box_options(params: Any, job: Job) -> None:
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


def _some_of(given: Any, name: str, job: Job) -> Any:
    """Return what applies some of a container's transforms; None where there is nothing alike."""
    if given.n == 1:
        return choosing.RandomChoice([job.group(item) for item in given.transforms])
    if name == "RandomOrder" and given.n == len(given.transforms) and not given.replace:
        return choosing.RandomOrder([job.group(item) for item in given.transforms])
    return None


# Classes with albumentations' names and arguments.
_OTHERS = ("ElasticTransform", "GaussianBlur", "GaussianNoise", "RandomGamma", "RandomHSV")
_RESIZING = ("RandomScale", "RandomSizedCrop")
_MODULES = (
    *(color, distortion, dropout, blur, noise, geometry, safe_crops, tilts, windows),
    *(curves, lens, light, whole_images),
)
_ALIKE = {
    name: cls
    for name, cls in public_classes(*_MODULES).items()
    if name not in _OTHERS and name not in _RESIZING
}

# Those whose values differ, and when.
_DIFFERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "CLAHE": (lambda _: True, "CLAHE takes colours through Lab in floats, theirs in whole numbers"),
    "ColorJitter": (lambda t: t.hue != (0.0, 0.0), other_hue("ColorJitter", "albumentations")),
    "OpticalDistortion": (
        lambda t: t.mode == "camera",
        "OpticalDistortion bends about the middle; theirs also shifts by half a pixel",
    ),
    "FancyPCA": (
        lambda _: True,
        "FancyPCA moves along principal axes; theirs takes channels for them",
    ),
    "Perspective": (
        lambda t: t.keep_size and not t.fit_output,
        "Perspective shows all of its quadrangle; theirs is enlarged once more",
    ),
    "SafeRotate": (
        lambda _: True,
        "SafeRotate turns images about their middle; theirs about half a pixel beside it",
    ),
    "PlasmaBrightnessContrast": (
        lambda _: True,
        "PlasmaBrightnessContrast takes negative amounts as they are; theirs takes them for 0",
    ),
    "RandomShadow": (
        lambda _: True,
        "RandomShadow leaves out pixels that its edges only touch",
    ),
    "ThinPlateSpline": (
        lambda _: True,
        "ThinPlateSpline brings its points where they are drawn; theirs misses them",
    ),
    "ZoomBlur": (lambda _: True, "ZoomBlur enlarges by parts of pixels; theirs by whole ones"),
}
# Arguments that ours don't have, and the values with which that makes no difference.
_PLAIN: dict[str, Any] = {
    "interpolation": tuple(CV2),
    "mask_interpolation": (0,),
    "interpolation_pair": ({"downscale": 0, "upscale": 0},),
    "method": ("bleach", "kernel", "weighted_average", "cdf", "pil"),
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
    if name in public_classes(dropout):  # ours leave masks, and have one value for all channels
        fill = getattr(given, "fill", 0)
        known = not isinstance(fill, (tuple, list)) and not str(fill).startswith("inpaint")
        return known and getattr(given, "fill_mask", None) is None
    if name == "CropAndPad" and not _has_ranges(given):
        return False
    only_constant = name in ("Perspective", "SafeRotate")
    if only_constant and given.border_mode != 0:
        return False
    outside = getattr(given, "fill_mask", 0)
    if outside is None:
        return True
    return not isinstance(outside, (tuple, list)) and float(outside).is_integer()


def _has_ranges(given: Any) -> bool:
    """Return whether borders are numbers and ranges: lists are choices, and so are fills."""
    borders = given.px if given.px is not None else given.percent
    sides = borders if isinstance(borders, (tuple, list)) else [borders]
    lists = [side for side in sides if isinstance(side, (tuple, list))]
    return all(len(side) == 2 for side in lists) and isinstance(given.fill, (int, float))


def _arguments(given: Any, name: str, job: Job) -> dict[str, Any] | None:
    """Return the arguments for our class of the same name, or None where it can't do the same."""
    if not _is_plain(given, name):
        return None
    arguments: dict[str, Any] = {}
    for own in list(inspect.signature(_ALIKE[name].__init__).parameters)[1:]:
        if own == "interpolation":
            arguments[own] = CV2[given.interpolation]
        elif own == "padding_mode":
            arguments[own] = BORDERS[given.border_mode]
        elif own == "fill" and hasattr(given, "border_mode"):
            arguments[own] = fill_of(given, job)
        elif hasattr(given, own):
            arguments[own] = getattr(given, own)
    if name == "GridDropout" and given.holes_number_xy:
        arguments["holes_number_xy"] = tuple(given.holes_number_xy)[::-1]  # theirs are rows first
    return arguments
