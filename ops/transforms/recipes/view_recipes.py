"""Recipes for self-supervised learning, which :mod:`presets` has with the others."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from ..._torch.options import Interpolation
from ..arguments import fail, whole
from ..classes.blur import GaussianBlur
from ..classes.choosing import RandomApply
from ..classes.color import ColorJitter, RandomGrayscale
from ..classes.crop import RandomHorizontalFlip
from ..classes.curves import RandomSolarize
from ..classes.decode_jpeg import DecodeJpeg
from ..classes.resize import RandomResizedCrop
from ..classes.views import Views
from .frameworks import MEAN, STD, to_float


class _Values(NamedTuple):
    """What all views of a recipe do with values."""

    channels: int
    mean: Sequence[float]
    std: Sequence[float]
    files: bool


def _values(
    name: str,
    channels: int,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
    files: bool,
) -> _Values:
    """Return them; ImageNet's mean and deviation, which are of three channels, by default."""
    own = whole(f"presets.{name}", "channels", channels, 1, "a whole number >= 1")
    if own != 3 and (mean is None or std is None):
        fail(f"presets.{name}", "mean", mean, f"given with std for images of {own} channels")
    if files and own not in (1, 3):
        fail(f"presets.{name}", "channels", own, "1 or 3 with files=True")
    return _Values(own, MEAN if mean is None else mean, STD if std is None else std, files)


def _view(
    size: int,
    scale: tuple[float, float],
    jitter: tuple[float, float, float, float],
    blur: float,
    values: _Values,
    *,
    kernel: int | None = None,
    solarize: float = 0.0,
    interpolation: Interpolation = "bilinear",
) -> list[Any]:
    """Return the steps of one view."""
    side = kernel or max(3, (size // 10) // 2 * 2 + 1)  # a tenth of the image, odd
    colored = values.channels == 3
    mode: Literal["rgb", "gray"] = "rgb" if colored else "gray"
    steps: list[Any] = [
        *([DecodeJpeg(mode)] if values.files else []),
        RandomResizedCrop(size, scale, interpolation=interpolation),
        RandomHorizontalFlip(),
        RandomApply([ColorJitter(*jitter[: {1: 2, 3: 4}.get(values.channels, 1)])], 0.8),
        *([RandomGrayscale(0.2)] if colored else []),
        RandomApply([GaussianBlur(side, (0.1, 2.0))], blur),
    ]
    if solarize > 0.0:
        steps.append(RandomSolarize(128, solarize))
    return [*steps, *to_float(values.mean, values.std)]


def simclr(
    size: int = 224,
    strength: float = 1.0,
    *,
    channels: int = 3,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    files: bool = False,
    seed: int | None = None,
) -> Views:
    """Return SimCLR's two views, of uint8 images.

    Parameters
    ----------
    size : int
        Height and width of a view.
    strength : float
        Strength of the change of colours.
    channels : int
        Images of 1 channel change in brightness and contrast, those of more than 3 in brightness
        alone; neither turns grey.
    mean, std : sequence of float, optional
        ImageNet's by default, which are of three channels.
    files : bool
        Take JPEG files: :class:`DecodeJpeg` comes first.
    seed : int, optional

    Notes
    -----
    Source: google-research/simclr, ``data_util.py``, and lightly 1.6.0, ``SimCLRTransform``;
    T. Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML
    2020. The blur's kernel is a tenth of the size, and 3 at least.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> first, second = presets.simclr(32, seed=0)(torch.zeros(3, 50, 60, dtype=torch.uint8))
    >>> first.shape
    torch.Size([3, 32, 32])
    """
    s, values = strength, _values("simclr", channels, mean, std, files)
    view = _view(size, (0.08, 1.0), (0.8 * s, 0.8 * s, 0.8 * s, 0.2 * s), 0.5, values)
    return Views([view, view], seed=seed)


def moco(
    size: int = 224,
    version: int = 2,
    *,
    channels: int = 3,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    files: bool = False,
    seed: int | None = None,
) -> Views:
    """Return the two views of MoCo v2, or of v3, which are BYOL's; of uint8 images.

    Parameters
    ----------
    size : int
        Height and width of a view.
    version : {2, 3}
    channels, mean, std, files, seed
        As for :func:`simclr`.

    Notes
    -----
    Source: facebookresearch/moco and moco-v3, ``main_moco.py``; X. Chen et al., "Improved Baselines
    with Momentum Contrastive Learning", 2020, and "An Empirical Study of Training Self-Supervised
    Vision Transformers", ICCV 2021.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> first, second = presets.moco(32, 3, seed=0)(torch.zeros(3, 50, 60, dtype=torch.uint8))
    >>> second.shape
    torch.Size([3, 32, 32])
    """
    values = _values("moco", channels, mean, std, files)
    if version == 2:
        view = _view(size, (0.2, 1.0), (0.4, 0.4, 0.4, 0.1), 0.5, values)
        return Views([view, view], seed=seed)
    if version != 3:
        fail("presets.moco", "version", version, "2 or 3")
    jitter = (0.4, 0.4, 0.2, 0.1)
    first = _view(size, (0.08, 1.0), jitter, 1.0, values)
    second = _view(size, (0.08, 1.0), jitter, 0.1, values, solarize=0.2)
    return Views([first, second], seed=seed)


def dino(
    size: int = 224,
    local_size: int = 96,
    local_views: int = 8,
    *,
    channels: int = 3,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    files: bool = False,
    seed: int | None = None,
) -> Views:
    """Return DINOv2's views: two of most of the image, then small ones of a part; of uint8 images.

    Parameters
    ----------
    size, local_size : int
        Heights and widths of the views.
    local_views : int
        How many small ones.
    channels, mean, std, files, seed
        As for :func:`simclr`.

    Notes
    -----
    Source: facebookresearch/dinov2, ``dinov2/data/augmentations.py`` and
    ``configs/ssl_default_config.yaml``; M. Oquab et al., "DINOv2: Learning Robust Visual Features
    without Supervision", 2023.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> views = presets.dino(32, 16, 2, seed=0)(torch.zeros(3, 50, 60, dtype=torch.uint8))
    >>> [view.shape[-1] for view in views]
    [32, 32, 16, 16]
    """
    values = _values("dino", channels, mean, std, files)
    jitter, kernel, mode = (0.4, 0.4, 0.2, 0.1), 9, "bicubic"
    wide, narrow = (0.32, 1.0), (0.05, 0.32)
    options: dict[str, Any] = {"kernel": kernel, "interpolation": mode}
    first = _view(size, wide, jitter, 1.0, values, **options)
    second = _view(size, wide, jitter, 0.1, values, solarize=0.2, **options)
    local = _view(local_size, narrow, jitter, 0.5, values, **options)
    return Views([first, second, *[local] * local_views], seed=seed)
