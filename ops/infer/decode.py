"""From files to pixels, in worker processes. What can't be read is a value, never an exception."""

from __future__ import annotations

import io
import os
import re
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.io import ImageReadMode, decode_image

from .batch import Batch, Frame
from .plan import PlannedBatch
from .preprocess import Preprocess

__all__ = ["Decoder", "decoded_batches"]

_TORCHVISION = ("JPEG", "PNG")  # decoded by torchvision, the others by Pillow
_ORIENTATION = 0x0112
_TRANSPOSED = (5, 6, 7, 8)  # orientations whose width is the height


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
                pixels, size = self.image(entry.path)
            except Exception as error:  # whatever a decoder throws at a damaged file
                failures[index] = _reason(error)
                continue
            height, width, _ = pixels.shape
            frames.append(Frame(index, offset, height, width, *size))
            parts.append(pixels.reshape(-1))
            offset += pixels.numel()
        # One tensor a batch: each one that leaves a worker takes a file descriptor.
        pixels = torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)
        seconds = time.perf_counter() - start
        return Batch(plan, pixels, frames, failures, decode_seconds=seconds)

    def image(self, path: str) -> tuple[Tensor, tuple[int, int]]:
        """Decode one image to uint8 ``[H, W, 3]``; also its full height and width, upright."""
        with open(os.path.join(os.fsencode(self.root), os.fsencode(path)), "rb") as file:
            data = bytearray(file.read())
        if not data:
            raise ValueError("the file is empty")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's, of metadata
            image: Image.Image = Image.open(io.BytesIO(data))
            width, height = image.size
            if width * height > self.max_pixels:
                raise ValueError(f"{width} x {height} pixels are more than {self.max_pixels}")
            turned = self.exif and image.getexif().get(_ORIENTATION, 1) in _TRANSPOSED
            size = (width, height) if turned else (height, width)
            if self.reduced and image.format == "JPEG" and (target := self._reducible(size)):
                h, w = target
                image.draft("RGB", (h, w) if turned else (w, h))
            elif image.format in _TORCHVISION:
                return _decode(data, self.exif), size
            if self.exif:
                image = ImageOps.exif_transpose(image)
            return torch.from_numpy(np.array(image.convert("RGB"))), size

    def _reducible(self, size: tuple[int, int]) -> tuple[int, int] | None:
        """Return the least height and width that all targets can do with, if half or less."""
        height, width = size
        places = [target.place(height, width) for target in self.targets]
        scale = max((max(place.scale_x, place.scale_y) for place in places), default=1.0)
        if scale > 0.5:
            return None
        return int(np.ceil(height * scale)), int(np.ceil(width * scale))


def _decode(data: bytearray, exif: bool) -> Tensor:
    encoded = torch.frombuffer(data, dtype=torch.uint8)
    pixels = decode_image(encoded, ImageReadMode.RGB, apply_exif_orientation=exif)
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


class _Batches(Dataset[Batch]):
    """Decodes the planned batch that it is asked for.

    Batches are sent to the workers as they are wanted: a list of all paths would end as a copy in
    each of them.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def __getitem__(self, plan: PlannedBatch) -> Batch:
        return self._decoder.batch(plan)


def decoded_batches(
    batches: Sequence[PlannedBatch], decoder: Decoder, workers: int, prefetch: int = 2
) -> Iterator[Batch]:
    """Decode batches in order, in `workers` processes, or in this one where that is 0.

    The processes are started before this function returns.
    """
    loader: DataLoader[Batch] = DataLoader(
        _Batches(decoder),
        batch_size=None,
        sampler=batches,
        num_workers=workers,
        prefetch_factor=prefetch if workers else None,
        worker_init_fn=_ignore_signals,
    )
    return iter(loader)


def _ignore_signals(worker: int) -> None:
    """Leave interrupts, which go to the whole process group, to the process that drains."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
