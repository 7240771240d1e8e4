"""AutoAugment's learned policies."""

import dataclasses
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import torch

from ..._native import Step
from ..arguments import (
    FillArgument,
    InterpolationArgument,
    check_channels,
    fill_values,
    flag,
    interpolation_mode,
    number,
    one_of,
    whole,
)
from ..base import Transform
from ..chain.compile import Compiled
from ..chain.effects import Effects
from ..chain.execute import run_native
from ..chain.fuse import Pass
from ..chain.integers import computed_in
from ..chain.operator_calls import per_image
from ..chain.operators import Pixels
from ..chain.pixel_operators import run_pixels
from ..chain.plan import Canvas, Plan, evenly
from ..chain.random import HALF, log_gamma
from ..sample.images import sizes_of
from ..sample.leaf import Leaf
from .policies import OPERATIONS, SIGNED, Policy, kept_bits, level_table

__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy"]

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

    def __init__(
        self,
        policy: Any = AutoAugmentPolicy.IMAGENET,
        interpolation: InterpolationArgument = "nearest",
        fill: FillArgument = None,
    ) -> None:
        super().__init__("AutoAugment", interpolation, fill)
        name = getattr(policy, "value", policy)
        one_of("AutoAugment", "policy", name, _PAIRS, "'imagenet', 'cifar10' or 'svhn'")
        self.policy = name
        spaces = level_table(_LEVELS, 0.3, 150.0 / 331.0, 30.0, 0.9, 4.0)
        pairs = _PAIRS[name].strip().splitlines()
        self._fields: dict[str, Any] = {"relative": True}
        self._fields |= {name: [] for name in ("p", "operations", "signed", "magnitudes")}
        for text in (text for pair in pairs for text in pair.split(";")):
            operation, p, *level = text.split()
            position = OPERATIONS.index(operation)
            self._fields["p"].append(float(p))
            self._fields["operations"].append(position)
            self._fields["signed"].append(operation in SIGNED)
            self._fields["magnitudes"].append(spaces[position][int(level[0])] if level else 0.0)

    def chain_step(self) -> Step | None:
        return Step("PairPolicy", self._fields)


_AUG_MIX_LEVELS = 10
_DEEPEST = 3  # of a chain whose depth is drawn
_SHIFTS = {"TranslateX": 1, "TranslateY": 0}  # and the side that they are a share of
# torchvision's spaces, in its order.
_PARTIAL = ("ShearX", "ShearY", *_SHIFTS, "Rotate")
_PARTIAL += ("Posterize", "Solarize", "AutoContrast", "Equalize")
_ALL = (*_PARTIAL, "Brightness", "Color", "Contrast", "Sharpness")


def _magnitudes() -> dict[str, list[float]]:
    table = level_table(_AUG_MIX_LEVELS, 0.3, 1.0 / 3.0, 30.0, 0.9, 4.0)
    found = dict(zip(OPERATIONS, table, strict=True))
    found["Posterize"] = kept_bits(4, 4.0, _AUG_MIX_LEVELS)
    return found


class AugMix(Transform):
    """Blend the image with some augmentations of it, each a chain of random operations.

    Arguments, operations, magnitudes and distribution are torchvision's.

    Parameters
    ----------
    severity : int
        From 1 to 10: the strongest of ten levels that operations may have.
    mixture_width : int
        Number of augmentations, from 1 to 16.
    chain_depth : int
        Operations of each, at most 16. Not positive: 1 to 3, drawn for each.
    alpha : float
        The parameter of the weights' Beta and Dirichlet distributions.
    all_ops : bool
        Also change brightness, saturation, contrast and sharpness.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units (white is 255 for uint8).

    Raises
    ------
    TypeError, ValueError
        An argument is wrong, or the image has neither 1 nor 3 channels.

    Notes
    -----
    Masks, boxes and key points stay: the image itself is part of the blend. It is computed in
    float32 (float64 for float64, int32 and int64); integers are cut off, as in torchvision.

    Parameters: ``weights`` ``[B, 1 + width]`` of the image and its augmentations, ``operations``
    ``[B, width, depth]``, their numbers in the list of :class:`RandAugment`, and ``magnitudes``.

    Source: D. Hendrycks et al., "AugMix: A Simple Data Processing Method to Improve Robustness and
    Uncertainty", ICLR 2020.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8)
    >>> mixed, params = transforms.AugMix()(image, return_params=True)
    >>> mixed.shape, params.steps[0]["weights"].shape
    (torch.Size([3, 32, 32]), (1, 4))
    """

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: InterpolationArgument = "bilinear",
        fill: FillArgument = None,
    ) -> None:
        super().__init__()
        owner, most = "AugMix", "a whole number from 1 to 16"
        allowed = f"a whole number from 1 to {_AUG_MIX_LEVELS}"
        self.severity = whole(owner, "severity", severity, 1, allowed, _AUG_MIX_LEVELS)
        self.mixture_width = whole(owner, "mixture_width", mixture_width, 1, most, 16)
        allowed = "a whole number up to 16"
        self.chain_depth = whole(owner, "chain_depth", chain_depth, -(2**31), allowed, 16)
        self.alpha = number(owner, "alpha", alpha, 1e-3, 1e6, "a number in [0.001, 1e6]")
        self.all_ops = flag(owner, "all_ops", all_ops)
        self.interpolation = interpolation_mode(owner, interpolation)
        self.fill = fill_values(owner, fill)
        self._depth = self.chain_depth if self.chain_depth > 0 else _DEEPEST
        self._operations = _ALL if self.all_ops else _PARTIAL
        self._magnitudes = _magnitudes()
        self.draws = (2 + self.mixture_width) * HALF + self.mixture_width * (1 + 3 * self._depth)

    def effects(self) -> Effects:
        return Effects(alone="it blends the image with itself")

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add nothing: it joins no pass."""

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        batch, width, depth = len(uniforms), self.mixture_width, self._depth
        split = (2 + width) * HALF
        operations = np.zeros((batch, width, depth), np.int64)
        magnitudes = np.zeros((batch, width, depth))
        weights = [self._weights(row[:split].tolist()) for row in uniforms]
        sides = canvas.sides(batch)
        for sample, row in enumerate(uniforms[:, split:].reshape(batch, width, 1 + 3 * depth)):
            for own, numbers in enumerate(row.tolist()):
                for index in range(self._drawn_depth(numbers[0])):
                    drawn = self._operation(numbers[1 + 3 * index : 4 + 3 * index], sides[sample])
                    operations[sample, own, index], magnitudes[sample, own, index] = drawn
        return {
            "weights": np.array(weights).reshape(batch, 1 + width),
            "operations": operations,
            "magnitudes": magnitudes,
        }

    def _weights(self, uniforms: list[float]) -> list[float]:
        """Return the weights of the image and its augmentations, which sum to 1."""
        starts = range(0, len(uniforms), HALF)
        logs = [log_gamma(uniforms[start : start + HALF], self.alpha) for start in starts]
        image, rest = _shares(logs[:2])
        return [image, *(rest * share for share in _shares(logs[2:]))]

    def _drawn_depth(self, uniform: float) -> int:
        return self.chain_depth if self.chain_depth > 0 else 1 + int(uniform * _DEEPEST)

    def _operation(self, uniforms: list[float], sides: np.ndarray) -> tuple[int, float]:
        name = self._operations[int(uniforms[0] * len(self._operations))]
        level = int(uniforms[1] * self.severity)
        magnitude = self._magnitudes[name][level]
        if name in _SHIFTS:  # as torchvision rounds it
            magnitude = float(evenly(0.0, sides[_SHIFTS[name]] / 3.0, _AUG_MIX_LEVELS)[level])
        signed = name in SIGNED and uniforms[2] <= 0.5
        return OPERATIONS.index(name), -magnitude if signed else magnitude

    def run_images(self, leaf: Leaf, params: Mapping[str, Any]) -> None:
        pixels = Pixels(leaf)
        check_channels("AugMix", pixels.channels)
        images = pixels.tensors(leaf)
        if len(images) == 0:
            return
        shares = np.asarray(params["weights"]).repeat(pixels.frames, 0)
        applies = np.ones(len(shares), bool)
        if "apply" in params:
            applies = np.asarray(params["apply"], bool).repeat(pixels.frames)
        chains = (self._chain(leaf, params, index) for index in range(self.mixture_width))
        if pixels.on_cpu or pixels.listed:
            found = _blended_each(list(images), shares.tolist(), chains, applies.tolist())
            pixels.store(leaf, found if pixels.listed else torch.stack(found))
        else:
            pixels.store(leaf, _blended(images, shares, chains, applies))

    def _chain(self, leaf: Leaf, params: Mapping[str, Any], position: int) -> Any:
        """Return the images after the operations of one augmentation."""
        own = dataclasses.replace(leaf)
        pixels = Pixels(own)
        plan = Plan.of_images(sizes_of(own), pixels.channels, pixels.dtype)
        operations = np.asarray(params["operations"])[:, position]
        magnitudes = np.asarray(params["magnitudes"])[:, position]
        # A policy of one operation, the identity: what is drawn here is packed into it.
        space = {"operations": (0,), "signed": (False,), "magnitudes": (0.0,), "relative": False}
        fields = {"count": self._depth, "level": 0, "bins": 1, "numbered": True, **space}
        step = Step("RandomPolicy", fields)
        given = {f"operation_{i}": operations[:, i] for i in range(self._depth)}
        given |= {f"magnitude_{i}": magnitudes[:, i] for i in range(self._depth)}
        plan.add(step, step.pack(given, plan.batch))
        part = Pass(kind="values", interpolation=self.interpolation, fill=self.fill)
        native = Compiled(part, ())
        if not run_native([native], [plan], own, torch.contiguous_format):
            run_pixels(plan, native, own, pixels, torch.contiguous_format)
        return pixels.tensors(own)


def _blended_each(
    images: list[torch.Tensor],
    shares: list[list[float]],
    chains: Iterable[Any],
    applies: list[bool],
) -> list[torch.Tensor]:
    """Blend images with their augmentations; those that don't apply stay."""
    computed = computed_in(images[0].dtype)
    mixed = [own.to(computed) * of[0] for own, of in zip(images, shares, strict=True)]
    for index, chain in enumerate(chains):
        for own, other, of in zip(mixed, chain, shares, strict=True):
            own.add_(other.to(computed) * of[1 + index])
    return [
        new.to(own.dtype) if keeps else own
        for own, new, keeps in zip(images, mixed, applies, strict=True)
    ]


def _blended(
    images: torch.Tensor, shares: np.ndarray, chains: Iterable[torch.Tensor], applies: np.ndarray
) -> torch.Tensor:
    """Do the same for a batch ``[N, C, H, W]``, all images at once."""
    computed = computed_in(images.dtype)
    rows = per_image(np.concatenate((shares.T, applies[None])), computed, images.device)
    mixed = images.to(computed) * rows[0]
    for index, chain in enumerate(chains):
        mixed.add_(chain.to(computed) * rows[1 + index])
    mixed = mixed.to(images.dtype)
    return mixed if applies.all() else torch.where(rows[-1] != 0.0, mixed, images)


def _shares(logarithms: list[float]) -> list[float]:
    """Return the shares of numbers in their sum, by their logarithms."""
    sizes = np.exp(np.array(logarithms) - max(logarithms))
    return (sizes / sizes.sum()).tolist()  # type: ignore[no-any-return]
