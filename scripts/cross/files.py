"""Calls that read JPEG files: decoding, and batches that a loader's threads make of them."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import visops
from visops import transforms as T

SIZES = ((1, 1), (33, 70), (97, 51))
CORRUPTED = 200
NAME = "fotó {}.jpg"  # not in ASCII, which systems encode in different ways


def decode(content: bytes, window: Any, size: int | None, mode: Any) -> torch.Tensor:
    """Decode a part of a file."""
    return visops.decode_jpeg(content, window, size, mode=mode)


def is_decoded(content: bytes) -> bool:
    """Whether a file's damage, if any, goes unnoticed."""
    try:
        visops.decode_jpeg(content)
    except ValueError:
        return False
    return True


def load(contents: list[bytes], threads: int) -> list[Any]:
    """Return an epoch's batches of files that lie in a folder."""
    chain = T.Compose(
        [
            T.DecodeJpeg(),
            T.RandomResizedCrop(40, antialias=True),
            T.RandomHorizontalFlip(),
            T.ColorJitter(0.4, 0.4, 0.4),
            T.ToDtype(torch.float32, scale=True),
        ],
        seed=3,
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, NAME.format(number)) for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        return list(T.Loader(paths, chain, batch_size=4, shuffle=True, threads=threads))


def function(name: str) -> Callable[..., Any]:
    """Return a function by its name."""
    functions: dict[str, Callable[..., Any]] = {"decode": decode, "load": load}
    return functions[name]


def inputs() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the name of a function and its arguments."""
    from jpeg.corrupt import corrupted
    from jpeg.files import kinds, oriented, picture

    every: list[bytes] = []
    for height, width in SIZES:
        found = [content for _, content in kinds(height, width)]
        found += [oriented(picture(height, width), turn) for turn in range(1, 9)]
        every += found
        side = min(height, width)
        corner = (side // 3, side // 4, side - side // 3, side - side // 2)
        for content in found:
            for window in (None, (0, 0, side, side), corner):
                for size, mode in ((None, "rgb"), (None, "gray"), (9, "rgb")):
                    yield "decode", (content, window, size, mode)
    # Refused ones only: of numbers beyond their range, libjpeg-turbo makes other pixels on ARM.
    generator = np.random.default_rng(0)
    damaged = (corrupted(generator, every) for _ in range(CORRUPTED))
    yield from (("decode", (own, None, None, "rgb")) for own in damaged if not is_decoded(own))
    for threads in (1, 4):
        yield "load", (every, threads)
