"""Chains of transforms with fixed parameters, each library in its own classes.

Ranges that are single numbers make the classes' random draws the same everywhere: a crop of the
whole photo, a certain flip, one angle, one scale, one strength of each jitter. Only the order of a
jitter's steps stays random in the peers. Peers interpolate at every geometric step and round to
uint8 after every step; kornia computes in float32 and aligns corners where it resizes.
"""

from collections.abc import Callable
from dataclasses import dataclass
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
_GAIN = {"brightness": (1.1, 1.1), "contrast": (0.9, 0.9), "saturation": (1.2, 1.2)}
_HUE = (0.05, 0.05)


@dataclass(frozen=True)
class Steps:
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


def tensor_chain(steps: Steps, library: Any, pil: bool = False) -> Any:
    """The whole chain: ours in one pass, torchvision's on tensors or PIL images.

    Those it always filters when shrinking.
    """
    filters = {"antialias": pil or steps.antialias}
    geometry = steps.ordered(
        library.RandomResizedCrop(TARGET, _WHOLE, _WHOLE, **filters),
        library.RandomHorizontalFlip(1.0),
        library.RandomAffine(_ANGLE, scale=_ZOOM, interpolation=BILINEAR),
    )
    hue = _HUE if steps.hue else None
    jitter = [library.ColorJitter(**_GAIN, hue=hue)] if steps.jitter else []
    return chain(library, *geometry, *jitter, pil=pil, **({"seed": 0} if library is V else {}))


def albumentations_chain(steps: Steps) -> A.Compose:
    """`area_for_downscale` is its antialiasing filter."""
    area = "image" if steps.antialias else None
    geometry = steps.ordered(
        A.RandomResizedCrop(TARGET, _WHOLE, _WHOLE, area_for_downscale=area, p=1.0),
        A.HorizontalFlip(p=1.0),
        A.Affine(scale=_ZOOM, rotate=(-_ANGLE[0], -_ANGLE[1]), p=1.0),
    )
    hue = _HUE if steps.hue else (0.0, 0.0)
    return albumentations(*geometry, *([A.ColorJitter(**_GAIN, hue=hue, p=1.0)] * steps.jitter))


def kornia_chain(steps: Steps) -> torch.nn.Sequential:
    """Written this way because kornia's own AugmentationSequential is slower."""
    geometry = steps.ordered(
        K.RandomResizedCrop(TARGET, _WHOLE, _WHOLE, p=1.0, cropping_mode="resample"),
        K.RandomHorizontalFlip(p=1.0),
        K.RandomAffine(_ANGLE, scale=_ZOOM, p=1.0),
    )
    hue = _HUE if steps.hue else (0.0, 0.0)
    jitter = [K.ColorJitter(*_GAIN.values(), hue, p=1.0)] if steps.jitter else []
    finish = [K.Normalize(torch.tensor(MEAN), torch.tensor(STD), p=1.0)]
    return torch.nn.Sequential(*geometry, *jitter, *finish)


def chain_contenders(steps: Steps, batch: int) -> list[Contender]:
    """Pictures [B, 512, 512, 3] to a normalised batch [B, 3, 224, 224]."""
    photos = smooth_batch(batch, SOURCE)
    pixels = torch.from_numpy(photos).permute(0, 3, 1, 2)
    images = [Image.fromarray(photo) for photo in photos]
    ours, index = tensor_chain(steps, V), range(batch)
    on_tensors, on_images = tensor_chain(steps, v2), tensor_chain(steps, v2, pil=True)

    def whole() -> torch.Tensor:
        return ours(photos, index=index)

    def by_pil() -> torch.Tensor:
        return torch.stack([on_images(image) for image in images])

    def by_kornia() -> torch.Tensor:
        planes = pixels.to(torch.float32, memory_format=torch.contiguous_format)
        return in_kornia(planes.div_(255.0))

    calls: dict[str, Call] = {
        "albumentations": by_albumentations(albumentations_chain(steps), list(photos)),
        "torchvision": lambda: on_tensors(pixels),
        "torchvision PIL": by_pil,
    }
    if not steps.antialias:  # kornia has no such filter
        in_kornia = kornia_chain(steps)
        calls["kornia"] = by_kornia
    # The floors are for a chain with full colour jitter.
    floors = {"albumentations": 8.0, "torchvision": 30.0, "kornia": 40.0} if steps.hue else {}
    return [
        Contender("visops", operator_call(whole)),
        Contender("visops.transforms", whole, EXACT, bound=True),
        *(Contender(name, c, steps.tolerance, floors.get(name)) for name, c in calls.items()),
    ]


CHAINS = {
    "crop, flip, affine, hue": Steps(hue=True),
    "affine, crop, flip, hue": Steps(affine_first=True, hue=True),
    "crop, flip, affine, jitter": Steps(),
    "crop, flip, affine": Steps(jitter=False),
    "crop, flip, affine, antialias": Steps(jitter=False, antialias=True),
}


def cases() -> list[Case]:
    """Every chain on one photo, the full ones on a batch."""
    group = "transforms with the same parameters, 512² uint8 HWC → 224² float32 CHW"
    full = ("crop, flip, affine, hue", "affine, crop, flip, hue")
    found = []
    for name, batch in (*((name, 1) for name in CHAINS), *((name, 16) for name in full)):
        table = {f"{batch}× {name}": (CHAINS[name], batch)}
        found += rows(group, chain_contenders, table, "^1× .*hue", images=batch)
    return found


def random_chain(jitter: bool, antialias: bool) -> V.Compose:
    """A training chain, its parameters drawn for every sample."""
    return V.Compose(
        [
            V.RandomResizedCrop(TARGET, antialias=antialias),
            V.RandomHorizontalFlip(),
            V.RandomAffine(10.0, (0.1, 0.1), (0.9, 1.1)),
            *([V.ColorJitter(0.4, 0.4, 0.4, 0.1)] if jitter else []),
            *finish(V),
            V.RandomErasing(),
        ],
        seed=0,
    )


def class_contenders(batch: int, listed: bool, jitter: bool, antialias: bool) -> list[Contender]:
    """A batch, or a list of photos, through a chain and through the operator alone."""
    rng = np.random.default_rng(0)
    photos = [rng.integers(0, 256, (*SOURCE, 3), dtype=np.uint8) for _ in range(batch)]
    pixels = torch.from_numpy(np.stack(photos).transpose(0, 3, 1, 2).copy())
    chain, index = random_chain(jitter, antialias), range(batch)

    def whole() -> torch.Tensor:
        return chain.collate(photos, index=index) if listed else chain(pixels, index=index)

    floor = 0.8 if batch >= 32 else None
    return [
        Contender("visops.transforms", whole),
        Contender("operator alone", operator_call(whole), EXACT, floor, bound=True),
    ]


def class_cases() -> list[Case]:
    """What the classes cost beyond the operator."""
    group = "classes against the operator with the parameters that they make, 512² → 224²"
    found = []
    for batch, listed in ((32, False), (32, True), (1, False)):
        for jitter, antialias in ((False, False), (True, False), (True, True)):
            if batch == 1 and antialias:
                continue  # one crop may be an enlarged one
            words = f"{', jitter' if jitter else ''}{', antialias' if antialias else ''}"
            label = f"{batch}× {'list' if listed else 'batch'}{words}"
            table = {label: (batch, listed, jitter, antialias)}
            found += rows(group, class_contenders, table, "batch, jitter$", images=batch)
    return found
