"""JPEG compression."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _native
from ..jpeg.library import load_turbo
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
        images, applies = pixels.tensors(leaf), params.get("apply")
        outs: Any
        if pixels.listed:
            outs = [torch.empty(i.shape, dtype=i.dtype, device=i.device) for i in images]
        else:
            outs = torch.empty(images.shape, dtype=images.dtype, device=images.device)
        chosen: list[tuple[Tensor, Tensor, int]] = []
        for index, (image, out) in enumerate(zip(images, outs, strict=True)):
            sample = index // pixels.frames
            if image.numel() == 0 or (applies is not None and not applies[sample]):
                out.copy_(image)
            else:
                chosen.append((image, out, int(params["quality"][sample])))
        _compress(chosen)
        pixels.store(leaf, outs)


def _compress(jobs: Sequence[tuple[Tensor, Tensor, int]]) -> None:
    """Compress images with a quality each, into contiguous ones."""
    images = [image.detach().cpu() for image, _, _ in jobs]
    outs = [out if out.is_cpu else torch.empty_like(out, device="cpu") for _, out, _ in jobs]
    qualities = [quality for _, _, quality in jobs]
    turbo = load_turbo()
    if isinstance(turbo, str):
        for image, out, quality in zip(images, outs, qualities, strict=True):
            out.copy_(_by_pillow(image, quality))
    else:
        _native.compress_images(
            turbo.round_trip,
            [(image.data_ptr(), image.stride()) for image in images],
            [tuple(image.shape) for image in images],
            qualities,
            [out.data_ptr() for out in outs],
        )
    for (_, out, _), found in zip(jobs, outs, strict=True):
        if found is not out:
            out.copy_(found)


def _by_pillow(image: Tensor, quality: int) -> Tensor:
    from PIL import Image

    array, file = np.ascontiguousarray(image.permute(1, 2, 0).numpy()), io.BytesIO()
    plain = Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
    plain.save(file, "JPEG", quality=quality)
    found = np.array(Image.open(file)).reshape(array.shape)
    return torch.from_numpy(found).permute(2, 0, 1)
