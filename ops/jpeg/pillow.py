"""Decoding by Pillow, where the library of csrc/jpeg is not there: the whole image, cut afterwards.

Pillow brings libjpeg-turbo, and values are the same. It reports neither damaged codes nor damaged
restart markers, and takes all files with four inks for Adobe's.
"""

import io
from functools import cache
from typing import Any

import numpy as np

from .header import Header, Stored, exif_orientation

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
