"""Runs a chain whose result has equal channels, of which some are wanted, on a batch of the CPU."""

from typing import TYPE_CHECKING

import torch

from ..sample.leaf import Leaf
from .compiled import DTYPE_NAMES
from .native_passes import is_watched
from .nesting import outer_options
from .options import DEFAULTS
from .run import Pixels
from .run_batch import pointers_of

if TYPE_CHECKING:
    from ..compose import Compose


def run_equal_channels(chain: "Compose", leaf: Leaf) -> bool:
    """Run a chain that holds one such transform, and draws nothing, on an image leaf.

    Each image is read once, and only the channels that are wanted are written.

    Returns
    -------
    bool
        False: nothing has happened, and torch's operators have to run.
    """
    pixels, outer = Pixels(leaf), outer_options() or DEFAULTS
    if outer["exact"] or pixels.listed or not pixels.on_cpu or is_watched():
        return False
    native = chain.native_passes.find(chain, chain.passes, pixels.dtype, pixels.channels)
    images = pixels.tensors(leaf)
    sources = None if native is None else pointers_of(images)
    if native is None or sources is None:
        return False
    height, width = images.shape[-2:]
    plans = native.native.draw(0, 0, 0, height, width, pixels.channels, False)
    shape = len(images), native.channels, height, width
    made = torch.empty(shape, dtype=native.dtype, device="cpu")
    targets = pointers_of(made)
    assert targets is not None
    name = DTYPE_NAMES[pixels.dtype]
    for source, target in zip(sources, targets, strict=True):
        native.native.run(plans, source, name, target)
    pixels.store(leaf, made)
    return True
