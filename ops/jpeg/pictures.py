"""Files of other kinds among JPEG files, PNG's and others: Pillow decodes them whole."""

import importlib
import io
import re
from typing import Any

import numpy as np

from .header import Part, check_pixels

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
