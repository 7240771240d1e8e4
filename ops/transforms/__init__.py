"""Augmentation that fuses itself: transforms with the interface of torchvision's v2.

A :class:`Compose` of these transforms reads and writes each pixel once, however many there are. It
works on the CPU and on CUDA, on one sample in a ``Dataset`` or on a batch, where every sample draws
its own parameters.
"""

# A house of rooms, each importing only those before it: `sample` splits a sample into images and
# targets, `targets` moves targets, `chain` forms passes and runs them, and `compose` is a chain.
# `mixing` combines the samples of a batch, `classes` has the transforms, `loading` runs chains in
# threads, and `recipes` has whole chains.

from . import presets
from .base import Transform
from .chain.effects import Effects
from .chain.foreign import ImageOnly
from .chain.plan import Canvas, Plan
from .chain.source import Parameters
from .classes.blur import (
    CLAHE,
    Blur,
    Downscale,
    Emboss,
    GaussianBlur,
    MedianBlur,
    MotionBlur,
    Sharpen,
    UnsharpMask,
)
from .classes.boxes import (
    ClampBoundingBoxes,
    ConvertBoundingBoxFormat,
    SanitizeBoundingBoxes,
    SanitizeKeyPoints,
)
from .classes.choosing import RandomApply, RandomChoice, RandomOrder
from .classes.color import (
    ColorJitter,
    ColorMatrix,
    Grayscale,
    RandomBrightnessContrast,
    RandomChannelPermutation,
    RandomGrayscale,
    RandomPhotometricDistort,
    RGBShift,
)
from .classes.crop import (
    CenterCrop,
    FiveCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomSizeCrop,
    RandomVerticalFlip,
    TenCrop,
)
from .classes.curves import (
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomGamma,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from .classes.decode_jpeg import DecodeImage, DecodeJpeg
from .classes.distortion import ElasticTransform, GridDistortion, OpticalDistortion, ThinPlateSpline
from .classes.dropout import ChannelDropout, CoarseDropout, GridDropout, RandomErasing
from .classes.geometry import (
    D4,
    RandomAffine,
    RandomPerspective,
    RandomRotate90,
    RandomRotation,
    Transpose,
)
from .classes.learned_policies import AugMix, AutoAugment, AutoAugmentPolicy
from .classes.noise import JPEG, GaussianNoise, RandomHSV, SaltAndPepper, ShotNoise
from .classes.policies import RandAugment, TrivialAugment, from_timm
from .classes.resize import (
    Letterbox,
    RandomResize,
    RandomResizedCrop,
    RandomShortestSize,
    RandomZoomOut,
    Resize,
    ScaleJitter,
)
from .classes.target_crops import CropByCategory, RandomIoUCrop
from .classes.types import (
    ConvertImageDtype,
    Identity,
    Normalize,
    PILToTensor,
    ToDtype,
    ToImage,
    ToPILImage,
    ToPureTensor,
    ToTensor,
)
from .classes.views import Views
from .classes.whole_images import LinearTransformation, UniformTemporalSubsample
from .compose import Compose
from .loading.indexed_dataset import IndexedDataset, IndexedSampler
from .loading.loader import Loader
from .loading.statistics import LoaderStats
from .mixing.copy_paste import CopyPaste
from .mixing.cut_mix import CutMix
from .mixing.mix_up import MixUp
from .mixing.mosaic import Mosaic
from .recipes import convert as torchvision_names
from .recipes.convert import convert
from .recipes.preview import preview
from .targets.move import visible

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
    "ColorMatrix",
    "Compose",
    "ConvertBoundingBoxFormat",
    "ConvertImageDtype",
    "CopyPaste",
    "CropByCategory",
    "CutMix",
    "DecodeImage",
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
