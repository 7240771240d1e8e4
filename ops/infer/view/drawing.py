"""Draws results on images: boxes, masks, classes."""

import hashlib
import io
import math
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from ..batch import Picture
from ..models.masks import columns_of_runs

_LONGEST = 60  # characters of a label
_OPACITY = 128  # of masks, out of 255
_BACKGROUND = 0  # label of the background in torchvision's segmentations
# One per label, in turn; they differ in hue and in lightness.
_COLORS = (
    (230, 25, 75),
    (60, 180, 75),
    (255, 225, 25),
    (0, 130, 200),
    (245, 130, 48),
    (145, 30, 180),
    (70, 240, 240),
    (240, 50, 230),
    (210, 245, 60),
    (250, 190, 212),
)
_BLACK = (0, 0, 0)

Color = tuple[int, int, int]


def draw(image: Image.Image, results: Mapping[str, Any]) -> None:
    """Draw boxes with labels and scores, masks, and the best class of each classification.

    Names of classes are written in place of their labels.

    Masks are half transparent, in the colour of their label. In a segmentation, which has no
    boxes, label 0 is the background and is not drawn.

    Results may come from the caller's own post-processing: anything of another form is skipped, and
    so are boxes that are not finite or have x2 < x1 or y2 < y1.

    Parameters
    ----------
    image : Image
        RGB; drawn on in place.
    results : dict
        The image's results, by model.
    """
    pen = _Pen.of(image)
    line = 0.0
    for name, result in results.items():
        if not isinstance(result, Mapping):
            continue
        if "boxes" in result and "scores" in result:
            _draw_detection(pen, result)
        elif "labels" in result and "scores" in result:
            labels, scores = _items(result["labels"]), _items(result["scores"])
            if labels and scores:
                best = _shown(labels, _items(result.get("names")))[0]
                pen.write((0, line), f"{name}: {_text(best, scores[0])}", _BLACK)
                line += 1.3 * pen.height
        elif "labels" in result and "masks" in result:
            for label, mask in zip(_items(result["labels"]), _items(result["masks"]), strict=False):
                if _number(label) != _BACKGROUND:
                    pen.fill(mask, _color(label))


@dataclass
class _Pen:
    """Draws with lines and text sized for the image."""

    image: Image.Image
    canvas: ImageDraw.ImageDraw
    height: float  # of text, in pixels
    width: int  # of lines

    @classmethod
    def of(cls, image: Image.Image) -> "_Pen":
        height = max(12.0, min(image.size) / 30)
        return cls(image, ImageDraw.Draw(image), height, max(1, round(height / 8)))

    def outline(self, box: list[float], color: Color) -> None:
        # Pillow's coordinates overflow far outside the image, where nothing is visible anyway.
        far = [size + 2 * self.width for size in self.image.size] * 2
        near = -2.0 * self.width
        shown = [min(max(value, near), limit) for value, limit in zip(box, far, strict=True)]
        self.canvas.rectangle(shown, outline=color, width=self.width)

    def fill(self, mask: Any, color: Color) -> None:
        """Colour a mask given as run lengths; ignore any other form."""
        if not isinstance(mask, Mapping) or not _is_mask(mask, self.image.size):
            return
        left, part = columns_of_runs(mask["counts"], self.image.height)
        if part.size:
            opacity = Image.fromarray(part.astype(np.uint8) * np.uint8(_OPACITY))
            self.image.paste(color, (left, 0), opacity)

    def write(self, position: tuple[float, float], text: str, color: Color) -> None:
        """Write text on a box of this colour, in black or white, whichever is easier to read."""
        opacity, left, top = _written(text, self.height)
        left, top = left + round(position[0]), top + round(position[1])
        ground = left, top, left + opacity.width, top + opacity.height
        self.canvas.rectangle(ground, fill=color)
        light = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]
        self.canvas.bitmap((left, top), opacity, _BLACK if light > 128 else (255, 255, 255))


@lru_cache(maxsize=64)
def _font(height: float) -> Any:
    return ImageFont.load_default(height)


@lru_cache(maxsize=1 << 14)
def _written(text: str, height: float) -> tuple[Image.Image, int, int]:
    """Return a text's opacity, and the offset to the right and down at which it begins.

    It is cached because texts of a class and a two-digit score recur: rendering text takes much
    longer than all other drawing, and holds the GIL.
    """
    font = _font(height)
    left, top, right, bottom = font.getbbox(text)
    left, top = math.floor(left), math.floor(top)
    size = max(1, math.ceil(right) - left), max(1, math.ceil(bottom) - top)
    opacity = Image.new("L", size)
    ImageDraw.Draw(opacity).text((-left, -top), text, 255, font)
    return opacity, left, top


def _draw_detection(pen: _Pen, result: Mapping[str, Any]) -> None:
    boxes, scores = _items(result["boxes"]), _items(result["scores"])
    labels, masks = _items(result.get("labels")), _items(result.get("masks"))
    count = min(len(boxes), len(scores))
    named = [labels[i] if i < len(labels) else None for i in range(count)]
    shown = _shown(named, _items(result.get("names")))
    # Draw the best last, on top, and all boxes above the masks.
    for i in reversed(range(min(count, len(masks)))):
        pen.fill(masks[i], _color(named[i]))
    for i in reversed(range(count)):
        box = _box(boxes[i])
        if box is None:
            continue
        color = _color(named[i])
        pen.outline(box, color)
        left = min(max(0.0, box[0]), pen.image.width)
        top = min(max(0.0, box[1] - 1.3 * pen.height), pen.image.height)
        pen.write((left, top), _text(shown[i], scores[i]), color)


def _shown(labels: list[Any], names: list[Any]) -> list[Any]:
    """Return what to write for each label: its name, if it has one."""
    names = names[: len(labels)] + [None] * (len(labels) - len(names))
    pairs = zip(names, labels, strict=True)
    return [name if isinstance(name, str) and name else label for name, label in pairs]


def _items(value: Any) -> list[Any]:
    """Return the items of an array, a list or a single value."""
    if value is None:
        return []
    if isinstance(value, (np.ndarray, np.generic)):
        return list(np.atleast_1d(value))
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _box(value: Any) -> list[float] | None:
    """Return x1, y1, x2, y2, or None if it is not a box."""
    try:
        box = [float(number) for number in _items(value)]
    except (TypeError, ValueError):
        return None
    if len(box) != 4 or not all(map(math.isfinite, box)) or box[2] < box[0] or box[3] < box[1]:
        return None
    return box


def _is_mask(mask: Mapping[str, Any], size: tuple[int, int]) -> bool:
    """Whether it holds run lengths for an image of this width and height."""
    try:
        counts = np.asarray(mask.get("counts"))
        return (
            [int(side) for side in _items(mask.get("size"))] == [size[1], size[0]]
            and counts.ndim == 1
            and counts.dtype.kind in "iu"
            and counts.min() >= 0
            and int(counts.sum()) == size[0] * size[1]
        )
    except (TypeError, ValueError, OverflowError):
        return False


def _number(label: Any) -> int | None:
    """Return the label as an integer, or None if it is not one, such as a name."""
    try:
        number = int(label)
        return number if number == label else None
    except (TypeError, ValueError, OverflowError):
        return None


def _color(label: Any) -> Color:
    number = _number(label)
    if number is None:
        number = 0 if label is None else zlib.crc32(str(label).encode("utf-8", "replace"))
    return _COLORS[number % len(_COLORS)]


def _text(label: Any, score: Any) -> str:
    """Return the label, if any, and the score."""
    words = []
    if label is not None:
        number = _number(label)
        words.append(_short(str(label) if number is None else str(number)))
    try:
        words.append(f"{float(score):.2f}")
    except (TypeError, ValueError):
        words.append(_short(str(score)))
    return " ".join(words)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


# Pictures and label maps: where they are written, and how they are encoded.

_LONGEST_NAME = 255  # bytes of a name, on most file systems
_LONGEST_PATH = 3072  # bytes; Linux allows 4,096, which must suffice for the folder of outputs too
_JPEG_SIDE = 65_500  # libjpeg's limit
_QUALITY = 90
# A folder with a name that a picture may take.
_LIKE_A_PICTURE = re.compile(r"\.(jpg|png)_*\Z", re.IGNORECASE)


def picture_path(folder: str, path: str, suffix: str, sides: Sequence[int] = ()) -> str:
    """Return the path of an image's picture: the image's own path, with one more suffix.

    So ``a.png`` and ``a.jpg`` get different pictures. A folder named like a picture gets a trailing
    ``_``, so that the folder ``a.png.jpg`` does not collide with the picture of ``a.png``. A name
    that would become too long is cut, and made unique by a digest; where the whole path is too
    long, the picture lies in `folder` itself, named by a digest of the path. If one of the `sides`
    is too long for a JPEG, the suffix is ``.png``.
    """
    if max(sides, default=0) > _JPEG_SIDE:
        suffix = ".png"
    *parents, name = path.split("/")
    folders = [_fitting(p, "_") if _LIKE_A_PICTURE.search(p) else p for p in parents]
    whole = "/".join([folder, *folders, _fitting(name, suffix)])
    if len(os.fsencode(whole)) > _LONGEST_PATH:
        return f"{folder}/{hashlib.sha256(os.fsencode(path)).hexdigest()}{suffix}"
    return whole


def encode(picture: Picture) -> bytes:
    """Draw the picture's results on it, and return the encoded file."""
    pixels = picture.pixels
    if isinstance(pixels, Tensor):
        pixels = pixels.permute(1, 2, 0).contiguous().numpy()
    image = Image.fromarray(pixels)
    if picture.drawn is not None:
        draw(image, picture.drawn)
    buffer = io.BytesIO()
    if picture.path.endswith(".png"):
        image.save(buffer, "png")
    else:
        image.save(buffer, "jpeg", quality=_QUALITY)
    return buffer.getvalue()


def _fitting(name: str, suffix: str) -> str:
    """Return the name with the suffix, shortened to fit the file system."""
    data = os.fsencode(name)
    if len(data) + len(suffix) > _LONGEST_NAME:
        digest = hashlib.sha256(data).hexdigest()
        kept = data[: _LONGEST_NAME - len(suffix) - 1 - len(digest)]
        name = f"{os.fsdecode(kept)}-{digest}"
    return name + suffix
