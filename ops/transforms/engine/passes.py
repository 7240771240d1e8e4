"""Runs the passes of a chain on the leaves of a sample or a batch."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..sample.images import image_sizes
from ..sample.leaf import Leaf
from ..targets.finish import finish_targets
from ..targets.mirrored import followers
from ..targets.options import TargetOptions, check_options
from .canvases import reject_sizes, stack_images
from .draws import Draws
from .empty import run_empty
from .execute import execute
from .follow import follow, plans_for, run_steps
from .fuse import Pass
from .geometry import container_geometry
from .nesting import Container, within
from .numbers import Params
from .options import SWAPPED_OUTSIDE
from .plan import Plan
from .run import Pixels
from .source import Source
from .unfused import run_foreign

if TYPE_CHECKING:
    from ..compose import Compose


def run_passes(
    chain: "Compose",
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
    has_targets = len(leaves) > len(images) and bool(followers(leaves, options))
    if has_targets:
        check_options(leaves, options)
    key = source.key(sizes)
    several = len(images) > 1
    draw = Draws(chain.slices, chain.draws, source, key, record=record or dry or several)
    pixels, now = Pixels(images[0]), sizes  # `now`: heights and widths before a pass
    dtype = pixels.dtype
    done = 0
    while done < len(passes):
        part = passes[done]
        if part.kind not in ("fused", "values"):
            done += 1
            step = draw.alone(Plan.of_images(now, pixels.channels), part.transforms[0])
            if dry:
                if isinstance(part.transforms[0], Container):
                    with within(chain.named):
                        _, now, _ = container_geometry(part.transforms[0], step, now)
                continue
            if part.kind == "alone":
                part.transforms[0].run_leaves(leaves, step, options)
            else:
                with within(_options_within(chain, leaves, part.transforms[0])):
                    run_foreign(part.transforms[0], leaves, step, options)
            pixels, now = Pixels(images[0]), image_sizes(leaves)
            dtype = pixels.dtype
            continue
        group, plans = _planned(passes[done:]), []
        done += len(group)
        for part in group:
            plan = Plan.of_images(now, pixels.channels, dtype, chain.exact)
            draw.fill(plan, part)
            dtype, now = plan.dtype, plan.sizes
            plans.append(plan)
        if dry:
            continue
        if done == len(passes) and plans[-1].size is None:
            reject_sizes(now)
        for number, leaf in enumerate(images):
            own = plans
            if several:
                own = plans_for(Pixels(leaf), plans, group, chain.slices, draw.steps)
                for plan in own:
                    plan.image = number
            execute(chain, group, own, leaf)
        if has_targets:
            # Pass by pass, as the image: a canvas between passes also cuts off targets.
            for part, plan in zip(group, plans, strict=True):
                follow(part, plan, leaves, options)
                run_steps(part, leaves, plan.sizes)
    if not dry:
        if passes[-1].kind != "fused":
            stack_images(images, now, chain.memory_format)
        if has_targets and part_of is None:
            finish_targets(leaves, now, chain.options)
    return draw.steps, sizes


def _options_within(chain: "Compose", leaves: Sequence[Leaf], transform: Any) -> Mapping[str, Any]:
    """Return the options of chains within a transform, another package's or a container.

    Within another package's, they get no dicts, so nothing tells them that masks belong to boxes,
    and are 0 outside. Nor do they get labels, so what swaps where the image is mirrored does so
    after the whole transform.
    """
    masks = [leaf for leaf in leaves if leaf.kind == "mask"]
    of_boxes = len(masks) > 0 and all(leaf.per_box for leaf in masks)
    own = {**chain.named, "mask_fill": 0} if of_boxes else chain.named
    swaps = chain.options.swaps and not isinstance(transform, Container)
    return {**own, SWAPPED_OUTSIDE: True} if swaps else own


def _planned(passes: Sequence[Pass]) -> list[Pass]:
    """Return the first passes that have a plan: no image is needed between them."""
    return list(itertools.takewhile(lambda part: part.kind in ("fused", "values"), passes))
