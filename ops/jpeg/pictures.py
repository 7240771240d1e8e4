"""Files of other kinds among JPEG files, PNG's and others: Pillow decodes them whole."""

import importlib
import io
import re
from functools import cache
from typing import Any

import numpy as np

from .header import Header, Part, Stored, check_pixels, exif_orientation

# The first bytes of a file, and Pillow's name for what it is; a point stands for any byte.
_KINDS = (
    (rb"\x89PNG\r\n\x1a\n", "Png"),
    (rb"RIFF....WEBP", "WebP"),
    (rb"GIF8[79]a", "Gif"),
    (rb"BM....\0\0\0\0", "Bmp"),
    (rb"II\*\0|MM\0\*", "Tiff"),
    (rb"P[456]\s", "Ppm"),
)


def is_picture(start: bytes) -> bool:
    """Return whether a file that begins with these twelve bytes is one that Pillow decodes."""
    return _kind_of(start) is not None


def _kind_of(start: bytes) -> str | None:
    kinds = (kind for pattern, kind in _KINDS if re.match(pattern, start, re.DOTALL))
    return next(kinds, None)


class PictureFile:
    """A file whose header has been read, with the interface of `JpegFile`.

    Parameters
    ----------
    data : ndarray, uint8 ``[N]``
    exif : bool
        Whether the image is turned upright.
    max_pixels : int
        Refuse larger images.

    Raises
    ------
    TypeError
        Its pixels are not of 8 bits: the file is sound, and whoever skips damaged ones must know.
    ValueError
        Pillow can't read it, or it is too large.
    """

    __slots__ = ("_exif", "_image", "size")

    def __init__(self, data: np.ndarray, exif: bool, max_pixels: int) -> None:
        self._exif = exif
        self._image = image = _opened(data)
        width, height = image.size
        check_pixels(height, width, max_pixels)
        if image.mode in ("I", "I;16", "I;16B", "I;16L", "F"):
            raise TypeError(
                f"data has pixels of mode {image.mode!r}, must have 8 bits (decode it before)"
            )
        try:
            # A PNG file may have it behind its pixels, which are decoded then.
            turned = exif and image.getexif().get(0x0112) in (5, 6, 7, 8)
        except (OSError, SyntaxError, ValueError) as error:
            raise _damaged(error) from None
        self.size = (width, height) if turned else (height, width)

    def decode(
        self, window: tuple[int, int, int, int], reduction: int, channels: int
    ) -> tuple[np.ndarray, Part]:
        """Decode a window (top, left, height, width) of the upright image, at full scale."""
        from PIL import ImageOps

        try:
            image = ImageOps.exif_transpose(self._image) if self._exif else self._image
            pixels = np.asarray(image.convert("RGB" if channels == 3 else "L"))
        except (OSError, SyntaxError, ValueError) as error:
            raise _damaged(error) from None
        top, left, height, width = window
        part = pixels[top : top + height, left : left + width].reshape(height, width, channels)
        return np.array(part, order="C"), Part(top, left, 1)


def _opened(data: np.ndarray) -> Any:
    kind = _kind_of(data[:12].tobytes())
    try:
        from PIL import Image

        # Not Image.open, which refuses large images by a limit of its own.
        plugin = importlib.import_module(f"PIL.{kind}ImagePlugin")
    except ImportError as error:
        raise ValueError(f"data is a {kind} file, which needs Pillow: {error}") from None
    try:
        return getattr(plugin, f"{kind}ImageFile")(io.BytesIO(data.tobytes()))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"data can't be decoded: {error}") from None


def _damaged(error: Exception) -> ValueError:
    return ValueError(f"data is truncated or damaged: {error}")


# Decoding by Pillow, where the library of csrc/jpeg is not there: the whole image, cut afterwards.
#
# Pillow brings libjpeg-turbo, and values are the same. It reports neither damaged codes nor damaged
# restart markers, and takes all files with four inks for Adobe's.

_COMPONENTS = {"L": 1, "RGB": 3, "CMYK": 4}
# How to bring stored pixels upright: swap the axes first, then reverse these.
_REVERSED = {1: (), 2: (1,), 3: (0, 1), 4: (0,), 5: (), 6: (1,), 7: (0, 1), 8: (0,)}


class PillowDecoder:
    """The interface of `library.TurboDecoder`, which see."""

    def __init__(self, pillow: Any, opened: Any) -> None:
        self.name = f"Pillow {pillow.__version__}"
        self._open = opened

    def read_header(self, data: np.ndarray) -> Header:
        """Read the header of a file, uint8 ``[N]``."""
        if data[:2].tobytes() != b"\xff\xd8":
            start = " ".join(f"0x{byte:02x}" for byte in data[:2])
            raise ValueError(f"data is not a JPEG: it starts with the bytes {start}")
        image = self._opened(data)
        components = _COMPONENTS.get(image.mode)
        if components is None:
            raise ValueError(f"data can't be decoded: its pixels have mode {image.mode!r}")
        width, height = image.size
        return Header(height, width, components, exif_orientation(image.info.get("exif", b"")))

    def decode(self, data: np.ndarray, part: Stored, channels: int, orientation: int) -> np.ndarray:
        """Decode a part of a file, turned upright; uint8 ``[H, W, channels]``."""
        image, mode = self._opened(data), "RGB" if channels == 3 else "L"
        width, height = image.size
        reduction = part.reduction
        if reduction > 1 or channels == 1:
            # It takes the size, and finds the reduction.
            image.draft(mode, (max(1, width // reduction), max(1, height // reduction)))
        try:
            if image.mode == "CMYK":
                image = image.convert("RGB")
            pixels = np.asarray(image.convert(mode))
        except (OSError, SyntaxError) as error:
            raise ValueError(f"data is truncated or damaged: {error}") from None
        rows = slice(part.top, part.top + part.height)
        columns = slice(part.left, part.left + part.width)
        pixels = pixels[rows, columns].reshape(part.height, part.width, channels)
        if orientation >= 5:
            pixels = pixels.transpose(1, 0, 2)
        return np.array(np.flip(pixels, _REVERSED[orientation]), order="C")  # writable, too

    def _opened(self, data: np.ndarray) -> Any:
        try:
            return self._open(io.BytesIO(data.tobytes()))
        except (OSError, SyntaxError, ValueError, IndexError, KeyError, TypeError) as error:
            raise ValueError(f"data can't be decoded: {error}") from None


@cache
def load_pillow() -> PillowDecoder | str:
    """Return Pillow's decoder, or why there is none."""
    try:
        import PIL

        # Not Image.open, which refuses large images by a limit of its own.
        from PIL.JpegImagePlugin import JpegImageFile
    except ImportError as error:
        return f"Pillow can't be imported: {error}"
    return PillowDecoder(PIL, JpegImageFile)
