"""Files on disk for the loaders, which all contenders read."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from bench.augmentation.pictures import Size, jpeg_files

COUNT, BATCH, TARGET, THREADS = 256, 64, 224, 2
SCALE = (0.08, 1.0)
JITTER = (0.4, 0.4, 0.4, 0.1)


@functools.cache
def folder() -> Path:
    """A folder that is gone when the process ends."""
    path = Path(tempfile.mkdtemp(prefix="visops-loader-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.cache
def paths_of(size: Size) -> tuple[str, ...]:
    """Real photos of one size, quality 90."""
    paths = []
    for index, file in enumerate(jpeg_files(COUNT, size=size)):
        path = folder() / f"{size[0]}x{size[1]}-{index:04}.jpg"
        path.write_bytes(file)
        paths.append(str(path))
    return tuple(paths)


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
