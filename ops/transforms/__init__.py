"""Augmentation that fuses itself: transforms in the manner of torchvision's v2.

A :class:`Compose` of these transforms reads and writes each pixel once, whatever their number, on
the CPU and on CUDA, for a sample in a ``Dataset`` and for a batch with parameters for each sample.
"""

from .color import ColorJitter, RandomGrayscale
from .compose import Compose, Parameters
from .convert import Normalize, ToDtype
from .cropping import (
    CenterCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomVerticalFlip,
)
from .engine.effects import Effects
from .engine.plan import Canvas, Plan
from .erasing import RandomErasing
from .geometric import RandomAffine, RandomPerspective, RandomRotation
from .policies import RandAugment, TrivialAugment
from .preview import preview
from .resizing import RandomResizedCrop, Resize
from .targets.move import visible
from .transform import Transform

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
