"""Chains of transforms with fixed parameters, each library in its own classes.

Ranges that are single numbers make the classes' random draws the same everywhere: a crop of the
whole photo, a certain flip, one angle, one scale, one strength of each jitter. Only the order of a
jitter's steps stays random in the peers. Peers interpolate at every geometric step and round to
uint8 after every step; kornia computes in float32 and aligns corners where it resizes.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # it would look for updates on the network

import albumentations as A
import kornia.augmentation as K
import numpy as np
import torch
import torchvision.transforms.v2 as T
from bench.augmentation.pictures import MEAN, STD, Photo, Size, smooth_batch
from bench.augmentation.prepared import operator_call
from bench.harness import EXACT, Case, Contender, Tolerance, case
from PIL import Image
from visops import transforms as V

Call = Callable[[], torch.Tensor]

SOURCE: Size = (512, 512)
TARGET: Size = (224, 224)
_ANGLE, _ZOOM = (17.3, 17.3), (1.13, 1.13)
_WHOLE = (1.0, 1.0)
_BILINEAR = T.InterpolationMode.BILINEAR
_GAIN = {"brightness": (1.1, 1.1), "contrast": (0.9, 0.9), "saturation": (1.2, 1.2)}
_HUE = (0.05, 0.05)


@dataclass(frozen=True)
class Chain:
    """What varies between rows."""

    affine_first: bool = False  # applied to the photo instead of the crop
    jitter: bool = True
    hue: bool = False  # with the jitter
    antialias: bool = False

    def ordered(self, crop: Any, flip: Any, affine: Any) -> list[Any]:
        return [affine, crop, flip] if self.affine_first else [crop, flip, affine]

    @property
    def tolerance(self) -> Tolerance:
        """A bound: a wrong picture, or an angle of the wrong sign, differs by more than 0.5."""
        if self.hue:
            return Tolerance(mean_abs=0.12, why="hue is linear here, HSV in the peers")
        return Tolerance(
            mean_abs=0.04,
            why="several interpolations and roundings, borders, a jitter's random order",
        )


def visops_chain(chain: Chain) -> V.Compose:
    """The whole chain in one pass."""
    geometry = chain.ordered(
        V.RandomResizedCrop(TARGET, _WHOLE, _WHOLE, antialias=chain.antialias),
        V.RandomHorizontalFlip(1.0),
        V.RandomAffine(_ANGLE, scale=_ZOOM),
    )
    hue = _HUE if chain.hue else None
    jitter = [V.ColorJitter(**_GAIN, hue=hue)] if chain.jitter else []
    finish = [V.ToDtype(torch.float32, scale=True), V.Normalize(MEAN, STD)]
    return V.Compose([*geometry, *jitter, *finish], seed=0)


def torchvision_chain(chain: Chain, pil: bool) -> T.Compose:
    """transforms.v2 on tensors or PIL images (which it always filters when shrinking)."""
    geometry = chain.ordered(
        T.RandomResizedCrop(TARGET, _WHOLE, _WHOLE, antialias=pil or chain.antialias),
        T.RandomHorizontalFlip(1.0),
        T.RandomAffine(_ANGLE, scale=_ZOOM, interpolation=_BILINEAR),
    )
    hue = _HUE if chain.hue else None
    jitter = [T.ColorJitter(**_GAIN, hue=hue)] if chain.jitter else []
    # HWC photos are resized fastest as they are; they become CHW while still uint8.
    planes = T.ToImage() if pil else T.Lambda(torch.Tensor.contiguous)
    finish = [planes, T.ToDtype(torch.float32, scale=True), T.Normalize(MEAN, STD)]
    return T.Compose([*geometry, *jitter, *finish])


def albumentations_chain(chain: Chain) -> A.Compose:
    """Built on OpenCV; `area_for_downscale` is its antialiasing filter."""
    area = "image" if chain.antialias else None
    geometry = chain.ordered(
        A.RandomResizedCrop(TARGET, _WHOLE, _WHOLE, area_for_downscale=area, p=1.0),
        A.HorizontalFlip(p=1.0),
        A.Affine(scale=_ZOOM, rotate=(-_ANGLE[0], -_ANGLE[1]), p=1.0),
    )
    hue = _HUE if chain.hue else (0.0, 0.0)
    jitter = [A.ColorJitter(**_GAIN, hue=hue, p=1.0)] if chain.jitter else []
    finish = [A.Normalize(MEAN, STD), A.ToTensorV2()]
    return A.Compose([*geometry, *jitter, *finish], is_check_shapes=False)


def kornia_chain(chain: Chain) -> torch.nn.Sequential:
    """Written this way because kornia's own AugmentationSequential is slower."""
    geometry = chain.ordered(
        K.RandomResizedCrop(TARGET, _WHOLE, _WHOLE, p=1.0, cropping_mode="resample"),
        K.RandomHorizontalFlip(p=1.0),
        K.RandomAffine(_ANGLE, scale=_ZOOM, p=1.0),
    )
    hue = _HUE if chain.hue else (0.0, 0.0)
    jitter = [K.ColorJitter(*_GAIN.values(), hue, p=1.0)] if chain.jitter else []
    finish = [K.Normalize(torch.tensor(MEAN), torch.tensor(STD), p=1.0)]
    return torch.nn.Sequential(*geometry, *jitter, *finish)


def chain_contenders(chain: Chain, batch: int) -> list[Contender]:
    """Pictures [B, 512, 512, 3] to a normalised batch [B, 3, 224, 224]."""
    photos = smooth_batch(batch, SOURCE)
    pixels = torch.from_numpy(photos).permute(0, 3, 1, 2)
    ours = visops_chain(chain)
    index = range(batch)

    def ours_whole() -> torch.Tensor:
        return ours(photos, index=index)  # type: ignore[no-any-return]

    # The floors are for a chain with full colour jitter.
    tolerance, floors = chain.tolerance, chain.hue
    contenders = [
        Contender("visops", operator_call(ours_whole)),
        Contender("visops.transforms", ours_whole, EXACT, bound=True),
        Contender(
            "albumentations",
            _albumentations(albumentations_chain(chain), photos),
            tolerance,
            floor=8.0 if floors else None,
        ),
        Contender(
            "torchvision",
            _torchvision(torchvision_chain(chain, pil=False), pixels),
            tolerance,
            floor=30.0 if floors else None,
        ),
        Contender("torchvision PIL", _pil(torchvision_chain(chain, pil=True), photos), tolerance),
    ]
    if not chain.antialias:  # kornia has no such filter
        contenders.append(
            Contender(
                "kornia",
                _kornia(kornia_chain(chain), pixels),
                tolerance,
                floor=40.0 if floors else None,
            )
        )
    return contenders


def _albumentations(chain: A.Compose, photos: Photo) -> Call:
    return lambda: torch.stack([chain(image=photo)["image"] for photo in photos])


def _torchvision(chain: T.Compose, pixels: torch.Tensor) -> Call:
    return lambda: chain(pixels)


def _pil(chain: T.Compose, photos: Photo) -> Call:
    images = [Image.fromarray(photo) for photo in photos]
    return lambda: torch.stack([chain(image) for image in images])


def _kornia(chain: torch.nn.Module, pixels: torch.Tensor) -> Call:
    planes = torch.contiguous_format
    return lambda: chain(pixels.to(torch.float32, memory_format=planes).div_(255.0))


CHAINS = {
    "crop, flip, affine, hue": Chain(hue=True),
    "affine, crop, flip, hue": Chain(affine_first=True, hue=True),
    "crop, flip, affine, jitter": Chain(),
    "crop, flip, affine": Chain(jitter=False),
    "crop, flip, affine, antialias": Chain(jitter=False, antialias=True),
}
_ROWS = (
    *((name, 1) for name in CHAINS),
    ("crop, flip, affine, hue", 16),
    ("affine, crop, flip, hue", 16),
)
_QUICK = (("crop, flip, affine, hue", 1), ("affine, crop, flip, hue", 1))


def cases() -> list[Case]:
    """Every chain on one photo, the full ones on a batch."""
    return [
        case(
            "transforms with the same parameters, 512² uint8 HWC → 224² float32 CHW",
            f"{batch}× {name}",
            chain_contenders,
            *(CHAINS[name], batch),
            quick=(name, batch) in _QUICK,
            images=batch,
        )
        for name, batch in _ROWS
    ]


def random_chain(jitter: bool, antialias: bool) -> V.Compose:
    """A training chain, its parameters drawn for every sample."""
    color = [V.ColorJitter(0.4, 0.4, 0.4, 0.1)] if jitter else []
    return V.Compose(
        [
            V.RandomResizedCrop(TARGET, antialias=antialias),
            V.RandomHorizontalFlip(),
            V.RandomAffine(10.0, (0.1, 0.1), (0.9, 1.1)),
            *color,
            V.ToDtype(torch.float32, scale=True),
            V.Normalize(MEAN, STD),
            V.RandomErasing(),
        ],
        seed=0,
    )


def class_contenders(batch: int, listed: bool, jitter: bool, antialias: bool) -> list[Contender]:
    """A batch, or a list of photos, through a chain and through the operator alone."""
    rng = np.random.default_rng(0)
    photos = [rng.integers(0, 256, (*SOURCE, 3), dtype=np.uint8) for _ in range(batch)]
    pixels = torch.from_numpy(np.stack(photos).transpose(0, 3, 1, 2).copy())
    chain = random_chain(jitter, antialias)
    index = range(batch)

    def whole() -> torch.Tensor:
        if listed:
            return chain.collate(photos, index=index)  # type: ignore[no-any-return]
        return chain(pixels, index=index)  # type: ignore[no-any-return]

    return [
        Contender("visops.transforms", whole),
        Contender(
            "operator alone",
            operator_call(whole),
            EXACT,
            floor=0.8 if batch >= 32 else None,
            bound=True,
        ),
    ]


def class_cases() -> list[Case]:
    """What the classes cost beyond the operator."""
    kinds = [(32, False), (32, True), (1, False)]
    return [
        case(
            "classes against the operator with the parameters that they make, 512² → 224²",
            f"{batch}× {'list' if listed else 'batch'}"
            f"{', jitter' if jitter else ''}{', antialias' if antialias else ''}",
            class_contenders,
            *(batch, listed, jitter, antialias),
            quick=jitter and not antialias and not listed,
            images=batch,
        )
        for batch, listed in kinds
        for jitter, antialias in ((False, False), (True, False), (True, True))
        if batch > 1 or not antialias  # one crop may be an enlarged one
    ]
