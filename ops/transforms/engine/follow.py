"""Targets and further images follow what a pass does to the first image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..sample.leaf import Leaf
from ..targets.move import Geometry, TargetOptions, move_targets
from .fuse import Pass
from .numbers import Params, columns
from .plan import Canvas, Plan
from .run import Pixels

__all__ = ["combined", "follow", "geometry_of", "plan_for", "run_steps"]


def follow(geometry: Geometry, leaves: Sequence[Leaf], options: TargetOptions) -> None:
    """Move the targets as a pass moved the image, from its canvas to the next."""
    still = geometry.window is None and (geometry.matrix == _IDENTITY).all()
    if not still or (geometry.size_in != geometry.size_out).any():
        move_targets(leaves, geometry, options)


_IDENTITY = np.eye(3)


def geometry_of(plan: Plan) -> Geometry:
    """Return how a plan moves targets."""
    window, batch = plan.window, plan.batch
    size_in, size_out = plan.source.size(batch), plan.canvas.size(batch)
    cut = None if window is None else columns(window, batch)
    return Geometry(plan.matrices, size_in, size_out, cut, plan.tie_shifts)


def run_steps(part: Pass, leaves: Sequence[Leaf], sizes: np.ndarray) -> None:
    """Run a pass's transforms of targets alone; the images have these sizes now, ``[B, 2]``."""
    for transform in part.steps:
        transform.run(leaves, sizes)


def plan_for(pixels: Pixels, plan: Plan, part: Pass, steps: Sequence[Params]) -> Plan:
    """Return a pass's plan for another image of the sample, whose dtype may differ."""
    if (pixels.dtype, pixels.channels) == (plan.source_dtype, plan.source.channels):
        return plan
    source = Canvas(plan.source.height, plan.source.width, pixels.channels)
    again = Plan(source, plan.batch, pixels.dtype, plan.exact)
    for transform, step in zip(part.transforms, steps[part.first :], strict=True):
        transform.extend(again, step)
    return again


def combined(first: np.ndarray | None, second: np.ndarray) -> np.ndarray:
    """Return one matrix [B, 3, 3] for two; None stands for the identity."""
    if first is None:
        return second
    # Not matmul: a library's order of summation may depend on the number of samples.
    return (second[..., None] * first[:, None]).sum(2)  # type: ignore[no-any-return]
