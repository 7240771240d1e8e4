"""What albumentations' transforms are here where names or arguments differ."""

import copy
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..._torch.options import Interpolation
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
    safe_crops,
    tilts,
    types,
    windows,
)
from .job import Job

# cv2's interpolations by number; area is what antialias does.
_AREA = 3
CV2: dict[int, Interpolation] = {
    **{0: "nearest", 1: "bilinear", 2: "bicubic"},
    **{_AREA: "bilinear", 5: "bilinear", 6: "nearest"},
}
# cv2's
BORDERS: dict[int, Any] = {
    0: "constant",
    1: "replicate",
    2: "symmetric",
    3: "circular",
    4: "reflect",
}


def at_times(steps: Sequence[Any], p: float) -> list[Any]:
    """Return steps that are taken with a probability."""
    if p >= 1.0 or not steps:
        return list(steps)
    return [choosing.RandomApply(steps, p)]


def fill_of(given: Any, job: Job) -> Any:
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
    step = make(*arguments, interpolation=CV2[given.interpolation], antialias=filters, **more)
    return at_times([step], given.p)


def _normalize(given: Any, job: Job) -> list[Any]:
    # Whatever the dtype: theirs divides by max_pixel_value, and knows no white.
    white = given.max_pixel_value
    mean, std = ([white * v for v in np.ravel(own).tolist()] for own in (given.mean, given.std))
    return at_times([types.ToDtype(torch.float32), types.Normalize(mean, std)], given.p)


def _center_crop(given: Any, job: Job) -> list[Any]:
    job.notes.append("CenterCrop rounds halves to even, as torchvision's; theirs rounds them down")
    return at_times([crop.CenterCrop((given.height, given.width))], given.p)


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
    return at_times(steps if len(steps) == 1 else [choosing.RandomChoice(steps)], given.p)


def _rotate(given: Any, job: Job) -> list[Any] | None:
    if BORDERS[given.border_mode] != "constant":
        return None
    mode, fill = CV2[given.interpolation], fill_of(given, job)
    return at_times([geometry.RandomRotation(given.limit, mode, fill=fill)], given.p)


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
    mode, fill = CV2[given.interpolation], fill_of(given, job)
    step = geometry.RandomAffine(degrees, moves, (low, high), interpolation=mode, fill=fill)
    return at_times([step], given.p)


def _sized_safe_crop(given: Any, job: Job) -> list[Any]:
    always = copy.copy(given)
    always.p = 1.0
    size = (given.height, given.width)
    resized = _resized(always, job, resize.Resize, size)
    return at_times([safe_crops.BBoxSafeRandomCrop(given.erosion_rate), *resized], given.p)


def _longest(given: Any, job: Job) -> list[Any] | None:
    if not isinstance(given.max_size, int):
        return None
    job.notes.append("LongestMaxSize rounds the shorter side down")
    return _resized(given, job, resize.Resize, None, max_size=given.max_size)


def _elastic(given: Any, job: Job) -> list[Any] | None:
    # Gaussian noise is divided by the largest number of the image; ours is uniform.
    if given.approximate or given.same_dxdy or given.noise_distribution != "uniform":
        return None
    if BORDERS[given.border_mode] != "constant":
        return None
    mode, fill = CV2[given.interpolation], fill_of(given, job)
    alpha = 2.0 * given.alpha  # torchvision's is in halves of pixels
    return at_times([distortion.ElasticTransform(alpha, given.sigma, mode, fill)], given.p)


def _posterize(given: Any, job: Job) -> list[Any] | None:
    if isinstance(given.num_bits, list):
        return None
    low, high = given.num_bits
    steps = [curves.RandomPosterize(bits, p=1.0) for bits in range(low, high + 1)]
    return at_times(steps if low == high else [choosing.RandomChoice(steps)], given.p)


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
    return at_times([color.ColorJitter(brightness=given.multiplier)], given.p)


def _erasing(given: Any, job: Job) -> list[Any] | None:
    if not isinstance(given.fill, (int, float)) or given.fill_mask is not None:
        return None
    job.notes.append("Erasing draws its rectangle as torchvision does")
    return [dropout.RandomErasing(given.p, given.scale, given.ratio, float(given.fill))]


def _to_float(given: Any, job: Job) -> list[Any]:
    if given.max_value is None:
        return at_times([types.ToDtype(torch.float32, scale=True)], given.p)
    steps = [types.ToDtype(torch.float32), types.Normalize([0.0], [float(given.max_value)])]
    return at_times(steps, given.p)


def _to_rgb(given: Any, job: Job) -> list[Any] | None:
    """As torchvision's class, which runs in a chain as it is."""
    if importlib.util.find_spec("torchvision") is None:
        return None
    rgb = importlib.import_module("torchvision.transforms.v2").RGB
    return at_times([rgb()], given.p)


def _from_float(given: Any, job: Job) -> list[Any] | None:
    if given.dtype != "uint8" or given.max_value not in (None, 255):
        return None
    return at_times([types.ToDtype(torch.uint8, scale=True)], given.p)


def _pad(given: Any, job: Job) -> list[Any]:
    mode = BORDERS[given.border_mode]
    fill = fill_of(given, job) if mode == "constant" else 0
    padding = given.padding
    padding = list(padding) if isinstance(padding, (tuple, list)) else padding
    return at_times([crop.Pad(padding, fill, mode)], given.p)


def _additive(given: Any, job: Job) -> list[Any] | None:
    plain = given.noise_type == "gaussian" and given.spatial_mode == "per_pixel"
    if not plain or given.approximation != 1.0:
        return None
    low, high = given.noise_params["mean_range"]
    if low != high:
        return None
    return [noise.GaussianNoise(low, given.noise_params["std_range"], p=given.p)]


def _pixel_dropout(given: Any, job: Job) -> list[Any] | None:
    """Pixels that become black are pepper."""
    if given.per_channel or given.drop_value != 0 or given.mask_drop_value is not None:
        return None
    share = given.dropout_prob
    return [noise.SaltAndPepper((share, share), (0.0, 0.0), p=given.p)]


def _masking(given: Any, job: Job) -> list[Any] | None:
    """Stripes from one border to the other are holes of any height or width."""
    fill = given.fill
    if not isinstance(fill, (int, float, str)) or str(fill).startswith("inpaint"):
        return None
    if given.fill_mask is not None:
        job.notes.append(f"{type(given).__name__} leaves masks alone")
    steps = []
    for count, length, along_x in (
        (given.num_masks_x, given.mask_x_length, True),
        (given.num_masks_y, given.mask_y_length, False),
    ):
        counts, lengths = (
            tuple(own) if isinstance(own, (tuple, list)) else (own, own) for own in (count, length)
        )
        if counts[1] > 0 and lengths[1] > 0:
            heights, widths = (_WHOLE_SIDE, lengths) if along_x else (lengths, _WHOLE_SIDE)
            steps.append(dropout.CoarseDropout(counts, heights, widths, fill, 1.0))
    return at_times(steps or [types.Identity()], given.p)


_WHOLE_SIDE = (2**40, 2**40)  # holes end with the image
_SEPIA = [[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]]

# From their transform to ours; None: ours can't do it.
ROWS: dict[str, Callable[[Any, Job], list[Any] | None]] = {
    "HorizontalFlip": lambda t, _: [crop.RandomHorizontalFlip(t.p)],
    "VerticalFlip": lambda t, _: [crop.RandomVerticalFlip(t.p)],
    "ToGray": lambda t, _: [color.RandomGrayscale(t.p)],
    "ToTensor3D": lambda t, _: [],
    "ToTensorV2": lambda t, _: [],
    "NoOp": lambda t, _: [],
    "Normalize": _normalize,
    "RandomCrop": lambda t, _: at_times([crop.RandomCrop((t.height, t.width))], t.p),
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
    "AdditiveNoise": _additive,
    "AutoContrast": _auto_contrast,
    "ChannelShuffle": lambda t, _: at_times([color.RandomChannelPermutation()], t.p),
    "ElasticTransform": _elastic,
    "Equalize": _equalize,
    "Erasing": _erasing,
    "FrequencyMasking": _masking,
    "FromFloat": _from_float,
    "GaussNoise": _gauss_noise,
    "GaussianBlur": _gaussian_blur,
    "InvertImg": lambda t, _: [curves.RandomInvert(t.p)],
    "LongestMaxSize": _longest,
    "MultiplicativeNoise": _multiplied,
    "Pad": _pad,
    "PixelDropout": _pixel_dropout,
    "Posterize": _posterize,
    "RandomScale": lambda t, job: _resized(t, job, tilts.RandomScale, t.scale_limit, p=1.0),
    "RandomSizedBBoxSafeCrop": _sized_safe_crop,
    "RandomSizedCrop": lambda t, job: _resized(
        t, job, windows.RandomSizedCrop, t.min_max_height, t.size, t.w2h_ratio
    ),
    "ShiftScaleRotate": _affine,
    "Solarize": _solarize,
    "SquareSymmetry": lambda t, _: [geometry.D4(t.p)],
    "TimeMasking": _masking,
    "TimeReverse": lambda t, _: [crop.RandomHorizontalFlip(t.p)],
    "ToFloat": _to_float,
    "ToRGB": _to_rgb,
    "ToSepia": lambda t, _: [color.ColorMatrix(_SEPIA, p=t.p)],
    "XYMasking": _masking,
}
