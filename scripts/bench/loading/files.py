"""Files on disk for the loaders, which all contenders read."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from bench.augmentation.pictures import Size, cut_photos, grainy_jpeg, jpeg
from PIL import Image

Kind = Literal["smooth", "dense", "png"]

COUNT, BATCH, TARGET, THREADS = 256, 64, 224, 2
SCALE = (0.08, 1.0)
JITTER = (0.4, 0.4, 0.4, 0.1)
DENSE = 4.8  # bits a pixel, as ImageNet's files have on average
# Side and scale of each crop: one, or several views of a photo.
ONE = ((TARGET, SCALE),)
VIEWS = ((TARGET, (0.4, 1.0)),) * 2 + ((96, (0.05, 0.4)),) * 6


@functools.cache
def folder() -> Path:
    """A folder that is gone when the process ends."""
    path = Path(tempfile.mkdtemp(prefix="visops-loader-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _write(photo: Image.Image, kind: Kind, index: int) -> str:
    suffix = "png" if kind == "png" else "jpg"
    path = folder() / f"{kind}-{photo.height}x{photo.width}-{index:04}.{suffix}"
    if kind == "png":
        photo.save(path)
    else:
        path.write_bytes(jpeg(photo) if kind == "smooth" else grainy_jpeg(photo, DENSE, index))
    return str(path)


@functools.cache
def paths_of(size: Size, kind: Kind = "smooth") -> tuple[str, ...]:
    """Real photos of one size: JPEG, as they are or with grain, or PNG."""
    return tuple(_write(photo, kind, i) for i, photo in enumerate(cut_photos(COUNT, size=size)))


@functools.cache
def objects_of(size: Size) -> tuple[dict[str, Any], ...]:
    """Boxes, labels and the path of a mask of classes, as detectors and segmenters have them."""
    rng = np.random.default_rng(0)
    samples = []
    for index, path in enumerate(paths_of(size)):
        height, width = size
        corners = rng.uniform(0.0, 0.6, (8, 2)) * (width, height)
        sides = rng.uniform(0.1, 0.4, (8, 2)) * (width, height)
        boxes = np.concatenate((corners, corners + sides), 1).astype(np.float32)
        mask = np.zeros(size, np.uint8)
        for label, (x1, y1, x2, y2) in enumerate(boxes.astype(int), 1):
            mask[y1:y2, x1:x2] = label
        name = folder() / f"{height}x{width}-{index:04}.png"
        name.write_bytes(cv2.imencode(".png", mask)[1].tobytes())
        samples.append({"image": path, "boxes": boxes, "mask": str(name)})
    return tuple(samples)
