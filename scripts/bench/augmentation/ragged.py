"""Photos of different sizes into one batch: resized, normalised, collated."""

from collections.abc import Sequence
from typing import Any

import albumentations as A
import cv2
import numpy as np
import torch
import torchvision.transforms.v2.functional as TF
import visops
from bench.augmentation.libraries import albumentations, by_albumentations
from bench.augmentation.pictures import MEAN, STD, Photo, Size, normalise, ragged_noise
from bench.harness import Case, Contender, Tolerance, rows

TARGET: Size = (224, 224)
# A level is 1 / 255 / 0.224 = 0.0175.
ROUNDED = Tolerance(max_abs=0.0185, mean_abs=0.006, why="peers round to whole levels in between")
BOX = Tolerance(mean_abs=0.2, why="OpenCV's filter is a box, ours a triangle")


def resizing(photos: Sequence[Photo]) -> torch.Tensor:
    """Matrices [B, 2, 3] of whole photos to the target, half-pixel convention."""
    height, width = TARGET
    scales = [[[width / p.shape[1], 0.0, 0.0], [0.0, height / p.shape[0], 0.0]] for p in photos]
    return torch.tensor(scales, dtype=torch.float64)


def ragged_contenders(count: int) -> list[Contender]:
    """Photos [H, W, 3] to a normalised batch [B, 3, 224, 224]."""
    photos = ragged_noise(count)
    views = [torch.from_numpy(photo).permute(2, 0, 1) for photo in photos]
    matrices = resizing(photos)
    size = list(TARGET)

    options: dict[str, Any] = {"mean": MEAN, "std": STD, "convention": "half_pixel"}

    def ours() -> torch.Tensor:
        return visops.augment(photos, matrices, TARGET, antialias=True, **options)

    def torchvision() -> torch.Tensor:
        resized = [TF.resize_image(view, size, antialias=True) for view in views]
        return normalise(torch.stack(resized))

    def opencv() -> torch.Tensor:
        resized = np.stack(
            [cv2.resize(photo, TARGET[::-1], interpolation=cv2.INTER_AREA) for photo in photos]
        )
        return normalise(torch.from_numpy(resized).permute(0, 3, 1, 2))

    area = A.Resize(*TARGET, interpolation=cv2.INTER_AREA)
    by_a = by_albumentations(albumentations(area), photos)
    return [
        Contender("visops", ours),
        Contender("torchvision", torchvision, ROUNDED),
        Contender("OpenCV", opencv, BOX),
        Contender("albumentations", by_a, BOX),
    ]


def cases() -> list[Case]:
    """A batch."""
    group = "photos of mixed sizes, about 640×480 uint8 HWC → normalised float32 CHW batch"
    return rows(group, ragged_contenders, {"32× antialias": (32,)}, "", images=32)
