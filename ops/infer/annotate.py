"""Pictures: what was found drawn on images, and where they are written."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from .batch import Picture

__all__ = ["draw", "encode", "picture_path"]

_LONGEST = 255  # bytes of a name, on most file systems
_QUALITY = 90
# Of labels in turn: they differ in hue and in lightness.
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


def picture_path(folder: str, path: str, suffix: str) -> str:
    """Return where an image's picture goes: its own path, with one more suffix.

    So ``a.png`` and ``a.jpg`` have different ones. A name that is too long for that is cut, and
    told from others by a digest.
    """
    head, name = os.path.split(path)
    if len(os.fsencode(name)) + len(suffix) > _LONGEST:
        digest = hashlib.sha256(os.fsencode(name)).hexdigest()
        kept = os.fsencode(name)[: _LONGEST - len(suffix) - 1 - len(digest)]
        name = f"{os.fsdecode(kept)}-{digest}"
    return "/".join(part for part in (folder, head, name + suffix) if part)


def encode(picture: Picture) -> bytes:
    """Draw what is to be drawn, and return the file's bytes."""
    image = Image.fromarray(picture.pixels.permute(1, 2, 0).contiguous().numpy())
    if picture.drawn is not None:
        draw(image, picture.drawn)
    buffer = io.BytesIO()
    if picture.path.endswith(".png"):
        image.save(buffer, "png")
    else:
        image.save(buffer, "jpeg", quality=_QUALITY)
    return buffer.getvalue()


def draw(image: Image.Image, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw boxes with labels and scores, and the best class of each classification.

    Parameters
    ----------
    image : Image
        RGB; is changed.
    results : dict
        Of an image: what each model has found.
    """
    canvas = ImageDraw.Draw(image)
    height = max(12.0, min(image.size) / 30)
    font = ImageFont.load_default(height)
    width = max(1, round(height / 8))
    line = 0.0
    for name, result in results.items():
        if "boxes" in result and "scores" in result:
            _draw_boxes(canvas, result, font, width, height)
        elif "labels" in result and "scores" in result and len(result["labels"]):
            text = f"{name}: {int(result['labels'][0])} {float(result['scores'][0]):.2f}"
            _write(canvas, (0, line), text, font, (0, 0, 0))
            line += 1.3 * height


def _draw_boxes(
    canvas: ImageDraw.ImageDraw, result: Mapping[str, Any], font: Any, width: int, height: float
) -> None:
    labels, scores = result["labels"], result["scores"]
    # The best last, on top.
    for i in reversed(range(len(scores))):
        box = [float(value) for value in result["boxes"][i]]
        label = int(labels[i])
        color = _COLORS[label % len(_COLORS)]
        canvas.rectangle(box, outline=color, width=width)
        top = max(0.0, box[1] - 1.3 * height)
        _write(canvas, (box[0], top), f"{label} {float(scores[i]):.2f}", font, color)


def _write(
    canvas: ImageDraw.ImageDraw,
    place: tuple[float, float],
    text: str,
    font: Any,
    color: tuple[int, int, int],
) -> None:
    """Write text on a ground of its own, black or white, whichever is easier to read."""
    canvas.rectangle(canvas.textbbox(place, text, font), fill=color)
    light = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]
    canvas.text(place, text, (0, 0, 0) if light > 128 else (255, 255, 255), font)
