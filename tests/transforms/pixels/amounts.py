"""Amounts of every pixel operation, pictures and numbers, that tests of the kernels share."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from visops.pixels.grey_means import add_grey_means
from visops.transforms.chain.pixel_kinds import MORE_NUMBERS, PixelKind

AMOUNTS = {
    PixelKind.BRIGHTNESS: (0.0, 0.4, 1.7),
    PixelKind.CONTRAST: (0.0, 0.6, 1.9),
    PixelKind.SATURATION: (0.0, 0.3, 2.2),
    PixelKind.SHARPNESS: (0.0, 0.5, 2.3),
    PixelKind.POSTERIZE: (0.0, 3.0, 8.0),
    PixelKind.SOLARIZE: (0.0, 0.5, 1.0),
    PixelKind.GAMMA: (0.45, 1.0, 2.2, 3.0),
    PixelKind.SOLARIZE_AT: (0.3, 90.0),
    PixelKind.GAUSSIAN_NOISE: (0.0, 0.15),
    PixelKind.SHOT_NOISE: (0.003, 0.2),  # many photons, and few
    PixelKind.SALT_AND_PEPPER: (0.3,),
    PixelKind.HSV: (-0.4, 0.0, 0.7),
    PixelKind.SOLARIZE_ADD: (70.0,),
    PixelKind.MEDIAN_BLUR: (1.0, 13.0, 7.0, 5.0, 3.0),
    PixelKind.MOTION_BLUR: (3.0, 9.0),
    PixelKind.EMBOSS: (0.4,),
    PixelKind.SHARPEN: (0.3,),
    PixelKind.CLAHE: (0.0, 2.5),
    PixelKind.DOWNSCALE: (0.1, 0.37),
    PixelKind.JPEG: (5.0, 90.0, 40.0),
    PixelKind.BOX_BLUR: (1.0, 9.0, 3.0),
    PixelKind.UNSHARP_MASK: (0.0, 0.7),
    PixelKind.DROP_CHANNELS: (0.6,),
    PixelKind.HOLES: (0.4, 200.0),
    PixelKind.GRID_HOLES: (0.4,),
    PixelKind.TONE_CURVE: (0.0, 0.3),
    PixelKind.BLEACH: (0.5, 2.5),
    PixelKind.ADVANCED_BLUR: (1.0, 13.0, 7.0),
    PixelKind.ILLUMINATION: (0.0, 0.6),
    PixelKind.SHADOWS: (0.0, 1.0, 3.0),
    PixelKind.MORPHOLOGY: (0.0, 1.0),
}

# What operations take behind their amount, filled up with zeros.
MORE = {
    PixelKind.GAUSSIAN_NOISE: (0.03, 0.0, 0.123456789),
    PixelKind.SHOT_NOISE: (0.987654321,),
    PixelKind.SALT_AND_PEPPER: (0.4, 0.31),
    PixelKind.HSV: (0.4, -0.3, 12.4, -20.0),
    PixelKind.MOTION_BLUR: (30.0, -0.4, 0.5, -0.7),
    PixelKind.EMBOSS: (0.6,),
    PixelKind.SHARPEN: (0.7,),
    PixelKind.CLAHE: (3.0, 5.0),
    PixelKind.UNSHARP_MASK: (5.0, 0.8, 9.0),
    PixelKind.DROP_CHANNELS: (1.0, 2.0, 0.77),
    PixelKind.HOLES: (0.2, 3.0, 5.0, 0.1, 0.5, 0.2, 0.6, 1.0),
    PixelKind.GRID_HOLES: (0.6, 0.6, 1.0, 1.0, 4.0, 9.0, 0.0, 0.0, 2.0),
    PixelKind.TONE_CURVE: (1.0, 0.83),
    PixelKind.BLEACH: (0.45,),
    PixelKind.ADVANCED_BLUR: (1.2, 2.3, 25.0, 0.4, 0.5, 8.0, 0.9, 1.1, 0.29),
    PixelKind.ILLUMINATION: (2.0, 0.3, 0.6, 0.4, 1.0),
    PixelKind.SHADOWS: (0.61, 0.1, 0.2, 0.9, 1.0, 5.0, 0.3, 0.7),
    PixelKind.MORPHOLOGY: (4.0, 7.0),
}

PLAIN = [k for k in PixelKind if k <= PixelKind.SOLARIZE_AT and k != PixelKind.AFFINE]
KINDS = [*PLAIN, *(kind for kind in AMOUNTS if kind not in PLAIN)]


def more_of(kinds: Iterable[PixelKind]) -> list[float]:
    """Nine numbers for each operation."""
    return [(*MORE.get(kind, ()), *[0.0] * MORE_NUMBERS)[i] for kind in kinds for i in range(9)]


def pictures(size: tuple[int, int], channels: int, dtype: torch.dtype) -> torch.Tensor:
    """One smooth image, one of noise, one dark, one flat; floats also beyond 0 and 1."""
    generator = torch.Generator().manual_seed(size[0] * 100 + size[1])
    height, width = size
    noise = torch.rand((channels, height, width), generator=generator)
    ramp = torch.linspace(0, 1, width).expand(channels, height, width)
    images = torch.stack([ramp, noise, noise / 5, torch.full_like(noise, 0.3)])
    if dtype == torch.uint8:
        return (images * 255).round().to(dtype)
    images[1] = images[1] * 1.4 - 0.2
    return images


def contrasts(images: torch.Tensor) -> torch.Tensor:
    """Offsets of colour matrices with the images' grey means in them."""
    count, channels = images.shape[:2]
    steps = torch.linspace(-1, 2, count * 2 * channels * (channels + 1), dtype=torch.float64)
    colors = steps.view(count, 2, channels, channels + 1).to(images.device)
    return add_grey_means(images, colors, colors[..., 0].contiguous())


def picture(size: tuple[int, int], channels: int, dtype: torch.dtype) -> Tensor:
    """Many different values, and many that are equal."""
    generator = torch.Generator().manual_seed(sum(size))
    image = torch.randint(0, 256, (channels, *size), generator=generator)
    image[..., : size[1] // 2] //= 60
    return image.to(dtype) if dtype == torch.uint8 else image.to(dtype) / 255


def filled(*more: Any) -> list[float]:
    """Nine numbers for each of several operations."""
    return [n for own in more for n in (*own, *[0.0] * (MORE_NUMBERS - len(own)))]
