"""How a chain moves pixels, from its parameters or its draws alone."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from .draws import Draws
from .follow import combined
from .fuse import Pass
from .nesting import Container
from .numbers import Params
from .plan import Plan


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
        if part.kind in ("fused", "values"):
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
