"""One sample on the CPU, from its own tensors to new ones, without leaves.

NOTE on direct calls. A Dataset calls its chain with one small sample after another. To split it, to
keep its targets in float64 from pass to pass and to put all together again takes Python several
times as long as C++ takes for the pixels. But an outline says what the entries of a sample are, and
in a chain of one pass, C++ can move each tensor into another of its dtype. What values may change,
such as shapes, dtypes and canvas sizes, is checked for each sample. Results have the bits of
`run_passes`, which runs whatever is unusual, and says what is wrong with it.

A batch or a list of one image goes the same way, unless targets come with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..._native import run_pixels
from ..._torch.native import data_ptr_and_strides, modes_or_transforms_active
from ...warp.augment_direct import LARGEST
from ..sample.forms import formed
from ..sample.images import image_leaf, may_be_image
from ..sample.leaf import Leaf, tv_kind, tv_wrap
from ..sample.outlines import Outline
from ..targets.direct import DirectTarget, direct_targets
from .compiled import DTYPE_NAMES, Compiled, compiled
from .fuse import Pass
from .nesting import outer_options
from .pixel_kinds import BY_VALUES
from .run import channels_first
from .source import Source

if TYPE_CHECKING:
    from ..compose import Compose

__all__ = ["run_direct"]

_ZERO = [0.0]
_is_profiled = torch._C._autograd._profiler_enabled


def run_direct(chain: Compose, passes: Sequence[Pass], sample: Any, source: Source) -> Any:
    """Transform a sample by a chain's passes, or return None where `run_passes` has to.

    That must then be given the same `source`, whose numbers may have been drawn.
    """
    fast = _only_pass(chain, passes)
    if fast is None or not fast.settled or chain.options.swaps:
        return None
    outline, holders, value, name = None, [], sample, "the sample"
    if type(sample) is not Tensor:
        outline = chain.outline_of(sample)
        if outline is None:
            return None
        holders, entry = outline.holders(sample), outline.image
        if outline.container is not None:
            value = holders[entry.holder][entry.key]
        if not _is_like(value, outline):
            return None
        name = entry.name
    leaf = _leaf_of_one(value, name, not chain.named["per_frame"], chain.named["layout"])
    if leaf is None:
        return None
    in_batch, pixels = leaf.batch is not None, leaf.value
    if type(value) is list:
        value, pixels = value[0], pixels[0]
    image = channels_first(pixels, leaf.layout)
    pointer = data_ptr_and_strides(image)
    if pointer is None or image.requires_grad:
        return None
    address, strides = pointer
    channels, height, width = tuple(image.shape)[-3:]  # a slice of a Size takes far longer
    settled = fast.settled.get((image.dtype, channels))
    if settled is None or image.dtype not in DTYPE_NAMES or settled[3] not in DTYPE_NAMES:
        return None
    least = fast.least or (height, width)
    if channels * least[0] * least[1] > LARGEST:
        return None  # before anything is drawn for it
    targets: Sequence[DirectTarget] = ()
    if outline is not None and outline.container is not None:
        found = direct_targets(outline, holders, (height, width), chain.options)
        if found is None or (found and (in_batch or chain.forms.targets)):
            return None
        targets = found
    by_values = passes[0].kind == "values"
    if by_values and (targets or image.dtype not in BY_VALUES):
        return None
    seed, epoch, indices = source.key_for(1)
    plan = fast.chain.draw_one(seed, epoch, indices[0], height, width, channels, chain.exact)
    if (plan.projective or chain.exact) and targets:
        return None
    mean, std, erase_value, dtype = settled
    size = plan.size
    if not 0 < channels * size[0] * size[1] <= LARGEST:
        return None
    shape = (1, channels, *size) if in_batch else (channels, *size)
    moved = torch.empty(shape, dtype=dtype, device="cpu")
    origin, target = (address, strides[-3:]), (moved.data_ptr(), moved.stride()[-3:])
    names = DTYPE_NAMES[image.dtype], DTYPE_NAMES[dtype]
    try:
        if by_values:
            moved.copy_(image)
            modes, _, fill, _ = fast.sampling
            run_pixels(plan, target[0], names[0], height, width, modes[0], fill, 0, 1, 1)
        else:
            values = mean, std, erase_value or _ZERO
            fast.chain.augment(plan, origin, names[0], target, names[1], *values)
    except (TypeError, ValueError):
        return None
    form = chain.forms.image
    if form:
        moved = formed(moved, Leaf("image", moved, name=name, form=form))
    if outline is None:
        return moved
    if tv_kind(value) is not None and not form:
        moved = tv_wrap(moved, value)
    if outline.container is None:
        return moved
    copies: list[Any] = [h.copy() if type(h) is dict else list(h) for h in holders]
    copies[entry.holder][entry.key] = moved
    for moving in targets:
        moving.move(plan, copies[moving.entry.holder])
    return outline.joined(copies)


def _is_like(value: Any, outline: Outline) -> bool:
    """Whether a value has the rank of the first image in its place; alone, it may be a batch."""
    rank, first = getattr(value, "ndim", 0), outline.image.rank
    return rank == first or (outline.container is None and rank in (3, 4) and first in (3, 4))


def _leaf_of_one(value: Any, name: str, frames: bool, layout: str | None) -> Leaf | None:
    """Make a leaf of an image, or of a batch or a list of one; return None for anything else."""
    if type(value) is list:
        if len(value) != 1 or not may_be_image(value[0]):
            return None
    elif getattr(value, "ndim", 0) > 4:
        return None  # several of its dimensions are the batch's
    leaf = image_leaf(value, name, frames, layout)
    return None if leaf.frames or leaf.batch not in (None, 1) else leaf


def _only_pass(chain: Compose, passes: Sequence[Pass]) -> Compiled | None:
    """Return the pass of a chain in C++, if it has no other and nothing has to watch it."""
    if modes_or_transforms_active() or _is_profiled() or forward_ad._current_level >= 0:
        return None
    part = passes[0]
    if chain.reads_files or outer_options() is not None:
        return None
    if len(passes) > 1 or part.kind not in ("fused", "values") or part.steps:
        return None
    if chain.memory_format is torch.channels_last or (chain.exact and part.colors):
        return None
    fast = compiled(part, chain.slices)
    return fast if fast.is_whole else None
