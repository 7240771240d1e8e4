"""Photos of different sizes into one batch: resized, normalised, collated."""

from collections.abc import Sequence

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
ROUNDED_TWICE = Tolerance(max_abs=0.037, mean_abs=0.01, why="OpenCV's weights are of 11 bits")
BOX = Tolerance(mean_abs=0.2, why="OpenCV's filter is a box, ours a triangle")


def resizing(photos: Sequence[Photo]) -> torch.Tensor:
    """Matrices [B, 2, 3] of whole photos to the target, half-pixel convention."""
    height, width = TARGET
    scales = [[[width / p.shape[1], 0.0, 0.0], [0.0, height / p.shape[0], 0.0]] for p in photos]
    return torch.tensor(scales, dtype=torch.float64)


def ragged_contenders(count: int, antialias: bool) -> list[Contender]:
    """Photos [H, W, 3] to a normalised batch [B, 3, 224, 224]."""
    photos = ragged_noise(count)
    views = [torch.from_numpy(photo).permute(2, 0, 1) for photo in photos]
    planes = [view.contiguous() for view in views]
    matrices = resizing(photos)
    size = list(TARGET)

    def ours() -> torch.Tensor:
        return visops.augment(
            photos,
            matrices,
            TARGET,
            antialias=antialias,
            mean=MEAN,
            std=STD,
            convention="half_pixel",
        )

    def torchvision_best() -> torch.Tensor:
        resized = [TF.resize_image(view, size, antialias=antialias) for view in views]
        return normalise(torch.stack(resized))

    def torchvision_usual() -> torch.Tensor:
        batch = []
        for image in planes:
            resized = TF.resize_image(image, size, antialias=antialias)
            pixels = TF.to_dtype_image(resized, torch.float32, scale=True)
            batch.append(TF.normalize_image(pixels, MEAN, STD, inplace=True))
        return torch.stack(batch)

    flag = cv2.INTER_AREA if antialias else cv2.INTER_LINEAR

    def opencv() -> torch.Tensor:
        resized = np.stack(
            [cv2.resize(photo, TARGET[::-1], interpolation=flag) for photo in photos]
        )
        return normalise(torch.from_numpy(resized).permute(0, 3, 1, 2))

    by_a = by_albumentations(albumentations(A.Resize(*TARGET, interpolation=flag)), photos)
    by_opencv = BOX if antialias else ROUNDED_TWICE
    return [
        Contender("visops", ours),
        Contender("torchvision", torchvision_best, ROUNDED, floor=5.0),
        Contender("torchvision, CHW, one by one", torchvision_usual, ROUNDED, floor=5.0),
        Contender("OpenCV", opencv, by_opencv),
        Contender("albumentations", by_a, by_opencv),
    ]


def cases() -> list[Case]:
    """With and without a filter."""
    group = "photos of mixed sizes, about 640×480 uint8 HWC → normalised float32 CHW batch"
    found = []
    for count, antialias in ((32, True), (4, True), (32, False)):
        table = {f"{count}× {'antialias' if antialias else 'bilinear'}": (count, antialias)}
        found += rows(group, ragged_contenders, table, "32× antialias", images=count)
    return found
