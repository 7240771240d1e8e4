"""Inputs of the augmentation benchmarks: smooth arrays, noise, JPEG files."""

import functools
import io
import itertools
from collections.abc import Iterator

import cv2
import numpy as np
import numpy.typing as npt
import torch
from bench.harness import Tolerance
from demo.photos import packaged_photos
from PIL import Image

Photo = npt.NDArray[np.uint8]  # [height, width, 3]
Size = tuple[int, int]  # height, width

MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]
SAME_MEAN = Tolerance(
    mean_abs=0.25, why="other random parameters; peers are black where a crop has cut off"
)

# Sizes of photos in common data sets.
MIXED_SIZES: tuple[Size, ...] = (
    (480, 640),
    (640, 480),
    (427, 640),
    (500, 375),
    (375, 500),
    (612, 612),
    (640, 427),
    (480, 720),
)


@functools.lru_cache(maxsize=64)
def smooth(size: Size, seed: int = 0) -> Photo:
    """Smooth noise, away from 0 and 255.

    Some peers interpolate several times where others do once. On these pictures that makes a small
    difference, so that a wrong geometry or colour still shows.
    """
    noise = np.random.default_rng(seed).normal(size=(*size, 3)).astype(np.float32)
    blurred = cv2.GaussianBlur(noise, (0, 0), 6.0, borderType=cv2.BORDER_REFLECT)
    levels = 128.0 + blurred * (28.0 / blurred.std())
    return levels.clip(40, 215).astype(np.uint8)


def smooth_batch(batch: int, size: Size) -> Photo:
    """Pictures of :func:`smooth`, [batch, height, width, 3]."""
    return np.stack([smooth(size, seed) for seed in range(batch)])


@functools.lru_cache(maxsize=2)
def ragged_noise(count: int) -> tuple[Photo, ...]:
    """White noise in sizes of photos."""
    rng = np.random.default_rng(0)
    sizes = itertools.islice(itertools.cycle(MIXED_SIZES), count)
    return tuple(rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes)


def cut(photo: Image.Image, size: Size, least: float, rng: np.random.Generator) -> Image.Image:
    """A part of a photo, at random, resized: as large as it can be, or down to a share of that."""
    height, width = size
    scale = min(photo.width / width, photo.height / height) * rng.uniform(least, 1.0)
    cut_width, cut_height = width * scale, height * scale
    left = rng.uniform(0, photo.width - cut_width)
    top = rng.uniform(0, photo.height - cut_height)
    box = (left, top, left + cut_width, top + cut_height)
    return photo.resize((width, height), Image.Resampling.BICUBIC, box)


def cut_photos(count: int, large: bool = False, size: Size | None = None) -> Iterator[Image.Image]:
    """Real photos, cut at random from those that come with scikit-image and scikit-learn.

    They are resized: to about 640x480, or `large`, 2016x1512, which most of them have to be
    enlarged to; or all to one `size`.
    """
    rng = np.random.default_rng(0)
    photos = [Image.fromarray(p) for p in packaged_photos().values() if min(p.shape[:2]) >= 300]
    for index in range(count):
        mixed = MIXED_SIZES[index % len(MIXED_SIZES)]
        height, width = size or ((1512, 2016) if large else mixed)
        photo = photos[index % len(photos)]
        yield cut(photo, (height, width), 0.7, rng)


def jpeg(photo: Image.Image) -> bytes:
    """A JPEG file, quality 90, colour at half resolution."""
    file = io.BytesIO()
    photo.save(file, "JPEG", quality=90, subsampling="4:2:0")
    return file.getvalue()


@functools.lru_cache(maxsize=2)
def jpeg_files(count: int, large: bool = False, size: Size | None = None) -> tuple[bytes, ...]:
    """Photos of :func:`cut_photos` as JPEG files."""
    return tuple(map(jpeg, cut_photos(count, large, size)))


def grainy_jpeg(photo: Image.Image, bits: float, seed: int) -> bytes:
    """A JPEG file of `bits` bits a pixel, within 1 %: the photo, with grain as of a film.

    The grain is Gaussian noise, blurred a little and alike in all channels. How strong it must be
    is found by bisection on the file's size. A photo that needs more bits without it has none.
    """
    noise = np.random.default_rng(seed).normal(size=(photo.height, photo.width, 1))
    grain = cv2.GaussianBlur(noise.astype(np.float32), (0, 0), 0.6)[..., None]
    pixels = np.asarray(photo)
    low, high = 0.0, 128.0
    for _ in range(12):
        strength = (low + high) / 2
        noisy = (pixels + strength * grain).clip(0, 255).astype(np.uint8)
        file = jpeg(Image.fromarray(noisy))
        found = len(file) * 8 / (photo.height * photo.width)
        if abs(found / bits - 1) < 0.01:
            break
        low, high = (strength, high) if found < bits else (low, strength)
    return file


def normalise(batch: torch.Tensor) -> torch.Tensor:
    """Pixels [B, 3, H, W] of any layout -> normalised float32, contiguous: three passes."""
    shape = (1, 3, 1, 1)
    pixels = batch.to(torch.float32, memory_format=torch.contiguous_format).div_(255.0)
    return pixels.sub_(torch.tensor(MEAN).view(shape)).div_(torch.tensor(STD).view(shape))
