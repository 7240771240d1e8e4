"""Values of decoded windows: those of the whole image, and of other libraries."""

import io
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

from .files import by_pillow, kinds, oriented, picture

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
