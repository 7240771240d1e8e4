"""Wrong arguments: each message names transform, argument, value and what is allowed."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from bad_input import check, table
from visops import transforms

T: Any = transforms  # arguments of wrong types are what is tested

SIDE = "a whole number >= 1"
SIZE = f"{SIDE} or a pair (height, width) of such"
FILL = (
    "a finite number or one per channel, in the image's units (masks take Compose's mask_fill), or "
    "a dict of such by type: tv_tensors.Image, Video and Mask, torch.Tensor, PIL.Image.Image or "
    "'others'"
)
PADDING = (
    "a whole number >= 0, or 2 (left and right, top and bottom) or 4 of them (left, top, right, "
    "bottom)"
)
SHEAR = "None, a number >= 0, or 2 or 4 numbers (min, max along x and then y) in (-90, 90)"
DEGREES = "a number >= 0 or two finite numbers (min, max)"
CENTER = "None or two finite numbers (x, y)"
HUE = "a number in [0, 0.5] or two in [-0.5, 0.5] (min, max)"
VALUE = "a finite number, one per channel, or 'random'"
PROBABILITY = "a probability in [0, 1]"
NONNEGATIVE = "a number >= 0 or two of them (min, max)"
SHARES = "two numbers in [0, 1] (min, max)"
SHIFT = "None or two numbers (x, y) in [0, 1]"
POSITIVE = "two numbers > 0 (min, max)"
ODD = "an odd whole number >= 3 and <= 65535"
ORDERED = ", the smaller first"
MODES = "'nearest', 'bilinear' or 'bicubic'"
FILTERS = "'nearest', 'bilinear', 'bicubic' or 'lanczos'"
DRAWN = ", a sequence of such, of which each sample draws one, or 'random'"
LANCZOS = "; 'lanczos' is a filter of antialias=True"
EXPONENTS = "two numbers > 0 and <= 20 (min, max): exponents, not per cent"
QUALITY = "a whole number from 1 to 100, or two (min, max)"
LINE = "an odd whole number >= 3 and <= 1023, or two of them (min, max)"
KERNEL = "an odd whole number or two of them (width, height), at most 65535"
ALPHA = "a number in [0.001, 1e6]"
FORMATS = "one of XYXY, XYWH, CXCYWH, XYWHR, CXCYWHR, XYXYXYXY"
PAD = T.Pad(1)

# What each needs beside the argument that is wrong.
NEEDED: dict[Any, dict[str, Any]] = {
    T.RandomResizedCrop: {"size": 9},
    T.RandomCrop: {"size": 3},
    T.Pad: {"padding": 1},
    T.RandomAffine: {"degrees": 3},
    T.RandomRotation: {"degrees": 3},
    T.Normalize: {"mean": [0.5], "std": [0.5]},
    T.Compose: {"transforms": [PAD]},
    T.RandomApply: {"transforms": [PAD]},
    T.RandomChoice: {"transforms": [PAD]},
    T.ScaleJitter: {"target_size": 9},
    T.GaussianBlur: {"kernel_size": 3},
    T.Mosaic: {"size": 9},
    T.Letterbox: {"size": 9},
    T.Resize: {"size": 9},
    T.TenCrop: {"size": 9},
    T.ToDtype: {"dtype": torch.float32},
}

# A class, its arguments of which the last is wrong, and what that must be: a ValueError.
Argument = tuple[Any, dict[str, Any], str]
VALUES: list[Argument] = [
    (T.Resize, {"size": 0}, SIZE),
    (T.Resize, {"size": (3, 4, 5)}, SIZE),
    (T.Resize, {"size": None, "max_size": None}, "given where size is None"),
    (T.Resize, {"size": (3, 4), "max_size": 9}, "None where size is a pair (height, width)"),
    (T.Resize, {"size": 9, "max_size": 9}, "larger than size, which is 9"),
    (T.Resize, {"size": 9, "max_size": -1}, SIDE),
    (T.Resize, {"size": 9, "interpolation": "hamming"}, FILTERS + DRAWN),
    (T.Resize, {"size": 9, "interpolation": 7}, FILTERS + DRAWN),
    (T.RandomResizedCrop, {"scale": (-1, 1)}, "two numbers >= 0 (min, max)"),
    (T.RandomResizedCrop, {"scale": (0.9, 0.1)}, f"two numbers >= 0 (min, max){ORDERED}"),
    (T.RandomResizedCrop, {"ratio": (1, math.inf)}, POSITIVE),
    (T.CenterCrop, {"size": -1}, SIZE),
    (T.Letterbox, {"size": 8, "fill": math.nan}, FILL),
    (T.Letterbox, {"size": 8, "interpolation": "area"}, FILTERS + DRAWN),
    (T.RandomCrop, {"size": []}, SIZE),
    (T.RandomCrop, {"padding": -1}, PADDING),
    (T.Pad, {"padding": (1, 2, 3)}, PADDING),
    (
        T.Pad,
        {"padding_mode": "mirror"},
        "'constant', 'edge', 'reflect', 'symmetric' or 'circular'",
    ),
    (T.Pad, {"fill": math.nan}, FILL),
    (T.RandomHorizontalFlip, {"p": 1.5}, PROBABILITY),
    (T.RandomAffine, {"degrees": -3}, DEGREES),
    (T.RandomAffine, {"degrees": (3, 1)}, DEGREES + ORDERED),
    (T.RandomAffine, {"translate": (2, 0)}, SHIFT),
    (T.RandomAffine, {"translate": 0.1}, SHIFT),
    (T.RandomAffine, {"scale": (0, 1)}, f"None or {POSITIVE}"),
    (T.RandomAffine, {"shear": (1, 2, 3)}, SHEAR),
    (T.RandomAffine, {"shear": 90}, SHEAR),
    (T.RandomAffine, {"center": (1, 2, 3)}, CENTER),
    (T.RandomAffine, {"interpolation": ()}, MODES + DRAWN),
    (T.RandomRotation, {"center": 4}, CENTER),
    (T.RandomRotation, {"interpolation": "lanczos"}, MODES + DRAWN + LANCZOS),
    (T.RandomPerspective, {"distortion_scale": 1.2}, "a number in [0, 1]"),
    (T.ScaleJitter, {"scale_range": (0, 1)}, POSITIVE),
    (T.RandomShortestSize, {"min_size": []}, f"{SIDE} or a sequence of such"),
    (T.RandomResize, {"min_size": 9, "max_size": 9}, "a whole number > min_size, which is 9"),
    (T.RandomZoomOut, {"side_range": (0.5, 2)}, "two numbers >= 1 (min, max)"),
    (T.D4, {"p": 3}, PROBABILITY),
    (T.ElasticTransform, {"sigma": -1}, "a number >= 0 and <= 8191 or two (x, y)"),
    (T.ElasticTransform, {"sigma": (0, 3)}, "0 for both directions or for none"),
    (T.GridDistortion, {"num_steps": 0}, SIDE),
    (T.OpticalDistortion, {"p": 1.5}, PROBABILITY),
    (T.OpticalDistortion, {"mode": "lens"}, "'camera' or 'fisheye'"),
    (T.ThinPlateSpline, {"num_control_points": 1}, "a whole number from 2 to 16"),
    (T.ColorJitter, {"brightness": -1}, NONNEGATIVE),
    (T.ColorJitter, {"contrast": (0.5, math.nan)}, NONNEGATIVE),
    (T.ColorJitter, {"hue": 0.6}, HUE),
    (T.RandomPhotometricDistort, {"hue": (0, 1)}, HUE),
    (T.RandomPhotometricDistort, {"p": 2}, PROBABILITY),
    (T.RandomGrayscale, {"p": -0.1}, PROBABILITY),
    (T.Grayscale, {"num_output_channels": 2}, "1 or 3"),
    (
        T.RandomBrightnessContrast,
        {"brightness_limit": 2},
        "a number in [0, 1] or two in [-1, 1] (min, max)",
    ),
    (T.RandomErasing, {"scale": (0.1, 1.1)}, SHARES),
    (T.RandomErasing, {"value": "noise"}, VALUE),
    (T.Normalize, {"std": [0.0]}, "a finite number other than 0, or one per channel"),
    (
        T.Normalize,
        {"mean": [0.5, 0.5], "std": [0.1, 0.1, 0.1]},
        "as long as mean, which has 2 numbers",
    ),
    (T.Normalize, {"std": [1], "mean": []}, "a finite number or one per channel"),
    (T.RandAugment, {"num_ops": 9}, "a whole number from 1 to 8"),
    (
        T.RandAugment,
        {"magnitude": 31},
        "a whole number from 0 to num_magnitude_bins - 1, which is 30",
    ),
    (T.RandAugment, {"interpolation": ("bilinear",)}, MODES),
    (T.RandAugment, {"operations": "x"}, "'all' or 'linear'"),
    (T.TrivialAugment, {"num_magnitude_bins": 1}, "a whole number >= 2 and <= 65536"),
    (T.AutoAugment, {"policy": "coco"}, "'imagenet', 'cifar10' or 'svhn'"),
    (T.AugMix, {"severity": 11}, "a whole number from 1 to 10"),
    (T.AugMix, {"mixture_width": 0}, "a whole number from 1 to 16"),
    (T.AugMix, {"alpha": 0}, ALPHA),
    (T.AugMix, {"chain_depth": 17}, "a whole number up to 16"),
    (T.RandomInvert, {"p": 2}, PROBABILITY),
    (T.RandomPosterize, {"bits": 9}, "a whole number from 0 to 8"),
    (T.RandomPosterize, {"bits": -1}, "a whole number from 0 to 8"),
    (T.RandomAdjustSharpness, {"sharpness_factor": -1}, "a finite number >= 0"),
    (T.RandomGamma, {"gamma": (0, 1)}, EXPONENTS),
    (T.RandomGamma, {"gamma": (80, 120)}, EXPONENTS),
    (T.GaussianBlur, {"kernel_size": 4}, KERNEL),
    (T.GaussianBlur, {"kernel_size": (3, 3, 3)}, KERNEL),
    (T.GaussianBlur, {"sigma": -1}, "a number > 0 or two of them (min, max)"),
    (T.GaussianNoise, {"sigma": -1}, "a number >= 0 or two (min, max)"),
    (T.ShotNoise, {"scale_range": (0, 1)}, POSITIVE),
    (T.SaltAndPepper, {"amount": (0, 2)}, SHARES),
    (T.RandomHSV, {"hgain": 2}, "a number in [0, 1]"),
    (T.Blur, {"blur_limit": 4}, ODD),
    (T.MotionBlur, {"blur_limit": (7, 3)}, LINE + ORDERED),
    (T.Downscale, {"scale_range": (0, 0.5)}, "two numbers in (0, 1) (min, max)"),
    (T.CoarseDropout, {"fill": "mean"}, "a finite number, 'random' or 'random_uniform'"),
    (
        T.CoarseDropout,
        {"hole_height_range": (0.5, 3)},
        "two numbers >= 0 (min, max), both below 1 or both whole",
    ),
    (T.GridDropout, {"ratio": 0}, "a number in (0, 1]"),
    (T.GridDropout, {"holes_number_xy": 3}, "two whole numbers >= 1 (x, y)"),
    (T.ChannelDropout, {"channel_drop_range": (0, 1)}, "two whole numbers >= 1 (min, max)"),
    (T.JPEG, {"quality": 0}, QUALITY),
    (T.JPEG, {"quality": (50, 20)}, QUALITY + ORDERED),
    (T.RandomIoUCrop, {"sampler_options": []}, "at least one number >= 0"),
    (T.CropByCategory, {"crop_size": 4, "cat_max_ratio": 0}, "a number in (0, 1]"),
    (T.RandomSizeCrop, {"min_size": 9, "max_size": 4}, "at least min_size, 9"),
    (T.UniformTemporalSubsample, {"num_samples": 0}, SIDE),
    (T.RandomApply, {"transforms": []}, "a sequence of at least one transform"),
    (T.RandomApply, {"p": 2}, PROBABILITY),
    (T.RandomChoice, {"p": [1, 2]}, "None or 1 numbers >= 0, not all of them 0"),
    (T.RandomChoice, {"p": [0]}, "None or 1 numbers >= 0, not all of them 0"),
    (T.Compose, {"boxes": "clamp", "min_area": 4}, "left out unless boxes='sanitize'"),
    (T.Compose, {"boxes": "sanitize", "min_visibility": 1.5}, "a number in [0, 1]"),
    (
        T.Compose,
        {"memory_format": torch.preserve_format},
        "torch.contiguous_format or torch.channels_last",
    ),
    (T.MixUp, {"alpha": 0}, ALPHA),
    (T.MixUp, {"num_classes": 0}, f"{SIDE}, or None where labels are probabilities"),
    (T.CutMix, {"boxes": "clamp", "min_area": 3}, "left out unless boxes='sanitize'"),
    (T.Mosaic, {"size": 0}, SIZE),
    (T.Mosaic, {"center": (0.5, 2.5)}, "two numbers in [0, 2] (min, max)"),
    (T.Mosaic, {"translate": (2, 0)}, SHIFT),
    (T.Mosaic, {"scale": (0, 1)}, f"None or {POSITIVE}"),
    (T.Mosaic, {"shear": -1}, DEGREES),
    (T.Mosaic, {"interpolation": "lanczos"}, MODES),
    (T.DecodeJpeg, {"mode": "RGBA"}, "'rgb' or 'gray'"),
    (T.DecodeJpeg, {"max_pixels": 0}, SIDE),
    (T.ClampBoundingBoxes, {"clamping_mode": "firm"}, "'auto', 'soft', 'hard' or None"),
    (T.SanitizeBoundingBoxes, {"min_size": 0.5}, "a finite number >= 1"),
    (T.ConvertBoundingBoxFormat, {"format": "YXYX"}, FORMATS),
    *(
        (make, {"p": p}, "a number in [0, 1]")
        for make in (T.MixUp, T.CutMix, T.CopyPaste, T.Mosaic)
        for p in (-0.1, 1.5, math.nan)
    ),
]

# The same for a TypeError.
TYPES: list[Argument] = [
    (T.Resize, {"size": 3.5}, SIZE),
    (T.Resize, {"size": "3"}, SIZE),
    (T.Resize, {"size": True}, SIZE),
    (T.RandomResizedCrop, {"ratio": 2}, POSITIVE),
    (T.Pad, {"fill": "red"}, FILL),
    (T.GridDistortion, {"interpolation": 2}, f"{MODES} (numbers differ from library to library)"),
    (T.Pad, {"fill": {int: 3}}, FILL),
    (T.RandomVerticalFlip, {"p": None}, PROBABILITY),
    (T.RandomErasing, {"value": None}, VALUE),
    (T.Normalize, {"inplace": 255.0}, "True or False"),
    (
        T.ToDtype,
        {"dtype": torch.uint32},
        "torch.uint8, torch.uint16, torch.int16, torch.int8, torch.int32, torch.int64, "
        "torch.float16, torch.bfloat16 or torch.float32",
    ),
    (T.Compose, {"seed": 0.5}, "a whole number or None"),
    (T.Compose, {"mask_fill": 1.5}, "a whole number of at most 64 bits"),
    *(
        (make, {argument: "no"}, "True or False")
        for make, argument in (
            *((T.Compose, "exact"), (T.Compose, "per_frame"), (T.TenCrop, "vertical_flip")),
            *((T.RandomRotation, "expand"), (T.Resize, "antialias"), (T.Letterbox, "center")),
            *((T.ToDtype, "scale"), (T.GaussianNoise, "clip"), (T.MotionBlur, "allow_shifted")),
            *((T.DecodeJpeg, "exif"), (T.Mosaic, "antialias"), (T.AugMix, "all_ops")),
        )
    ),
    (T.Compose, {"boxes": "sanitize", "min_size": "1"}, "a finite number >= 0"),
    (T.RandomOrder, {"transforms": 3}, "a sequence of transforms"),
    (T.Views, {"chains": []}, "a sequence of at least one chain"),
    (T.CutMix, {"alpha": "1"}, ALPHA),
    (T.MixUp, {"labels_getter": "labels"}, "'default', a callable or None"),
    (T.CutMix, {"seed": 0.5}, "a whole number or None"),
    (T.Mosaic, {"mask_fill": 1.5}, "a whole number of at most 64 bits"),
    (T.Mosaic, {"degrees": "a"}, DEGREES),
    (
        T.SanitizeBoundingBoxes,
        {"labels_getter": "labels"},
        "'default' or None (Compose(keys={'labels': [...]}) names what goes)",
    ),
    (T.ConvertBoundingBoxFormat, {"format": 3}, FORMATS),
    *(
        (make, {"p": p}, "a number in [0, 1]")
        for make in (T.MixUp, T.CutMix, T.CopyPaste, T.Mosaic)
        for p in ("half", None)
    ),
]


def check_whole(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    """`call` raises exactly `error`, and says nothing but `message`."""
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value) == f"visops.{message}"


@pytest.mark.parametrize(
    ("error", "make", "arguments", "allowed"),
    [(ValueError, *row) for row in VALUES] + [(TypeError, *row) for row in TYPES],
)
def test_arguments(error: Any, make: Any, arguments: dict[str, Any], allowed: str) -> None:
    name, value = [*arguments.items()][-1]
    message = f"transforms.{make.__name__}: {name} is {value!r}, must be {allowed}"
    check_whole(error, message, lambda: make(**{**NEEDED.get(make, {}), **arguments}))


# What is said in other words.
@table(
    (ValueError, "transforms.Compose: transforms is empty, must hold", lambda: T.Compose([])),
    (
        TypeError,
        "transforms.Compose: transforms is a Resize, must be a sequence of transforms",
        lambda: T.Compose(T.Resize(3)),
    ),
    (
        TypeError,
        "transforms.Compose: transforms holds a int, must hold transforms or other callables",
        lambda: T.Compose([3]),
    ),
    (
        TypeError,
        "transforms.Compose: transforms holds a int, must hold",
        lambda: T.RandomApply([3]),
    ),
    (
        TypeError,
        "transforms.Compose: transforms holds the class RandomHorizontalFlip, must hold its "
        "instances, RandomHorizontalFlip(...)",
        lambda: T.Compose([T.RandomHorizontalFlip]),
    ),
    (
        ValueError,
        f"transforms.Resize: interpolation is 'lanczos', must be {MODES}{DRAWN}{LANCZOS}",
        lambda: T.Resize(8, "lanczos", antialias=False),
    ),
    (
        ValueError,
        "transforms.CLAHE: tile_grid_size is 0, must be two whole numbers >= 1 and <= 1024 (x, y)",
        lambda: T.CLAHE(4, (0, 8)),
    ),
    (
        ValueError,
        "transforms.Letterbox: size is 0, must be a whole number >= 1",
        lambda: T.Letterbox((0, 3)),
    ),
    (
        ValueError,
        "transforms.RandomIoUCrop: min_scale is (0.5, 0.3), must be",
        lambda: T.RandomIoUCrop(0.5, 0.3),
    ),
    (
        ValueError,
        "transforms.LinearTransformation: transformation_matrix is [2, 3], must be of shape [D, D]",
        lambda: T.LinearTransformation(torch.ones(2, 3), torch.ones(2)),
    ),
    (ValueError, "transforms: boxes is 'drop', must be one of", lambda: T.CutMix(boxes="drop")),
)
def test_other_arguments(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def uint8(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.uint8)


FLOATS = "put ToDtype(torch.float32, scale=True) before it"

# A transform, an image that it can't take, the error, and the message behind the class's name.
IMAGES: list[tuple[Any, Any, type[Exception], str]] = [
    (
        T.Normalize([0.5], [0.5]),
        uint8(3, 4, 5),
        TypeError,
        f"the image has dtype torch.uint8, must be floating; {FLOATS}",
    ),
    (
        T.Normalize([0.5] * 3, [0.5]),
        torch.zeros(1, 4, 5),
        ValueError,
        "mean has 3 numbers, the image has 1 channels",
    ),
    *(
        (
            transform,
            torch.zeros(2, 8, 9),
            ValueError,
            "the image has 2 channels, must have 1 or 3",
        )
        for transform in (
            *(T.ColorJitter(0.5, 0.5), T.RandomPhotometricDistort(), T.RandAugment()),
            *(T.TrivialAugment(), T.AugMix(), T.RandomAdjustSharpness(2)),
        )
    ),
    (T.RandomHSV(p=1), torch.zeros(1, 4, 4), ValueError, "the image has 1 channels, must have 3"),
    (T.RGBShift(), uint8(1, 4, 4), ValueError, "the image has 1 channels, must have 3"),
    (
        T.RandomChannelPermutation(),
        torch.zeros(7, 9, 9),
        ValueError,
        "the image has 7 channels, must have 1, 2, 3 or 4",
    ),
    (
        T.RandomErasing(value=(1, 2)),
        torch.zeros(3, 8, 9),
        ValueError,
        "value has 2 numbers, the image has 3 channels",
    ),
    (
        T.RandomErasing(value="random"),
        uint8(3, 8, 9),
        TypeError,
        f"the sample has dtype torch.uint8, must be floating for value='random'; {FLOATS}",
    ),
    (
        T.RandomCrop((9, 10), padding=(0, 1)),
        torch.zeros(3, 8, 9),
        ValueError,
        "size is (9, 10), the image has height 8 and width 9, padded by (0, 1, 0, 1); must not be "
        "larger, unless pad_if_needed",
    ),
    (
        T.RandomCrop(9),
        [torch.zeros(3, 9, 9), torch.zeros(3, 12, 8)],
        ValueError,
        "size is (9, 9), the image of sample 1 has height 12 and width 8; must not be larger, "
        "unless pad_if_needed",
    ),
    *(
        (T.RandomSolarize(threshold, 1.0), image, ValueError, f"threshold is {threshold}, {rest}")
        for threshold, image, rest in (
            (100, torch.zeros(3, 8, 9), "must not be above 1, the white of torch.float32"),
            (300, uint8(3, 8, 9), "must not be above 255, the white of torch.uint8"),
            (40000, uint8(3, 8, 9).short(), "must not be above 32767, the white of torch.int16"),
        )
    ),
    (
        T.GaussianBlur(17),
        uint8(3, 8, 9),
        ValueError,
        "kernel_size is (17, 17), the image has height 8 and width 9; must be less than twice as "
        "large",
    ),
    (
        T.GridDistortion(9),
        torch.zeros(3, 4, 40),
        ValueError,
        "num_steps is 9, an image has 4 rows or columns; must have as many",
    ),
    (
        T.ElasticTransform(fill=(1, 2)),
        torch.zeros(3, 4, 40),
        ValueError,
        "fill has 2 numbers, the sample has 3 channels; must be one, or one for each",
    ),
    (
        T.Mosaic(9, fill=(1, 2)),
        torch.zeros(1, 3, 9, 9),
        ValueError,
        "fill has 2 numbers, the sample has 3 channels",
    ),
    (
        T.Mosaic(9),
        torch.zeros(3, 9, 9),
        ValueError,
        "the sample is one image, must be a batch of them",
    ),
]


@pytest.mark.parametrize(("transform", "image", "error", "message"), IMAGES)
def test_images(transform: Any, image: Any, error: type[Exception], message: str) -> None:
    whole = f"transforms.{type(transform).__name__}: {message}"
    check_whole(error, whole, lambda: transform(image))


def test_sizes_in_a_batch() -> None:
    turn = T.Compose([T.RandomRotate90(1)], seed=1)
    with pytest.raises(ValueError, match="must be the same in a batch"):
        turn(torch.zeros(9, 3, 4, 5), index=range(9))
    images = [torch.zeros(3, 20, 30), torch.zeros(3, 20, 20)]
    message = (
        "transforms.Compose: sample 0 comes out with 9 rows and 13 columns, sample 1 with 9 and 9; "
        "must be the same in a batch (end with Resize((height, width)) or CenterCrop)"
    )
    check(ValueError, message, lambda: T.Resize(9)(images))


def test_numpy_numbers_are_accepted() -> None:
    import numpy as np

    assert T.Resize(np.int64(3)).size == 3
    assert T.RandomHorizontalFlip(np.float32(0.5)).p == 0.5
    assert T.Normalize(np.array([0.5, 0.25]), torch.tensor([1.0, 2.0])).mean == [0.5, 0.25]
    assert T.RandomRotation(np.array([1, 2])).degrees == (1.0, 2.0)


def test_interpolation_may_come_from_torchvision() -> None:
    mode = pytest.importorskip("torchvision.transforms").InterpolationMode
    assert T.Resize(3, interpolation=mode.BICUBIC).interpolation == "bicubic"
    assert T.Resize(3, interpolation=mode.NEAREST_EXACT).interpolation == "nearest"
    assert T.Resize(3, interpolation=2).interpolation == "bilinear"


@pytest.mark.parametrize("dtype", [torch.uint64, torch.uint32, torch.bool, torch.complex64])
def test_dtypes_that_no_pass_takes(dtype: torch.dtype) -> None:
    message = (
        f"visops.transforms: the sample has dtype {dtype}, must be uint8, uint16, int8, int16, "
        "int32, int64, float16, bfloat16, float32 or float64"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        T.RandomHorizontalFlip(1.0)(torch.zeros(3, 8, 9).to(dtype))


def test_repr_shows_what_was_given() -> None:
    shown = repr(T.RandAugment(num_ops=3))
    assert "num_ops=3" in shown
    assert "draws" not in shown
