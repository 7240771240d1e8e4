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
from .auto_augment import AutoAugment, AutoAugmentPolicy
from .blurring import GaussianBlur
from .box_steps import ClampBoundingBoxes, ConvertBoundingBoxFormat, SanitizeBoundingBoxes
from .choosing import RandomApply, RandomChoice, RandomOrder
from .color import ColorJitter, RandomGrayscale
from .compose import Compose, Parameters
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
from .decoding import DecodeJpeg
from .distortion import Grayscale, RandomPhotometricDistort
from .dtypes import Normalize, ToDtype
from .engine.effects import Effects
from .engine.foreign import ImageOnly
from .engine.plan import Canvas, Plan
from .erasing import RandomErasing
from .geometric import RandomAffine, RandomPerspective, RandomRotation
from .indexed_dataset import IndexedDataset
from .loader import Loader
from .loading.statistics import LoaderStats
from .mixing.cut_mix import CutMix
from .mixing.mix_up import MixUp
from .mixing.mosaic import Mosaic
from .policies import RandAugment, TrivialAugment
from .preview import preview
from .resizing import Letterbox, RandomResizedCrop, Resize
from .scaling import RandomResize, RandomShortestSize, RandomZoomOut, ScaleJitter
from .symmetries import D4, RandomRotate90, Transpose
from .targets.move import visible
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
    "D4",
    "AutoAugment",
    "AutoAugmentPolicy",
    "Canvas",
    "CenterCrop",
    "ClampBoundingBoxes",
    "ColorJitter",
    "Compose",
    "ConvertBoundingBoxFormat",
    "ConvertImageDtype",
    "CutMix",
    "DecodeJpeg",
    "Effects",
    "GaussianBlur",
    "Grayscale",
    "Identity",
    "ImageOnly",
    "IndexedDataset",
    "Letterbox",
    "Loader",
    "LoaderStats",
    "MixUp",
    "Mosaic",
    "Normalize",
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
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotate90",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resize",
    "SanitizeBoundingBoxes",
    "ScaleJitter",
    "ToDtype",
    "ToImage",
    "ToPILImage",
    "ToPureTensor",
    "ToTensor",
    "Transform",
    "Transpose",
    "TrivialAugment",
    "TrivialAugmentWide",
    "Views",
    "convert",
    "presets",
    "preview",
    "visible",
]


def __getattr__(name: str) -> object:
    """Find the names of torchvision that this package doesn't have itself."""
    return torchvision_names.find(name)
