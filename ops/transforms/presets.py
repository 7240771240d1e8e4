"""Whole recipes by name: the chains that well-known training scripts use.

Each returns a :class:`Compose`, or :class:`Views` of several. Print one to see its transforms, and
change its list `transforms` where your recipe differs.
"""

from collections.abc import Sequence
from typing import Any

from .arguments import fail
from .auto_augment import AutoAugment
from .blurring import GaussianBlur
from .choosing import RandomApply, RandomChoice
from .color import ColorJitter, RandomGrayscale
from .compose import Compose
from .cropping import CenterCrop, RandomCrop, RandomHorizontalFlip
from .crops_at_positions import RandomSizeCrop
from .distortion import RandomPhotometricDistort
from .erasing import RandomErasing
from .policies import RandAugment, TrivialAugment
from .recipes import (
    MEAN,
    STD,
    mmsegmentation_train,
    nnunet_2d,
    to_float,
    yolo_mosaic,
    yolo_train,
)
from .resizing import RandomResizedCrop, Resize
from .scaling import RandomResize, RandomShortestSize, RandomZoomOut, ScaleJitter
from .searching import RandomIoUCrop
from .values import RandomSolarize
from .views import Views

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
    policy: str | None = None,
    magnitude: int = 9,
    erasing: float = 0.0,
    flip: float = 0.5,
    interpolation: str = "bilinear",
    mean: Sequence[float] | None = MEAN,
    std: Sequence[float] = STD,
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
    seed : int, optional

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> train = presets.classification_train(64, policy="ta_wide", erasing=0.1, seed=0)
    >>> train(torch.zeros(3, 90, 80, dtype=torch.uint8), index=0).shape
    torch.Size([3, 64, 64])
    """
    steps: list[Any] = [RandomResizedCrop(size, interpolation=interpolation)]
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
    interpolation: str = "bilinear",
    mean: Sequence[float] | None = MEAN,
    std: Sequence[float] = STD,
) -> Compose:
    """Return torchvision's reference recipe for evaluating classifiers.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> presets.classification_eval()(torch.zeros(3, 300, 400, dtype=torch.uint8)).shape
    torch.Size([3, 224, 224])
    """
    steps = [Resize(resize, interpolation=interpolation), CenterCrop(size)]
    return Compose([*steps, *to_float(mean, std)])


_SHORT_SIDES = (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)


def detection_train(
    kind: str = "hflip",
    *,
    fill: Sequence[float] = (123.0, 117.0, 104.0),
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
    seed : int, optional
    **options
        Options for :class:`Compose`. By default it clips boxes to the image and drops those that
        are left empty, with what belongs to them: ``boxes="sanitize"``.

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
        crop = RandomCrop((1024, 1024), pad_if_needed=True, fill=fill)
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
    return Compose([*steps, *to_float(None, STD)], seed=seed, **options)


def detection_eval() -> Compose:
    """Return torchvision's reference recipe for evaluating detectors: floats from 0 to 1."""
    return Compose(to_float(None, STD))


def segmentation_train(
    base_size: int = 520,
    crop_size: int = 480,
    *,
    flip: float = 0.5,
    mean: Sequence[float] | None = MEAN,
    std: Sequence[float] = STD,
    mask_fill: int = 255,
    seed: int | None = None,
) -> Compose:
    """Return torchvision's reference recipe for training semantic segmentation.

    Parameters
    ----------
    base_size : int
        The shorter side is resized to half of it up to twice as much.
    crop_size : int
        Height and width of the result; smaller images are padded.
    flip : float
        Probability.
    mean, std : sequence of float
    mask_fill : int
        The value of masks around padded images.
    seed : int, optional

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> chain = presets.segmentation_train(64, 48, seed=0)
    >>> sample = {"image": torch.zeros(3, 90, 80), "mask": torch.zeros(90, 80).long()}
    >>> chain(sample, index=0)["mask"].shape
    torch.Size([48, 48])
    """
    steps: list[Any] = [RandomResize(base_size // 2, base_size * 2)]
    if flip > 0.0:
        steps.append(RandomHorizontalFlip(flip))
    steps.append(RandomCrop(crop_size, pad_if_needed=True))
    return Compose([*steps, *to_float(mean, std)], seed=seed, mask_fill=mask_fill)


def segmentation_eval(
    base_size: int = 520,
    *,
    mean: Sequence[float] | None = MEAN,
    std: Sequence[float] = STD,
) -> Compose:
    """Return torchvision's reference recipe for evaluating semantic segmentation."""
    return Compose([Resize((base_size, base_size)), *to_float(mean, std)])


def _view(
    size: int,
    scale: tuple[float, float],
    jitter: tuple[float, float, float, float],
    blur: float,
    *,
    kernel: int | None = None,
    solarize: float = 0.0,
    interpolation: str = "bilinear",
) -> list[Any]:
    """Return the steps of one view."""
    side = kernel or (size // 10) // 2 * 2 + 1  # a tenth of the image, odd
    steps: list[Any] = [
        RandomResizedCrop(size, scale, interpolation=interpolation),
        RandomHorizontalFlip(),
        RandomApply([ColorJitter(*jitter)], 0.8),
        RandomGrayscale(0.2),
        RandomApply([GaussianBlur(side, (0.1, 2.0))], blur),
    ]
    if solarize > 0.0:
        steps.append(RandomSolarize(128, solarize))
    return [*steps, *to_float(MEAN, STD)]


def simclr(size: int = 224, strength: float = 1.0, *, seed: int | None = None) -> Views:
    """Return SimCLR's two views.

    Source: T. Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations",
    ICML 2020, appendix A. Images must be uint8.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> first, second = presets.simclr(32, seed=0)(torch.zeros(3, 50, 60, dtype=torch.uint8))
    >>> first.shape
    torch.Size([3, 32, 32])
    """
    s = strength
    view = _view(size, (0.08, 1.0), (0.8 * s, 0.8 * s, 0.8 * s, 0.2 * s), 0.5)
    return Views([view, view], seed=seed)


def moco(size: int = 224, version: int = 2, *, seed: int | None = None) -> Views:
    """Return the two views of MoCo v2, or of v3, which are BYOL's.

    Source: X. Chen et al., "Improved Baselines with Momentum Contrastive Learning", 2020, and "An
    Empirical Study of Training Self-Supervised Vision Transformers", ICCV 2021. Images must be
    uint8.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> first, second = presets.moco(32, 3, seed=0)(torch.zeros(3, 50, 60, dtype=torch.uint8))
    >>> second.shape
    torch.Size([3, 32, 32])
    """
    if version == 2:
        view = _view(size, (0.2, 1.0), (0.4, 0.4, 0.4, 0.1), 0.5)
        return Views([view, view], seed=seed)
    if version != 3:
        fail("presets.moco", "version", version, "2 or 3")
    jitter = (0.4, 0.4, 0.2, 0.1)
    first = _view(size, (0.2, 1.0), jitter, 1.0)
    second = _view(size, (0.2, 1.0), jitter, 0.1, solarize=0.2)
    return Views([first, second], seed=seed)


def dino(
    size: int = 224, local_size: int = 96, local_views: int = 8, *, seed: int | None = None
) -> Views:
    """Return DINOv2's views: two of most of the image, then small ones of a part.

    Source: M. Oquab et al., "DINOv2: Learning Robust Visual Features without Supervision", 2023.
    Images must be uint8.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> views = presets.dino(32, 16, 2, seed=0)(torch.zeros(3, 50, 60, dtype=torch.uint8))
    >>> [view.shape[-1] for view in views]
    [32, 32, 16, 16]
    """
    jitter, kernel, mode = (0.4, 0.4, 0.2, 0.1), 9, "bicubic"
    wide, narrow = (0.32, 1.0), (0.05, 0.32)
    first = _view(size, wide, jitter, 1.0, kernel=kernel, interpolation=mode)
    second = _view(size, wide, jitter, 0.1, kernel=kernel, solarize=0.2, interpolation=mode)
    local = _view(local_size, narrow, jitter, 0.5, kernel=kernel, interpolation=mode)
    return Views([first, second, *[local] * local_views], seed=seed)
