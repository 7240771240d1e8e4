"""What can't join a fused pass: random values, and other libraries' transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..sample.batches import batch_leaves, unbatch_leaves
from ..sample.leaf import Leaf
from ..targets.mirrored import may_swap
from ..targets.options import TargetOptions
from .foreign import call_foreign
from .generators import borrowed
from .libraries import draws_from_torch
from .nesting import Container
from .random import normals
from .run import Pixels

__all__ = ["erase_with_noise", "run_foreign"]


def erase_with_noise(leaf: Leaf, params: Mapping[str, Any]) -> None:
    """Erase a rectangle of each sample with normally distributed values."""
    pixels = Pixels(leaf)
    if not pixels.dtype.is_floating_point:
        raise TypeError(
            f"visops.transforms.RandomErasing: {leaf.name} has dtype {pixels.dtype}, must be "
            "floating for value='random'; put ToDtype(torch.float32, scale=True) before it"
        )
    images = pixels.tensors(leaf)
    images = [image.clone() for image in images] if pixels.listed else images.clone()
    names = ("top", "left", "height", "width", "noise")
    for sample, applies in enumerate(params["apply"].tolist()):
        if not applies:
            continue
        top, left, height, width, key = (float(params[name][sample]) for name in names)
        x1, y1, x2, y2 = int(left), int(top), int(left + width), int(top + height)
        shape = (pixels.channels, y2 - y1, x2 - x1)
        count = shape[0] * shape[1] * shape[2]
        if count > 0:
            values = normals(key, 0, count).reshape(shape)
            noise = pixels.put(values).to(pixels.dtype)
            for frame in range(pixels.frames):
                images[sample * pixels.frames + frame][:, y1:y2, x1:x2] = noise
    pixels.store(leaf, images)


def run_foreign(
    transform: Callable[..., Any],
    leaves: list[Leaf],
    params: Mapping[str, Any],
    options: TargetOptions,
) -> None:
    """Run a transform that joins no pass on each sample, under the sample's own number."""
    for leaf in leaves:
        if leaf.kind == "image":
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
        image = next(leaf for leaf in leaves if leaf.kind == "image")
        with borrowed(Pixels(image).device, draws_from_torch(transform)) as seed:
            for sample, number in zip(samples, numbers, strict=True):
                seed(number)
                call_foreign(transform, sample, options, number)
    if batched:
        for leaf, moved in zip(leaves, batch_leaves(samples), strict=True):
            for name in Leaf.__slots__:
                setattr(leaf, name, getattr(moved, name))
