"""How a chain moves pixels, from its parameters or its draws alone."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from ..sample.leaf import Leaf
from ..targets.move import move_targets
from ..targets.options import Geometry, TargetOptions
from .compile import compiled
from .draws import Draws
from .fuse import Pass
from .nesting import Container
from .operators import Pixels
from .pixel_operators import dilate_masks
from .plan import Params, Plan


def chain_geometry(
    passes: Iterable[Pass], draw: Draws, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the matrices of a chain's passes in turn, without a pixel.

    Parameters
    ----------
    passes : iterable of Pass
    draw : Draws
        Gives the parameters of each transform, recorded or new, and adds only their geometry.
    sizes : ndarray, int64 ``[B, 2]``
        Heights and widths of the images before the first transform.

    Returns
    -------
    matrix : ndarray, float64 ``[B, 3, 3]``
    sizes : ndarray, int64 ``[B, 2]``
        Heights and widths afterwards.
    interpolation : str
        That of the last pass which has one, or the first of several; else "nearest". Bicubic for
        Lanczos.
    """
    batch, mode = sizes.shape[0], "nearest"
    matrix: np.ndarray | None = None
    for part in passes:
        plan = Plan.of_images(sizes, dtype=torch.float32)
        if part.has_plan:
            draw.fill(plan, part)
            moved, sizes = plan.matrices, plan.sizes
            mode = _plain(part.interpolation or mode)
        else:
            step = draw.alone(plan, part.transforms[0])
            if not isinstance(part.transforms[0], Container):
                continue
            moved, sizes, own = container_geometry(part.transforms[0], step, sizes)
            mode = own if own != "nearest" else mode
        matrix = combined(matrix, moved)
    if matrix is None:
        matrix = np.tile(np.eye(3), (batch, 1, 1))
    return matrix, sizes, mode


def _plain(mode: str | tuple[str, ...]) -> str:
    """Return one interpolation for all samples, that takes no filter."""
    first = mode[0] if isinstance(mode, tuple) else mode
    return "bicubic" if first == "lanczos" else first


def container_geometry(
    container: Container, step: Params, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return how a container moves each sample's pixels: as `chain_geometry` does."""
    numbers = step["seed"].tolist()
    each = [container.geometry(n, sizes[i : i + 1]) for i, n in enumerate(numbers)]
    modes = [mode for _, _, mode in each if mode != "nearest"]
    matrices: Sequence[Any] = [matrix for matrix, _, _ in each]
    after: Sequence[Any] = [size for _, size, _ in each]
    return np.concatenate(matrices), np.concatenate(after), modes[0] if modes else "nearest"


def follow_all(
    passes: Sequence[Pass], plans: Sequence[Plan], leaves: Sequence[Leaf], options: TargetOptions
) -> None:
    """Move the targets as passes moved the image, and run their transforms of targets alone.

    Pass by pass, as the image: a canvas between passes also cuts off targets.
    """
    for part, plan in zip(passes, plans, strict=True):
        if plan.window is not None or not plan.is_identity:
            sizes = plan.source_sizes, plan.sizes
            geometry = Geometry(plan.matrices, *sizes, plan.window, plan.ties, part.shown_padding)
            move_targets(leaves, geometry, options)
        if part.changes_masks:
            dilate_masks(leaves, plan)
        for transform in part.steps:
            transform.run(leaves, plan.sizes)


def plans_for(
    pixels: Pixels,
    plans: Sequence[Plan],
    passes: Sequence[Pass],
    slices: Sequence[slice],
    steps: Sequence[Params],
) -> list[Plan]:
    """Return the plans of passes for another image of the sample, whose dtype may differ."""
    dtype, channels, found = pixels.dtype, pixels.channels, []
    for plan, part in zip(plans, passes, strict=True):
        if (dtype, channels) != (plan.source_dtype, plan.channels):
            own = Plan.of_images(plan.source_sizes, channels, dtype, plan.exact)
            native = compiled(part, slices)
            own_steps = steps[part.first : part.first + len(part.transforms)]
            for transform, step, params in zip(
                part.transforms, native.steps, own_steps, strict=True
            ):
                if step is None:
                    transform.extend(own, params)
                else:
                    transform.set_constants(own)
                    own.add(step, step.pack(params, own.batch))
            plan = own
        found.append(plan)
        dtype, channels = plan.dtype, part.channels or channels
    return found


def combined(first: np.ndarray | None, second: np.ndarray) -> np.ndarray:
    """Return one matrix [B, 3, 3] for two; None stands for the identity."""
    if first is None:
        return second
    # Not matmul: a library's order of summation may depend on the number of samples.
    return (second[..., None] * first[:, None]).sum(2)  # type: ignore[no-any-return]
