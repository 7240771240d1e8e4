"""The passes of a chain that reads files, as C++ runs them on one file: csrc/python/files.cpp."""

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
from .pixel_kinds import BY_VALUES
from .plan import Plan

if TYPE_CHECKING:
    from ..compose import Compose

__all__ = ["file_pass", "slow_passes"]


def slow_passes(chain: Compose) -> list[tuple[Pass, str]]:
    """Return the passes of a chain that hold the interpreter's lock, and why they do.

    One that does makes all of them.
    """
    reasons = [_reason(chain, part) for part in chain.passes]
    if not any(reasons):
        return []
    other = "another pass does"
    return [(part, own or other) for part, own in zip(chain.passes, reasons, strict=True)]


def _reason(chain: Compose, pass_: Pass) -> str:
    if pass_.kind == "foreign":
        return "it is not of visops"
    if pass_.kind not in ("fused", "values"):
        return "it runs by torch's operators"
    if not chain.reads_files:
        return "the chain does not begin with DecodeJpeg"
    if pass_.kind == "values" and pass_ is chain.passes[-1]:
        return "the last pass must make floats or change geometry"
    if not compiled(pass_, chain.slices).is_whole:
        return "a transform is written in Python"
    if chain.exact and pass_.colors:
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
    first = chain.passes[0]
    transform = first.transforms[0]
    assert isinstance(transform, Decoding)
    options = transform.options
    dtype, stages = torch.uint8, []
    for part in chain.passes:
        if part.kind == "values" and dtype not in BY_VALUES:
            return None
        native = compiled(part, chain.slices)
        plan = Plan.of_images(np.ones((1, 2), np.int64), options.channels, dtype, chain.exact)
        native.settle(part, plan)
        dtype = plan.dtype
        if dtype not in DTYPE_NAMES:
            return None
        values = plan.mean, plan.std, plan.erase_value or [0.0]
        stages.append((native.chain, part.kind == "values", *values, DTYPE_NAMES[dtype]))
    around, beyond, anywhere = reach_of(first)
    turbo = decoder()
    assert isinstance(turbo, TurboDecoder)
    made = FilePass(
        stages,
        *turbo.addresses(),
        options.channels,
        options.max_pixels,
        options.exif,
        transform.reduced and not chain.exact and bool(first.antialias),
        chain.exact,
        around,
        beyond,
        anywhere,
    )
    return made, dtype
