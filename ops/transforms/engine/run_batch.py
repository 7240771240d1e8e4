"""Runs several passes on the images of a batch, image by image, in one call of C++.

Pass by pass, a batch of photos would leave the processor's cache between any two. NOTE [ Passes of
one image ] in csrc/python/passes.cpp has the rest.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..._torch.native import data_ptr_and_strides
from ..sample.leaf import Leaf
from .compiled import DTYPE_NAMES
from .fuse import Pass
from .native_passes import LARGEST, is_watched
from .plan import Plan
from .run import Pixels

if TYPE_CHECKING:
    from ..compose import Compose


def run_batch(
    chain: "Compose", passes: Sequence[Pass], plans: Sequence[Plan], leaf: Leaf, pixels: Pixels
) -> bool:
    """Run consecutive passes of a chain on a leaf's value, by their plans.

    Returns
    -------
    bool
        False: nothing has happened, and they are to run one by one.
    """
    if len(passes) < 2 or not pixels.on_cpu or is_watched():
        return False
    native = chain.native_passes.find(chain, passes, pixels.dtype, pixels.channels)
    if native is None or any(_largest(plan) * pixels.channels > LARGEST for plan in plans):
        return False
    images = pixels.tensors(leaf)
    sources = pointers_of(images)
    if sources is None or 1 < len(sources) < torch.get_num_threads():
        return False
    last, channels, count = plans[-1], pixels.channels, len(sources)
    # A pass by values needs a result that is contiguous.
    late = passes[-1].kind == "values"
    form = torch.contiguous_format if late else chain.memory_format
    outs: Any
    if last.size is not None:
        shape = (count, channels, *last.size)
        outs = torch.empty(shape, dtype=native.dtype, device="cpu", memory_format=form)
    else:
        sizes = last.sizes.repeat(pixels.frames, 0).tolist()
        shapes = [(1, channels, *size) for size in sizes]
        made = [
            torch.empty(own, dtype=native.dtype, device="cpu", memory_format=form) for own in shapes
        ]
        outs = [own[0] for own in made]
    targets = pointers_of(outs)
    assert targets is not None
    name = DTYPE_NAMES[pixels.dtype]
    native.native.run_batch(plans, sources, name, targets, pixels.frames)
    if late and isinstance(outs, Tensor):
        outs = outs.contiguous(memory_format=chain.memory_format)
    pixels.store(leaf, outs)
    return True


def _largest(plan: Plan) -> int:
    """Return the pixels of a plan's largest result."""
    return int(plan.sizes.prod(1).max())


def pointers_of(images: Any) -> list[Any] | None:
    """Return the address and strides of each image; None: one has none, or wants a gradient."""
    if isinstance(images, list):
        pointers = [None if i.requires_grad else data_ptr_and_strides(i) for i in images]
        return None if None in pointers else pointers
    whole = None if images.requires_grad else data_ptr_and_strides(images)
    if whole is None:
        return None
    address, (step, *strides) = whole
    step *= images.element_size()
    return [(address + index * step, tuple(strides)) for index in range(len(images))]
