"""Whole recipes by name: the chains that well-known training scripts use.

Each returns a :class:`Compose`, or :class:`Views` of several. Print one to see its transforms, and
change its list `transforms` where your recipe differs.
"""

from collections.abc import Sequence
from typing import Any, Literal

from .._torch.options import Interpolation
from .arguments import fail
from .classes.choosing import RandomChoice
from .classes.color import RandomPhotometricDistort
from .classes.crop import CenterCrop, RandomCrop, RandomHorizontalFlip, RandomSizeCrop
from .classes.dropout import RandomErasing
from .classes.learned_policies import AutoAugment
from .classes.policies import RandAugment, TrivialAugment
from .classes.resize import (
    RandomResize,
    RandomResizedCrop,
    RandomShortestSize,
    RandomZoomOut,
    Resize,
    ScaleJitter,
)
from .classes.target_crops import RandomIoUCrop
from .compose import Compose
from .recipes.frameworks import (
    MEAN,
    STD,
    first_of,
    mmsegmentation_train,
    nnunet_2d,
    recipe,
    to_float,
    yolo_mosaic,
    yolo_train,
)
from .recipes.view_recipes import dino, moco, simclr

__all__ = [
    "classification_eval",
    "classification_train",
    "detection_eval",
    "detection_train",
    "dino",
    "mmsegmentation_train",
    "moco",
    "nnunet_2d",
    "segmentation_eval",
    "segmentation_train",
    "simclr",
    "yolo_mosaic",
    "yolo_train",
]


def classification_train(
    size: int = 224,
    *,
    policy: Literal["ra", "ta_wide", "imagenet", "cifar10", "svhn"] | None = None,
    magnitude: int = 9,
    erasing: float = 0.0,
    flip: float = 0.5,
    interpolation: Interpolation = "bilinear",
    mean: Sequence[float] | None = MEAN,
    std: Sequence[float] = STD,
    files: bool = False,
    seed: int | None = None,
) -> Compose:
    """Return torchvision's reference recipe for training classifiers.

    Parameters
    ----------
    size : int
        Height and width of the result.
    policy : {"ra", "ta_wide", "imagenet", "cifar10", "svhn"}, optional
        :class:`RandAugment`, :class:`TrivialAugment`, or a policy of :class:`AutoAugment`.
    magnitude : int
        RandAugment's.
    erasing, flip : float
        Probabilities.
    interpolation : {"bilinear", "nearest", "bicubic"}
    mean, std : sequence of float
        For images from 0 to 1; no mean leaves them so.
    files : bool
        Take JPEG files: :class:`DecodeJpeg` comes first.
    seed : int, optional

    Notes
    -----
    Source: torchvision 0.29, ``references/classification/presets.py``.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> train = presets.classification_train(64, policy="ta_wide", erasing=0.1, seed=0)
    >>> train(torch.zeros(3, 90, 80, dtype=torch.uint8), index=0).shape
    torch.Size([3, 64, 64])
    """
    steps: list[Any] = [
        *first_of(files),
        RandomResizedCrop(size, interpolation=interpolation),
    ]
    if flip > 0.0:
        steps.append(RandomHorizontalFlip(flip))
    if policy == "ra":
        steps.append(RandAugment(magnitude=magnitude, interpolation=interpolation))
    elif policy == "ta_wide":
        steps.append(TrivialAugment(interpolation=interpolation))
    elif policy is not None:
        if policy not in ("imagenet", "cifar10", "svhn"):
            allowed = "None, 'ra', 'ta_wide', 'imagenet', 'cifar10' or 'svhn'"
            fail("presets.classification_train", "policy", policy, allowed)
        steps.append(AutoAugment(policy, interpolation))
    steps += to_float(mean, std)
    if erasing > 0.0:
        steps.append(RandomErasing(erasing))
    return Compose(steps, seed=seed)


def classification_eval(
    size: int = 224,
    resize: int = 256,
    *,
    interpolation: Interpolation = "bilinear",
    mean: Sequence[float] | None = MEAN,
    std: Sequence[float] = STD,
    files: bool = False,
) -> Compose:
    """Return torchvision's reference recipe for evaluating classifiers.

    With `files` it takes JPEG files, and decodes them whole.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> presets.classification_eval()(torch.zeros(3, 300, 400, dtype=torch.uint8)).shape
    torch.Size([3, 224, 224])
    """
    steps = [Resize(resize, interpolation=interpolation), CenterCrop(size)]
    return Compose([*first_of(files, reduced=False), *steps, *to_float(mean, std)])


_SHORT_SIDES = (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)


def detection_train(
    kind: Literal["hflip", "multiscale", "lsj", "ssd", "ssdlite", "detr"] = "hflip",
    *,
    fill: Sequence[float] = (123.0, 117.0, 104.0),
    files: bool = False,
    seed: int | None = None,
    **options: Any,
) -> Compose:
    """Return a recipe for training detectors.

    Parameters
    ----------
    kind : {"hflip", "multiscale", "lsj", "ssd", "ssdlite", "detr"}
        torchvision's references: a mirror; a random size; large-scale jitter to 1024 pixels; SSD's
        with and without its change of colours; or DETR's, which resizes, or resizes, crops and
        resizes again.
    fill : sequence of float
        The value around zoomed-out images.
    files : bool
        Take JPEG files: :class:`DecodeJpeg` comes first.
    seed : int, optional
    **options
        Options for :class:`Compose`. By default it clips boxes to the image and drops those that
        are left empty, with what belongs to them: ``boxes="sanitize"``.

    Notes
    -----
    Source: torchvision 0.29, ``references/detection/presets.py``; for "detr",
    facebookresearch/detr, ``datasets/coco.py``.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> chain = presets.detection_train("multiscale", seed=0)
    >>> sample = {
    ...     "image": torch.zeros(3, 300, 400, dtype=torch.uint8),
    ...     "boxes": torch.tensor([[0.0, 0.0, 100.0, 90.0]]),
    ...     "labels": torch.tensor([1]),
    ... }
    >>> sorted(chain(sample, index=0))
    ['boxes', 'image', 'labels']
    """
    flip = RandomHorizontalFlip()
    steps: list[Any]
    if kind == "hflip":
        steps = [flip]
    elif kind == "multiscale":
        steps = [RandomShortestSize(_SHORT_SIDES, max_size=1333), flip]
    elif kind == "lsj":
        crop = RandomCrop((1024, 1024), pad_if_needed="end", fill=fill)
        steps = [ScaleJitter((1024, 1024)), crop, flip]
    elif kind == "ssd":
        colors = RandomPhotometricDistort()
        steps = [colors, RandomZoomOut(fill), RandomIoUCrop(), flip]
    elif kind == "ssdlite":
        steps = [RandomIoUCrop(), flip]
    elif kind == "detr":
        whole = RandomShortestSize(_SHORT_SIDES, max_size=1333)
        part = Compose([RandomShortestSize([400, 500, 600]), RandomSizeCrop(384, 600)])
        steps = [flip, RandomChoice([whole, Compose([part, whole])])]
    else:
        allowed = "'hflip', 'multiscale', 'lsj', 'ssd', 'ssdlite' or 'detr'"
        fail("presets.detection_train", "kind", kind, allowed)
    options = {"boxes": "sanitize", **options}
    return recipe([*first_of(files), *steps, *to_float(None, STD)], seed, **options)


def detection_eval(*, files: bool = False) -> Compose:
    """Return torchvision's reference recipe for evaluating detectors: floats from 0 to 1.

    With `files` it takes JPEG files, and decodes them whole.
    """
    return Compose([*first_of(files, reduced=False), *to_float(None, STD)])


def segmentation_train(
    base_size: int = 520,
    crop_size: int = 480,
    *,
    flip: float = 0.5,
    mean: Sequence[float] | None = MEAN,
    std: Sequence[float] = STD,
    mask_fill: int = 255,
    files: bool = False,
    seed: int | None = None,
) -> Compose:
    """Return torchvision's reference recipe for training semantic segmentation.

    Parameters
    ----------
    base_size : int
        The shorter side is resized to half of it up to twice as much.
    crop_size : int
        Height and width of the result; smaller images are padded at the right and the bottom.
    flip : float
        Probability.
    mean, std : sequence of float
    mask_fill : int
        The value of masks around padded images.
    files : bool
        Take JPEG files: :class:`DecodeJpeg` comes first.
    seed : int, optional

    Notes
    -----
    Source: torchvision 0.29, ``references/segmentation/presets.py``.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> chain = presets.segmentation_train(64, 48, seed=0)
    >>> sample = {"image": torch.zeros(3, 90, 80), "mask": torch.zeros(90, 80).long()}
    >>> chain(sample, index=0)["mask"].shape
    torch.Size([48, 48])
    """
    steps: list[Any] = [*first_of(files), RandomResize(base_size // 2, base_size * 2)]
    if flip > 0.0:
        steps.append(RandomHorizontalFlip(flip))
    steps.append(RandomCrop(crop_size, pad_if_needed="end"))
    return recipe([*steps, *to_float(mean, std)], seed, mask_fill=mask_fill)


def segmentation_eval(
    base_size: int = 520,
    *,
    mean: Sequence[float] | None = MEAN,
    std: Sequence[float] = STD,
    files: bool = False,
) -> Compose:
    """Return torchvision's reference recipe for evaluating semantic segmentation.

    With `files` it takes JPEG files, and decodes them whole.
    """
    steps = [*first_of(files, reduced=False), Resize((base_size, base_size))]
    return Compose([*steps, *to_float(mean, std)])
