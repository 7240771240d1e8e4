"""What a file says before its pixels, and which stored pixels make up a part of the upright image.

`Part` counts pixels of the upright image at full size: NOTE [ Stored pixels ] in
csrc/core/chain/windows.h.
"""

from typing import NamedTuple

from .._native import stored_part

REDUCTIONS = (8, 4, 2)

_TRANSPOSED = (5, 6, 7, 8)  # EXIF orientations that swap width and height

# Bytes of TIFF's integers, as in csrc/jpeg/decoder.cpp.
_WIDTHS = {1: 1, 3: 2, 4: 4, 6: 1, 8: 2, 9: 4, 13: 4}


class Stored(NamedTuple):
    """Pixels of a file, by stored rows and columns after the reduction."""

    reduction: int
    top: int
    left: int
    height: int
    width: int


class Part(NamedTuple):
    """Decoded pixels cover this part of the upright image, `reduction` squared pixels each."""

    top: int
    left: int
    reduction: int


class Header(NamedTuple):
    """Height and width as stored, the number of components, and the EXIF orientation."""

    height: int
    width: int
    components: int
    orientation: int

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the upright image."""
        swapped = self.orientation in _TRANSPOSED
        return (self.width, self.height) if swapped else (self.height, self.width)

    def cover(
        self, window: tuple[int, int, int, int], reduction: int
    ) -> tuple[Stored, tuple[int, int]]:
        """Find the reduced pixels that cover a window (top, left, height, width).

        Returns
        -------
        Stored
        (int, int)
            Where their first row and column begin in the upright image.
        """
        numbers = stored_part(*self.size, self.orientation, window, reduction)
        return Stored(reduction, *numbers[:4]), numbers[4:]


def check_pixels(height: int, width: int, max_pixels: int) -> None:
    """Refuse an image with more pixels."""
    if height * width > max_pixels:
        raise ValueError(
            f"data is an image of {height} rows and {width} columns, must not have more than "
            f"max_pixels={max_pixels} pixels"
        )


def exif_orientation(segment: bytes) -> int:
    """Return the orientation in an EXIF segment, whose name may come first; 1 if it has none."""
    tiff = segment.removeprefix(b"Exif\0\0")
    order = {b"II": "little", b"MM": "big"}.get(tiff[:2])
    if order is None or len(tiff) < 8:
        return 1

    def number(offset: int, count: int) -> int:
        return int.from_bytes(tiff[offset : offset + count], order)  # type: ignore[arg-type]

    directory = number(4, 4)
    if number(2, 2) != 42 or directory > len(tiff) - 2:
        return 1
    for entry in range(directory + 2, directory + 2 + 12 * number(directory, 2), 12):
        if entry + 12 > len(tiff):
            return 1
        if number(entry, 2) == 0x0112 and (width := _WIDTHS.get(number(entry + 2, 2))):
            value = number(entry + 8, width)
            return value if 1 <= value <= 8 else 1
    return 1
