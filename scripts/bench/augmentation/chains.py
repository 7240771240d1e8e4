"""Chains of transforms with fixed parameters, each library in its own classes.

Ranges that are single numbers make the classes' random draws the same everywhere: a crop of the
whole photo, a certain flip, one angle, one scale, one strength of each jitter. Only the order of a
jitter's steps stays random in the peers. Peers interpolate at every geometric step and round to
uint8 after every step; kornia computes in float32 and aligns corners where it resizes.
"""

from collections.abc import Callable
from typing import Any

import albumentations as A
import kornia.augmentation as K
import numpy as np
import torch
from bench.augmentation.libraries import BILINEAR, albumentations, by_albumentations, chain, finish
from bench.augmentation.pictures import MEAN, STD, Size, smooth_batch
from bench.augmentation.prepared import operator_call
from bench.harness import EXACT, Case, Contender, Tolerance, rows
from PIL import Image
from torchvision.transforms import v2
from visops import transforms as V

Call = Callable[[], torch.Tensor]

SOURCE: Size = (512, 512)
TARGET: Size = (224, 224)
_ANGLE, _ZOOM = (17.3, 17.3), (1.13, 1.13)
_WHOLE = (1.0, 1.0)
_GAIN = {
    "brightness": (1.1, 1.1),
    "contrast": (0.9, 0.9),
    "saturation": (1.2, 1.2),
    "hue": (0.05, 0.05),
}


# A bound: a wrong picture, or an angle of the wrong sign, differs by more than 0.5.
SIMILAR = Tolerance(
    mean_abs=0.12,
    why="several roundings, borders, a jitter's random order; hue is linear here, HSV in the peers",
)


def ordered(affine_first: bool, crop: Any, flip: Any, affine: Any) -> list[Any]:
    """The affine step, on the photo or on what the others leave of it."""
    return [affine, crop, flip] if affine_first else [crop, flip, affine]


def tensor_chain(affine_first: bool, library: Any, pil: bool = False) -> Any:
    """The whole chain: ours in one pass, torchvision's on tensors or PIL images.

    Those it always filters when shrinking.
    """
    geometry = ordered(
        affine_first,
        library.RandomResizedCrop(TARGET, _WHOLE, _WHOLE, antialias=pil),
        library.RandomHorizontalFlip(1.0),
        library.RandomAffine(_ANGLE, scale=_ZOOM, interpolation=BILINEAR),
    )
    jitter = library.ColorJitter(**_GAIN)
    return chain(library, *geometry, jitter, pil=pil, **({"seed": 0} if library is V else {}))


def albumentations_chain(affine_first: bool) -> A.Compose:
    """Without its antialiasing filter."""
    geometry = ordered(
        affine_first,
        A.RandomResizedCrop(TARGET, _WHOLE, _WHOLE, area_for_downscale=None, p=1.0),
        A.HorizontalFlip(p=1.0),
        A.Affine(scale=_ZOOM, rotate=(-_ANGLE[0], -_ANGLE[1]), p=1.0),
    )
    return albumentations(*geometry, A.ColorJitter(**_GAIN, p=1.0))


def kornia_chain(affine_first: bool) -> torch.nn.Sequential:
    """Written this way because kornia's own AugmentationSequential is slower."""
    geometry = ordered(
        affine_first,
        K.RandomResizedCrop(TARGET, _WHOLE, _WHOLE, p=1.0, cropping_mode="resample"),
        K.RandomHorizontalFlip(p=1.0),
        K.RandomAffine(_ANGLE, scale=_ZOOM, p=1.0),
    )
    jitter = K.ColorJitter(*_GAIN.values(), p=1.0)
    finish = K.Normalize(torch.tensor(MEAN), torch.tensor(STD), p=1.0)
    return torch.nn.Sequential(*geometry, jitter, finish)


def chain_contenders(affine_first: bool, batch: int) -> list[Contender]:
    """Pictures [B, 512, 512, 3] to a normalised batch [B, 3, 224, 224]."""
    photos = smooth_batch(batch, SOURCE)
    pixels = torch.from_numpy(photos).permute(0, 3, 1, 2)
    images = [Image.fromarray(photo) for photo in photos]
    ours, index = tensor_chain(affine_first, V), range(batch)
    on_tensors, on_images = (tensor_chain(affine_first, v2, pil=pil) for pil in (False, True))
    in_kornia = kornia_chain(affine_first)

    def whole() -> torch.Tensor:
        return ours(photos, index=index)

    def by_pil() -> torch.Tensor:
        return torch.stack([on_images(image) for image in images])

    def by_kornia() -> torch.Tensor:
        planes = pixels.to(torch.float32, memory_format=torch.contiguous_format)
        return in_kornia(planes.div_(255.0))

    calls: dict[str, Call] = {
        "albumentations": by_albumentations(albumentations_chain(affine_first), list(photos)),
        "torchvision": lambda: on_tensors(pixels),
        "torchvision PIL": by_pil,
        "kornia": by_kornia,
    }
    return [
        Contender("visops", operator_call(whole)),
        Contender("visops.transforms", whole, EXACT, bound=True),
        *(Contender(name, call, SIMILAR) for name, call in calls.items()),
    ]


def cases() -> list[Case]:
    """Both orders, on one photo and on a batch."""
    group = "transforms with the same parameters, 512² uint8 HWC → 224² float32 CHW"
    names = {"crop, flip, affine, hue": False, "affine, crop, flip, hue": True}
    found = []
    for batch in (1, 16):
        table = {f"{batch}× {name}": (first, batch) for name, first in names.items()}
        found += rows(group, chain_contenders, table, "^1×", images=batch)
    return found


def class_contenders(batch: int) -> list[Contender]:
    """A batch through a training chain, and through the operator alone."""
    rng = np.random.default_rng(0)
    pixels = torch.from_numpy(rng.integers(0, 256, (batch, 3, *SOURCE), dtype=np.uint8))
    steps = [
        V.RandomResizedCrop(TARGET, antialias=False),
        V.RandomHorizontalFlip(),
        V.RandomAffine(10.0, (0.1, 0.1), (0.9, 1.1)),
        V.ColorJitter(0.4, 0.4, 0.4, 0.1),
    ]
    drawn, index = V.Compose([*steps, *finish(V), V.RandomErasing()], seed=0), range(batch)

    def whole() -> torch.Tensor:
        return drawn(pixels, index=index)

    return [
        Contender("visops.transforms", whole),
        Contender("operator alone", operator_call(whole), EXACT, bound=True),
    ]


def class_cases() -> list[Case]:
    """What the classes cost beyond the operator."""
    group = "classes against the operator with the parameters that they make, 512² → 224²"
    found = []
    for batch in (32, 1):
        table = {f"{batch}× batch, jitter": (batch,)}
        found += rows(group, class_contenders, table, "^32", images=batch)
    return found
