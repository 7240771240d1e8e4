"""Targets and further images follow what a pass does to the first image."""

from collections.abc import Sequence

import numpy as np

from ..sample.leaf import Leaf
from ..targets.move import move_targets
from ..targets.options import Geometry, TargetOptions
from .compiled import compiled
from .fuse import Pass
from .numbers import Params
from .plan import Plan
from .run import Pixels


def follow(part: Pass, plan: Plan, leaves: Sequence[Leaf], options: TargetOptions) -> None:
    """Move the targets as a pass moved the image, from its canvas to the next."""
    if plan.window is not None or not plan.is_identity:
        sizes = plan.source_sizes, plan.sizes
        geometry = Geometry(plan.matrices, *sizes, plan.window, plan.ties, part.shown_padding)
        move_targets(leaves, geometry, options)


def run_steps(pass_: Pass, leaves: Sequence[Leaf], sizes: np.ndarray) -> None:
    """Run a pass's transforms of targets alone; the images have these sizes now, ``[B, 2]``."""
    for transform in pass_.steps:
        transform.run(leaves, sizes)


def plans_for(
    pixels: Pixels,
    plans: Sequence[Plan],
    passes: Sequence[Pass],
    slices: Sequence[slice],
    steps: Sequence[Params],
) -> list[Plan]:
    """Return the plans of passes for another image of the sample, whose dtype may differ."""
    dtype, found = pixels.dtype, []
    for plan, part in zip(plans, passes, strict=True):
        if (dtype, pixels.channels) != (plan.source_dtype, plan.channels):
            own = Plan.of_images(plan.source_sizes, pixels.channels, dtype, plan.exact)
            native = compiled(part, slices)
            own_steps = steps[part.first : part.first + len(part.transforms)]
            for transform, step, params in zip(
                part.transforms, native.steps, own_steps, strict=True
            ):
                if step is None:
                    transform.extend(own, params)
                else:
                    transform.settle(own)
                    own.add(step, step.pack(params, own.batch))
            plan = own
        found.append(plan)
        dtype = plan.dtype
    return found


def combined(first: np.ndarray | None, second: np.ndarray) -> np.ndarray:
    """Return one matrix [B, 3, 3] for two; None stands for the identity."""
    if first is None:
        return second
    # Not matmul: a library's order of summation may depend on the number of samples.
    return (second[..., None] * first[:, None]).sum(2)  # type: ignore[no-any-return]
