"""What can't be decoded is an error that says why, whatever the bytes are."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
import visops

from .files import by_opencv, by_pillow, loaded, picture, use

FILE = by_pillow(picture(40, 60), quality=90)
PROGRESSIVE = by_pillow(picture(40, 60), quality=90, progressive=True)
ALL_OF_IT = "must be (top, left, height, width) with at least a row and a column, within the "


def with_size(data: bytes, height: int, width: int) -> bytes:
    """Change the size in the header."""
    position = re.search(rb"\xff[\xc0\xc2]\x00\x11\x08", data).end()  # type: ignore[union-attr]
    size = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return data[:position] + size + data[position + 4 :]


BAD_CALLS: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (b"", {}, ValueError, "data is empty, must be a JPEG file"),
    (
        b"\x89PNG\r\n\x1a\n",
        {},
        ValueError,
        "data is not a JPEG: it starts with the bytes 0x89 0x50",
    ),
    ("photo.jpg", {}, TypeError, "data is a str, must be the bytes of a JPEG file: bytes, a"),
    (None, {}, TypeError, "data is a NoneType, must be the bytes of a JPEG file"),
    (np.zeros((2, 2), np.uint8), {}, TypeError, "data has dtype uint8 and shape [2, 2], must be"),
    (torch.zeros(9), {}, TypeError, "data has dtype float32 and shape [9], must be uint8 of one"),
    (torch.zeros(9, device="meta"), {}, TypeError, "data is a tensor on meta, must be a dense"),
    (torch.zeros(9).to_sparse(), {}, TypeError, "data is a tensor of torch.sparse_coo, must be"),
    (FILE, {"window": 3}, TypeError, "window is 3, must be four whole numbers or None"),
    (FILE, {"window": (0, 0, 1.5, 2)}, TypeError, "window is (0, 0, 1.5, 2), must be four whole"),
    (FILE, {"window": (0, 0, 41, 1)}, ValueError, f"window is (0, 0, 41, 1), {ALL_OF_IT}image's"),
    (FILE, {"window": (0, 0, 0, 1)}, ValueError, f"window is (0, 0, 0, 1), {ALL_OF_IT}image's 40"),
    (FILE, {"window": (-1, 0, 1, 1)}, ValueError, f"window is (-1, 0, 1, 1), {ALL_OF_IT}image's"),
    (FILE, {"size": 0}, ValueError, "size is 0, must be a whole number >= 1, two such, or None"),
    (FILE, {"size": "ab"}, ValueError, "size is 'ab', must be a whole number >= 1, two such"),
    (FILE, {"max_pixels": "all"}, ValueError, "max_pixels is 'all', must be a whole number >= 1"),
    (FILE, {"max_pixels": b"x"}, ValueError, "max_pixels is b'x', must be a whole number >= 1"),
    (FILE, {"mode": "RGBA"}, ValueError, "mode is 'RGBA', must be 'rgb' or 'gray'"),
    (
        FILE,
        {"max_pixels": 2399},
        ValueError,
        "data is an image of 40 rows and 60 columns, must not have more than max_pixels=2399",
    ),
]


@pytest.mark.parametrize(("data", "options", "error", "message"), BAD_CALLS)
def test_bad_calls(
    data: Any, options: dict[str, Any], error: type[Exception], message: str, decoder: str
) -> None:
    with pytest.raises(error, match=re.escape(f"visops.decode_jpeg: {message}")) as caught:
        visops.decode_jpeg(data, **options)
    assert type(caught.value) is error


def test_pixels_at_the_limit_are_decoded(decoder: str) -> None:
    assert visops.decode_jpeg(FILE, max_pixels=2400).shape == (3, 40, 60)


@pytest.mark.parametrize("end", [3, 20, 100, 500, -800, -20])
@pytest.mark.parametrize("progressive", [False, True])
def test_truncated(end: int, progressive: bool, decoder: str) -> None:
    """A progressive file that ends between two scans would look complete, and blurred."""
    data = (PROGRESSIVE if progressive else FILE)[:end]
    with pytest.raises(ValueError, match=r"^visops\.decode_jpeg: data (is trunc|can't)"):
        visops.decode_jpeg(data)


def test_progressive_files_that_lack_scans() -> None:
    loaded("libjpeg-turbo")
    scans = [match.start() for match in re.finditer(rb"\xff\xda", PROGRESSIVE)]
    assert len(scans) > 5
    for scan in scans[1:]:
        with pytest.raises(ValueError, match=f"data is truncated: it has {scan} bytes"):
            visops.decode_jpeg(PROGRESSIVE[:scan])


@pytest.mark.parametrize("data", [FILE, PROGRESSIVE], ids=["sequential", "progressive"])
def test_headers_that_promise_too_much(data: bytes, decoder: str) -> None:
    """65,535 rows and columns in a few hundred bytes: 12 GB, which nobody allocates."""
    for height, width in ((65_535, 65_535), (65_000, 65_000)):
        with pytest.raises(ValueError, match=r"max_pixels=268435456|dimension is 65500 pixels"):
            visops.decode_jpeg(with_size(data, height, width)[:200] + data[200:])
    if decoder == "Pillow":  # it invents the pixels that are missing
        return
    with pytest.raises(ValueError, match="data can't be decoded: Corrupt JPEG data"):
        visops.decode_jpeg(with_size(data, 9_000, 9_000))
    if data is FILE:  # nothing is read below the window
        found = visops.decode_jpeg(with_size(data, 20, 60), window=(0, 0, 8, 8))
        assert torch.equal(found, visops.decode_jpeg(FILE, window=(0, 0, 8, 8)))


def test_many_scans() -> None:
    """A scan of a few bytes makes libjpeg pass over the whole image again."""
    loaded("libjpeg-turbo")
    grey = by_pillow(picture(16, 16)[..., 0])
    frame, scan = grey.index(b"\xff\xc0"), grey.index(b"\xff\xda")
    three = b"\xff\xc0\0\x11" + grey[frame + 4 : frame + 9] + b"\3\1\x11\0\2\x11\0\3\x11\0"
    start, own = grey[:frame] + three + grey[frame + 13 : scan], grey[scan:-2]
    others = own.replace(b"\1\1\0", b"\1\2\0", 1) + own.replace(b"\1\1\0", b"\1\3\0", 1)
    whole = start + own + others + grey[-2:]
    repeated = start + own * 497 + others + grey[-2:]
    assert torch.equal(visops.decode_jpeg(whole), visops.decode_jpeg(repeated))
    with pytest.raises(ValueError, match="data has more than 500 scans"):
        visops.decode_jpeg(start + own * 501 + others + grey[-2:])


def test_damaged_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """libjpeg only warns, and invents pixels. Damage below a window isn't seen."""
    use("libjpeg-turbo", monkeypatch)
    data = bytearray(by_opencv(picture(64, 64), "444", cv2.IMWRITE_JPEG_RST_INTERVAL, 1))
    markers = [match.start() for match in re.finditer(rb"\xff[\xd0-\xd7]", bytes(data))]
    position = markers[len(markers) * 3 // 4]
    data[position + 1] = 0xD0 + (data[position + 1] - 0xD0 + 3) % 8
    with pytest.raises(ValueError, match="data can't be decoded: Corrupt JPEG data"):
        visops.decode_jpeg(bytes(data))
    assert visops.decode_jpeg(bytes(data), window=(0, 0, 16, 64)).shape == (3, 16, 64)


def test_bytes_between_segments_are_skipped(decoder: str) -> None:
    start = FILE.index(b"\xff\xdb")
    found = visops.decode_jpeg(FILE[:start] + b"junk" + FILE[start:])
    assert torch.equal(found, visops.decode_jpeg(FILE))


def run_corruptor(*arguments: str) -> str:
    script = Path(__file__).with_name("corrupt.py")
    variables = {"PYTHONPATH": os.pathsep.join([str(script.parents[1]), *sys.path])}
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(script), *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_thousands_of_corrupted_files() -> None:
    """Bits flipped, ends cut off, pieces exchanged: pixels or an error, and no memory lost."""
    loaded("libjpeg-turbo")
    assert re.fullmatch(r"4000 files: \d+ decoded, \d+ refused\n", run_corruptor("4000"))
