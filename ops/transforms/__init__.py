"""Augmentation that fuses itself: transforms in the manner of torchvision's v2.

A :class:`Compose` of these transforms reads and writes each pixel once, whatever their number, on
the CPU and on CUDA, for a sample in a ``Dataset`` and for a batch with parameters for each sample.
"""

from ._color import ColorJitter, RandomGrayscale
from ._compose import Compose, Parameters
from ._convert import Normalize, ToDtype
from ._cropping import (
    CenterCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomVerticalFlip,
)
from ._erasing import RandomErasing
from ._geometric import RandomAffine, RandomPerspective, RandomRotation
from ._plan import Canvas, Plan
from ._policies import RandAugment, TrivialAugment
from ._preview import preview
from ._resizing import RandomResizedCrop, Resize
from ._targets import visible
from ._transform import Effects, Transform

# The name in the literature's plain words, and torchvision's.
RandomAugment = RandAugment
TrivialAugmentWide = TrivialAugment

__all__ = [
    "Canvas",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "Effects",
    "Normalize",
    "Pad",
    "Parameters",
    "Plan",
    "RandAugment",
    "RandomAffine",
    "RandomAugment",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomPerspective",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
    "ToDtype",
    "Transform",
    "TrivialAugment",
    "TrivialAugmentWide",
    "preview",
    "visible",
]
