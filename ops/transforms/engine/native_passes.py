"""The passes of a chain as C++ runs them on one image, in one call: csrc/python/passes.h."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.autograd import forward_ad

from ..._native import Chain, Passes
from ..._torch.native import modes_or_transforms_active
from .compiled import DTYPE_NAMES, compiled
from .fuse import Pass
from .nesting import Container
from .pixel_kinds import BY_VALUES
from .plan import Plan

if TYPE_CHECKING:
    from ..compose import Compose

# Images of more elements are left to `run_passes`: threads keep what lies between two passes.
LARGEST = 1 << 22

# The pass's steps, whether it is by values, mean, std, erased value; dtype and channels of results.
Stage = tuple[Chain, bool, list[float], list[float], list[float], str, int]


def reason_for_python(chain: "Compose", pass_: Pass) -> str:
    """Return why a pass needs Python; empty if it doesn't."""
    if pass_.kind == "foreign":
        return "it is not of visops"
    if pass_.kind not in ("fused", "values"):
        return "it runs by torch's operators"
    if not compiled(pass_, chain.slices).is_whole:
        return "a transform is written in Python"
    if chain.exact and pass_.colors:
        return "exact=True, and colours change"
    return ""


def stages_of(
    chain: "Compose", passes: Sequence[Pass], dtype: torch.dtype, channels: int
) -> tuple[list[Stage], torch.dtype] | None:
    """Return passes of a chain for images like this, and the dtype of results.

    None: a pass has another dtype or more channels than C++ takes. No pass may need Python.
    """
    stages: list[Stage] = []
    for part in passes:
        owner, part, made = _inner(chain, part) or (chain, part, channels)
        if made > channels:
            return None
        if dtype not in (BY_VALUES if part.kind == "values" else DTYPE_NAMES):
            return None
        native = compiled(part, owner.slices)
        plan = Plan.of_images(np.ones((1, 2), np.int64), channels, dtype, chain.exact)
        native.settle(part, plan)
        dtype = plan.dtype
        if dtype not in DTYPE_NAMES:
            return None
        values = plan.mean, plan.std, plan.erase_value or [0.0]
        channels = made
        stages.append((native.chain, part.kind == "values", *values, DTYPE_NAMES[dtype], channels))
    return stages, dtype


_is_profiled = torch._C._autograd._profiler_enabled


def is_watched() -> bool:
    """Return whether something has to see the operators that a call runs."""
    return bool(modes_or_transforms_active() or _is_profiled() or forward_ad._current_level >= 0)


@dataclass(slots=True)
class NativePasses:
    """Passes of a chain in C++, for images of one dtype and number of channels."""

    native: Passes
    dtype: torch.dtype  # of results
    channels: int  # likewise
    least: list[tuple[int, int] | None]  # least sizes that passes make; None: the size they take

    def may_be_small(self, channels: int, height: int, width: int) -> bool:
        """Whether no pass has to make an image of more than `LARGEST` elements."""
        for least in self.least:
            height, width = least or (height, width)
            if channels * height * width > LARGEST:
                return False
        return True


class AllNativePasses:
    """The passes of a chain in C++, as far as they were asked for.

    Attributes
    ----------
    files : list
        What runs the chain on a file, if it has been looked for: direct_files.py.
    """

    def __init__(self) -> None:
        self.files: list[Any] = []
        self.known: dict[tuple[int, int, torch.dtype, int], NativePasses | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return AllNativePasses, ()  # copies and other processes find their own

    def find(
        self, chain: "Compose", passes: Sequence[Pass], dtype: torch.dtype, channels: int
    ) -> NativePasses | None:
        """Return those for such images; None: one needs Python, or refuses them."""
        key = passes[0].first, len(passes), dtype, channels
        if key not in self.known:
            self.known[key] = _found(chain, passes, dtype, channels)
        return self.known[key]


def _found(
    chain: "Compose", passes: Sequence[Pass], dtype: torch.dtype, channels: int
) -> NativePasses | None:
    whole = [part for part in passes if _inner(chain, part) is None]
    if dtype not in DTYPE_NAMES or any(reason_for_python(chain, part) for part in whole):
        return None
    found = stages_of(chain, passes, dtype, channels)
    if found is None:
        return None
    least = [compiled(part, chain.slices).least if part in whole else None for part in passes]
    stages, dtype = found
    return NativePasses(Passes(stages), dtype, stages[-1][-1], least)


def _inner(chain: "Compose", pass_: Pass) -> tuple[Any, Pass, int] | None:
    """Return what `first_channels` says of a pass: a chain, its pass, and the channels kept."""
    transform = pass_.transforms[0]
    if chain.exact or not isinstance(transform, Container):
        return None
    found = transform.first_channels()
    return None if found is None else (found[0], found[0].passes[0], found[1])
