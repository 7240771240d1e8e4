"""The steps that chains of several libraries share, each in the library's own classes.

visops and torchvision have the same names for them, so a chain is a function of the library.
"""

from collections.abc import Callable, Sequence
from typing import Any

import albumentations as A
import torch
from bench.augmentation.pictures import MEAN, STD, Photo
from torchvision.transforms import v2
from visops import transforms as V

BILINEAR = v2.InterpolationMode.BILINEAR
# HWC photos are resized fastest as they are; they become CHW while still uint8.
PLANES = v2.Lambda(torch.Tensor.contiguous)


def finish(library: Any) -> list[Any]:
    """To normalised floats, in visops or torchvision."""
    return [library.ToDtype(torch.float32, scale=True), library.Normalize(MEAN, STD)]


def chain(library: Any, *steps: Any, pil: bool = False, **options: Any) -> Any:
    """Steps of visops or torchvision, and what makes normalised floats of their result."""
    if library is V:
        return V.Compose([*steps, *finish(V)], **options)
    return v2.Compose([*steps, v2.ToImage() if pil else PLANES, *finish(v2)])


def albumentations(*steps: Any) -> A.Compose:
    """The same of albumentations, which is built on OpenCV."""
    return A.Compose([*steps, A.Normalize(MEAN, STD), A.ToTensorV2()], is_check_shapes=False)


def by_albumentations(chain: A.Compose, photos: Sequence[Photo]) -> Callable[[], torch.Tensor]:
    """A call that makes a batch of photos."""
    return lambda: torch.stack([chain(image=photo)["image"] for photo in photos])
