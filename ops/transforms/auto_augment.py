"""AutoAugment's learned policies."""

from enum import Enum
from typing import Any

from .._native import Step
from .arguments import FillArgument, fail
from .policies import OPERATIONS, SIGNED, Policy, level_table

# A sample draws one of the pairs. Each operation has its probability, and a level of 0 to 9 where
# it has a magnitude. Source: E. D. Cubuk et al., "AutoAugment: Learning Augmentation
# Strategies from Data", CVPR 2019, appendix.
_IMAGENET = """
Posterize 0.4 8; Rotate 0.6 9
Solarize 0.6 5; AutoContrast 0.6
Equalize 0.8; Equalize 0.6
Posterize 0.6 7; Posterize 0.6 6
Equalize 0.4; Solarize 0.2 4
Equalize 0.4; Rotate 0.8 8
Solarize 0.6 3; Equalize 0.6
Posterize 0.8 5; Equalize 1
Rotate 0.2 3; Solarize 0.6 8
Equalize 0.6; Posterize 0.4 6
Rotate 0.8 8; Color 0.4 0
Rotate 0.4 9; Equalize 0.6
Equalize 0; Equalize 0.8
Invert 0.6; Equalize 1
Color 0.6 4; Contrast 1 8
Rotate 0.8 8; Color 1 2
Color 0.8 8; Solarize 0.8 7
Sharpness 0.4 7; Invert 0.6
ShearX 0.6 5; Equalize 1
Color 0.4 0; Equalize 0.6
Equalize 0.4; Solarize 0.2 4
Solarize 0.6 5; AutoContrast 0.6
Invert 0.6; Equalize 1
Color 0.6 4; Contrast 1 8
Equalize 0.8; Equalize 0.6
"""
_CIFAR10 = """
Invert 0.1; Contrast 0.2 6
Rotate 0.7 2; TranslateX 0.3 9
Sharpness 0.8 1; Sharpness 0.9 3
ShearY 0.5 8; TranslateY 0.7 9
AutoContrast 0.5; Equalize 0.9
ShearY 0.2 7; Posterize 0.3 7
Color 0.4 3; Brightness 0.6 7
Sharpness 0.3 9; Brightness 0.7 9
Equalize 0.6; Equalize 0.5
Contrast 0.6 7; Sharpness 0.6 5
Color 0.7 7; TranslateX 0.5 8
Equalize 0.3; AutoContrast 0.4
TranslateY 0.4 3; Sharpness 0.2 6
Brightness 0.9 6; Color 0.2 8
Solarize 0.5 2; Invert 0
Equalize 0.2; AutoContrast 0.6
Equalize 0.2; Equalize 0.6
Color 0.9 9; Equalize 0.6
AutoContrast 0.8; Solarize 0.2 8
Brightness 0.1 3; Color 0.7 0
Solarize 0.4 5; AutoContrast 0.9
TranslateY 0.9 9; TranslateY 0.7 9
AutoContrast 0.9; Solarize 0.8 3
Equalize 0.8; Invert 0.1
TranslateY 0.7 9; AutoContrast 0.9
"""
_SVHN = """
ShearX 0.9 4; Invert 0.2
ShearY 0.9 8; Invert 0.7
Equalize 0.6; Solarize 0.6 6
Invert 0.9; Equalize 0.6
Equalize 0.6; Rotate 0.9 3
ShearX 0.9 4; AutoContrast 0.8
ShearY 0.9 8; Invert 0.4
ShearY 0.9 5; Solarize 0.2 6
Invert 0.9; AutoContrast 0.8
Equalize 0.6; Rotate 0.9 3
ShearX 0.9 4; Solarize 0.3 3
ShearY 0.8 8; Invert 0.7
Equalize 0.9; TranslateY 0.6 6
Invert 0.9; Equalize 0.6
Contrast 0.3 3; Rotate 0.8 4
Invert 0.8; TranslateY 0 2
ShearY 0.7 6; Solarize 0.4 8
Invert 0.6; Rotate 0.8 4
ShearY 0.3 7; TranslateX 0.9 3
ShearX 0.1 6; Invert 0.6
Solarize 0.7 2; TranslateY 0.6 7
ShearY 0.8 4; Invert 0.8
ShearX 0.7 9; TranslateY 0.8 3
ShearY 0.8 5; AutoContrast 0.7
ShearX 0.7 2; Invert 0.1
"""


class AutoAugmentPolicy(Enum):
    """The data set on which a policy was learned."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


_PAIRS = {"imagenet": _IMAGENET, "cifar10": _CIFAR10, "svhn": _SVHN}
_LEVELS = 10


class AutoAugment(Policy):
    """Apply a pair of operations, drawn from 25 that were learned on a data set.

    Operations, probabilities and magnitudes are torchvision's.

    Parameters
    ----------
    policy : AutoAugmentPolicy or str
        "imagenet", "cifar10" or "svhn".
    interpolation : {"nearest", "bilinear", "bicubic"} or InterpolationMode
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).

    Notes
    -----
    Parameters: ``operation_0``, ``magnitude_0``, ``operation_1`` and ``magnitude_1``, as of
    :class:`RandAugment`; 14 is Invert. Targets follow the operations that move pixels.

    Source: E. D. Cubuk et al., "AutoAugment: Learning Augmentation Strategies from Data", CVPR
    2019.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8)
    >>> transforms.AutoAugment("cifar10")(image).shape
    torch.Size([3, 32, 32])
    """

    draws = 5

    def __init__(
        self,
        policy: Any = AutoAugmentPolicy.IMAGENET,
        interpolation: Any = "nearest",
        fill: FillArgument = None,
    ) -> None:
        super().__init__("AutoAugment", interpolation, fill)
        name = getattr(policy, "value", policy)
        if name not in _PAIRS:
            fail("AutoAugment", "policy", policy, "'imagenet', 'cifar10' or 'svhn'")
        self.policy = name
        spaces = level_table(_LEVELS, 0.3, 150.0 / 331.0, 30.0, 0.9, 4.0)
        pairs = _PAIRS[name].strip().splitlines()
        self._numbers: list[float] = [len(pairs)]
        for pair in pairs:
            for text in pair.split(";"):
                operation, p, *level = text.split()
                position = OPERATIONS.index(operation)
                magnitude = spaces[position][int(level[0])] if level else 0.0
                self._numbers += (float(p), position, operation in SIGNED, True, magnitude)

    def chain_step(self) -> Step | None:
        return Step("PairPolicy", self._numbers)
