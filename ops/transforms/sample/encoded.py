"""JPEG files in a sample, in the places of images."""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ...jpeg.file import CHANNELS, open_file
from ...jpeg.pictures import is_picture
from .leaf import Leaf

BUFFERS = (bytes, bytearray, memoryview)
_OTHERS = " (PNG, WebP, GIF, BMP, TIFF and PPM files will do; decode others before)"


class DamagedFileError(ValueError):
    """The error of a file that can't be decoded.

    Attributes
    ----------
    path : str, optional
        Where it is, as far as is known.
    """

    path: str | None = None


class EncodedOptions:
    """How files are read, and what is refused."""

    def __init__(self, mode: str, exif: bool, max_pixels: int) -> None:
        self.channels, self.exif, self.max_pixels = CHANNELS[mode], exif, max_pixels


class Encoded:
    """A file that stands for the image in it, an array [H, W, C], until it is decoded.

    Attributes
    ----------
    file : JpegFile or PictureFile
    device : torch.device
        Where its pixels are, once it is decoded.
    """

    __slots__ = ("device", "file", "shape")

    dtype, ndim = np.dtype(np.uint8), 3

    def __init__(self, file: Any, size: tuple[int, int], channels: int) -> None:
        self.file, self.device, self.shape = file, torch.device("cpu"), (*size, channels)

    @classmethod
    def open(cls, data: Any, name: str, options: EncodedOptions) -> "Encoded":
        """Open a file that has this name in its sample."""
        try:
            file: Any = open_file(data, options.exif, options.max_pixels)
        except (TypeError, ValueError) as error:
            reject_file(name, error, _OTHERS)
        return cls(file, file.size, options.channels)


def reject_file(name: str, error: Exception, others: str = "") -> NoReturn:
    """Raise the error of a file, whose message begins with "data", under its name."""
    reason = str(error).removeprefix("data ")
    if not reason.startswith("is not a JPEG"):
        others = ""
    message = f"visops.transforms.DecodeJpeg: {name} {reason}{others}"
    raise (DamagedFileError if type(error) is ValueError else type(error))(message) from None


def is_encoded(value: Any) -> bool:
    """Return whether this is a file's bytes, or a list of such."""
    if isinstance(value, BUFFERS):
        return True
    if isinstance(value, (Tensor, np.ndarray)):
        return value.ndim == 1 and str(value.dtype).removeprefix("torch.") == "uint8"
    return type(value) is list and bool(value) and all(map(is_encoded, value))


def encoded_leaf(value: Any, name: str, options: EncodedOptions, **origin: Any) -> Leaf:
    """Make a leaf of a file or a list of files."""
    if isinstance(value, (list, tuple)):
        files = [Encoded.open(item, f"{name}[{i}]", options) for i, item in enumerate(value)]
        return Leaf("image", files, len(files), "HWC", False, value, name, **origin)
    file = Encoded.open(value, name, options)
    return Leaf("image", file, None, "HWC", False, value, name, **origin)


def looks_like_file(value: Any) -> bool:
    """Return whether this is a file of an image, or a list that begins with one."""
    first = value[0] if isinstance(value, Sequence) and not isinstance(value, BUFFERS) else value
    start = bytes(first[:12])
    return start[:2] == b"\xff\xd8" or is_picture(start)
