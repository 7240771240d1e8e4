"""Decoded windows: values, other libraries', and errors that say why."""

import io
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
from PIL import Image, ImageOps
from torchvision.io import ImageReadMode
from torchvision.io import decode_jpeg as by_torchvision
from visops.jpeg.file import JpegFile

from .files import by_opencv, by_pillow, kinds, loaded, oriented, picture, use

SIZES = [(1, 1), (16, 16), (33, 70), (97, 51)]


def whole(file: bytes, **options: Any) -> np.ndarray:
    """Decode all of a file as an array."""
    return visops.decode_jpeg(np.frombuffer(file, np.uint8), **options)


@pytest.mark.parametrize("size", SIZES)
def test_windows_are_those_of_the_whole_image(size: tuple[int, int], decoder: str) -> None:
    """Fancy upsampling looks at neighbours, which a window's edge must not cut off."""
    rng = np.random.default_rng(0)
    for name, data in kinds(*size):
        file = JpegFile(data, True, 1 << 20)
        for reduction in (1, 2, 4, 8):
            if min(size) < reduction:
                continue
            image, _ = file.decode((0, 0, *size), reduction, 3)
            assert image.shape[:2] == tuple(-(-side // reduction) for side in size)
            for _ in range(12 if decoder == "libjpeg-turbo" else 2):
                top, left = (int(rng.integers(0, side)) for side in size)
                height = int(rng.integers(1, size[0] - top + 1))
                width = int(rng.integers(1, size[1] - left + 1))
                found, part = file.decode((top, left, height, width), reduction, 3)
                assert (part.top, part.left) == tuple(
                    edge // reduction * reduction for edge in (top, left)
                )
                y, x = part.top // reduction, part.left // reduction
                expected = image[y : y + found.shape[0], x : x + found.shape[1]]
                assert (found == expected).all(), (name, reduction, (top, left, height, width))
                assert part.top + found.shape[0] * reduction >= top + height
                assert part.left + found.shape[1] * reduction >= left + width


@pytest.mark.parametrize("size", SIZES)
def test_values_are_those_of_other_libraries(size: tuple[int, int], decoder: str) -> None:
    for name, data in kinds(*size):
        found = whole(data)
        expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        assert (found == expected).all(), name
        if "K" not in name:  # torchvision and OpenCV round products of inks down
            encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            of_torchvision = by_torchvision(encoded, ImageReadMode.RGB)
            if "440" not in name:  # torchvision 0.26's libjpeg-turbo repeats its rows of chroma
                assert (found == of_torchvision.permute(1, 2, 0).numpy()).all(), name
            of_opencv = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
            assert (found == of_opencv).all(), name


@pytest.mark.parametrize("reduction", [2, 4, 8])
def test_reduced_values_are_those_of_pillow(reduction: int, decoder: str) -> None:
    for name, data in kinds(33, 70):
        image = Image.open(io.BytesIO(data))
        image.draft("RGB", (70 // reduction, 33 // reduction))
        expected = np.asarray(image.convert("RGB"))
        found = whole(data, size=(33 // reduction, 70 // reduction))
        assert (found == expected).all(), name


def test_grey_is_luma(decoder: str) -> None:
    for name, data in kinds(33, 70):
        image: Any = Image.open(io.BytesIO(data))
        image.draft("L", image.size)
        image = image.convert("RGB") if image.mode == "CMYK" else image
        expected = np.asarray(image.convert("L"))[..., None]
        assert (whole(data, mode="gray") == expected).all(), name


@pytest.mark.parametrize("orientation", range(1, 9))
def test_windows_of_turned_images(orientation: int, decoder: str) -> None:
    """A window counts upright rows and columns, at every reduction."""
    data = oriented(picture(37, 58), orientation)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    assert (whole(data) == upright).all()
    assert whole(data, exif=False).shape == (37, 58, 3)
    top, left, height, width = 3, 9, 21, 17
    expected = upright[top : top + height, left : left + width]
    assert (whole(data, window=(top, left, height, width)) == expected).all()
    file = JpegFile(data, True, 1 << 20)
    image, origin = file.decode((0, 0, *file.size), 4, 3)
    found, part = file.decode((top, left, height, width), 4, 3)
    y, x = (part.top - origin.top) // 4, (part.left - origin.left) // 4
    assert (found == image[y : y + found.shape[0], x : x + found.shape[1]]).all()
    assert part.top <= top < part.top + 4
    assert part.left <= left < part.left + 4
    assert part.top + 4 * found.shape[0] >= top + height
    assert part.left + 4 * found.shape[1] >= left + width
    # Reversed axes start with the stored end, which may hang over.
    assert (origin.top, origin.left) == (
        file.size[0] - 4 * image.shape[0] if orientation in (3, 4, 7, 8) else 0,
        file.size[1] - 4 * image.shape[1] if orientation in (2, 3, 6, 7) else 0,
    )


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("kind", range(1, 14))
def test_exif_of_any_integer_type(kind: int, order: str, decoder: str) -> None:
    """The standard asks for a SHORT; Pillow reads others, and editors write them."""

    def number(n: int, count: int) -> bytes:
        return n.to_bytes(count, order)  # type: ignore[arg-type]

    sizes = {1: 1, 3: 2, 4: 4, 6: 1, 8: 2, 9: 4, 13: 4}
    value = number(6, sizes.get(kind, 4)).ljust(4, b"\0")
    # Another tag comes first, and the directory doesn't follow the header.
    other = number(0x010F, 2) + number(2, 2) + number(1, 4) + b"A\0\0\0"
    entry = number(0x0112, 2) + number(kind, 2) + number(1, 4) + value
    tiff = (b"II" if order == "little" else b"MM") + number(42, 2) + number(30, 4) + bytes(22)
    segment = b"Exif\0\0" + tiff + number(2, 2) + other + entry + bytes(4)
    file = by_pillow(picture(8, 24))
    data = file[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + file[2:]
    assert whole(data).shape == ((24, 8, 3) if kind in sizes else (8, 24, 3))
    if kind not in (1, 6):  # to Pillow, these are bytes
        upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        assert whole(data).shape == np.asarray(upright).shape


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")  # Pillow reads more of it
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("value", [0, 6, 9, 300])
def test_exif_of_both_byte_orders(value: int, order: str, decoder: str) -> None:
    """What is out of range counts as upright."""

    def number(n: int, count: int) -> bytes:
        return n.to_bytes(count, order)  # type: ignore[arg-type]

    entry = number(0x0112, 2) + number(3, 2) + number(1, 4) + number(value, 2) + bytes(2)
    tiff = (b"II" if order == "little" else b"MM") + number(42, 2) + number(8, 4)
    segment = b"Exif\0\0" + tiff + number(1, 2) + entry + bytes(4)
    file = by_pillow(picture(8, 24))
    data = file[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + file[2:]
    assert whole(data).shape == ((24, 8, 3) if value == 6 else (8, 24, 3))
    for end in range(len(segment)):  # cut anywhere
        cut = segment[:end]
        data = file[:2] + b"\xff\xe1" + (end + 2).to_bytes(2, "big") + cut + file[2:]
        assert whole(data).shape[2] == 3


@pytest.mark.parametrize(
    ("size", "expected"), [(None, (96, 64)), (12, (12, 8)), ((12, 9), (24, 16)), (64, (96, 64))]
)
def test_size_is_a_lower_bound(size: Any, expected: tuple[int, int], decoder: str) -> None:
    least = (8, 8) if size == 12 else size
    assert whole(by_pillow(picture(96, 64)), size=least).shape[:2] == expected


def test_kinds_of_data(decoder: str) -> None:
    data = by_pillow(picture(10, 20))
    array = np.frombuffer(data, np.uint8)
    tensor = torch.from_numpy(array.copy())
    expected = visops.decode_jpeg(data)
    assert isinstance(expected, torch.Tensor)
    assert expected.shape == (3, 10, 20)
    assert expected.stride() == (1, 60, 3)
    for same in (bytearray(data), memoryview(data), tensor, tensor.repeat_interleave(2)[::2]):
        found = visops.decode_jpeg(same)
        assert isinstance(found, torch.Tensor)
        assert torch.equal(found, expected)
    for equal in (array, np.repeat(array, 2)[::2]):
        found = visops.decode_jpeg(equal)
        assert isinstance(found, np.ndarray)
        assert (found == expected.permute(1, 2, 0).numpy()).all()


def test_a_file_without_its_end_marker(decoder: str) -> None:
    """All pixels are there."""
    data = by_pillow(picture(20, 30))
    if decoder == "libjpeg-turbo":
        assert (whole(data[:-2]) == whole(data)).all()


def test_compiled_functions_call_it() -> None:
    data = by_pillow(picture(20, 30))

    def double(offset: torch.Tensor) -> torch.Tensor:
        return visops.decode_jpeg(data) * 2 + offset

    found = torch.compile(double, backend="eager")(torch.ones(()))
    assert torch.equal(found, visops.decode_jpeg(data) * 2 + 1)


def test_build_info_names_the_decoder() -> None:
    info = visops.build_info()
    assert info["jpeg"].startswith(("libjpeg-turbo ", "Pillow "))
    assert (info["jpeg_error"] is None) == info["jpeg"].startswith("libjpeg-turbo ")


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
    (3.5, {}, TypeError, "data is a float, must be the bytes of a JPEG file: bytes, a"),
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


def test_paths(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    _, data = next(iter(kinds(16, 20)))
    path.write_bytes(data)
    for name in (path, str(path)):
        assert torch.equal(visops.decode_jpeg(name), visops.decode_jpeg(data))
    for wrong, error in (("none.jpg", FileNotFoundError), ("", IsADirectoryError)):
        with pytest.raises(error, match=r"visops\.decode_jpeg: data is the path '"):
            visops.decode_jpeg(tmp_path / wrong)
    for text, other in (("", FileNotFoundError), ("a\0b", ValueError)):
        with pytest.raises(other, match=r"visops\.decode_jpeg: data is the path '"):
            visops.decode_jpeg(text)
