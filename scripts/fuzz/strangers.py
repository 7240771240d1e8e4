"""Bytes from strangers: files and texts that were valid, then changed in a few places."""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
import visops
from torch import Tensor
from visops import transforms

_MOST_PIXELS = 1 << 20
_BYTES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
# Frames of every kind, tables, restarts, the image's start, end and scans, EXIF, Adobe, a comment.
_MARKERS = (*range(0xC0, 0xD0), *range(0xD0, 0xDE), 0xE0, 0xE1, 0xEE, 0xFE, 0x00, 0x01)


def decode_mutated(data: bytes, window: Any, size: Any, mode: Any) -> Tensor:
    """Decode a file, or a part of it."""
    found = visops.decode_jpeg(data, window, size, mode=mode, max_pixels=_MOST_PIXELS)
    assert isinstance(found, Tensor)
    return found


def transform_mutated(data: bytes, mode: str, reduced: bool) -> Any:
    """Decode a file in a chain that looks at a part of it."""
    return _chain(mode, reduced)(data, index=0)


@functools.cache
def _chain(mode: Any, reduced: bool) -> transforms.Compose:
    decode = transforms.DecodeJpeg(mode, reduced=reduced, max_pixels=_MOST_PIXELS)
    return transforms.Compose([decode, transforms.RandomResizedCrop(8)], seed=1)


def rle_mutated(rles: Sequence[dict[str, Any]], function: Any) -> Any:
    """Read texts of run lengths."""
    if function == "area":
        return visops.rle_area(list(rles))
    if function == "iou":
        return visops.rle_iou(list(rles), list(rles)[:1])
    found = visops.rle_to_masks(list(rles), out=function)
    return found if isinstance(found, Tensor) else found.bits


@functools.cache
def _files() -> tuple[bytes, ...]:
    """Return files of every kind, and with EXIF."""
    from jpeg.files import kinds, oriented, picture  # needs OpenCV, which other calls don't

    files = [file for size in ((24, 40), (17, 9), (1, 1)) for _, file in kinds(*size)]
    return (*files, *(oriented(picture(17, 9), orientation) for orientation in (2, 5, 7)))


def mutated(draw: Any, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return bytes with a few edits: bits, bytes, cuts, splices, and markers of a JPEG file."""
    result = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4))):
        if len(result) < 4:
            break
        position = draw.between(0, len(result) - 1)
        if draw.chance(0.3):
            position = min(position, draw.between(0, 700))  # headers
        edit(draw, result, position, others)
    return bytes(result)


def edit(draw: Any, data: bytearray, position: int, others: Sequence[bytes]) -> None:
    """Change a bit or byte, cut, repeat or splice a part, or edit a marker."""
    way = draw.between(0, 6)
    if way == 0:
        data[position] ^= 1 << draw.between(0, 7)
    elif way == 1:
        data[position] = draw.choice((*_BYTES, draw.between(0, 255)))
    elif way == 2:
        del data[max(position, 2) :]
    elif way == 3:
        del data[position : position + draw.between(1, 40)]
    elif way == 4:
        data[position:position] = data[position : position + draw.between(1, 200)]
    elif way == 5:
        other = draw.choice(others)
        start, count = draw.between(0, len(other)), draw.between(1, 200)
        data[position : position + draw.choice((0, count))] = other[start : start + count]
    else:
        _edit_marker(draw, data, position)


def _edit_marker(draw: Any, data: bytearray, position: int) -> None:
    """Change a marker, or the length of its segment; or put a marker somewhere."""
    positions = [
        i for i in range(len(data) - 3) if data[i] == 0xFF and data[i + 1] not in (0, 0xFF)
    ]
    if not positions or draw.chance(0.2):
        data[position:position] = bytes((0xFF, draw.choice(_MARKERS)))
        return
    at = draw.choice(positions)
    if draw.chance(0.5):
        data[at + 1] = draw.choice(_MARKERS)
    else:
        data[at + 2 : at + 4] = draw.choice((0, 1, 2, 8, 11, 17, 0xFFFF)).to_bytes(2, "big")


def _file_of(draw: Any) -> bytes:
    files = _files()
    return mutated(draw, draw.choice(files), files)


def _window_of(draw: Any) -> tuple[int, ...] | None:
    if draw.chance(0.5):
        return None
    return (*(draw.between(0, 9) for _ in range(2)), *(draw.between(1, 9) for _ in range(2)))


@functools.cache
def _texts() -> tuple[tuple[tuple[int, int], list[bytes]], ...]:
    """Return sides of masks, and the texts of two masks of each: one of long runs."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(64):
        height, width = torch.randint(1, 31, (2,), generator=generator).tolist()
        masks = torch.rand(2, height, width, generator=generator) > 0.5
        masks[1] = masks[1].cummax(0).values
        rles = visops.masks_to_rle(masks)
        found.append(((height, width), [bytes(rle["counts"]) for rle in rles]))
    return tuple(found)


def _rles_of(draw: Any) -> list[dict[str, Any]]:
    """Return texts as COCO writes them, of small masks, with edits; sizes may be wrong too."""
    sides, texts = draw.choice(_texts())
    found = []
    for text in texts:
        counts = mutated(draw, text, texts) if draw.chance(0.5) else text
        if draw.chance(0.8):  # COCO's characters
            counts = bytes(48 + (byte - 48) % 64 for byte in counts)
        if draw.chance(0.1):  # digits of the largest numbers
            at = draw.between(0, len(counts))
            counts = (
                counts[:at] + bytes([draw.choice(b"o`_n0")]) * draw.between(1, 16) + counts[at:]
            )
        size = [*sides]
        if draw.chance(0.1):
            size[draw.between(0, 1)] = draw.choice((0, 1, -1, 31, 1000, 1 << 40, 1 << 63))
        as_text = draw.chance(0.5) and counts.isascii()
        found.append({"size": size, "counts": counts.decode() if as_text else counts})
    return found


BYTES: Mapping[Callable[..., Any], Callable[[Any], dict[str, Any]]] = MappingProxyType(
    {
        decode_mutated: lambda draw: {
            "data": _file_of(draw),
            "window": _window_of(draw),
            "size": draw.choice((None, None, draw.between(1, 20))),
            "mode": draw.choice(("rgb", "gray")),
        },
        transform_mutated: lambda draw: {
            "data": _file_of(draw),
            "mode": draw.choice(("rgb", "gray")),
            "reduced": draw.chance(0.5),
        },
        rle_mutated: lambda draw: {
            "rles": _rles_of(draw),
            "function": draw.choice(("bool", "uint8", "packed", "area", "iou")),
        },
    }
)
