"""Every transform that changes pixels by values, neighbourhoods or a field, and always does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms import v2
from visops import transforms as T

from transforms.chains import photo

# By values alone, as torchvision has them.
VALUES: dict[str, Callable[[], Any]] = {
    "invert": lambda: T.RandomInvert(1.0),
    "posterize": lambda: T.RandomPosterize(3, 1.0),
    "no bits": lambda: T.RandomPosterize(0, 1.0),
    "all bits": lambda: T.RandomPosterize(8, 1.0),
    "solarize": lambda: T.RandomSolarize(0.4 * 255, 1.0),
    "autocontrast": lambda: T.RandomAutocontrast(1.0),
    "equalize": lambda: T.RandomEqualize(1.0),
    "sharpness": lambda: T.RandomAdjustSharpness(2.3, 1.0),
    "soften": lambda: T.RandomAdjustSharpness(0, 1.0),
    "gamma": lambda: T.RandomGamma((1.7, 1.7), 1.0),
    "gaussian blur": lambda: T.GaussianBlur((3, 5), (1.3, 1.3)),
}

# With fixed numbers but for keys.
OPERATIONS: dict[str, Callable[[], Any]] = {
    "gaussian noise": lambda: T.GaussianNoise(0.05, 0.1),
    "unclipped noise": lambda: T.GaussianNoise(0.0, 0.2, clip=False),
    "shot noise": lambda: T.ShotNoise((0.1, 0.1), 1.0),
    "fine shot noise": lambda: T.ShotNoise((0.002, 0.002), 1.0),
    "salt and pepper": lambda: T.SaltAndPepper((0.2, 0.2), (0.3, 0.3), 1.0),
    "hsv": lambda: T.RandomHSV(0.2, 0.6, 0.5),
    "channels": lambda: T.ChannelDropout((1, 2), 7 / 8, 1.0),
    "holes": lambda: T.CoarseDropout((3, 5), fill=0.25, p=1.0),
    "random holes": lambda: T.CoarseDropout((2, 2), (9, 20), (5, 30), "random", 1.0),
    "plain holes": lambda: T.CoarseDropout((2, 2), fill="random_uniform", p=1.0),
    "grid": lambda: T.GridDropout(0.4, p=1.0),
    "box": lambda: T.Blur((5, 5), 1.0),
    "median": lambda: T.MedianBlur((3, 3), 1.0),
    "large median": lambda: T.MedianBlur((7, 7), 1.0),
    "motion": lambda: T.MotionBlur((7, 7), p=1.0),
    "unsharp": lambda: T.UnsharpMask((5, 5), p=1.0),
    "emboss": lambda: T.Emboss(p=1.0),
    "sharpen": lambda: T.Sharpen(p=1.0),
    "clahe": lambda: T.CLAHE((3, 3), p=1.0),
    "downscale": lambda: T.Downscale((0.3, 0.3), 1.0),
    "jpeg": lambda: T.JPEG(30),
    "tones": lambda: T.RandomToneCurve(0.2, True, 1.0),
    "snow": lambda: T.RandomSnow(2.0, (0.2, 0.2), 1.0),
    "advanced blur": lambda: T.AdvancedBlur((7, 7), (1, 2), (1, 2), p=1.0),
    "slope": lambda: T.Illumination(intensity_range=(0.3, 0.4), p=1.0),
    "corner": lambda: T.Illumination("corner", (0.3, 0.4), p=1.0),
    "spot": lambda: T.Illumination("gaussian", (0.3, 0.4), p=1.0),
    "shadow": lambda: T.RandomShadow(p=1.0),
    "dilation": lambda: T.Morphological((6, 5), p=1.0),
    "grey": lambda: T.RandomGrayscale(1.0),
    "policy": lambda: T.RandomApply([T.RandomInvert(1.0), T.RandomGamma((0.4, 0.5), 1.0)], 1.0),
}

BENDS: dict[str, Callable[[], Any]] = {
    "elastic": lambda: T.ElasticTransform(120.0, 8.0),
    "grid distortion": lambda: T.GridDistortion(p=1.0),
    "camera": lambda: T.OpticalDistortion((0.3, 0.4), p=1.0),
    "fisheye": lambda: T.OpticalDistortion((0.3, 0.4), mode="fisheye", p=1.0),
    "plate": lambda: T.ThinPlateSpline(p=1.0),
}

POLICIES: dict[str, Callable[[], Any]] = {
    "rand augment": lambda: T.RandAugment(2, 15),
    "trivial augment": lambda: T.TrivialAugmentWide(),
    "imagenet": lambda: T.AutoAugment(),
    "cifar10": lambda: T.AutoAugment("cifar10"),
    "svhn": lambda: T.AutoAugment(v2.AutoAugmentPolicy.SVHN),
}

PIXELS = VALUES | OPERATIONS
STEPS = PIXELS | BENDS | POLICIES


def made(name: str, white: float = 255.0) -> Any:
    """Make a transform for images with this white; only one asks for it."""
    return T.RandomSolarize(0.4 * white, 1.0) if name == "solarize" else STEPS[name]()


def picture() -> Tensor:
    """Return a part of a photo with odd sides, [3, 111, 133]."""
    return photo()[:, 40:151, 100:233].contiguous()


def kinds_of_images() -> list[Tensor]:
    """Return a photo, a dark one, noise, and images of few values, uint8."""
    rng = np.random.default_rng(0)
    noise = torch.from_numpy(rng.integers(0, 256, (3, 9, 7), np.uint8))
    flat = torch.full((3, 8, 8), 77, dtype=torch.uint8)
    flat[1, 2, 3] = 200
    few = torch.from_numpy(rng.choice(np.array([0, 90, 255], np.uint8), (1, 12, 11)))
    return [picture(), picture() // 3, noise, flat, few]
