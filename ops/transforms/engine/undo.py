"""Undoes the geometry of a chain, for images and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..sample.images import image_sizes
from ..sample.leaf import TARGETS, Leaf
from ..targets.move import Geometry, TargetOptions, check_options, finish_targets, move_targets
from .canvases import canvas_of
from .follow import combined
from .fuse import Pass
from .numbers import as_numbers
from .plan import Plan
from .run import Pixels, run_plan
from .source import Parameters

__all__ = ["undo"]


def undo(
    passes: Sequence[Pass],
    leaves: list[Leaf],
    params: Parameters,
    options: TargetOptions,
    memory_format: torch.memory_format,
) -> None:
    """Bring leaves back to the canvas they had before the passes ran with these parameters."""
    sizes = image_sizes(leaves)
    batch = params.size.shape[0]
    canvas, matrix, mode = canvas_of(params.size), None, "nearest"
    for part in passes:
        if part.kind != "fused":
            continue
        plan = Plan(canvas, batch, torch.float32)
        for transform, step in zip(part.transforms, params.steps[part.first :], strict=False):
            transform.extend(plan, as_numbers(step))
        canvas, matrix = plan.canvas, combined(matrix, plan.matrices)
        mode = part.interpolation or mode
    before = canvas.size(batch)
    if sizes.shape != before.shape or (sizes != before).any():
        raise ValueError(
            f"visops.transforms.Compose.inverse: the images have {sizes.tolist()} rows and "
            f"columns, must have {before.tolist()}, as these parameters produce"
        )
    check_options(leaves, options)
    back = np.linalg.inv(np.tile(np.eye(3), (batch, 1, 1)) if matrix is None else matrix)
    affine = bool((back[:, 2] == (0.0, 0.0, 1.0)).all())
    for leaf in leaves:
        if leaf.kind == "image":
            pixels = Pixels(leaf)
            plan = Plan(canvas_of(sizes, pixels.channels), batch, pixels.dtype)
            elements = back.reshape(batch, 9).T
            plan.matrix = list(elements[: 6 if affine else 9])
            plan.canvas = canvas_of(params.size, pixels.channels)
            run_plan(plan, Pass(interpolation=mode), leaf, pixels, memory_format)
    if any(leaf.kind in TARGETS for leaf in leaves):
        kept = replace(options, boxes="keep")
        move_targets(leaves, Geometry(back, sizes, params.size, None), kept)
        finish_targets(leaves, params.size, kept)
