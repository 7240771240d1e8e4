"""Runs passes on the images of a leaf, by their plans: in C++, or by torch's operators.

C++ takes an image through all passes before the next one: pass by pass, a batch of photos would
leave the processor's cache between any two. torch's operators run where something has to see them
(gradients, modes, the profiler), on other devices, and for dtypes that C++ has no kernels for. Both
give the same bits.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..._native import Passes, observers_active
from ..._torch.native import data_ptr_and_strides
from ..sample.leaf import Leaf
from .compiled import DTYPE_NAMES, Compiled, compiled
from .decode import decode_for
from .fuse import Pass
from .pixel_kinds import BY_VALUES
from .pixels import run_pixels
from .plan import Plan
from .run import Pixels, run_plan

if TYPE_CHECKING:
    from ..compose import Compose


def execute(chain: "Compose", passes: Sequence[Pass], plans: Sequence[Plan], leaf: Leaf) -> None:
    """Run consecutive passes of a chain on an image leaf."""
    if passes[0].kind == "fused":
        plans = [decode_for(plans[0], passes[0], leaf), *plans[1:]]
    stages = [(compiled(part, chain.slices), part.kind == "values") for part in passes]
    if run_native(stages, plans, leaf, chain.memory_format):
        return
    for (native, by_values), plan in zip(stages, plans, strict=True):
        run = run_pixels if by_values else run_plan
        run(plan, native, leaf, Pixels(leaf), chain.memory_format)


def run_native(
    stages: Sequence[tuple[Compiled, bool]],
    plans: Sequence[Plan],
    leaf: Leaf,
    memory_format: torch.memory_format,
    channels: int | None = None,
) -> bool:
    """Run consecutive passes on an image leaf in C++.

    Parameters
    ----------
    stages : sequence of (Compiled, bool)
        Each pass, and whether it is by values.
    plans : sequence of Plan
    leaf : Leaf
    memory_format : torch.memory_format
    channels : int, optional
        How many of a result's channels, which are equal then, are wanted; by default all.

    Returns
    -------
    bool
        False: nothing has happened, and torch's operators have to run.
    """
    pixels = Pixels(leaf)
    if not pixels.on_cpu or observers_active():
        return False
    made, last = channels or pixels.channels, plans[-1]
    if made > pixels.channels:
        return False
    passes, dtype = [], pixels.dtype
    for (native, by_values), plan in zip(stages, plans, strict=True):
        if dtype not in (BY_VALUES if by_values else DTYPE_NAMES) or plan.dtype not in DTYPE_NAMES:
            return False
        dtype = plan.dtype
        values = plan.mean, plan.std, plan.erase_value or [0.0]
        wanted = made if plan is last else pixels.channels
        passes.append((native.chain, by_values, *values, DTYPE_NAMES[dtype], wanted))
    sources = _pointers_of(pixels.tensors(leaf))
    if sources is None:
        return False
    outs = _empty(last, len(sources), made, pixels.frames, memory_format, by_values)
    targets = _pointers_of(outs)
    if targets is None:  # there are no pixels
        return False
    name = DTYPE_NAMES[pixels.dtype]
    Passes(passes, False).run_each(plans, sources, name, targets, pixels.frames)
    if by_values and isinstance(outs, Tensor):
        outs = outs.contiguous(memory_format=memory_format)
    pixels.store(leaf, outs)
    return True


def _empty(
    plan: Plan, count: int, channels: int, frames: int, form: torch.memory_format, by_values: bool
) -> Any:
    """Return memory for a plan's images, [count, C, H, W], or a list of [C, H, W]."""
    if by_values:  # which change images in place, and need contiguous ones
        form = torch.contiguous_format

    def empty(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=plan.dtype, device="cpu", memory_format=form)

    if plan.size is not None:
        return empty(count, channels, *plan.size)
    return [empty(1, channels, *size)[0] for size in plan.sizes.repeat(frames, 0).tolist()]


def _pointers_of(images: Any) -> list[Any] | None:
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
