"""Pictures and label maps: where they are written, and how they are encoded."""

import hashlib
import io
import os
import re
from collections.abc import Sequence

from PIL import Image
from torch import Tensor

from ..batch import Picture
from .drawing import draw

_LONGEST = 255  # bytes of a name, on most file systems
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
    if len(data) + len(suffix) > _LONGEST:
        digest = hashlib.sha256(data).hexdigest()
        kept = data[: _LONGEST - len(suffix) - 1 - len(digest)]
        name = f"{os.fsdecode(kept)}-{digest}"
    return name + suffix
