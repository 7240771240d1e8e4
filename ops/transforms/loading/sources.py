"""How to read data sets that would decode their photos, and masks in files."""

import io
import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import ConcatDataset, Subset

from ..._native import png_rows
from ..sample.files import FILES, PATHS, DamagedFileError, replaced
from ..sample.images import pil_mask
from ..sample.leaf import imported
from .statistics import Times

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MOST = 1 << 28  # pixels; more is more likely an attack than a mask
_GREY, _PALETTE = 0, 3


def read_png(content: bytes) -> np.ndarray | None:
    """Return the bytes of the pixels, uint8 ``[H, W]``; those of a palette are indices.

    None: the file is something else than an image of one byte per pixel that is not interlaced, or
    damaged; Pillow reads it, or says what is wrong.
    """
    if content[:8] != _SIGNATURE or content[12:16] != b"IHDR" or len(content) < 33:
        return None
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", content[16:29])
    if depth != 8 or kind not in (_GREY, _PALETTE) or interlaced or width * height > _MOST:
        return None
    parts, offset = [], 33
    while offset + 12 <= len(content):
        length = int.from_bytes(content[offset : offset + 4], "big")
        name = content[offset + 4 : offset + 8]
        if name == b"IEND":
            break
        if name == b"IDAT":
            parts.append(content[offset + 8 : offset + 8 + length])
        offset += 12 + length
    size = height * (width + 1)
    inflating = zlib.decompressobj()
    try:
        rows = inflating.decompress(b"".join(parts), size + 1)
    except zlib.error:
        return None
    return png_rows(rows, height, width) if inflating.eof else None


class UnreadableError(Exception):
    """Stands for the error of a sample that can't be read, which is its cause."""

    def __init__(self, path: str | None) -> None:
        super().__init__(path)
        self.path = path


def with_masks(sample: Any, kinds: Mapping[str, str], times: Times, name: str = "sample") -> Any:
    """Return a sample whose masks are arrays, not files of pictures such as PNG.

    Masks are in dicts, which may be in the sample or in a dict of it; a list of files becomes an
    array [N, H, W].
    """
    if isinstance(sample, Mapping):
        entries = list(sample.items())
    elif isinstance(sample, (tuple, list)):
        entries = [(i, v) for i, v in enumerate(sample) if isinstance(v, Mapping)]
    else:
        return sample
    found = {}
    for key, value in entries:
        kind = kinds.get(key)
        if isinstance(value, Mapping):
            if kind is None:
                inner = with_masks(value, kinds, times, f"{name}[{key!r}]")
                if inner is not value:
                    found[key] = inner
        elif kind not in ("mask", "masks"):
            continue
        elif isinstance(value, FILES):
            found[key] = _read_mask(value, f"{name}[{key!r}]", times)
        elif isinstance(value, list) and value and all(isinstance(v, FILES) for v in value):
            found[key] = _read_masks(value, f"{name}[{key!r}]", times)
    return replaced(sample, found) if found else sample


def _read_masks(values: list[Any], name: str, times: Times) -> np.ndarray:
    masks = [_read_mask(value, f"{name}[{i}]", times) for i, value in enumerate(values)]
    for index, mask in enumerate(masks):
        if mask.shape != masks[0].shape:
            raise ValueError(
                f"visops.transforms.Loader: {name}[{index}] has shape {list(mask.shape)}, must be "
                f"{list(masks[0].shape)}, as of {name}[0]"
            )
    return np.stack(masks)


def _read_mask(value: Any, name: str, times: Times) -> np.ndarray:
    begin, content = perf_counter(), value
    if isinstance(value, PATHS):
        try:
            with open(value, "rb") as opened:
                content = opened.read()
        except OSError as error:
            raise UnreadableError(os.fspath(value)) from error
    decoding = perf_counter()
    found = read_png(bytes(content))
    mask = _by_pillow(content, name) if found is None else found
    times.reading += decoding - begin
    times.decoding += perf_counter() - decoding
    return mask


def _by_pillow(content: Any, name: str) -> np.ndarray:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ValueError(f"visops.transforms.Loader: {name} needs Pillow: {error}") from None
    try:
        with Image.open(io.BytesIO(content)) as image:
            return np.array(pil_mask(image, name))
    except (OSError, SyntaxError, Image.DecompressionBombError, UnidentifiedImageError) as error:
        message = f"visops.transforms.Loader: {name} can't be decoded: {error}"
        raise DamagedFileError(message) from None


def buffer_of(content: Any) -> Any:
    """Return content as C++ reads it."""
    return np.ascontiguousarray(content.numpy()) if isinstance(content, Tensor) else content


def may_draw(dataset: Any, takes_files: bool) -> bool:
    """Return whether reading a sample runs code that may draw random numbers."""
    if isinstance(dataset, (list, tuple, range)):
        return False
    if type(dataset) is Subset:
        return may_draw(dataset.dataset, takes_files)
    if type(dataset) is ConcatDataset:
        return any(may_draw(own, takes_files) for own in dataset.datasets)
    known = reader_of(dataset, takes_files) != dataset.__getitem__
    return not known or dataset.target_transform is not None


def reader_of(dataset: Any, takes_files: bool) -> Callable[[Any], Any]:
    """Return what reads a sample of a data set.

    A chain that decodes files gets paths from torchvision's ImageFolder and CocoDetection: their
    own loaders would decode the photos whole. If they were given a `transform`, or their class is a
    subclass with another ``__getitem__``, they read for themselves.
    """
    if not takes_files:
        return dataset.__getitem__  # type: ignore[no-any-return]
    if type(dataset) is Subset:
        inner, indices = reader_of(dataset.dataset, takes_files), dataset.indices
        return lambda index: inner(indices[index])
    if type(dataset) is ConcatDataset:
        return _of_several(dataset, [reader_of(own, takes_files) for own in dataset.datasets])
    folder, coco = _class("folder", "DatasetFolder"), _class("coco", "CocoDetection")
    for cls, make in ((folder, _of_folder), (coco, _of_coco)):
        if cls is not None and isinstance(dataset, cls):
            # With a `target_transform`, `transforms` holds that alone.
            joint = dataset.transforms is not None and dataset.target_transform is None
            plain = dataset.transform is None and not joint
            if plain and type(dataset).__getitem__ is cls.__getitem__:
                return make(dataset)
    return dataset.__getitem__  # type: ignore[no-any-return]


def _class(module: str, name: str) -> Any:
    return imported(f"torchvision.datasets.{module}", name)


def _of_several(dataset: Any, readers: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    ends = dataset.cumulative_sizes

    def read(index: Any) -> Any:
        place = index + len(dataset) if index < 0 else index
        own = bisect_right(ends, place)
        return readers[own](place - (ends[own - 1] if own else 0))

    return read


def _of_folder(dataset: Any) -> Callable[[Any], Any]:
    samples, change = dataset.samples, dataset.target_transform

    def read(index: Any) -> Any:
        path, target = samples[index]
        return path, target if change is None else change(target)

    return read


def _of_coco(dataset: Any) -> Callable[[Any], Any]:
    root, coco, ids, change = dataset.root, dataset.coco, dataset.ids, dataset.target_transform

    def read(index: Any) -> Any:
        own = ids[index]
        path = os.path.join(root, coco.loadImgs(own)[0]["file_name"])
        target = coco.loadAnns(coco.getAnnIds(own))
        return path, target if change is None else change(target)

    return read
