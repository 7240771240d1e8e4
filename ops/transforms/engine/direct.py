"""One sample on the CPU, from its own tensors to new ones, without leaves.

NOTE on direct calls. A Dataset calls its chain with one small sample after another. To split it, to
keep its targets in float64 from pass to pass and to put all together again takes Python several
times as long as C++ takes for the pixels. But an outline says what the entries of a sample are, C++
runs all passes on the image in one call, and moves each target into another of its dtype. What
values may change, such as shapes, dtypes and canvas sizes, is checked for each sample. Results have
the bits of `run_passes`, which runs whatever is unusual, and says what is wrong with it.

A batch or a list of one image goes the same way, unless targets come with it.
"""

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..._torch.native import data_ptr_and_strides
from ..sample.forms import formed
from ..sample.images import image_leaf, may_be_image
from ..sample.leaf import Leaf, Reading, tv_kind, tv_wrap
from ..sample.outlines import Outline
from ..targets.direct import DirectTarget, direct_targets
from .compiled import DTYPE_NAMES
from .direct_files import run_file
from .fuse import Pass
from .native_passes import LARGEST, is_watched
from .nesting import outer_options
from .run import channels_first
from .source import Source

if TYPE_CHECKING:
    from ..compose import Compose

_is_projective = operator.attrgetter("projective")


def run_direct(chain: "Compose", passes: Sequence[Pass], sample: Any, source: Source) -> Any:
    """Transform a sample by a chain's passes, or return None where `run_passes` has to.

    That must then be given the same `source`, whose numbers may have been drawn.
    """
    if not _is_plain(chain):
        return None
    if chain.reads_files:
        return run_file(chain, sample, source)
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
    leaf = _leaf_of_one(value, name, chain.reading)
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
    found = chain.native_passes.find(chain, passes, image.dtype, channels)
    if found is None or not found.may_be_small(channels, height, width):
        return None  # before anything is drawn for it
    targets: Sequence[DirectTarget] = ()
    if outline is not None and outline.container is not None:
        moving = direct_targets(outline, holders, (height, width), chain.options)
        if moving is None or (moving and (in_batch or chain.exact or chain.forms.targets)):
            return None
        if chain.repeats_rims and any(own.repeats_outside for own in moving):
            return None
        targets = moving
    seed, epoch, indices = source.key_for(1)
    plans = found.native.draw(seed, epoch, indices[0], height, width, channels, chain.exact)
    for plan in plans:
        rows, columns = size = plan.size or (0, 0)
        if not 0 < channels * rows * columns <= LARGEST:
            return None
    movers = []
    if targets:
        movers = [plan for plan in plans if not plan.is_identity] or plans[:1]
        if any(map(_is_projective, movers)):
            return None
    made = found.channels
    shape = (1, made, *size) if in_batch else (made, *size)
    moved = torch.empty(shape, dtype=found.dtype, device="cpu")
    target = moved.data_ptr(), moved.stride()[-3:]
    found.native.run(plans, (address, strides[-3:]), DTYPE_NAMES[image.dtype], target)
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
    for own in targets:
        own.move(movers, copies[own.entry.holder])
    return outline.joined(copies)


def _is_like(value: Any, outline: Outline) -> bool:
    """Whether a value has the rank of the first image in its place; alone, it may be a batch."""
    rank, first = getattr(value, "ndim", 0), outline.image.rank
    return rank == first or (outline.container is None and rank in (3, 4) and first in (3, 4))


def _leaf_of_one(value: Any, name: str, reading: Reading) -> Leaf | None:
    """Make a leaf of an image, or of a batch or a list of one; return None for anything else."""
    if type(value) is list:
        if len(value) != 1 or not may_be_image(value[0]):
            return None
    elif (rank := getattr(value, "ndim", 0)) > 3 and (rank > 4 or value.shape[0] != 1):
        return None
    leaf = image_leaf(value, name, reading)
    return None if leaf.frames or leaf.batch not in (None, 1) else leaf


def _is_plain(chain: "Compose") -> bool:
    """Whether nothing has to watch a call, and the chain keeps to what C++ does for one image."""
    if not chain.targets_follow or is_watched() or outer_options() is not None:
        return False
    return chain.memory_format is not torch.channels_last
