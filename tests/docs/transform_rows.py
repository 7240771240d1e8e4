"""Rows of docs/moving.md on single transforms: how each library makes them."""

from collections.abc import Callable
from typing import Any

import torch
from visops import transforms as T

Make = Callable[[Any], Any]

ALBUMENTATIONS: dict[str, tuple[Make, T.Transform | list[T.Transform], bool]] = {
    "flip": (lambda A: A.HorizontalFlip(p=1), T.RandomHorizontalFlip(1), False),
    "vertical flip": (lambda A: A.VerticalFlip(p=1), T.RandomVerticalFlip(1), False),
    "resized crop": (
        lambda A: A.RandomResizedCrop((99, 80), scale=(1, 1), ratio=(440 / 300, 440 / 300), p=1),
        T.Resize((99, 80), antialias=False),
        False,
    ),
    "resize": (lambda A: A.Resize(120, 99, p=1), T.Resize((120, 99), antialias=False), False),
    "resize is filtered": (lambda A: A.Resize(120, 99, p=1), T.Resize((120, 99)), True),
    "area is another filter": (
        lambda A: A.Resize(120, 99, interpolation=3, p=1),
        T.Resize((120, 99)),
        True,
    ),
    "shorter side": (lambda A: A.SmallestMaxSize(99), T.Resize(99, antialias=False), False),
    "longer side": (
        lambda A: A.LongestMaxSize(100),
        T.Resize(None, max_size=100, antialias=False),
        False,
    ),
    "centre crop": (lambda A: A.CenterCrop(100, 200), T.CenterCrop((100, 200)), False),
    "centre crop, odd": (lambda A: A.CenterCrop(100, 201), T.CenterCrop((100, 201)), True),
    "pad": (lambda A: A.Pad(10, border_mode=0, p=1), T.Pad(10), False),
    "pad to a size": (
        lambda A: A.PadIfNeeded(320, 460, border_mode=0),
        T.CenterCrop((320, 460)),
        False,
    ),
    "rotate": (lambda A: A.Rotate((17, 17), p=1), T.RandomRotation((17, 17)), False),
    "affine": (
        lambda A: A.Affine(rotate=(17, 17), scale=(0.8, 0.8), p=1),
        T.RandomAffine((-17, -17), scale=(0.8, 0.8)),
        False,
    ),
    "affine's direction": (
        lambda A: A.Affine(rotate=(17, 17), p=1),
        T.RandomAffine((17, 17)),
        True,
    ),
    "shear": (
        lambda A: A.Affine(shear={"x": (10, 10), "y": (0, 0)}, p=1),
        T.RandomAffine(0, shear=(10, 10)),
        False,
    ),
    "shift, scale, rotate": (
        lambda A: A.ShiftScaleRotate((0, 0), (-0.2, -0.2), (17, 17), p=1),
        T.RandomAffine((-17, -17), scale=(0.8, 0.8)),
        False,
    ),
    "brightness": (
        lambda A: A.ColorJitter((1.3, 1.3), (1, 1), (1, 1), (0, 0), p=1),
        T.ColorJitter((1.3, 1.3)),
        False,
    ),
    "contrast": (
        lambda A: A.ColorJitter((1, 1), (1.3, 1.3), (1, 1), (0, 0), p=1),
        T.ColorJitter(contrast=(1.3, 1.3)),
        False,
    ),
    "saturation": (
        lambda A: A.ColorJitter((1, 1), (1, 1), (1.3, 1.3), (0, 0), p=1),
        T.ColorJitter(saturation=(1.3, 1.3)),
        False,
    ),
    "hue": (
        lambda A: A.ColorJitter((1, 1), (1, 1), (1, 1), (0.1, 0.1), p=1),
        T.ColorJitter(hue=(0.1, 0.1)),
        True,
    ),
    "the other contrast": (
        lambda A: A.RandomBrightnessContrast((0, 0), (0.2, 0.2), p=1),
        T.RandomBrightnessContrast((0, 0), (0.2, 0.2), p=1),
        False,
    ),
    "the other brightness": (
        lambda A: A.RandomBrightnessContrast((0.2, 0.2), (0, 0), p=1),
        T.RandomBrightnessContrast((0.2, 0.2), (0, 0), p=1),
        False,
    ),
    "grey": (lambda A: A.ToGray(p=1), T.RandomGrayscale(1), False),
    "float": (lambda A: A.ToFloat(), T.ToDtype(torch.float32, scale=True), False),
    "normalize": (
        lambda A: A.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        [
            T.ToDtype(torch.float32, scale=True),
            T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ],
        False,
    ),
}

KORNIA: dict[str, tuple[Make, T.Transform, bool]] = {
    "affine": (
        lambda K: K.RandomAffine((17.0, 17.0), scale=(0.8, 0.8), shear=(5.0, 5.0), p=1.0),
        T.RandomAffine((17, 17), scale=(0.8, 0.8), shear=(5, 5)),
        False,
    ),
    "rotation": (
        lambda K: K.RandomRotation((17.0, 17.0), p=1.0),
        T.RandomRotation((17, 17)),
        False,
    ),
    "resize": (
        lambda K: K.Resize((99, 80), align_corners=False),
        T.Resize((99, 80), antialias=False),
        False,
    ),
    "resize by default": (
        lambda K: K.Resize((99, 80)),
        T.Resize((99, 80), antialias=False),
        True,
    ),
    "resized crop": (
        lambda K: K.RandomResizedCrop(
            (99, 80), scale=(1.0, 1.0), ratio=(440 / 300, 440 / 300), align_corners=False
        ),
        T.Resize((99, 80), antialias=False),
        False,
    ),
    "centre crop": (lambda K: K.CenterCrop((100, 200)), T.CenterCrop((100, 200)), False),
    "centre crop, odd": (lambda K: K.CenterCrop((100, 201)), T.CenterCrop((100, 201)), True),
    "shorter side": (
        lambda K: K.SmallestMaxSize(99, align_corners=False),
        T.Resize(99, antialias=False),
        False,
    ),
    "longer side": (
        lambda K: K.LongestMaxSize(99, align_corners=False),
        T.Resize(None, max_size=99, antialias=False),
        False,
    ),
    "pad": (lambda K: K.PadTo((310, 460)), T.Pad((0, 0, 20, 10)), False),
    "flip": (lambda K: K.RandomHorizontalFlip(p=1.0), T.RandomHorizontalFlip(1), False),
    "vertical flip": (lambda K: K.RandomVerticalFlip(p=1.0), T.RandomVerticalFlip(1), False),
    "brightness": (
        lambda K: K.ColorJitter((1.3, 1.3), p=1.0),
        T.ColorJitter((1.3, 1.3)),
        False,
    ),
    "contrast": (
        lambda K: K.ColorJitter(0.0, (1.3, 1.3), p=1.0),
        T.ColorJitter(contrast=(1.3, 1.3)),
        False,
    ),
    "saturation": (
        lambda K: K.ColorJitter(0.0, 0.0, (1.3, 1.3), p=1.0),
        T.ColorJitter(saturation=(1.3, 1.3)),
        False,
    ),
    "hue": (
        lambda K: K.ColorJitter(0.0, 0.0, 0.0, (0.1, 0.1), p=1.0),
        T.ColorJitter(hue=(0.1, 0.1)),
        True,
    ),
    "jiggled contrast": (
        lambda K: K.ColorJiggle(0.0, (1.3, 1.3), p=1.0),
        T.ColorJitter((1.3, 1.3)),
        False,
    ),
    "jiggled brightness": (
        lambda K: K.ColorJiggle((1.3, 1.3), p=1.0),
        T.ColorJitter((1.3, 1.3)),
        True,
    ),
    "grey": (lambda K: K.RandomGrayscale(p=1.0), T.RandomGrayscale(1), False),
    "normalize": (lambda K: K.Normalize(0.5, 0.25), T.Normalize(0.5, 0.25), False),
}
