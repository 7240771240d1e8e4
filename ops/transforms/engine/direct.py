"""One sample on the CPU, from its own tensors to new ones, without leaves.

NOTE on direct calls. A Dataset calls its chain with one small sample after another. To split it, to
keep its targets in float64 from pass to pass and to put all together again takes Python several
times as long as C++ takes for the pixels. But an outline says what the entries of a sample are, and
in a chain of one pass, C++ can move each tensor into another of its dtype. What values may change,
such as shapes, dtypes and canvas sizes, is checked for each sample. Results have the bits of
`run_passes`, which runs whatever is unusual, and says what is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from ..._torch.native import are_calls_watched, place_of
from ...warp.augment_direct import LARGEST
from ..sample.images import image_leaf
from ..sample.leaf import tv_kind, tv_wrap
from ..targets.direct import direct_targets
from .compiled import DTYPE_NAMES, Compiled, compiled
from .nesting import outer_options
from .run import channels_first
from .source import Source

if TYPE_CHECKING:
    from ..compose import Compose

__all__ = ["run_direct"]

_is_profiled = torch._C._autograd._profiler_enabled


def run_direct(chain: Compose, sample: Any, source: Source) -> Any:
    """Transform a sample, or return None where `run_passes` has to.

    That must then be given the same `source`, whose numbers may have been drawn.
    """
    fast = _only_pass(chain)
    if fast is None or not fast.known:
        return None
    outline = chain.outline_of(sample)
    if outline is None:
        return None
    holders = outline.holders(sample)
    entry = outline.image
    value = sample if outline.container is None else holders[entry.holder][entry.key]
    if getattr(value, "ndim", 0) != entry.rank:
        return None
    leaf = image_leaf(value, entry.name, not chain.named["per_frame"])
    if leaf.batch is not None or leaf.frames:
        return None
    image = channels_first(leaf.value, leaf.layout)
    place = place_of(image)
    if place is None or image.requires_grad:
        return None
    channels, height, width = image.shape
    known = fast.known.get((image.dtype, channels))
    if known is None:
        return None
    targets = direct_targets(outline, holders, (height, width), chain.options)
    if targets is None:
        return None
    seed, epoch, indices = source.key_for(1)
    drawn = fast.chain.draw(seed, epoch, indices[0], height, width, channels)
    if drawn is None or (drawn.projective and targets):
        return None
    mean, std, erase_value, dtype = known
    shape = (channels, *drawn.size)
    if not 0 < shape[0] * shape[1] * shape[2] <= LARGEST:
        return None
    moved = torch.empty(shape, dtype=dtype)
    target = moved.data_ptr(), moved.stride()
    names = DTYPE_NAMES[image.dtype], DTYPE_NAMES[dtype]
    try:
        fast.chain.augment(drawn, place, names[0], target, names[1], mean, std, erase_value)
    except (TypeError, ValueError):
        return None
    if tv_kind(value) is not None:
        moved = tv_wrap(moved, value)
    if outline.container is None:
        return moved
    copies: list[Any] = [h.copy() if type(h) is dict else list(h) for h in holders]
    copies[entry.holder][entry.key] = moved
    for moving in targets:
        moving.move(drawn, copies[moving.entry.holder])
    return outline.joined(copies)


def _only_pass(chain: Compose) -> Compiled | None:
    """Return the pass of a chain in C++, if it has no other and nothing has to watch it."""
    if are_calls_watched() or _is_profiled() or forward_ad._current_level >= 0:
        return None
    passes = chain.passes
    part = passes[0]
    if len(passes) > 1 or part.kind != "fused" or part.steps or outer_options() is not None:
        return None
    if chain.memory_format is torch.channels_last:
        return None
    return compiled(part, chain.slices, chain.exact)
