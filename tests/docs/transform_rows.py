"""Rows of docs/moving on single transforms: how each library makes them."""

from collections.abc import Callable
from typing import Any

import torch
from visops import transforms as T

Make = Callable[[Any], Any]

# Rows that show where both differ; of all others both give the same.
DIFFERENT = {
    "affine's direction",
    "area is another filter",
    "bilinear here",
    "centre crop, odd",
    "hue",
    "jiggled brightness",
    "nearest isn't their nearest",
    "resize by default",
    "resize is filtered",
}

ALBUMENTATIONS: dict[str, tuple[Make, T.Transform | list[T.Transform]]] = {
    "flip": (lambda A: A.HorizontalFlip(p=1), T.RandomHorizontalFlip(1)),
    "vertical flip": (lambda A: A.VerticalFlip(p=1), T.RandomVerticalFlip(1)),
    "resized crop": (
        lambda A: A.RandomResizedCrop((99, 80), scale=(1, 1), ratio=(440 / 300, 440 / 300), p=1),
        T.Resize((99, 80), antialias=False),
    ),
    "resize": (lambda A: A.Resize(120, 99, p=1), T.Resize((120, 99), antialias=False)),
    "resize is filtered": (lambda A: A.Resize(120, 99, p=1), T.Resize((120, 99))),
    "area is another filter": (
        lambda A: A.Resize(120, 99, interpolation=3, p=1),
        T.Resize((120, 99)),
    ),
    "shorter side": (lambda A: A.SmallestMaxSize(99), T.Resize(99, antialias=False)),
    "longer side": (lambda A: A.LongestMaxSize(100), T.Resize(None, max_size=100, antialias=False)),
    "centre crop": (lambda A: A.CenterCrop(100, 200), T.CenterCrop((100, 200))),
    "centre crop, odd": (lambda A: A.CenterCrop(100, 201), T.CenterCrop((100, 201))),
    "pad": (lambda A: A.Pad(10, border_mode=0, p=1), T.Pad(10)),
    "pad to a size": (lambda A: A.PadIfNeeded(320, 460, border_mode=0), T.PadIfNeeded(320, 460)),
    "rotate": (lambda A: A.Rotate((17, 17), p=1), T.RandomRotation((17, 17))),
    "affine": (
        lambda A: A.Affine(rotate=(17, 17), scale=(0.8, 0.8), p=1),
        T.RandomAffine((-17, -17), scale=(0.8, 0.8)),
    ),
    "affine's direction": (lambda A: A.Affine(rotate=(17, 17), p=1), T.RandomAffine((17, 17))),
    "shear": (
        lambda A: A.Affine(shear={"x": (10, 10), "y": (0, 0)}, p=1),
        T.RandomAffine(0, shear=(10, 10)),
    ),
    "shift, scale, rotate": (
        lambda A: A.ShiftScaleRotate((0, 0), (-0.2, -0.2), (17, 17), p=1),
        T.RandomAffine((-17, -17), scale=(0.8, 0.8)),
    ),
    "brightness": (
        lambda A: A.ColorJitter((1.3, 1.3), (1, 1), (1, 1), (0, 0), p=1),
        T.ColorJitter((1.3, 1.3)),
    ),
    "contrast": (
        lambda A: A.ColorJitter((1, 1), (1.3, 1.3), (1, 1), (0, 0), p=1),
        T.ColorJitter(contrast=(1.3, 1.3)),
    ),
    "saturation": (
        lambda A: A.ColorJitter((1, 1), (1, 1), (1.3, 1.3), (0, 0), p=1),
        T.ColorJitter(saturation=(1.3, 1.3)),
    ),
    "hue": (
        lambda A: A.ColorJitter((1, 1), (1, 1), (1, 1), (0.1, 0.1), p=1),
        T.ColorJitter(hue=(0.1, 0.1)),
    ),
    "the other contrast": (
        lambda A: A.RandomBrightnessContrast((0, 0), (0.2, 0.2), p=1),
        T.RandomBrightnessContrast((0, 0), (0.2, 0.2), p=1),
    ),
    "the other brightness": (
        lambda A: A.RandomBrightnessContrast((0.2, 0.2), (0, 0), p=1),
        T.RandomBrightnessContrast((0.2, 0.2), (0, 0), p=1),
    ),
    "grey": (lambda A: A.ToGray(p=1), T.RandomGrayscale(1)),
    "float": (lambda A: A.ToFloat(), T.ToDtype(torch.float32, scale=True)),
    "normalize": (
        lambda A: A.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        [
            T.ToDtype(torch.float32, scale=True),
            T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ],
    ),
}

KORNIA: dict[str, tuple[Make, T.Transform]] = {
    "affine": (
        lambda K: K.RandomAffine((17.0, 17.0), scale=(0.8, 0.8), shear=(5.0, 5.0), p=1.0),
        T.RandomAffine((17, 17), scale=(0.8, 0.8), shear=(5, 5)),
    ),
    "rotation": (lambda K: K.RandomRotation((17.0, 17.0), p=1.0), T.RandomRotation((17, 17))),
    "resize": (
        lambda K: K.Resize((99, 80), align_corners=False),
        T.Resize((99, 80), antialias=False),
    ),
    "resize by default": (lambda K: K.Resize((99, 80)), T.Resize((99, 80), antialias=False)),
    "resized crop": (
        lambda K: K.RandomResizedCrop(
            (99, 80), scale=(1.0, 1.0), ratio=(440 / 300, 440 / 300), align_corners=False
        ),
        T.Resize((99, 80), antialias=False),
    ),
    "centre crop": (lambda K: K.CenterCrop((100, 200)), T.CenterCrop((100, 200))),
    "centre crop, odd": (lambda K: K.CenterCrop((100, 201)), T.CenterCrop((100, 201))),
    "shorter side": (
        lambda K: K.SmallestMaxSize(99, align_corners=False),
        T.Resize(99, antialias=False),
    ),
    "longer side": (
        lambda K: K.LongestMaxSize(99, align_corners=False),
        T.Resize(None, max_size=99, antialias=False),
    ),
    "pad": (lambda K: K.PadTo((310, 460)), T.Pad((0, 0, 20, 10))),
    "flip": (lambda K: K.RandomHorizontalFlip(p=1.0), T.RandomHorizontalFlip(1)),
    "vertical flip": (lambda K: K.RandomVerticalFlip(p=1.0), T.RandomVerticalFlip(1)),
    "brightness": (lambda K: K.ColorJitter((1.3, 1.3), p=1.0), T.ColorJitter((1.3, 1.3))),
    "contrast": (
        lambda K: K.ColorJitter(0.0, (1.3, 1.3), p=1.0),
        T.ColorJitter(contrast=(1.3, 1.3)),
    ),
    "saturation": (
        lambda K: K.ColorJitter(0.0, 0.0, (1.3, 1.3), p=1.0),
        T.ColorJitter(saturation=(1.3, 1.3)),
    ),
    "hue": (
        lambda K: K.ColorJitter(0.0, 0.0, 0.0, (0.1, 0.1), p=1.0),
        T.ColorJitter(hue=(0.1, 0.1)),
    ),
    "jiggled contrast": (
        lambda K: K.ColorJiggle(0.0, (1.3, 1.3), p=1.0),
        T.ColorJitter((1.3, 1.3)),
    ),
    "jiggled brightness": (lambda K: K.ColorJiggle((1.3, 1.3), p=1.0), T.ColorJitter((1.3, 1.3))),
    "grey": (lambda K: K.RandomGrayscale(p=1.0), T.RandomGrayscale(1)),
    "normalize": (lambda K: K.Normalize(0.5, 0.25), T.Normalize(0.5, 0.25)),
}
