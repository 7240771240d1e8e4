"""Chains of a transform or two, whose kernels are called past torch's dispatcher."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from visops import transforms as T

SIZES = ((3, 3), (17, 64), (61, 130))
INDICES = range(3)  # draws differ


def steps() -> dict[str, list[Callable[..., Any]]]:
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
        "grid distortion": [T.GridDistortion(2, p=1.0)],
        "optical distortion": [T.OpticalDistortion(0.4, "bicubic", p=1.0)],
        "thin plate spline": [T.ThinPlateSpline(padding_mode="reflect", p=1.0)],
        "perspective": [T.RandomPerspective(p=1.0)],
        "affine": [T.RandomAffine(40, (0.1, 0.1), (0.7, 1.4), (-9, 9, -9, 9), "bicubic")],
        "rotation, expanded": [T.RandomRotation(70, expand=True)],
        "zoom out": [T.RandomZoomOut(p=1.0)],
        "unsharp mask": [T.UnsharpMask(p=1.0)],
        "downscale": [T.Downscale((0.3, 0.6), p=1.0)],
        "photometric distortion": [T.RandomPhotometricDistort(p=1.0)],
        "shift, brightness": [T.RGBShift(0.2, 0.2, 0.2, p=1.0), T.RandomBrightnessContrast(p=1.0)],
        "autocontrast, grey": [T.RandomAutocontrast(p=1.0), T.Grayscale(3)],
        "erasing": [T.RandomErasing(p=1.0, value=0.5)],
        "erasing with noise": [
            T.ToDtype(torch.float32, scale=True),
            T.RandomErasing(p=1.0, value="random"),
        ],
        "dropout": [T.CoarseDropout(p=1.0), T.GridDropout(p=1.0), T.ChannelDropout(p=1.0)],
    }


def of_samples() -> dict[str, list[Callable[..., Any]]]:
    """Return those for images with boxes, masks and key points."""
    return {
        "targets turned": [T.RandomPerspective(p=1.0), T.RandomAffine(30, scale=(0.8, 1.2))],
        "targets cut": [T.RandomIoUCrop(), T.Resize((24, 30)), T.SanitizeBoundingBoxes()],
        "targets bent": [T.ElasticTransform(40.0, 4.0), T.GridDistortion(2, p=1.0)],
        "targets moved": [T.ThinPlateSpline(p=1.0), T.RandomZoomOut(p=1.0)],
    }


def of_bytes_alone() -> dict[str, list[Callable[..., Any]]]:
    """Return those for images of uint8."""
    return {
        "CLAHE, in Lab": [T.CLAHE(p=1.0)],
        "equalize": [T.RandomEqualize(p=1.0)],
        "letterbox": [T.Letterbox((40, 48))],
    }


def chain(name: str) -> T.Compose:
    """Return a chain by its name."""
    return T.Compose({**steps(), **of_bytes_alone(), **of_samples()}[name], seed=7)


def sample(image: torch.Tensor, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return an image with targets: some lie across its edges."""
    size = torch.tensor([image.shape[-1], image.shape[-2]])
    corners = (torch.rand((4, 2, 2), generator=generator) * 1.2 - 0.1) * size
    return {
        "image": image,
        "boxes": torch.cat((corners.amin(1), corners.amax(1)), 1),
        "masks": torch.rand((4, *image.shape[-2:]), generator=generator) > 0.6,
        "keypoints": torch.rand((4, 5, 2), generator=generator) * size,
        "labels": torch.arange(4),
    }


def inputs() -> Iterator[tuple[str, Any, int]]:
    """Yield a chain's name, an image or sample, and the index that its draws depend on."""
    generator = torch.Generator().manual_seed(0)
    for size in SIZES:
        noise = torch.rand((3, *size), generator=generator)
        image = (noise + torch.linspace(0, 1, size[1])) / 2  # not all frequencies alike
        for own in ((image * 255).to(torch.uint8), image):
            names = [*steps(), *(of_bytes_alone() if own.dtype == torch.uint8 else ())]
            yield from ((name, own, index) for name in names for index in INDICES)
        given = sample((image * 255).to(torch.uint8), generator)
        yield from ((name, given, index) for name in of_samples() for index in INDICES)
