"""JPEG compression."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..jpeg.library import load_turbo
from ..warp.augment import augment
from .arguments import fail, is_sequence, whole
from .engine.effects import Effects
from .engine.plan import Canvas, Plan
from .engine.run import Pixels
from .sample.leaf import Leaf
from .transform import Transform

__all__ = ["JPEG"]


class JPEG(Transform):
    """Compress the image as a JPEG file, and decode it.

    torchvision's transform of this name.

    Parameters
    ----------
    quality : int or pair of int
        From 1 to 100, or its range.

    Raises
    ------
    TypeError
        The image is not uint8, or has neither 1 nor 3 channels.

    Notes
    -----
    Parameters: ``quality``. libjpeg-turbo does it, on the CPU; images on a GPU are copied there and
    back. Without it, Pillow does. No gradient passes.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.JPEG((20, 60))(torch.zeros(3, 32, 40, dtype=torch.uint8)).shape
    torch.Size([3, 32, 40])
    """

    draws = 1

    def __init__(self, quality: int | Sequence[int]) -> None:
        super().__init__()
        allowed = "a whole number from 1 to 100, or two (min, max)"
        given: Any = quality if is_sequence(quality) else (quality, quality)
        if len(given) != 2:
            fail("JPEG", "quality", quality, allowed)
        low, high = (whole("JPEG", "quality", value, 1, allowed, 100) for value in given)
        if low > high:
            fail("JPEG", "quality", quality, f"{allowed}, the smaller first")
        self.quality = (low, high)

    def effects(self) -> Effects:
        return Effects(alone="it compresses the image")

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        low, high = self.quality
        return {"quality": low + np.floor(uniforms[:, 0] * (high - low + 1))}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add nothing: it joins no pass."""

    def run_images(self, leaf: Leaf, params: Mapping[str, Any]) -> None:
        pixels = Pixels(leaf)
        if pixels.dtype != torch.uint8 or pixels.channels not in (1, 3):
            raise TypeError(
                f"visops.transforms.JPEG: {leaf.name} has dtype {pixels.dtype} and "
                f"{pixels.channels} channels, must be uint8 and have 1 or 3"
            )
        applies = params.get("apply")
        out = []
        for index, image in enumerate(pixels.tensors(leaf)):
            sample = index // pixels.frames
            if image.numel() == 0 or (applies is not None and not applies[sample]):
                out.append(image)
            else:
                out.append(_compressed(image, int(params["quality"][sample])))
        if out or pixels.listed:
            one = len(out) == 1
            pixels.store(leaf, out if pixels.listed else out[0][None] if one else torch.stack(out))


def _compressed(image: Tensor, quality: int) -> Tensor:
    array = _moved(image.detach().cpu(), torch.channels_last).permute(1, 2, 0).numpy()
    turbo = load_turbo()
    if isinstance(turbo, str):
        from PIL import Image

        file = io.BytesIO()
        plain = Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
        plain.save(file, "JPEG", quality=quality)
        found = np.asarray(Image.open(file)).reshape(array.shape)
    else:
        found = turbo.round_trip(array, quality)
    pixels = torch.from_numpy(found).permute(2, 0, 1)
    return _moved(pixels, torch.contiguous_format).to(image.device)


def _moved(image: Tensor, memory_format: torch.memory_format) -> Tensor:
    """Return an image with another order of channels in memory, in a fraction of NumPy's time."""
    size = (image.shape[1], image.shape[2])
    options: dict[str, Any] = {"out_dtype": torch.uint8, "layout": "CHW"}
    return augment(image[None], _STILL, size, memory_format=memory_format, **options)[0]


_STILL = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
