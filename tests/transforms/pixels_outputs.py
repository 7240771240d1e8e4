"""Every output of the pixel operations' kernels, to compare between backends."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from visops.pixels.adjust import adjust_pixels
from visops.pixels.grey_means import add_grey_means
from visops.transforms.chain.pixel_kinds import MORE_NUMBERS, PixelKind

SIZES = [(1, 1), (2, 5), (3, 3), (17, 64), (60, 47), (33, 1), (1, 40)]
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
}
# What operations take behind their amount, filled up with zeros.
MORE = {
    PixelKind.GAUSSIAN_NOISE: (0.03, 0.0, 0.123456789),
    PixelKind.SHOT_NOISE: (0.987654321,),
    PixelKind.SALT_AND_PEPPER: (0.4, 0.31),
    PixelKind.HSV: (0.4, -0.3),
    PixelKind.MOTION_BLUR: (30.0, -0.4, 0.5, -0.7),
    PixelKind.EMBOSS: (0.6,),
    PixelKind.SHARPEN: (0.7,),
    PixelKind.CLAHE: (3.0, 5.0),
    PixelKind.UNSHARP_MASK: (5.0, 0.8, 9.0),
    PixelKind.DROP_CHANNELS: (1.0, 2.0, 0.77),
    PixelKind.HOLES: (0.2, 3.0, 5.0, 0.1, 0.5, 0.2, 0.6, 1.0),
    PixelKind.GRID_HOLES: (0.6, 0.6, 1.0, 1.0, 4.0, 9.0, 0.0, 0.0, 2.0),
}
PLAIN = [k for k in PixelKind if k <= PixelKind.SOLARIZE_AT and k != PixelKind.AFFINE]
KINDS = [*PLAIN, *(kind for kind in AMOUNTS if kind not in PLAIN)]
OF_ANY_CHANNELS = [k for k in KINDS if k not in (PixelKind.CONTRAST, PixelKind.JPEG)]


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


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and values of all operations on all kinds of images; amounts take turns."""
    next_amounts = {kind: itertools.cycle(AMOUNTS.get(kind, (0.0,))) for kind in KINDS}
    for dtype in (torch.uint8, torch.float32):
        for channels in (1, 3, 5):
            kinds = OF_ANY_CHANNELS if channels == 5 else KINDS
            for size in SIZES[:: 3 if channels == 5 else 1]:
                images = pictures(size, channels, dtype).to(device)
                for kind in kinds:
                    amount, own = next(next_amounts[kind]), [kind] * len(images)
                    found = adjust_pixels(images, own, [amount] * len(images), more_of(own))
                    name = f"{kind.name}-{amount}-{channels}-{size}-{dtype}"
                    yield name, found.nan_to_num(7.0).cpu().numpy()
                # Each with an operation of its own, in several launches.
                turns = [*kinds, *kinds]
                amounts = [AMOUNTS.get(kind, (0.0,))[-1] for kind in turns]
                batch = images[:2].repeat(len(kinds), 1, 1, 1)
                found = adjust_pixels(batch, turns, amounts, more_of(turns))
                yield f"mixed-{channels}-{size}-{dtype}", found.nan_to_num(7.0).cpu().numpy()
                if dtype == torch.uint8 and channels != 5:
                    yield f"means-{channels}-{size}", contrasts(images).cpu().numpy()


def contrasts(images: torch.Tensor) -> torch.Tensor:
    """Offsets of colour matrices with the images' grey means in them."""
    count, channels = images.shape[:2]
    steps = torch.linspace(-1, 2, count * 2 * channels * (channels + 1), dtype=torch.float64)
    colors = steps.view(count, 2, channels, channels + 1).to(images.device)
    return add_grey_means(images, colors, colors[..., 0].contiguous())


def check(found: dict[str, np.ndarray]) -> None:
    """Check that there are many cases, and that most of them are not constant."""
    assert len(found) > 900
    assert np.mean([np.unique(v).size > 2 for v in found.values()]) > 0.7
