"""PNG and WebP files among JPEG files: Pillow decodes them whole."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from .header import Part, check_pixels

__all__ = ["PictureFile", "is_picture"]


def is_picture(start: bytes) -> bool:
    """Return whether the first twelve bytes of a file are those of a PNG or WebP file."""
    return start[:8] == b"\x89PNG\r\n\x1a\n" or (start[:4] == b"RIFF" and start[8:12] == b"WEBP")


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
    ValueError
        Pillow can't read it, it is too large, or its pixels are not of 8 bits.
    """

    __slots__ = ("_exif", "_image", "size")

    def __init__(self, data: np.ndarray, exif: bool, max_pixels: int) -> None:
        self._exif = exif
        self._image = image = _opened(data)
        width, height = image.size
        check_pixels(height, width, max_pixels)
        if image.mode in ("I", "I;16", "I;16B", "I;16L", "F"):
            raise ValueError(
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
    try:
        from PIL import Image, PngImagePlugin, WebPImagePlugin
    except ImportError as error:
        raise ValueError(f"data is a PNG or WebP file, which needs Pillow: {error}") from None
    # Not Image.open, which refuses large images by a limit of its own.
    png = data[:4].tobytes() == b"\x89PNG"
    read: Any = PngImagePlugin.PngImageFile if png else WebPImagePlugin.WebPImageFile
    try:
        return read(io.BytesIO(data.tobytes()))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"data can't be decoded: {error}") from None


def _damaged(error: Exception) -> ValueError:
    return ValueError(f"data is truncated or damaged: {error}")
