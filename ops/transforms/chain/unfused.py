"""What can't join a fused pass: random values, and other libraries' transforms."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...pixels.adjust import adjust_pixels
from ..sample.batches import batch_leaves, unbatch_leaves
from ..sample.leaf import Leaf
from ..targets.mirrored import may_swap
from ..targets.options import TargetOptions
from .foreign import call_foreign, draws_from_torch
from .generators import borrowed
from .nesting import Container
from .operator_calls import Rectangles
from .operators import Pixels
from .pixel_kinds import MORE_NUMBERS, PixelKind


def erase_with_noise(leaf: Leaf, params: Mapping[str, Any]) -> None:
    """Erase a rectangle of each sample with normally distributed values."""
    pixels = Pixels(leaf)
    if not pixels.dtype.is_floating_point:
        raise TypeError(
            f"visops.transforms.RandomErasing: {leaf.name} has dtype {pixels.dtype}, must be "
            "floating for value='random'; put ToDtype(torch.float32, scale=True) before it"
        )
    images = pixels.tensors(leaf)
    names = ("top", "left", "height", "width")
    rectangles = np.stack([params[name] for name in names], 1).astype(np.int64)
    rectangles[~params["apply"].astype(bool)] = 0
    noise = _noise(params["noise"], rectangles, pixels)
    if pixels.listed or pixels.on_cpu:
        images = [image.clone() for image in images] if pixels.listed else images.clone()
        for sample in np.flatnonzero(rectangles[:, 2:].all(1)).tolist():
            top, left, height, width = rectangles[sample].tolist()
            count = pixels.channels * height * width
            own = noise[sample, :count].view(pixels.channels, height, width)
            for frame in range(sample * pixels.frames, (sample + 1) * pixels.frames):
                images[frame][:, top : top + height, left : left + width] = own
    elif noise.numel() > 0:
        images = _erased(images, rectangles.repeat(pixels.frames, 0), noise, pixels.frames)
    pixels.store(leaf, images)


def _noise(keys: np.ndarray, rectangles: np.ndarray, pixels: Pixels) -> Tensor:
    """Return normally distributed values for each sample's rectangle, ``[B, most]``.

    Those of C++, so that values are the same on every device.
    """
    most = int((rectangles[:, 2] * rectangles[:, 3]).max(initial=0)) * pixels.channels
    numbers = np.zeros((len(keys), MORE_NUMBERS))
    numbers[:, 2] = keys  # behind the mean, 0, and whether values are clipped
    zeros = torch.zeros((len(keys), 1, 1, most), dtype=torch.float32, device=pixels.device)
    kinds, sigmas = [PixelKind.GAUSSIAN_NOISE] * len(keys), [1.0] * len(keys)
    found = adjust_pixels(zeros, kinds, sigmas, numbers.ravel().tolist())
    return found.flatten(1).to(pixels.dtype)


def _erased(images: Tensor, rectangles: np.ndarray, noise: Tensor, frames: int) -> Tensor:
    """Return images ``[N, C, H, W]`` with a rectangle of each replaced, all at once."""
    own = Rectangles(images, rectangles)
    noise = noise.repeat_interleave(frames, 0)
    planes = []
    for channel in range(images.shape[1]):
        place = ((channel * own.height + own.y) * own.width + own.x).clamp(0, noise.shape[1] - 1)
        planes.append(noise.gather(1, place.flatten(1)).view(place.shape))
    return torch.where(own.inside, torch.cat(planes, 1), images)


def run_foreign(
    transform: Callable[..., Any],
    leaves: list[Leaf],
    params: Mapping[str, Any],
    options: TargetOptions,
) -> None:
    """Run a transform that joins no pass on each sample, under the sample's own number."""
    images = [leaf for leaf in leaves if leaf.kind == "image"]
    for leaf in images:
        pixels = Pixels(leaf)
        pixels.store(leaf, pixels.tensors(leaf))
    batched = leaves[0].batch is not None or any(leaf.batch is not None for leaf in leaves)
    samples = [leaves]
    if batched:
        samples = unbatch_leaves(leaves, moves=lambda leaf: may_swap(leaf, options))
    numbers = params["seed"].tolist()
    if isinstance(transform, Container):
        for sample, number in zip(samples, numbers, strict=True):
            transform.run(sample, number)
    else:
        with borrowed(Pixels(images[0]).device, draws_from_torch(transform)) as seed:
            for sample, number in zip(samples, numbers, strict=True):
                seed(number)
                call_foreign(transform, sample, options, number)
    if batched:
        for leaf, moved in zip(leaves, batch_leaves(samples), strict=True):
            for name in Leaf.__slots__:
                setattr(leaf, name, getattr(moved, name))
