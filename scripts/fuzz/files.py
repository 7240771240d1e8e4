"""JPEG files of a problem, and the windows of them."""

import io
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from PIL import Image
from torch import Tensor


def file_of(p: Any) -> Tensor:
    """Return a file of the problem's height and width, at least 1; some lack their end."""
    pixels = p.draw.tensor((max(p.height, 1), max(p.width, 1), 3), torch.float64)
    options = {"progressive": p.draw.chance(0.3), "subsampling": p.draw.between(0, 2)}
    file = io.BytesIO()
    Image.fromarray((pixels * 255).byte().numpy()).save(file, "JPEG", **options)
    data = bytearray(file.getvalue())
    if p.draw.chance(0.2):
        del data[p.draw.between(0, len(data)) :]
    return torch.tensor(list(data), dtype=torch.uint8)


def window_of(p: Any) -> tuple[int, ...]:
    """Return top, left, height and width of a window in the image."""
    sides = (max(p.height, 1), max(p.width, 1))
    first = [p.draw.between(0, side - 1) for side in sides]
    return (*first, *(p.draw.between(1, s - f) for s, f in zip(sides, first, strict=True)))


FILE_VALUES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "decode_jpeg.data": file_of,
        "decode_jpeg.window": window_of,
        "decode_jpeg.size": lambda p: p.draw.between(1, 20),
        "decode_jpeg.mode": lambda p: p.draw.choice(("rgb", "gray")),
        "decode_jpeg.max_pixels": lambda p: p.draw.choice((1 << 28, 1 << 20, 400)),
    }
)
