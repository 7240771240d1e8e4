"""The passes of a chain as C++ runs them on one image, in one call: csrc/python/passes.h."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ..._native import Chain
from .compiled import DTYPE_NAMES, compiled
from .fuse import Pass
from .pixel_kinds import BY_VALUES
from .plan import Plan

if TYPE_CHECKING:
    from ..compose import Compose

__all__ = ["LARGEST", "Stage", "reason_for_python", "stages_of"]

# Images of more elements are left to `run_passes`: threads keep what lies between two passes.
LARGEST = 1 << 22

# The pass's steps, whether it is by values, mean, std, erased value, and the dtype that it makes.
Stage = tuple[Chain, bool, list[float], list[float], list[float], str]


def reason_for_python(chain: Compose, pass_: Pass) -> str:
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
    chain: Compose, dtype: torch.dtype, channels: int
) -> tuple[list[Stage], torch.dtype] | None:
    """Return the passes of a chain for images like this, and the dtype of results.

    None: a pass has another dtype than C++ takes. No pass may need Python.
    """
    stages: list[Stage] = []
    for part in chain.passes:
        if dtype not in (BY_VALUES if part.kind == "values" else DTYPE_NAMES):
            return None
        native = compiled(part, chain.slices)
        plan = Plan.of_images(np.ones((1, 2), np.int64), channels, dtype, chain.exact)
        native.settle(part, plan)
        dtype = plan.dtype
        if dtype not in DTYPE_NAMES:
            return None
        values = plan.mean, plan.std, plan.erase_value or [0.0]
        stages.append((native.chain, part.kind == "values", *values, DTYPE_NAMES[dtype]))
    return stages, dtype
