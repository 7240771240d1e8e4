"""Pictures: how they are encoded, and where they are written."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Sequence

from PIL import Image

from ..batch import Picture
from .drawing import draw

__all__ = ["encode", "picture_path"]

_LONGEST = 255  # bytes of a name, on most file systems
_JPEG_SIDE = 65_500  # libjpeg's limit
_QUALITY = 90
# A folder whose name could be a picture's, and so be in its place.
_LIKE_A_PICTURE = re.compile(r"\.(jpg|png)_*\Z", re.IGNORECASE)


def picture_path(folder: str, path: str, suffix: str, sides: Sequence[int] = ()) -> str:
    """Return where an image's picture goes: its own path, with one more suffix.

    So ``a.png`` and ``a.jpg`` have different ones. Folders named like pictures get a ``_`` at the
    end: the folder ``a.png.jpg`` is not in the way of the picture of ``a.png``. A name that is too
    long for that is cut, and told from others by a digest. Where one of the `sides` is too long for
    a JPEG the suffix is ``.png``.
    """
    if max(sides, default=0) > _JPEG_SIDE:
        suffix = ".png"
    *parents, name = path.split("/")
    folders = [_fitting(p, "_") if _LIKE_A_PICTURE.search(p) else p for p in parents]
    return "/".join([folder, *folders, _fitting(name, suffix)])


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


def _fitting(name: str, suffix: str) -> str:
    """Return the name with the suffix, cut if it is too long."""
    data = os.fsencode(name)
    if len(data) + len(suffix) > _LONGEST:
        digest = hashlib.sha256(data).hexdigest()
        kept = data[: _LONGEST - len(suffix) - 1 - len(digest)]
        name = f"{os.fsdecode(kept)}-{digest}"
    return name + suffix
