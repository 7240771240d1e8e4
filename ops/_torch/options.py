"""Words that several functions take, for type checkers and editors."""

from typing import Literal

# How to read between pixels.
Interpolation = Literal["bilinear", "nearest", "bicubic"]

# What lies outside an image.
PaddingMode = Literal["constant", "replicate", "reflect", "symmetric", "circular"]
# The same as torchvision's transforms name it.
PadMode = Literal["constant", "edge", "reflect", "symmetric", "circular"]

# Whether the centre of the first pixel is at 0 or at 0.5: docs/conventions.md.
Convention = Literal["integer", "half_pixel"]

# Where an image without a name has its channels.
Layout = Literal["CHW", "HWC"]

# How boxes are written, and what becomes of those that leave the image.
BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
KeptBoxes = Literal["keep", "clamp", "sanitize"]

# What is returned of the losses of all elements.
Reduction = Literal["none", "mean", "sum"]


def check_reduction(op: str, reduction: str) -> None:
    """Refuse a word that is no reduction.

    Parameters
    ----------
    op : str
        The function, for the message.
    reduction : str
        What it was given.

    Raises
    ------
    ValueError
        `reduction` is unknown.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"visops.{op}: reduction is {reduction!r}, must be 'none', 'mean' or 'sum'"
        )
