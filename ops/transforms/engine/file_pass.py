"""The pass of a chain that reads files, as C++ runs it on one file: csrc/python/files.cpp."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ..._native import FilePass
from ...jpeg.file import decoder
from ...jpeg.library import TurboDecoder
from .compiled import DTYPE_NAMES, compiled
from .decode import Decoding, reach_of
from .fuse import Pass
from .plan import Plan

if TYPE_CHECKING:
    from ..compose import Compose

__all__ = ["file_pass", "slow_passes"]


def slow_passes(chain: Compose) -> list[tuple[Pass, str]]:
    """Return the passes of a chain that hold the interpreter's lock, and why they do."""
    found = []
    for place, part in enumerate(chain.passes):
        reason = _reason(chain, part, place)
        if reason:
            found.append((part, reason))
    return found


def _reason(chain: Compose, part: Pass, place: int) -> str:
    if part.kind == "foreign":
        return "it is not of visops"
    if part.kind != "fused":
        return "it looks at pixels by their values"
    if not chain.reads_files:
        return "the chain does not begin with DecodeJpeg"
    if place > 0:
        return "only the first pass runs without it"
    if len(chain.passes) > 1:
        return "other passes follow"
    if not compiled(part, chain.slices).is_whole:
        return "a transform is written in Python"
    if chain.exact and part.colors:
        return "exact=True, and colours change"
    if not isinstance(decoder(), TurboDecoder):
        return "visops was built without libjpeg-turbo"
    return ""


def file_pass(chain: Compose) -> tuple[FilePass, torch.dtype] | None:
    """Return what runs a chain on a file, and the dtype of results; None: Python has to.

    The passes of the chain must be formed.
    """
    if slow_passes(chain):
        return None
    (part,) = chain.passes
    transform = part.transforms[0]
    assert isinstance(transform, Decoding)
    options = transform.options
    native = compiled(part, chain.slices)
    plan = Plan.of_images(np.ones((1, 2), np.int64), options.channels, torch.uint8, chain.exact)
    native.settle(part, plan)
    if plan.dtype not in DTYPE_NAMES:
        return None
    around, beyond, anywhere = reach_of(part)
    turbo = decoder()
    assert isinstance(turbo, TurboDecoder)
    made = FilePass(
        native.chain,
        *turbo.addresses(),
        options.channels,
        options.max_pixels,
        options.exif,
        transform.reduced and not chain.exact and bool(part.antialias),
        chain.exact,
        around,
        beyond,
        anywhere,
        plan.mean,
        plan.std,
        plan.erase_value or [0.0],
        DTYPE_NAMES[plan.dtype],
    )
    return made, plan.dtype
