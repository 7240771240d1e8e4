"""From files to pixels. What can't be read is a value, never an exception."""

from __future__ import annotations

import io
import os
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from .batch import Batch, Frame
from .plan import PlannedBatch
from .preprocess import Preprocess

__all__ = ["Decoder", "import_torchvision"]

_TORCHVISION = ("JPEG", "PNG")  # what it decodes; Pillow decodes the others
_ORIENTATION = 0x0112
# EXIF orientations whose width is the height, and whose x or y goes the other way once upright.
_TRANSPOSED, _FROM_RIGHT, _FROM_BOTTOM = (5, 6, 7, 8), (2, 3, 6, 7), (3, 4, 7, 8)


@dataclass(frozen=True)
class Decoder:
    """How files become pixels.

    Parameters
    ----------
    root : str
        The folder that paths are relative to.
    targets : sequence of Preprocess
        What the pixels are for.
    reduced : bool
        Decode JPEGs that are at least twice as large as every target needs at a half, a quarter or
        an eighth of their size, as libjpeg can.
    exif : bool
        Turn images upright by their EXIF orientation.
    max_pixels : int
        Larger images fail: they are more likely to be bombs than photos.
    """

    root: str
    targets: tuple[Preprocess, ...] = ()
    reduced: bool = False
    exif: bool = True
    max_pixels: int = 1 << 28

    def batch(self, plan: PlannedBatch) -> Batch:
        """Decode a batch: pixels of what can be read, reasons for what can't."""
        start = time.perf_counter()
        frames: list[Frame] = []
        parts: list[Tensor] = []
        failures: dict[int, str] = {}
        offset = 0
        for index, entry in enumerate(plan.entries):
            if entry.status is not None:
                continue
            try:
                pixels, frame = self.image(entry.path)
            except Exception as error:  # whatever a decoder throws at a damaged file
                failures[index] = _reason(error)
                continue
            frames.append(replace(frame, index=index, offset=offset))
            parts.append(pixels.reshape(-1))
            offset += pixels.numel()
        # One tensor a batch: each one that leaves a worker takes a file descriptor.
        flat = torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)
        seconds = time.perf_counter() - start
        return Batch(plan, flat, frames, failures, decode_seconds=seconds)

    def image(self, path: str) -> tuple[Tensor, Frame]:
        """Decode one image to uint8 ``[H, W, 3]``."""
        with open(os.path.join(os.fsencode(self.root), os.fsencode(path)), "rb") as file:
            data = bytearray(file.read())
        if not data:
            raise ValueError("the file is empty")
        image: Image.Image = Image.open(io.BytesIO(data))
        width, height = image.size
        if width * height > self.max_pixels:
            raise ValueError(f"{width} x {height} pixels are more than {self.max_pixels}")
        orientation = image.getexif().get(_ORIENTATION, 1) if self.exif else 1
        size = (width, height) if orientation in _TRANSPOSED else (height, width)
        reduction = self._reduction(image, *size) if self.reduced else 1
        if reduction > 1:
            # libjpeg halves as often as asked; Pillow wants to hear of the size instead.
            image.draft("RGB", (width // reduction, height // reduction))
        elif image.format in _TORCHVISION and (decode := import_torchvision()) is not None:
            pixels = _decode(decode, data, self.exif)
            return pixels, Frame(0, 0, pixels.shape[0], pixels.shape[1], *size)
        if self.exif:
            image = ImageOps.exif_transpose(image)
        pixels = torch.from_numpy(np.array(image.convert("RGB")))
        h, w, _ = pixels.shape
        left = size[1] - w * reduction if orientation in _FROM_RIGHT else 0
        top = size[0] - h * reduction if orientation in _FROM_BOTTOM else 0
        return pixels, Frame(0, 0, h, w, *size, reduction, left, top)

    def _reduction(self, image: Image.Image, height: int, width: int) -> int:
        """Return by how much a JPEG may be smaller, for all targets."""
        if image.format != "JPEG":
            return 1
        places = [target.place(height, width) for target in self.targets]
        scale = max((max(place.scale_x, place.scale_y) for place in places), default=1.0)
        # No smaller than a pixel: draft() takes no 0.
        return next((r for r in (8, 4, 2) if scale * r <= 1 and min(height, width) >= r), 1)


@cache
def import_torchvision() -> Callable[..., Tensor] | None:
    """Return torchvision's decoder, which holds no thread up; None for a version without one.

    It is imported late: processes that decode nothing start twice as fast without it.
    """
    try:
        from torchvision.io import decode_image
    except ImportError:
        return None
    # It says on every call that a later version will do without it.
    warnings.filterwarnings("ignore", "The image decoding and encoding capabilities")
    return decode_image


def _decode(decode: Callable[..., Tensor], data: bytearray, exif: bool) -> Tensor:
    encoded = torch.frombuffer(data, dtype=torch.uint8)
    pixels = decode(encoded, "RGB", apply_exif_orientation=exif)
    if pixels.dtype != torch.uint8:  # 16-bit PNG
        pixels = (pixels.to(torch.int32) // 257).to(torch.uint8)
    return pixels.permute(1, 2, 0)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    # torchvision's messages begin with its own function, file and line; Pillow's may hold an
    # object's address, which is another one in every run.
    text = re.sub(r"^\w+, \S+:\d+, ", "", str(error))
    if isinstance(error, UnidentifiedImageError):
        text = "not an image of a known format"
    return text.strip() or type(error).__name__
