"""Runs the passes of a chain on the leaves of a sample or a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..sample.images import image_sizes
from ..sample.leaf import Leaf
from ..targets.move import TargetOptions, check_options, finish_targets, moves
from .canvases import reject_sizes, stack_images
from .compiled import compiled
from .decode import decode_for
from .draws import Draws
from .empty import run_empty
from .follow import follow, plan_for, run_steps
from .geometry import container_geometry
from .nesting import Container, within
from .numbers import Params
from .pixels import run_pixels
from .plan import Plan
from .run import Pixels, run_plan
from .source import Source
from .unfused import run_foreign

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
    has_targets = len(leaves) > len(images) and moves(leaves, options)
    if has_targets:
        check_options(leaves, options)
    key = source.key(sizes)
    several = len(images) > 1
    draw = Draws(chain.slices, chain.draws, source, key, record=record or dry or several)
    pixels, now = Pixels(images[0]), sizes  # `now`: heights and widths before a pass
    dtype = pixels.dtype
    for part in passes:
        if part.kind not in ("fused", "values"):
            step = draw.alone(Plan.of_images(now, pixels.channels), part.transforms[0])
            if dry:
                if isinstance(part.transforms[0], Container):
                    _, now, _ = container_geometry(part.transforms[0], step, now)
                continue
            if part.kind == "alone":
                part.transforms[0].run_leaves(leaves, step, options)
            else:
                with within(chain.named):
                    run_foreign(part.transforms[0], leaves, step, options)
            pixels, now = Pixels(images[0]), image_sizes(leaves)
            dtype = pixels.dtype
            continue
        plan = Plan.of_images(now, pixels.channels, dtype, chain.exact)
        draw.fill(plan, part)
        dtype, now = plan.dtype, plan.sizes
        if dry:
            continue
        if part is passes[-1] and plan.size is None:
            reject_sizes(now)
        native = compiled(part, chain.slices)
        for leaf in images:
            own = pixels if part is passes[0] and not several else Pixels(leaf)
            other = plan_for(own, plan, part, chain.slices, draw.steps) if several else plan
            if part.kind == "values":
                run_pixels(other, native, leaf, own, chain.memory_format)
            else:
                other = decode_for(other, part, leaf)
                run_plan(other, native, leaf, own, chain.memory_format)
        if has_targets:
            # Pass by pass, as the image: a canvas between passes also cuts off targets.
            follow(plan, leaves, options)
            run_steps(part, leaves, now)
    if not dry:
        if passes[-1].kind != "fused":
            stack_images(images, now)
        if has_targets and part_of is None:
            finish_targets(leaves, now, chain.options)
    return draw.steps, sizes
