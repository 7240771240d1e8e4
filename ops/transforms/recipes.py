"""Recipes of mmsegmentation, nnU-Net and YOLO, which :mod:`presets` has with the others."""

from collections.abc import Sequence
from typing import Any

import torch

from .blurring import GaussianBlur
from .choosing import RandomApply
from .color import ColorJitter
from .compose import Compose
from .cropping import CenterCrop, RandomCrop, RandomHorizontalFlip, RandomVerticalFlip
from .distortion import RandomPhotometricDistort
from .dtypes import Normalize, ToDtype
from .geometric import RandomAffine
from .mixing.mosaic import Mosaic
from .neighbourhoods import Downscale
from .noise import GaussianNoise, RandomHSV
from .scaling import RandomShortestSize
from .searching import CropByCategory
from .values import RandomGamma, RandomInvert

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet


def to_float(mean: Sequence[float] | None, std: Sequence[float]) -> list[Any]:
    """Return the steps to floats from 0 to 1, and to those of mean 0."""
    steps: list[Any] = [ToDtype(torch.float32, scale=True)]
    return steps if mean is None else [*steps, Normalize(mean, std)]


def mmsegmentation_train(
    crop_size: int | Sequence[int] = (512, 1024),
    scale: Sequence[int] = (2048, 1024),
    *,
    ratio_range: tuple[float, float] = (0.5, 2.0),
    cat_max_ratio: float = 0.75,
    mean: Sequence[float] | None = MEAN,
    std: Sequence[float] = STD,
    seed: int | None = None,
) -> Compose:
    """Return mmsegmentation's usual recipe: a random size, a crop by classes, a mirror, colours.

    Parameters
    ----------
    crop_size : int or pair of int
        Height and width of the result; smaller images are padded.
    scale : pair of int
        The longer and the shorter side before the random size: the image is fitted into it.
    ratio_range : pair of float
        Range of the factor by which that is resized.
    cat_max_ratio : float
        The greatest share of a class in a crop.
    mean, std : sequence of float
    seed : int, optional

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> chain = presets.mmsegmentation_train(48, (80, 60), seed=0)
    >>> sample = {"image": torch.zeros(3, 90, 80), "mask": torch.zeros(90, 80).long()}
    >>> chain(sample, index=0)["mask"].shape
    torch.Size([48, 48])
    """
    low, high = ratio_range
    sides = [round(min(scale) * (low + (high - low) * i / 31)) for i in range(32)]
    longest = round(max(scale) * high)
    steps: list[Any] = [
        RandomShortestSize(sides, max_size=longest),
        CropByCategory(crop_size, cat_max_ratio),
        RandomHorizontalFlip(),
        RandomPhotometricDistort(p=1.0),
        *to_float(mean, std),
        RandomCrop(crop_size, pad_if_needed=True),
    ]
    return Compose(steps, seed=seed)


def nnunet_2d(size: int | Sequence[int] = (256, 256), *, seed: int | None = None) -> Compose:
    """Return nnU-Net's augmentation of 2-D slices, for floating images of 1 to 4 channels.

    Rotation and scale, Gaussian noise and blur, brightness, contrast, a lower resolution, gamma of
    the inverted and of the plain image, and mirrors, with nnU-Net's probabilities and ranges.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the patch, cut from the middle.
    seed : int, optional

    Notes
    -----
    Where it differs: values are in [0, 1], where nnU-Net's are normalised before, so brightness and
    gamma keep to that range; rotation and scale are drawn by one transform, whose parts nnU-Net
    applies with probability 0.2 each; gamma's parameters are not per channel.

    Source: F. Isensee et al., "nnU-Net: a self-configuring method for deep learning-based
    biomedical image segmentation", Nature Methods 18, 2021.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> chain = presets.nnunet_2d(64, seed=0)
    >>> sample = {"image": torch.rand(1, 80, 80), "mask": torch.zeros(80, 80).long()}
    >>> chain(sample, index=0)["image"].shape
    torch.Size([1, 64, 64])
    """
    turned = RandomAffine(180, scale=(0.7, 1.4), interpolation="bicubic")
    inverted = [RandomInvert(1.0), RandomGamma((0.7, 1.5), 1.0), RandomInvert(1.0)]
    steps: list[Any] = [
        RandomApply([turned], 0.36),
        CenterCrop(size),
        RandomHorizontalFlip(),
        RandomVerticalFlip(),
        GaussianNoise(0.0, (0.0, 0.316), p=0.1),
        RandomApply([GaussianBlur(9, (0.5, 1.0))], 0.2),
        RandomApply([ColorJitter(brightness=(0.75, 1.25))], 0.15),
        RandomApply([ColorJitter(contrast=(0.75, 1.25))], 0.15),
        Downscale((0.5, 0.999), 0.25),
        RandomApply(inverted, 0.1),
        RandomGamma((0.7, 1.5), 0.3),
    ]
    return Compose(steps, seed=seed)


_YOLO_BOXES = {"boxes": "sanitize", "min_size": 2.0, "min_visibility": 0.1}


def _movement(degrees: float, translate: float, scale: float, shear: float) -> dict[str, Any]:
    """Return RandomAffine's arguments for YOLO's."""
    return {
        "degrees": degrees,
        "translate": (translate, translate) if translate > 0.0 else None,
        "scale": (1.0 - scale, 1.0 + scale),
        "shear": (-shear, shear, -shear, shear) if shear > 0.0 else None,
    }


def yolo_mosaic(
    size: int = 640,
    *,
    degrees: float = 0.0,
    translate: float = 0.1,
    scale: float = 0.5,
    shear: float = 0.0,
    seed: int | None = None,
    **options: Any,
) -> Mosaic:
    """Return Ultralytics' YOLO mosaic: four images of a batch, moved at random and cut to a size.

    Each image is interpolated once, where YOLO resizes it onto a canvas that it then warps.

    Parameters
    ----------
    size : int
        Height and width of the result.
    degrees, translate, scale, shear : float
        Ranges of rotation, shift (a share of `size`), zoom and shear.
    seed : int, optional
    **options
        Options for :class:`Mosaic`; by default as for :func:`yolo_train`, and no antialiasing.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> photos = [{"image": torch.zeros(3, 50, 60, dtype=torch.uint8)} for _ in range(4)]
    >>> presets.yolo_mosaic(64, seed=0).collate(photos)["image"].shape
    torch.Size([4, 3, 64, 64])
    """
    options = {**_YOLO_BOXES, "antialias": False, **options}
    return Mosaic(size, **_movement(degrees, translate, scale, shear), seed=seed, **options)


def yolo_train(
    size: int = 640,
    *,
    degrees: float = 0.0,
    translate: float = 0.1,
    scale: float = 0.5,
    shear: float = 0.0,
    hsv: tuple[float, float, float] = (0.015, 0.7, 0.4),
    flip: float = 0.5,
    seed: int | None = None,
    **options: Any,
) -> Compose:
    """Return Ultralytics' YOLO augmentation.

    As it stands, this is what YOLO does without a mosaic. Behind :func:`yolo_mosaic`, which moves
    the canvas, use ``translate=0, scale=0``.

    Parameters
    ----------
    size : int
        Height and width of the result.
    degrees, translate, scale, shear : float
        Ranges of rotation, shift (a share of the image's sides), zoom and shear.
    hsv : tuple of float
        Gains of :class:`RandomHSV`.
    flip : float
        Probability.
    seed : int, optional
    **options
        Options for :class:`Compose`; by default boxes are clipped and dropped where too little is
        left: ``boxes="sanitize", min_size=2, min_visibility=0.1``.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> photos = [{"image": torch.zeros(3, 50, 60, dtype=torch.uint8)} for _ in range(4)]
    >>> batch = presets.yolo_mosaic(64, seed=0).collate(photos)
    >>> presets.yolo_train(64, translate=0, scale=0, seed=0)(batch)["image"].shape
    torch.Size([4, 3, 64, 64])
    """
    moved = RandomAffine(**_movement(degrees, translate, scale, shear), fill=114)
    steps: list[Any] = [
        moved,
        CenterCrop(size, fill=114),
        RandomHorizontalFlip(flip),
        RandomHSV(*hsv),
        ToDtype(torch.float32, scale=True),
    ]
    return Compose(steps, seed=seed, **{**_YOLO_BOXES, **options})
