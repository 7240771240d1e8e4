"""Runs the passes of a chain on the leaves of a sample or a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ..sample.images import image_sizes
from ..sample.leaf import TARGETS, Leaf
from ..targets.move import TargetOptions, check_options, finish_targets
from .canvases import refuse_sizes, stack_images
from .compiled import compiled
from .decode import decode_for
from .empty import run_empty
from .follow import follow, geometry_of, plan_for, run_steps
from .geometry import container_geometry
from .nesting import Container, within
from .numbers import Params
from .plan import Canvas, Plan
from .run import Pixels, run_plan
from .source import Draws, Source
from .unfused import erase_with_noise, run_foreign

if TYPE_CHECKING:
    from ..compose import Compose

__all__ = ["run_passes"]


def run_passes(
    chain: Compose,
    leaves: list[Leaf],
    source: Source,
    *,
    dry: bool = False,
    record: bool = False,
    part_of: TargetOptions | None = None,
) -> tuple[list[Params], np.ndarray]:
    """Transform the leaves' values.

    Parameters
    ----------
    chain : Compose
    leaves : list of Leaf
        Changed in place.
    source : Source
        Where this call's numbers come from.
    dry : bool
        Only draw.
    record : bool
        Whether the parameters are wanted. Otherwise those of passes in C++ are missing.
    part_of : TargetOptions, optional
        Those of the chain around this one, which gives targets their final form.

    Returns
    -------
    list of dict
        The parameters of each transform.
    ndarray, int64 ``[B, 2]``
        Heights and widths of the images before the first one.
    """
    passes = chain.passes  # formed of the transforms as they are now
    options = part_of or chain.options
    sizes = image_sizes(leaves)
    batch = sizes.shape[0]
    if batch == 0:
        return run_empty(
            lambda own, numbers: run_passes(chain, own, numbers, dry=dry, record=record),
            leaves,
            source,
        ), sizes
    images = [leaf for leaf in leaves if leaf.kind == "image"]
    has_targets = len(leaves) > len(images) and any(leaf.kind in TARGETS for leaf in leaves)
    if has_targets:
        check_options(leaves, options)
    channels_last = chain.memory_format is torch.channels_last
    key = source.key(sizes)
    draw = Draws(chain.transforms, chain.slices, source, key, chain.draws)
    pixels, now = Pixels(images[0]), sizes  # `now`: heights and widths before a pass
    dtype, may_compile = pixels.dtype, not (dry or record or key is None or len(images) > 1)
    for part in passes:
        if part.kind != "fused":
            step = draw(Canvas.of(now, pixels.channels))
            if dry:
                if isinstance(part.transforms[0], Container):
                    _, now, _ = container_geometry(part.transforms[0], step, now)
                continue
            if part.kind == "noise":
                for leaf in images:
                    erase_with_noise(leaf, step)
            else:
                with within(chain.named):
                    run_foreign(part.transforms[0], leaves, step, options)
                pixels, now = Pixels(images[0]), image_sizes(leaves)
                dtype = pixels.dtype
            continue
        fast = compiled(part, chain.slices, chain.exact) if may_compile else None
        if fast is not None and key is not None:
            own = pixels if part is passes[0] else Pixels(images[0])
            outcome = fast.run(images[0], own, key, now, channels_last)
            if outcome is not None:
                draw.skip(len(part.transforms))
                after = outcome.sizes(batch)
                if after is outcome.size and part is passes[-1]:
                    refuse_sizes(after)  # they differ
                if has_targets:
                    follow(outcome.geometry(now, after), leaves, options)
                    run_steps(part, leaves, after)
                dtype, now = outcome.dtype, after
                continue
        plan = Plan(Canvas.of(now, pixels.channels), batch, dtype, chain.exact)
        for transform in part.transforms:
            transform.extend(plan, draw(plan.canvas))
        if fast is not None:
            fast.note(plan)
        dtype, now = plan.dtype, plan.canvas.size(batch)
        if dry:
            continue
        if part is passes[-1] and plan.canvas.uniform() is None:
            refuse_sizes(now)
        for leaf in images:
            own = Pixels(leaf)
            plan = plan_for(own, plan, part, draw.steps)
            run_plan(decode_for(plan, part, leaf), part, leaf, own, chain.memory_format)
        if has_targets:
            # Pass by pass, as the image: a canvas between passes also cuts off targets.
            follow(geometry_of(plan), leaves, options)
            run_steps(part, leaves, now)
    if not dry:
        if passes[-1].kind != "fused":
            stack_images(images, now)
        if has_targets and part_of is None:
            finish_targets(leaves, now, chain.options)
    return draw.steps, sizes
