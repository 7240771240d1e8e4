"""Decode corrupted files, in a process that may die: python tests/jpeg/corrupt.py COUNT [SEED]."""

import resource
import sys
from typing import Any

import numpy as np
import visops

from jpeg.files import kinds, oriented, picture

MOST_LOST = 24 << 10  # kilobytes; a leak of one file's pixels would lose more


def corrupted(rng: np.random.Generator, files: list[bytes]) -> bytes:
    """Return one of the files, changed in a few places."""
    data = bytearray(files[rng.integers(len(files))])
    for _ in range(rng.integers(1, 4)):
        kind, position = rng.integers(6), int(rng.integers(len(data)))
        if rng.random() < 0.5:
            position = min(position, int(rng.integers(1, 700)))  # headers
        if kind == 0:
            data[position % len(data)] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[position % len(data)] = int(rng.choice([0, 1, 0x7F, 0xFF, 0xC0, 0xD9, 0xDA, 0xC4]))
        elif kind == 2:
            del data[max(position, 2) :]
        elif kind == 3:
            del data[position : position + int(rng.integers(1, 40))]
        elif kind == 4:
            other = files[rng.integers(len(files))]
            start = int(rng.integers(len(other)))
            data[position : position + 64] = other[start : start + 64]
        else:
            data[position:position] = data[position : position + int(rng.integers(1, 200))]
        if len(data) < 3:
            break
    return bytes(data)


def main(count: int, seed: int = 0) -> None:
    """Decode `count` files whole or in part."""
    mode: Any
    rng = np.random.default_rng(seed)
    files = [data for size in ((40, 56), (17, 9)) for _, data in kinds(*size)]
    files += [oriented(picture(24, 40), orientation) for orientation in (2, 5, 7)]
    before, decoded = 0, 0
    for number in range(count):
        data = corrupted(rng, files)
        window = None
        if rng.random() < 0.7:
            top, left = (int(n) for n in rng.integers(0, 20, 2))
            window = (top, left, int(rng.integers(1, 30)), int(rng.integers(1, 30)))
        size = int(rng.integers(1, 20)) if rng.random() < 0.5 else None
        mode = str(rng.choice(["rgb", "gray"]))
        try:
            visops.decode_jpeg(data, window, size, mode=mode, max_pixels=1 << 20)
            decoded += 1
        except ValueError as error:
            if not str(error).startswith("visops.decode_jpeg: "):
                raise
        if number == count // 2:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lost = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert lost < MOST_LOST, f"{lost} KB more than after half of the files"
    print(f"{count} files: {decoded} decoded, {count - decoded} refused")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
