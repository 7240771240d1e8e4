"""albumentations' transforms as those of a chain.

albumentations is archived; these are the transforms of its last release, 2.0.8, that have a
counterpart here. What a counterpart can't do, such as an argument that it doesn't have, stays
theirs and runs on the image alone.
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..classes import (
    blur,
    choosing,
    color,
    crop,
    curves,
    distortion,
    dropout,
    geometry,
    noise,
    resize,
    types,
)
from .job import Job, other_hue, public_classes

# cv2's interpolations by number; area is what antialias does.
_AREA = 3
_CV2 = {0: "nearest", 1: "bilinear", 2: "bicubic", _AREA: "bilinear", 5: "bilinear", 6: "nearest"}


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
        return _at_times(steps, getattr(given, "p", 1.0))
    if name == "OneOf":
        # Their p are weights: what is chosen is applied.
        inner = [job.group(_always(item)) for item in given.transforms]
        weights = [float(item.p) for item in given.transforms]
        return _at_times([choosing.RandomChoice(inner, weights)], given.p)
    if name in ("RandomOrder", "SomeOf") and (chosen := _some_of(given, name, job)) is not None:
        return _at_times([chosen], given.p)
    if name in _ALIKE and (arguments := _arguments(given, name, job)) is not None:
        ours = _ALIKE[name](**arguments)
        if name in _DIFFERS:
            differs, note = _DIFFERS[name]
            job.notes += [note] if differs(given) else []
        return [ours] if "p" in arguments else _at_times([ours], given.p)
    make = _ALBUMENTATIONS.get(name)
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
    "AdvancedBlur": "GaussianBlur",
    "BBoxSafeRandomCrop": "RandomIoUCrop",
    "ConstrainedCoarseDropout": "CoarseDropout",
    "Crop": "CenterCrop",
    "CropNonEmptyMaskIfExists": "CropByCategory",
    "FrequencyMasking": "CoarseDropout",
    "HueSaturationValue": "RandomHSV",
    "ISONoise": "ShotNoise",
    "PadIfNeeded": "RandomCrop(pad_if_needed=True)",
    "Perspective": "RandomPerspective",
    "PiecewiseAffine": "ElasticTransform",
    "PixelDropout": "SaltAndPepper",
    "RandomScale": "ScaleJitter",
    "RandomSizedBBoxSafeCrop": "RandomIoUCrop",
    "RandomSizedCrop": "RandomResizedCrop",
    "SafeRotate": "RandomRotation(expand=True)",
    "TimeMasking": "CoarseDropout",
    "XYMasking": "CoarseDropout",
    "ZoomBlur": "MotionBlur",
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


def _at_times(steps: Sequence[Any], p: float) -> list[Any]:
    """Return steps that are taken with a probability."""
    if p >= 1.0 or not steps:
        return list(steps)
    return [choosing.RandomApply(steps, p)]


# Classes with albumentations' names and arguments.
_OTHERS = ("ElasticTransform", "GaussianBlur", "GaussianNoise", "RandomHSV")
_ALIKE = {
    name: cls
    for name, cls in public_classes(color, distortion, dropout, blur, noise, geometry).items()
    if name not in _OTHERS
}

# Those whose values differ, and when.
_DIFFERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "CLAHE": (lambda _: True, "CLAHE takes colours through Lab in floats, theirs in whole numbers"),
    "ColorJitter": (lambda t: t.hue != (0.0, 0.0), other_hue("ColorJitter", "albumentations")),
    "OpticalDistortion": (
        lambda t: t.mode == "camera",
        "OpticalDistortion bends about the middle; theirs also shifts by half a pixel",
    ),
    "ThinPlateSpline": (
        lambda _: True,
        "ThinPlateSpline brings its points where they are drawn; theirs misses them",
    ),
}
# cv2's
_BORDERS: dict[int, Any] = {
    0: "constant",
    1: "replicate",
    2: "symmetric",
    3: "circular",
    4: "reflect",
}
# Arguments that ours don't have, and the values with which that makes no difference.
_PLAIN: dict[str, Any] = {
    "interpolation": tuple(_CV2),
    "mask_interpolation": (0,),
    "interpolation_pair": ({"downscale": 0, "upscale": 0},),
    "method": ("kernel", "weighted_average", "cdf", "pil"),
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
    outside = getattr(given, "fill_mask", 0)
    if outside is None:
        return True
    return not isinstance(outside, (tuple, list)) and float(outside).is_integer()


def _arguments(given: Any, name: str, job: Job) -> dict[str, Any] | None:
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


def _fill(given: Any, job: Job) -> Any:
    """Return what shows outside the image, and, unless the chain says so, outside masks."""
    return {"Image": given.fill, "Mask": given.fill_mask} if job.fills_masks else given.fill


def _resized(
    given: Any, job: Job, make: Callable[..., Any], *arguments: Any, **more: Any
) -> list[Any]:
    """Return a transform that resizes: theirs doesn't filter, unless it averages over areas."""
    filters = given.interpolation == _AREA or getattr(given, "area_for_downscale", None) is not None
    if filters:
        job.notes.append(f"{type(given).__name__} averages with another filter than OpenCV's")
    elif given.interpolation == 0:
        job.notes.append(f"{type(given).__name__} takes the pixels of OpenCV's INTER_NEAREST_EXACT")
    step = make(*arguments, interpolation=_CV2[given.interpolation], antialias=filters, **more)
    return _at_times([step], given.p)


def _normalize(given: Any, job: Job) -> list[Any]:
    # Whatever the dtype: theirs divides by max_pixel_value, and knows no white.
    white = given.max_pixel_value
    mean, std = ([white * v for v in np.ravel(own).tolist()] for own in (given.mean, given.std))
    return _at_times([types.ToDtype(torch.float32), types.Normalize(mean, std)], given.p)


def _center_crop(given: Any, job: Job) -> list[Any]:
    job.notes.append("CenterCrop rounds halves to even, as torchvision's; theirs rounds them down")
    return _at_times([crop.CenterCrop((given.height, given.width))], given.p)


def _gaussian_blur(given: Any, job: Job) -> list[Any] | None:
    """Without limits their kernel has the size that sigma wants; ours, what the largest wants."""
    low, high = given.sigma_limit
    if low <= 0.0:
        return None
    if tuple(given.blur_limit) == (0, 0):
        sizes = [2 * int(3.5 * high) + 1]
    else:
        first, last = (max(3, size + (size % 2 == 0)) for size in given.blur_limit)
        sizes = list(range(first, max(first, last) + 1, 2))
    steps = [blur.GaussianBlur(size, (low, high)) for size in sizes]
    return _at_times(steps if len(steps) == 1 else [choosing.RandomChoice(steps)], given.p)


def _rotate(given: Any, job: Job) -> list[Any] | None:
    if _BORDERS[given.border_mode] != "constant":
        return None
    mode, fill = _CV2[given.interpolation], _fill(given, job)
    return _at_times([geometry.RandomRotation(given.limit, mode, fill=fill)], given.p)


def _smallest(given: Any, job: Job) -> list[Any] | None:
    if isinstance(given.max_size, (tuple, list)):
        return None
    job.notes.append("SmallestMaxSize rounds the longer side down")
    return _resized(given, job, resize.Resize, given.max_size)


def _compressed(given: Any, job: Job) -> list[Any] | None:
    if given.compression_type != "jpeg":
        return None
    job.notes.append("ImageCompression codes red as blue, and blue as red; JPEG doesn't")
    return [noise.JPEG(given.quality_range, given.p)]


def _affine(given: Any, job: Job) -> list[Any] | None:
    """Affine and ShiftScaleRotate, where they don't shear, and each range is ours as well."""
    low, high = given.scale["x"]
    alike = given.scale["x"] == given.scale["y"]
    one_factor = alike and (given.keep_ratio or low == high)
    if alike and not one_factor and type(given).__name__ == "ShiftScaleRotate":
        job.notes.append("ShiftScaleRotate scales both axes by one factor; theirs draws two")
        one_factor = True
    shifts = given.translate_percent or {"x": (0.0, 0.0), "y": (0.0, 0.0)}
    symmetric = all(shifts[axis][0] == -shifts[axis][1] for axis in "xy")
    sheared = any(given.shear[axis] != (0.0, 0.0) for axis in "xy")
    by_pixels = given.translate_px is not None and set(given.translate_px.values()) != {(0, 0)}
    other = given.fit_output or given.balanced_scale or by_pixels
    if sheared or other or not (one_factor and symmetric) or given.border_mode != 0:
        return None
    degrees = -given.rotate[1], -given.rotate[0]  # theirs turn the other way
    translate = shifts["x"][1], shifts["y"][1]
    moves = None if translate == (0.0, 0.0) else translate
    mode, fill = _CV2[given.interpolation], _fill(given, job)
    step = geometry.RandomAffine(degrees, moves, (low, high), interpolation=mode, fill=fill)
    return _at_times([step], given.p)


def _longest(given: Any, job: Job) -> list[Any] | None:
    if not isinstance(given.max_size, int):
        return None
    job.notes.append("LongestMaxSize rounds the shorter side down")
    return _resized(given, job, resize.Resize, None, max_size=given.max_size)


def _elastic(given: Any, job: Job) -> list[Any] | None:
    # Gaussian noise is divided by the largest number of the image; ours is uniform.
    if given.approximate or given.same_dxdy or given.noise_distribution != "uniform":
        return None
    if _BORDERS[given.border_mode] != "constant":
        return None
    mode, fill = _CV2[given.interpolation], _fill(given, job)
    alpha = 2.0 * given.alpha  # torchvision's is in halves of pixels
    return _at_times([distortion.ElasticTransform(alpha, given.sigma, mode, fill)], given.p)


def _posterize(given: Any, job: Job) -> list[Any] | None:
    if isinstance(given.num_bits, list):
        return None
    low, high = given.num_bits
    steps = [curves.RandomPosterize(bits, p=1.0) for bits in range(low, high + 1)]
    return _at_times(steps if low == high else [choosing.RandomChoice(steps)], given.p)


def _solarize(given: Any, job: Job) -> list[Any] | None:
    low, high = given.threshold_range
    if low != high:
        return None
    job.notes.append("Solarize has the threshold of uint8 images")
    return [curves.RandomSolarize(255.0 * low, given.p)]


def _equalize(given: Any, job: Job) -> list[Any] | None:
    if not given.by_channels or given.mask is not None:
        return None
    job.notes.append("Equalize follows Pillow's rule")
    return [curves.RandomEqualize(given.p)]


def _auto_contrast(given: Any, job: Job) -> list[Any] | None:
    if given.cutoff != 0 or given.ignore is not None or given.method != "pil":
        return None
    return [curves.RandomAutocontrast(given.p)]


def _gauss_noise(given: Any, job: Job) -> list[Any] | None:
    if not given.per_channel or given.noise_scale_factor != 1 or given.mean_range != (0.0, 0.0):
        return None
    return [noise.GaussianNoise(0.0, given.std_range, p=given.p)]


def _multiplied(given: Any, job: Job) -> list[Any] | None:
    if given.per_channel or given.elementwise:
        return None
    return _at_times([color.ColorJitter(brightness=given.multiplier)], given.p)


def _erasing(given: Any, job: Job) -> list[Any] | None:
    if not isinstance(given.fill, (int, float)) or given.fill_mask is not None:
        return None
    job.notes.append("Erasing draws its rectangle as torchvision does")
    return [dropout.RandomErasing(given.p, given.scale, given.ratio, float(given.fill))]


def _to_float(given: Any, job: Job) -> list[Any]:
    if given.max_value is None:
        return _at_times([types.ToDtype(torch.float32, scale=True)], given.p)
    steps = [types.ToDtype(torch.float32), types.Normalize([0.0], [float(given.max_value)])]
    return _at_times(steps, given.p)


def _from_float(given: Any, job: Job) -> list[Any] | None:
    if given.dtype != "uint8" or given.max_value not in (None, 255):
        return None
    return _at_times([types.ToDtype(torch.uint8, scale=True)], given.p)


def _pad(given: Any, job: Job) -> list[Any]:
    mode = _BORDERS[given.border_mode]
    fill = _fill(given, job) if mode == "constant" else 0
    padding = given.padding
    padding = list(padding) if isinstance(padding, (tuple, list)) else padding
    return _at_times([crop.Pad(padding, fill, mode)], given.p)


_SEPIA = [[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]]

# From their transform to ours; None: ours can't do it.
_ALBUMENTATIONS: dict[str, Callable[[Any, Job], list[Any] | None]] = {
    "HorizontalFlip": lambda t, _: [crop.RandomHorizontalFlip(t.p)],
    "VerticalFlip": lambda t, _: [crop.RandomVerticalFlip(t.p)],
    "ToGray": lambda t, _: [color.RandomGrayscale(t.p)],
    "ToTensorV2": lambda t, _: [],
    "NoOp": lambda t, _: [],
    "Normalize": _normalize,
    "RandomCrop": lambda t, _: _at_times([crop.RandomCrop((t.height, t.width))], t.p),
    "CenterCrop": _center_crop,
    "Resize": lambda t, job: _resized(t, job, resize.Resize, (t.height, t.width)),
    "SmallestMaxSize": _smallest,
    "ImageCompression": _compressed,
    "RandomResizedCrop": lambda t, job: _resized(
        t, job, resize.RandomResizedCrop, t.size, t.scale, t.ratio
    ),
    "Rotate": _rotate,
    "RandomGamma": lambda t, _: [
        curves.RandomGamma([percent / 100.0 for percent in t.gamma_limit], t.p)
    ],
    "Affine": _affine,
    "AutoContrast": _auto_contrast,
    "ChannelShuffle": lambda t, _: _at_times([color.RandomChannelPermutation()], t.p),
    "ElasticTransform": _elastic,
    "Equalize": _equalize,
    "Erasing": _erasing,
    "FromFloat": _from_float,
    "GaussNoise": _gauss_noise,
    "GaussianBlur": _gaussian_blur,
    "InvertImg": lambda t, _: [curves.RandomInvert(t.p)],
    "LongestMaxSize": _longest,
    "MultiplicativeNoise": _multiplied,
    "Pad": _pad,
    "Posterize": _posterize,
    "ShiftScaleRotate": _affine,
    "Solarize": _solarize,
    "SquareSymmetry": lambda t, _: [geometry.D4(t.p)],
    "TimeReverse": lambda t, _: [crop.RandomHorizontalFlip(t.p)],
    "ToFloat": _to_float,
    "ToSepia": lambda t, _: [color.ColorMatrix(_SEPIA, p=t.p)],
}
