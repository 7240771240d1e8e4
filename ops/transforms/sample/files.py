"""The files that stand for images in samples, by their paths or as their content."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ...jpeg.file import CHANNELS, open_file
from ...jpeg.pictures import is_picture
from .leaf import Leaf

# JPEG files in a sample, in the places of images.

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


PATHS = (str, os.PathLike)
FILES = (*PATHS, *BUFFERS)


@dataclass(slots=True)
class File:
    """The file of a sample: a path, or content.

    Attributes
    ----------
    key : Any
        Its key or place in the sample; None: it is the sample.
    value : Any
        What is there.
    path : str, optional
    content : Any
        Bytes, a buffer, or a uint8 tensor or array; None: they are to be read from `path`.
    """

    key: Any
    value: Any
    path: str | None
    content: Any


def find_file(sample: Any, kinds: Mapping[str, str]) -> File | None:
    """Find the file that stands for a sample's image, or return None.

    It is the sample itself, the value under a name of images in a dict, or in a tuple or list the
    first content of a file; where there is none, the first path.
    """
    if isinstance(sample, (tuple, list)):
        path = None
        for index, value in enumerate(sample):
            if is_encoded(value) and not isinstance(value, list):
                return File(index, value, None, value)
            if path is None and isinstance(value, PATHS):
                path = index
        if path is not None:
            return File(path, sample[path], os.fspath(sample[path]), None)
        for index, value in enumerate(sample):
            if isinstance(value, Mapping):
                found = _undecoded(index, value)
                if found is not None:
                    return found
        return None
    if isinstance(sample, Mapping):
        for key, value in sample.items():
            if kinds.get(key) == "image":
                return _file(key, value)
        return _undecoded(None, sample)
    return _file(None, sample)


def _file(key: Any, value: Any) -> File | None:
    if isinstance(value, PATHS):
        return File(key, value, os.fspath(value), None)
    if isinstance(value, Mapping):
        return _undecoded(key, value)
    if is_encoded(value) and not isinstance(value, list):
        return File(key, value, None, value)
    return None


def _undecoded(key: Any, value: Mapping[Any, Any]) -> File | None:
    """Return the file of a Hugging Face image that is not decoded: its bytes and its path."""
    if value.keys() != {"bytes", "path"}:
        return None
    path, content = value["path"], value["bytes"]
    if content is None and path is None:
        return None
    return File(key, value, None if path is None else os.fspath(path), content)


def with_files_read(sample: Any, kinds: Mapping[str, str]) -> Any:
    """Return a sample, or a batch, in which files' contents are in the places of their paths."""
    if _are_paths(sample):
        return list(map(_content_of, sample))
    file = find_file(sample, kinds)
    if file is not None:
        return sample if file.content is file.value else with_content(sample, file)
    named = isinstance(sample, Mapping)
    if named or isinstance(sample, (tuple, list)):
        entries: Any = sample.items() if named else enumerate(sample)
        for key, value in entries:
            if _are_paths(value) and (not named or kinds.get(key) == "image"):
                return replaced(sample, {key: list(map(_content_of, value))})
    return sample


def _are_paths(value: Any) -> bool:
    return type(value) is list and len(value) > 0 and all(isinstance(own, PATHS) for own in value)


def _content_of(path: Any) -> bytes:
    with open(path, "rb") as opened:
        return opened.read()


def with_content(sample: Any, file: File) -> Any:
    """Return a sample with its file's content in the file's place, reading it if need be."""
    content = file.content
    if content is None:
        content = _content_of(file.path)
    return content if file.key is None else replaced(sample, {file.key: content})


def replaced(sample: Any, values: Mapping[Any, Any]) -> Any:
    """Return a dict, list or tuple with other values at some keys or places."""
    if isinstance(sample, Mapping):
        return {**sample, **values}
    listed = list(sample)
    for index, value in values.items():
        listed[index] = value
    if hasattr(sample, "_fields"):  # a namedtuple
        return type(sample)(*listed)
    return type(sample)(listed)
