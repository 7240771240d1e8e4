"""Chains of a transform or two, whose kernels are called past torch's dispatcher."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from visops import transforms as T

SIZES = ((3, 3), (17, 64), (61, 130))
INDICES = range(3)  # draws differ


def steps() -> dict[str, list[T.Transform]]:
    """Return the transforms of each chain, for images of uint8 and float32."""
    return {
        "median 3": [T.MedianBlur((3, 3), p=1.0)],
        "median 5": [T.MedianBlur((5, 5), p=1.0)],
        "median 7": [T.MedianBlur((7, 7), p=1.0)],
        "box blur": [T.Blur(p=1.0)],
        "Gaussian blur": [T.GaussianBlur(5)],
        "motion blur": [T.MotionBlur(p=1.0)],
        "sharpen": [T.Sharpen(p=1.0)],
        "sharpness": [T.RandomAdjustSharpness(1.7, p=1.0)],
        "emboss": [T.Emboss(p=1.0)],
        "gamma": [T.RandomGamma((0.4, 2.5), p=1.0)],
        "HSV": [T.RandomHSV()],
        "Gaussian noise": [T.GaussianNoise()],
        "shot noise": [T.ShotNoise(p=1.0)],
        "salt and pepper": [T.SaltAndPepper(p=1.0)],
        "RandAugment": [T.RandAugment()],
        "TrivialAugmentWide": [T.TrivialAugmentWide()],
        "AugMix": [T.AugMix()],
        "elastic": [T.ElasticTransform()],
        "Lanczos": [T.Resize((23, 31), interpolation="lanczos", antialias=True)],
        "crop and colour": [T.RandomResizedCrop(24), T.ColorJitter(0.4, 0.4, 0.4, 0.1)],
    }


def of_bytes_alone() -> dict[str, list[T.Transform]]:
    """Return those for images of uint8."""
    return {"CLAHE, in Lab": [T.CLAHE(p=1.0)], "equalize": [T.RandomEqualize(p=1.0)]}


def chain(name: str) -> T.Compose:
    """Return a chain by its name."""
    return T.Compose({**steps(), **of_bytes_alone()}[name], seed=7)


def inputs() -> Iterator[tuple[str, torch.Tensor, int]]:
    """Yield a chain's name, an image, and the index that its draws depend on."""
    generator = torch.Generator().manual_seed(0)
    for size in SIZES:
        noise = torch.rand((3, *size), generator=generator)
        image = (noise + torch.linspace(0, 1, size[1])) / 2  # not all frequencies alike
        for own in ((image * 255).to(torch.uint8), image):
            names = [*steps(), *(of_bytes_alone() if own.dtype == torch.uint8 else ())]
            yield from ((name, own, index) for name in names for index in INDICES)
