"""Decode JPEG files, whole or in part."""

import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from .._torch.options import check_word, flag
from .._torch.outside_graphs import outside_graphs
from .file import CHANNELS, MAX_PIXELS, JpegFile, largest_reduction


@outside_graphs
def decode_jpeg(
    data: Any,
    window: Sequence[int] | None = None,
    size: int | Sequence[int] | None = None,
    *,
    mode: Literal["rgb", "gray"] = "rgb",
    exif: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> Any:
    """Decode a JPEG file, or a window of it, at full or reduced scale.

    A window costs less than the image: nothing below it is read, and above and beside it only the
    entropy code is. Its pixels are those of the whole image.

    Parameters
    ----------
    data : bytes, any contiguous buffer, uint8 Tensor or ndarray ``[N]``, or a path
        The file's content, or the file's name: a str or ``os.PathLike``. A tensor must be on the
        CPU.
    window : (top, left, height, width), optional
        In pixels of the upright image, within which it must lie; by default all of it.
    size : int or pair of int, optional
        Height and width that suffice. If the window is at least 8, 4 or 2 times as high and as
        wide, it is decoded at 1/8, 1/4 or 1/2 of the scale: each pixel is then about the mean of 8,
        4 or 2 squared pixels. The result is at least this large, and seldom just as large. By
        default the scale is full.
    mode : {"rgb", "gray"}
        What to return, whatever the file holds: three channels, or luma alone.
    exif : bool
        Turn the image upright by its EXIF orientation. Otherwise it comes, and `window` counts, as
        it is stored.
    max_pixels : int
        Refuse images with more pixels than this in the whole file, by default 2^28, before memory
        is allocated.

    Returns
    -------
    uint8 Tensor ``[C, H, W]``, or ndarray ``[H, W, C]`` if `data` is an ndarray
        The tensor is a view of pixels whose channels are adjacent in memory. At a scale of 1/r,
        reduced pixels cover a grid of r by r pixels, and the result holds those that touch the
        window.

    Raises
    ------
    TypeError
        An argument has another type.
    OSError
        The file can't be read.
    ValueError
        The data is empty, no JPEG, truncated, damaged, larger than `max_pixels`, or of a kind that
        libjpeg doesn't know; the window isn't within the image. Damage below the window, and much
        of it beside the window, goes unnoticed.
    ImportError
        There is neither a build with libjpeg-turbo nor Pillow: see
        ``visops.build_info()["jpeg_error"]``.

    Notes
    -----
    Decoded by libjpeg-turbo, with its accurate transform and smooth upsampling of colour, as by
    torchvision, Pillow and OpenCV; reductions are those of its DCT. Four inks become RGB as in
    Pillow. The interpreter's lock is released meanwhile. Where visops was built without
    libjpeg-turbo, Pillow decodes the whole image, which is cut afterwards.

    Examples
    --------
    >>> import io
    >>> import numpy as np, visops
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.fromarray(np.full((120, 160, 3), 90, np.uint8)).save(file, "JPEG")
    >>> visops.decode_jpeg(file.getvalue()).shape
    torch.Size([3, 120, 160])
    >>> visops.decode_jpeg(file.getvalue(), window=(20, 40, 60, 100)).shape
    torch.Size([3, 60, 100])
    >>> visops.decode_jpeg(np.frombuffer(file.getvalue(), np.uint8), size=32).shape
    (60, 80, 3)
    """
    check_word("decode_jpeg", "mode", mode, CHANNELS)
    exif = flag("decode_jpeg", "exif", exif)
    limit = _whole_numbers((max_pixels,))
    if limit is None or limit[0] < 1:
        raise ValueError(
            f"visops.decode_jpeg: max_pixels is {max_pixels!r}, must be a whole number >= 1"
        )
    least = None if size is None else _size(size)
    if isinstance(data, (str, os.PathLike)):
        data = _content(data)
    try:
        file = JpegFile(data, exif, limit[0])
        rectangle = (0, 0, *file.size) if window is None else _window(window, file.size)
        reduction = 1 if least is None else largest_reduction(rectangle[2:], least)
        pixels, _ = file.decode(rectangle, reduction, CHANNELS[mode])
    except (TypeError, ValueError) as error:
        raise type(error)(f"visops.decode_jpeg: {error}") from None
    if isinstance(data, np.ndarray):
        return pixels
    return torch.from_numpy(pixels).permute(2, 0, 1)


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        reason = f"visops.decode_jpeg: data is the path {os.fspath(path)!r}: {error.strerror}"
        raise OSError(error.errno, reason) from None
    except ValueError as error:  # a name with a null character
        raise ValueError(f"visops.decode_jpeg: data is the path {path!r}: {error}") from None


def _window(window: Sequence[int], size: tuple[int, int]) -> tuple[int, int, int, int]:
    numbers = _whole_numbers(window)
    if numbers is None or len(numbers) != 4:
        raise TypeError(f"window is {window!r}, must be four whole numbers or None")
    top, left, height, width = numbers
    inside = top >= 0 and left >= 0 and top + height <= size[0] and left + width <= size[1]
    if not inside or height < 1 or width < 1:
        raise ValueError(
            f"window is {numbers}, must be (top, left, height, width) with at least a row and a "
            f"column, within the image's {size[0]} rows and {size[1]} columns"
        )
    return top, left, height, width


def _size(size: int | Sequence[int]) -> tuple[int, int]:
    numbers = _whole_numbers(size if isinstance(size, Sequence) else (size, size))
    if numbers is None or len(numbers) != 2 or min(numbers) < 1:
        raise ValueError(
            f"visops.decode_jpeg: size is {size!r}, must be a whole number >= 1, two such, or None"
        )
    return numbers[0], numbers[1]


def _whole_numbers(values: Any) -> tuple[int, ...] | None:
    try:
        return tuple(value.__index__() for value in values)
    except (AttributeError, TypeError):
        return None
