"""The geometry of an image: what was decoded of it, and where it lies in a network's input."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded image: its index in the planned batch, its placement in the pixels, its sizes.

    Attributes
    ----------
    index : int
        Index of the input in its planned batch.
    offset : int
        Offset of its first byte in the batch's pixels, ``[height, width, 3]``.
    height, width : int
        Size as decoded.
    full_height, full_width : int
        Size of the whole image, upright.
    reduction : int
        Width and height of a decoded pixel, in pixels of the whole image: 1, 2, 4 or 8.
    left, top : int
        Where the first decoded pixel begins in the whole image. Pixels of a reduced image may reach
        beyond the whole one: at the right and the bottom or, once turned upright, at the left and
        the top.
    """

    index: int
    offset: int
    height: int
    width: int
    full_height: int
    full_width: int
    reduction: int = 1
    left: int = 0
    top: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an image lies in a network's input: ``x' = x * scale_x + left``, and so for y.

    Attributes
    ----------
    scale_x, scale_y, left, top : float
        Left and top are negative where the input shows only the middle of the image.
    full_height, full_width : int
        Size of the image.
    height, width : int
        Size of the input.
    """

    scale_x: float
    scale_y: float
    left: float
    top: float
    full_height: int
    full_width: int
    height: int
    width: int
