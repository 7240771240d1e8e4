"""Augmentation that fuses itself: transforms with the interface of torchvision's v2.

A :class:`Compose` of these transforms reads and writes each pixel once, however many there are. It
works on the CPU and on CUDA, on one sample in a ``Dataset`` or on a batch, where every sample draws
its own parameters.
"""

# The transforms are on top of four rooms, each importing only those before it: `sample` splits a
# sample into images and targets, `targets` moves targets, `engine` forms passes and runs them,
# `mixing` combines the samples of a batch; above the transforms, `loading` runs chains in threads.

from . import presets, torchvision_names
from .additive import RandomBrightnessContrast, RandomChannelPermutation, RGBShift
from .aug_mix import AugMix
from .auto_augment import AutoAugment, AutoAugmentPolicy
from .bending import ElasticTransform, GridDistortion, OpticalDistortion, ThinPlateSpline
from .blurring import GaussianBlur
from .box_steps import (
    ClampBoundingBoxes,
    ConvertBoundingBoxFormat,
    SanitizeBoundingBoxes,
    SanitizeKeyPoints,
)
from .choosing import RandomApply, RandomChoice, RandomOrder
from .color import ColorJitter, RandomGrayscale
from .compose import Compose
from .compressing import JPEG
from .conversions import (
    ConvertImageDtype,
    Identity,
    PILToTensor,
    ToImage,
    ToPILImage,
    ToPureTensor,
    ToTensor,
)
from .converting import convert
from .cropping import (
    CenterCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomVerticalFlip,
)
from .crops_at_positions import FiveCrop, RandomSizeCrop, TenCrop
from .decoding import DecodeJpeg
from .distortion import Grayscale, RandomPhotometricDistort
from .dropping import ChannelDropout, CoarseDropout, GridDropout
from .dtypes import Normalize, ToDtype
from .engine.effects import Effects
from .engine.foreign import ImageOnly
from .engine.plan import Canvas, Plan
from .engine.source import Parameters
from .erasing import RandomErasing
from .geometric import RandomAffine, RandomPerspective, RandomRotation
from .indexed_dataset import IndexedDataset, IndexedSampler
from .linear import LinearTransformation, UniformTemporalSubsample
from .loader import Loader
from .loading.statistics import LoaderStats
from .mixing.copy_paste import CopyPaste
from .mixing.cut_mix import CutMix
from .mixing.mix_up import MixUp
from .mixing.mosaic import Mosaic
from .neighbourhoods import (
    CLAHE,
    Blur,
    Downscale,
    Emboss,
    MedianBlur,
    MotionBlur,
    Sharpen,
    UnsharpMask,
)
from .noise import GaussianNoise, RandomHSV, SaltAndPepper, ShotNoise
from .policies import RandAugment, TrivialAugment
from .preview import preview
from .resizing import Letterbox, RandomResizedCrop, Resize
from .scaling import RandomResize, RandomShortestSize, RandomZoomOut, ScaleJitter
from .searching import CropByCategory, RandomIoUCrop
from .symmetries import D4, RandomRotate90, Transpose
from .targets.move import visible
from .timm_policies import from_timm
from .transform import Transform
from .values import (
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomGamma,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from .views import Views

# The full name, and torchvision's.
RandomAugment = RandAugment
TrivialAugmentWide = TrivialAugment

__all__ = [
    "CLAHE",
    "D4",
    "JPEG",
    "AugMix",
    "AutoAugment",
    "AutoAugmentPolicy",
    "Blur",
    "Canvas",
    "CenterCrop",
    "ChannelDropout",
    "ClampBoundingBoxes",
    "CoarseDropout",
    "ColorJitter",
    "Compose",
    "ConvertBoundingBoxFormat",
    "ConvertImageDtype",
    "CopyPaste",
    "CropByCategory",
    "CutMix",
    "DecodeJpeg",
    "Downscale",
    "Effects",
    "ElasticTransform",
    "Emboss",
    "FiveCrop",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "GridDistortion",
    "GridDropout",
    "Identity",
    "ImageOnly",
    "IndexedDataset",
    "IndexedSampler",
    "Letterbox",
    "LinearTransformation",
    "Loader",
    "LoaderStats",
    "MedianBlur",
    "MixUp",
    "Mosaic",
    "MotionBlur",
    "Normalize",
    "OpticalDistortion",
    "PILToTensor",
    "Pad",
    "Parameters",
    "Plan",
    "RGBShift",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAugment",
    "RandomAutocontrast",
    "RandomBrightnessContrast",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGamma",
    "RandomGrayscale",
    "RandomHSV",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomOrder",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotate90",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSizeCrop",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resize",
    "SaltAndPepper",
    "SanitizeBoundingBoxes",
    "SanitizeKeyPoints",
    "ScaleJitter",
    "Sharpen",
    "ShotNoise",
    "TenCrop",
    "ThinPlateSpline",
    "ToDtype",
    "ToImage",
    "ToPILImage",
    "ToPureTensor",
    "ToTensor",
    "Transform",
    "Transpose",
    "TrivialAugment",
    "TrivialAugmentWide",
    "UniformTemporalSubsample",
    "UnsharpMask",
    "Views",
    "convert",
    "from_timm",
    "presets",
    "preview",
    "visible",
]


def __getattr__(name: str) -> object:
    """Find the names of torchvision that this package doesn't have itself."""
    return torchvision_names.find(name)
