"""Options that are words or yes and no: their types, for type checkers and editors, and checks."""

from collections.abc import Collection
from typing import Any, Literal

import torch

from .numbers import on_one_line

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
# And in samples, also as shares of the image's sides.
SampleBoxFormat = Literal["xyxy", "xywh", "cxcywh", "yolo", "albumentations"]
KeptBoxes = Literal["keep", "clamp", "sanitize"]

# What is returned of the losses of all elements.
Reduction = Literal["none", "mean", "sum"]


def flag(op: str, name: str, value: Any) -> bool:
    """Return an option that is on or off: a bool, 0 or 1, also of NumPy or of no dimension.

    Whatever else has a truth value is refused: that of the word "no" is the opposite of what it
    says.

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, torch.SymBool):  # what a graph compares sizes to
        return bool(value)
    has_one = getattr(value, "ndim", None) == 0 and hasattr(value, "item")
    plain = value.item() if has_one else value
    if not isinstance(plain, int) or plain not in (0, 1):
        raise TypeError(f"visops.{op}: {name} is {on_one_line(value)}, must be True or False")
    return bool(plain)


def check_word(
    op: str,
    name: str,
    value: Any,
    words: Collection[str],
    allowed: str = "",
    error: type[Exception] = ValueError,
) -> None:
    """Refuse what is not one of the words: also lists and arrays of one, which can't be looked up.

    Parameters
    ----------
    op, name : str
        The function and its argument, for the message.
    value : Any
        What it was given.
    words : collection of str
        Those that there are.
    allowed : str, optional
        What the message says of them, by default all.
    error : type of an exception
        What is raised.
    """
    if not isinstance(value, str) or value not in words:
        *others, last = map(repr, words)
        listed = f"{', '.join(others)} or {last}" if others else last
        raise error(f"visops.{op}: {name} is {on_one_line(value)}, must be {allowed or listed}")


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
    check_word(op, "reduction", reduction, ("none", "mean", "sum"))
