"""Images of any sizes to one float batch, in one pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import torch
from torch import Tensor

from ...warp.augment import augment
from ..frames import Frame, Placement

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

_FITS = ("stretch", "letterbox", "crop")


@dataclass(frozen=True, slots=True)
class Preprocess:
    """How images become a network's input ``[N, 3, h, w]``, float32.

    Parameters
    ----------
    size : (int, int)
        Height and width of the input.
    fit : {"stretch", "letterbox", "crop"}
        Stretch the whole image to the input; fit it in, with bars of `fill`; or crop its middle.
    mean, std : three numbers, or None
        Subtracted and divided by, with white at 1. None leaves values within [0, 1].
    crop : float
        For `fit` "crop": the fraction of the resized image's shorter side that is kept, such as
        224/256.
    fill : float
        Value of the bars of "letterbox", with white at 255.
    antialias : bool
        Filter when shrinking.
    """

    size: tuple[int, int] = (224, 224)
    fit: str = "stretch"
    mean: tuple[float, ...] | None = IMAGENET_MEAN
    std: tuple[float, ...] | None = IMAGENET_STD
    crop: float = 224 / 256
    fill: float = 114.0
    antialias: bool = True

    def __post_init__(self) -> None:
        if self.fit not in _FITS:
            raise ValueError(f"visops.infer: fit is {self.fit!r}, must be one of {_FITS}")
        for name, count, kind in (("size", 2, index), ("mean", 3, float), ("std", 3, float)):
            # Lists become tuples: a Preprocess is a key of Batch.inputs.
            if (given := getattr(self, name)) is not None or name == "size":
                object.__setattr__(self, name, _numbers(name, given, count, kind))
        if min(self.size) < 1:
            raise ValueError(f"visops.infer: size is {self.size}, must be two positive numbers")
        if not 0 < self.crop <= 1:
            raise ValueError(f"visops.infer: crop is {self.crop}, must be above 0 and at most 1")
        if 0 in (self.std or ()):
            raise ValueError(f"visops.infer: std is {self.std}, must have no 0")

    def placement(self, height: int, width: int) -> Placement:
        """Return where an image of this size lies in the input."""
        h, w = self.size
        x, y = w / width, h / height
        if self.fit == "letterbox":
            x = y = min(x, y)
        elif self.fit == "crop":
            x = y = max(x, y) / self.crop
        left, top = (w - width * x) / 2, (h - height * y) / 2
        return Placement(x, y, left, top, height, width, h, w)

    def run(
        self,
        images: Sequence[Tensor],
        frames: Sequence[Frame],
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> tuple[Tensor, list[Placement]]:
        """Make one batch from at least one uint8 image ``[3, H, W]``."""
        placements = [self.placement(frame.full_height, frame.full_width) for frame in frames]
        matrices = torch.zeros(len(frames), 2, 3, dtype=torch.float64, device="cpu")
        for matrix, placement, frame in zip(matrices, placements, frames, strict=True):
            matrix[0, 0] = placement.scale_x * frame.reduction
            matrix[1, 1] = placement.scale_y * frame.reduction
            matrix[0, 2] = placement.scale_x * frame.left + placement.left
            matrix[1, 2] = placement.scale_y * frame.top + placement.top
        device = images[0].device
        batch = augment(
            list(images),
            matrices.to(device),
            self.size,
            mean=self.mean,
            std=self.std,
            fill=self.fill,
            antialias=self.antialias,
            convention="half_pixel",
            layout="CHW",
            memory_format=memory_format,
        )
        return batch, placements


def as_preprocess(given: Any, owner: str = "") -> Preprocess:
    """Return a `Preprocess`, also for the transforms of torchvision's weights of classifiers.

    `owner` says whose it is.
    """
    if isinstance(given, Preprocess):
        return given
    if all(hasattr(given, name) for name in ("crop_size", "resize_size", "mean", "std")):
        (size,), (resized,) = set(given.crop_size), set(given.resize_size)
        share = size / resized
        return Preprocess((size, size), "crop", tuple(given.mean), tuple(given.std), crop=share)
    kind = given.__name__ if isinstance(given, type) else type(given).__name__
    raise TypeError(
        f"visops.infer: preprocess{owner} is a {kind}, must be a visops.infer.Preprocess, one "
        "call of which makes a batch of all images, by its size, fit, mean and std; or the "
        "transforms() of torchvision's weights of a classifier"
    )


def three_numbers(name: str, given: Any, others: str) -> tuple[float, ...]:
    """Return a mean or a standard deviation; `others` says what else may be given."""
    return _numbers(name, given, 3, float, others)


def _numbers(
    name: str, given: Any, count: int, kind: Callable[[Any], Any], others: str = "None"
) -> tuple[Any, ...]:
    try:
        numbers = tuple(map(kind, given))
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != count:
        kinds = "integers" if kind is index else f"numbers, or {others}"
        raise ValueError(f"visops.infer: {name} is {given!r}, must be {count} {kinds}")
    return numbers
