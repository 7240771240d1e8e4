"""Recipes of mmsegmentation, nnU-Net and YOLO, which :mod:`presets` has with the others."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..arguments import size_pair
from ..base import Transform
from ..chain.effects import Effects
from ..chain.operators import Pixels
from ..chain.plan import Canvas, Plan
from ..classes.blur import Downscale, GaussianBlur
from ..classes.choosing import RandomApply, RandomChoice
from ..classes.color import RandomBrightnessContrast
from ..classes.crop import CenterCrop, RandomCrop, RandomHorizontalFlip, RandomVerticalFlip
from ..classes.decode_jpeg import DecodeJpeg
from ..classes.geometry import RandomAffine
from ..classes.noise import GaussianNoise, RandomHSV
from ..classes.resize import Letterbox, ScaleJitter
from ..classes.target_crops import CropByCategory
from ..classes.types import Normalize, ToDtype
from ..compose import Compose
from ..mixing.mosaic import Mosaic
from ..sample.leaf import Leaf

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet


def to_float(mean: Sequence[float] | None, std: Sequence[float]) -> list[Any]:
    """Return the steps to floats from 0 to 1, and to those of mean 0."""
    steps: list[Any] = [ToDtype(torch.float32, scale=True)]
    return steps if mean is None else [*steps, Normalize(mean, std)]


def recipe(steps: list[Any], seed: int | None, **options: Any) -> Compose:
    """Return the chain, whose transforms know its options: they belong to the recipe."""
    chain = Compose(steps, seed=seed, **options)
    for step in chain.transforms:
        step.__dict__["_recipe_options"] = options
    return chain


def first_of(files: bool, reduced: bool = True) -> list[Any]:
    """Return the step that reads files, if any."""
    return [DecodeJpeg(reduced=reduced)] if files else []


def mmsegmentation_train(
    crop_size: int | Sequence[int] = (512, 1024),
    scale: Sequence[int] = (2048, 1024),
    *,
    ratio_range: tuple[float, float] = (0.5, 2.0),
    cat_max_ratio: float = 0.75,
    mean: Sequence[float] | None = MEAN,
    std: Sequence[float] = STD,
    files: bool = False,
    seed: int | None = None,
) -> Compose:
    """Return mmsegmentation's usual recipe: a random size, a crop by classes, a mirror, colours.

    Parameters
    ----------
    crop_size : int or pair of int
        Height and width of the result; smaller images are padded at the right and the bottom,
        their masks by 255.
    scale : pair of int
        The longer and the shorter side before the random size: the image is fitted into it.
    ratio_range : pair of float
        Range of the factor of both.
    cat_max_ratio : float
        The greatest share of a class in a crop.
    mean, std : sequence of float
    files : bool
        Take JPEG files: :class:`DecodeJpeg` comes first.
    seed : int, optional

    Notes
    -----
    Source: mmsegmentation 1.2.2, ``configs/_base_/datasets/cityscapes.py``, and
    ``PhotoMetricDistortion`` in ``mmseg/datasets/transforms/transoutputs.py``: four changes with a
    probability of 0.5 each, and no other order of channels. Images have three channels.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> chain = presets.mmsegmentation_train(48, (80, 60), seed=0)
    >>> sample = {"image": torch.zeros(3, 90, 80), "mask": torch.zeros(90, 80).long()}
    >>> chain(sample, index=0)["mask"].shape
    torch.Size([48, 48])
    """
    contrast = RandomBrightnessContrast(0.0, 0.5)  # a factor, about black
    colors = [RandomHSV(0.0, 0.5, 0.0, p=0.5), RandomHSV(0.1, 0.0, 0.0, p=0.5)]
    steps: list[Any] = [
        *first_of(files),
        ScaleJitter((max(scale), min(scale)), ratio_range, turn=True),
        CropByCategory(crop_size, cat_max_ratio),
        RandomHorizontalFlip(),
        RandomBrightnessContrast(32 / 255, 0.0),
        RandomChoice([Compose([contrast, *colors]), Compose([*colors, contrast])]),
        *to_float(mean, std),
        RandomCrop(crop_size, pad_if_needed="end"),
    ]
    return recipe(steps, seed, mask_fill=255)


_CHANNELS = 4  # of nnU-Net's images at most


class ChannelValues(Transform):
    """nnU-Net's changes of values, which each channel draws for itself.

    Parameters
    ----------
    kind : {"brightness", "contrast", "gamma"}
        Multiply; multiply about the mean and keep the range; or raise to a power within the range
        and keep mean and deviation.
    low, high : float
        Range of the factor or power: half of them below 1, half above.
    p : float
        Probability, for each sample.
    inverted : bool
        For the power: of the negative image.

    Notes
    -----
    Source: batchgeneratorsv2 0.3.6, ``transforms/intensity``. Parameters: ``apply`` and
    ``factors`` ``[B, 4]``.
    """

    draws = 1 + 2 * _CHANNELS

    def __init__(
        self,
        kind: Literal["brightness", "contrast", "gamma"],
        low: float,
        high: float,
        p: float,
        *,
        inverted: bool = False,
    ) -> None:
        super().__init__()
        self.kind, self.low, self.high, self.p, self.inverted = kind, low, high, p, inverted

    def effects(self) -> Effects:
        return Effects(alone="it measures each channel")

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        """Draw whether it applies, and a factor for each channel."""
        amount = uniforms[:, 2::2]
        below = self.low + (1.0 - self.low) * amount
        above = 1.0 + (self.high - 1.0) * amount
        factors = np.where(uniforms[:, 1::2] < 0.5, below, above)
        return {"apply": uniforms[:, 0] < self.p, "factors": factors}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add nothing: it joins no pass."""

    def run_images(self, leaf: Leaf, params: Mapping[str, Any]) -> None:
        pixels = Pixels(leaf)
        if not pixels.dtype.is_floating_point or pixels.channels > _CHANNELS:
            raise TypeError(
                f"visops.transforms.presets.nnunet_2d: {leaf.name} has dtype {pixels.dtype} and "
                f"{pixels.channels} channels, must be floating, of 1 to {_CHANNELS} channels"
            )
        if not np.any(params["apply"]):
            return  # the chain's crop has made these images: nobody else has their memory
        changed = []
        for i, image in enumerate(pixels.tensors(leaf)):
            sample = i // pixels.frames
            if params["apply"][sample]:
                factors = np.asarray(params["factors"])[sample][: pixels.channels]
                changed.append(self._changed(image, pixels.put(factors).to(image.dtype)))
            else:
                changed.append(image)
        one = changed[0].unsqueeze(0)
        pixels.store(leaf, changed if pixels.listed else torch.stack(changed) if i else one)

    def _changed(self, image: Tensor, factors: Tensor) -> Tensor:
        factor, plane = factors[:, None, None], (-2, -1)
        if self.kind == "brightness":
            return image * factor
        mean = image.mean(plane, keepdim=True)
        low, high = image.amin(plane, keepdim=True), image.amax(plane, keepdim=True)
        if self.kind == "contrast":
            return torch.minimum(torch.maximum((image - mean) * factor + mean, low), high)
        if self.inverted:
            image, mean, low, high = -image, -mean, -high, -low
        reach, tiny = high - low, 1e-7
        powers = ((image - low) / reach.clamp(min=tiny)) ** factor * reach + low
        deviation = image.std(plane, keepdim=True)
        ratio = deviation / powers.std(plane, keepdim=True).clamp(min=tiny)
        kept = (powers - powers.mean(plane, keepdim=True)) * ratio + mean
        return -kept if self.inverted else kept


def nnunet_2d(size: int | Sequence[int] = (256, 256), *, seed: int | None = None) -> Compose:
    """Return nnU-Net's augmentation of 2-D slices, for floating images of 1 to 4 channels.

    Rotation, scale, Gaussian noise and blur, brightness, contrast, a lower resolution, gamma of the
    negative and of the plain image, and mirrors, with nnU-Net's probabilities and ranges. Images
    are normalised before, as nnU-Net's are; nothing is clipped to [0, 1]. Patches with a side more
    than half as long again as the other turn by 15 degrees at most.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the patch, cut from the middle.
    seed : int, optional

    Notes
    -----
    Where it differs: a factor of scale is drawn evenly for the object instead of for its inverse;
    blur and lower resolution are drawn for all channels at once, with the probability that
    each channel has there; what a rotation shows from outside is labelled 0.

    Source: nnunetv2 2.8.1, ``nnUNetTrainer.get_training_transforms``, with batchgeneratorsv2 0.3.6;
    F. Isensee et al., "nnU-Net: a self-configuring method for deep learning-based biomedical image
    segmentation", Nature Methods 18, 2021.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> chain = presets.nnunet_2d(64, seed=0)
    >>> sample = {"image": torch.randn(1, 80, 80), "mask": torch.zeros(80, 80).long()}
    >>> chain(sample, index=0)["image"].shape
    torch.Size([1, 64, 64])
    """
    sides = size_pair("presets.nnunet_2d", "size", size)
    degrees = 15 if max(sides) > 1.5 * min(sides) else 180
    steps: list[Any] = [
        RandomApply([RandomAffine(degrees)], 0.2),
        RandomApply([RandomAffine(0, scale=(1 / 1.4, 1 / 0.7))], 0.2),
        CenterCrop(size),
        GaussianNoise(0.0, (0.0, 0.1), clip=False, p=0.1),
        RandomApply([GaussianBlur(9, (0.5, 1.0))], 0.2 * 0.5),
        ChannelValues("brightness", 0.75, 1.25, 0.15),
        ChannelValues("contrast", 0.75, 1.25, 0.15),
        Downscale((0.5, 0.999), 0.25 * 0.5),
        ChannelValues("gamma", 0.7, 1.5, 0.1, inverted=True),
        ChannelValues("gamma", 0.7, 1.5, 0.3),
        RandomHorizontalFlip(),
        RandomVerticalFlip(),
    ]
    return recipe(steps, seed, mask_fill=0)


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
    letterbox: bool = True,
    files: bool = False,
    seed: int | None = None,
    **options: Any,
) -> Compose:
    """Return Ultralytics' YOLO augmentation.

    As it stands, this is what YOLO does without a mosaic. Behind :func:`yolo_mosaic`, which moves
    the canvas, use ``translate=0, scale=0, letterbox=False``. Images are uint8, or files: the grey
    around them is 114 of 255. The letterbox refuses floating images; without it, what is around
    them is white.

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
    letterbox : bool
        Fit the image into the size first.
    files : bool
        Take JPEG files: :class:`DecodeJpeg` comes first.
    seed : int, optional
    **options
        Options for :class:`Compose`; by default boxes are clipped and dropped where too little is
        left: ``boxes="sanitize", min_size=2, min_visibility=0.1``.

    Notes
    -----
    Source: ultralytics 8.4.190, ``v8_transforms`` in ``ultralytics/data/augment.py`` and
    ``cfg/default.yaml``.

    Examples
    --------
    >>> import torch
    >>> from visops.transforms import presets
    >>> photos = [{"image": torch.zeros(3, 50, 60, dtype=torch.uint8)} for _ in range(4)]
    >>> batch = presets.yolo_mosaic(64, seed=0).collate(photos)
    >>> presets.yolo_train(64, translate=0, scale=0, letterbox=False, seed=0)(batch)["image"].shape
    torch.Size([4, 3, 64, 64])
    """
    moved = RandomAffine(**_movement(degrees, translate, scale, shear), fill=114)
    steps: list[Any] = [
        *first_of(files),
        *([Letterbox(size, 114)] if letterbox else []),
        moved,
        CenterCrop(size, fill=114),
        RandomHorizontalFlip(flip),
        RandomHSV(*hsv),
        ToDtype(torch.float32, scale=True),
    ]
    return recipe(steps, seed, **{**_YOLO_BOXES, **options})
