"""Options of transforms: words, of which lists and sets are refused, and limits of numbers."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check
from visops import transforms

T: Any = transforms

# A class, its arguments of which the last is an option, what errors call them, and what it must be.
WORDS: list[tuple[Any, dict[str, Any], str, str]] = [
    (T.DecodeImage, {"mode": "rgb"}, "DecodeJpeg: mode", "'rgb' or 'gray'"),
    (T.Pad, {"padding": 1, "padding_mode": "edge"}, "Pad: padding_mode", "'constant', 'edge', "),
    (T.PadIfNeeded, {"position": "center"}, "PadIfNeeded: position", "one of center, random, "),
    (T.RandAugment, {"operations": "all"}, "RandAugment: operations", "'all' or 'linear'"),
    (
        T.TrivialAugment,
        {"interpolation": "nearest"},
        "TrivialAugment: interpolation",
        "'nearest', ",
    ),
    (T.AutoAugment, {"policy": "svhn"}, "AutoAugment: policy", "'imagenet', 'cifar10' or 'svhn'"),
    (T.Morphological, {"operation": "erosion"}, "Morphological: operation", "'dilation' or "),
    (T.OpticalDistortion, {"mode": "camera"}, "OpticalDistortion: mode", "'camera' or 'fisheye'"),
    (T.ChromaticAberration, {"mode": "red_blue"}, "ChromaticAberration: mode", "'green_purple', "),
    (T.Illumination, {"mode": "corner"}, "Illumination: mode", "'linear', 'corner' or 'gaussian'"),
    (
        T.ClampBoundingBoxes,
        {"clamping_mode": "soft"},
        "ClampBoundingBoxes: clamping_mode",
        "'auto'",
    ),
    (T.ImageOnly, {"transform": abs, "takes": "pil"}, "ImageOnly: takes", "None, "),
    (
        T.Compose,
        {"transforms": [T.Pad(1)], "layout": "CHW"},
        "Compose: layout",
        "'CHW', 'HWC' or None",
    ),
    (
        T.Compose,
        {"transforms": [T.Pad(1)], "boxes": "keep"},
        " boxes",
        "one of keep, clamp, sanitize",
    ),
    (
        T.Compose,
        {"transforms": [T.Pad(1)], "boxes_from": "masks"},
        " boxes_from",
        "'boxes', 'masks' or ",
    ),
    (T.Compose, {"transforms": [T.Pad(1)], "box_format": "xyxy"}, " box_format", "one of 'xyxy', "),
    (
        T.Compose,
        {"transforms": [T.Pad(1)], "keypoint_convention": "integer"},
        " keypoint_convention",
        "'integer' or 'half_pixel'",
    ),
    (T.visible, {"keypoints": torch.zeros(1, 2), "size": (2, 2), "convention": "integer"}, "", ""),
]


def wrapped(word: str) -> tuple[Any, ...]:
    return [word], {word}, {word: 1}, np.array([word]), np.array([word, word])


@pytest.mark.parametrize(
    ("made", "arguments", "named", "allowed"),
    WORDS,
    ids=[f"{made.__name__}.{list(arguments)[-1]}" for made, arguments, *_ in WORDS],
)
def test_words_are_strings(made: Any, arguments: dict[str, Any], named: str, allowed: str) -> None:
    option = list(arguments)[-1]
    made(**arguments)
    place = f"transforms{':' if named.startswith(' ') else '.'}{named}"
    if made is T.visible:
        place, allowed = "visible: convention", "'integer' or 'half_pixel'"
    for value in wrapped(arguments[option]):
        shown = " ".join(repr(value).split())
        call = partial(made, **arguments | {option: value})
        check(ValueError, f"{place} is {shown}, must be {allowed}", call)


@pytest.mark.parametrize("pads", ["no", ["end"], np.array(["end", "end"]), 2, None])
def test_padding_if_needed_is_a_flag_or_end(pads: Any) -> None:
    allowed = "a bool or 'end'" if isinstance(pads, str) else "True or False"
    error = ValueError if isinstance(pads, str) else TypeError
    shown = " ".join(repr(pads).split())
    message = f"transforms.RandomCrop: pad_if_needed is {shown}, must be {allowed}"
    check(error, message, lambda: T.RandomCrop(4, pad_if_needed=pads))


def test_arrays_of_interpolations_are_drawn_from() -> None:
    names = np.array(["bilinear", "nearest"])
    assert T.Resize(9, interpolation=names).interpolation == ("bilinear", "nearest")


@pytest.mark.parametrize("made", [T.MixUp, T.CutMix, T.SanitizeBoundingBoxes])
def test_getters_of_labels_may_be_anything(made: Any) -> None:
    for value in (["default"], np.array(["default", "default"])):
        with pytest.raises(TypeError, match=r"labels_getter is .*, must be 'default'"):
            made(labels_getter=value)


# What memory and time grow with.
ODD = "an odd whole number >= 3 and <= "
KERNEL = "an odd whole number or two of them (width, height), at most 65535"
# A class, an argument's greatest value, one beyond that, and what it must be.
LIMITS: list[tuple[Any, str, Any, Any, str]] = [
    (T.ElasticTransform, "sigma", 8191, 2**40, "a number >= 0 and <= 8191 or two (x, y)"),
    (T.ElasticTransform, "sigma", (8191, 1), (2**40, 1), "a number >= 0 and <= 8191 or two (x, y)"),
    (T.Blur, "blur_limit", (65535, 65535), 2**40 + 1, f"{ODD}65535"),
    (T.UnsharpMask, "blur_limit", (65535, 65535), 2**40 + 1, f"{ODD}65535"),
    (T.MotionBlur, "blur_limit", (1023, 1023), 1025, f"{ODD}1023"),
    (T.AdvancedBlur, "blur_limit", (101, 255), 257, f"{ODD}255"),
    (T.RingingOvershoot, "blur_limit", (255, 1023), 1025, f"{ODD}1023"),
    (T.GaussianBlur, "kernel_size", 65535, 2**40 + 1, KERNEL),
    (T.CLAHE, "tile_grid_size", (1024, 1), (1025, 1), "two whole numbers >= 1 and <= 1024 (x, y)"),
    (
        T.CoarseDropout,
        "num_holes_range",
        (65536, 65536),
        (1, 2**40),
        "two whole numbers >= 0 and <= 65536 (min, max)",
    ),
    (T.RandAugment, "num_magnitude_bins", 65536, 2**40, "a whole number >= 2 and <= 65536"),
    (T.TrivialAugment, "num_magnitude_bins", 65536, 2**40, "a whole number >= 2 and <= 65536"),
    (T.RandomShadow, "shadow_dimension", 1000, 2**40, "a whole number >= 3 and <= 1000"),
]


@pytest.mark.parametrize(
    ("made", "name", "greatest", "beyond", "allowed"),
    LIMITS,
    ids=[f"{made.__name__}.{name}={greatest}" for made, name, greatest, *_ in LIMITS],
)
def test_greater_work_is_refused(
    made: Any, name: str, greatest: Any, beyond: Any, allowed: str
) -> None:
    made(**{name: greatest})
    shown = beyond[0] if name == "tile_grid_size" else beyond
    message = f"transforms.{made.__name__}: {name} is {shown}, must be {allowed}"
    check(ValueError, message, lambda: made(**{name: beyond}))
