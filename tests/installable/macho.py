"""Reads macOS' libraries, as far as checking them takes; no such machine is needed."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MAGIC = 0xFEEDFACF
_NAMES = {0x0100000C: "arm64", 0x01000007: "x86_64"}
# Load commands.
_DYLIB, _ID, _RPATH, _SIGNATURE = 0xC, 0xD, 0x8000001C, 0x1D
_DYLD_INFO, _EXPORTS, _BUILD_VERSION = 0x80000022, 0x80000033, 0x32
ANYWHERE = -2  # among the places of an import


@dataclass
class Library:
    """What a library for one processor says of itself."""

    machine: str
    name: str = ""
    oldest_system: str = ""
    needed: list[str] = field(default_factory=list)  # libraries
    rpaths: list[str] = field(default_factory=list)
    exports: set[str] = field(default_factory=set)
    imports: dict[str, int] = field(default_factory=dict)  # symbol: its library in `needed`, from 1
    signature: str = ""  # "ad hoc", "signed", or empty


def read(path: Path) -> Library:
    """Read a library. Symbols keep the underscore that all of C's have."""
    data = path.read_bytes()
    magic, kind, _, _, count = struct.unpack_from("<5I", data)
    if magic != MAGIC:
        raise ValueError(f"{path} is no library for one 64-bit machine")
    found = Library(_NAMES.get(kind, hex(kind)))
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, at)
        words = struct.unpack_from(f"<{size // 4 - 2}I", data, at + 8)
        if command in (_DYLIB, _ID, _RPATH):
            text = data[at + words[0] : at + size].partition(b"\0")[0].decode()
            if command == _ID:
                found.name = text
            else:
                (found.needed if command == _DYLIB else found.rpaths).append(text)
        elif command == _BUILD_VERSION:
            found.oldest_system = f"{words[1] >> 16}.{words[1] >> 8 & 255}"
        elif command == _DYLD_INFO:
            found.exports.update(_trie(data[words[8] : words[8] + words[9]]))
            for i in (2, 4, 6):  # at once, weak, and when first used
                found.imports |= dict(_bound(data[words[i] : words[i] + words[i + 1]]))
        elif command == _EXPORTS and words[1]:
            found.exports.update(_trie(data[words[0] : words[0] + words[1]]))
        elif command == _SIGNATURE:
            found.signature = _signature(data[words[0] : words[0] + words[1]])
        at += size
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _bound(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield symbols, and in which library the loader looks for each."""
    at = library = 0
    name = ""
    while at < len(data):
        kind, value = data[at] & 0xF0, data[at] & 0x0F
        at += 1
        if kind == 0x10:
            library = value
        elif kind == 0x30:  # a place that is no library
            library = value - 16 if value else 0
        elif kind == 0x40:
            end = data.index(b"\0", at)
            name, at = data[at:end].decode(), end + 1
        elif kind in (0x90, 0xA0, 0xB0, 0xC0):
            yield name, library
        # Numbers that follow; only the first kind is of interest.
        for _ in range({0x20: 1, 0x60: 1, 0x70: 1, 0x80: 1, 0xA0: 1, 0xC0: 2}.get(kind, 0)):
            number, at = _number(data, at)
            library = number if kind == 0x20 else library


def _trie(data: bytes) -> Iterator[str]:
    """Yield the symbols of a tree of prefixes."""
    waiting = [(0, b"")] if data else []
    while waiting:
        at, prefix = waiting.pop()
        size, at = _number(data, at)
        if size:
            yield prefix.decode()
        at += size
        children = data[at]
        at += 1
        for _ in range(children):
            end = data.index(b"\0", at)
            child, after = _number(data, end + 1)
            waiting.append((child, prefix + data[at:end]))
            at = after


def _signature(data: bytes) -> str:
    """Say by whom the code directory was signed."""
    magic, _, count = struct.unpack_from(">3I", data)
    if magic != 0xFADE0CC0:
        return ""
    for i in range(count):
        _, at = struct.unpack_from(">2I", data, 12 + 8 * i)
        kind, _, _, flags = struct.unpack_from(">4I", data, at)
        if kind == 0xFADE0C02:
            return "ad hoc" if flags & 2 else "signed"
    return ""
