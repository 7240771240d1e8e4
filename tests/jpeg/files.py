"""JPEG files of every kind, and the decoders that tests run."""

import io
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from visops.jpeg.file import load_turbo
from visops.jpeg.pictures import load_pillow

ORIENTATION = 0x0112
# Chroma samples: per pixel; per 2 x 1, 2 x 2, 1 x 2 and 4 x 1 pixels.
SAMPLINGS = {"444": 0x111111, "422": 0x211111, "420": 0x221111, "440": 0x121111, "411": 0x411111}


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Return noise with some structure [H, W, 3]: neighbours differ, codes have every length."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(-60, 60, (height, width, 3))
    ramp = np.linspace(40, 210, height)[:, None, None] + np.linspace(-40, 40, width)[:, None]
    return (ramp + noise).clip(0, 255).astype(np.uint8)


def by_opencv(image: np.ndarray, sampling: str, *options: int) -> bytes:
    """Encode with a sampling, and pairs of OpenCV's options."""
    own = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, SAMPLINGS[sampling], *options]
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90, *own])[1].tobytes()


def by_pillow(image: np.ndarray, mode: str | None = None, **options: Any) -> bytes:
    """Encode with Pillow's options."""
    file = io.BytesIO()
    picture = Image.fromarray(image)
    (picture if mode is None else picture.convert(mode)).save(file, "JPEG", **options)
    return file.getvalue()


def oriented(image: np.ndarray, orientation: int) -> bytes:
    """Encode with an EXIF orientation."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return by_pillow(image, exif=exif, subsampling=2, quality=90)


def of_four_inks(image: np.ndarray, transform: int) -> bytes:
    """Encode as CMYK (transform 0) or YCCK (2): the same numbers, read in two ways."""
    file = bytearray(by_pillow(image, "CMYK", quality=95))
    position = file.index(b"Adobe") + 11
    assert file[position] == 0
    file[position] = transform
    return bytes(file)


def kinds(height: int, width: int) -> Iterator[tuple[str, bytes]]:
    """Yield files of every sampling, sequential, progressive and with restart markers."""
    image = picture(height, width)
    for sampling in SAMPLINGS:
        yield sampling, by_opencv(image, sampling)
        yield f"{sampling} progressive", by_opencv(image, sampling, cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
        yield f"{sampling} restarts", by_opencv(image, sampling, cv2.IMWRITE_JPEG_RST_INTERVAL, 2)
    yield "grey", by_pillow(image[..., 0], quality=90)
    yield "grey progressive", by_pillow(image[..., 0], quality=90, progressive=True)
    yield "RGB", by_pillow(image, quality=90, keep_rgb=True)
    yield "CMYK", of_four_inks(image, 0)
    yield "YCCK", of_four_inks(image, 2)


LOADERS = {"libjpeg-turbo": load_turbo, "Pillow": load_pillow}


def loaded(kind: str) -> Any:
    """Return a decoder, or skip the test."""
    found = LOADERS[kind]()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def use(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let visops decode by this."""
    found = loaded(kind)
    monkeypatch.setattr("visops.jpeg.file.decoder", lambda: found)
