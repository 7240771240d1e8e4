"""Distances from the pixels of masks to their outside.

The schema is in csrc/library.cpp, the checks of arguments in csrc/torch/masks/distance.cpp.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from .._torch.call import call_operator
from .._torch.numbers import number_or_list
from .._torch.options import flag
from .operators import distance_transform as _distance_transform

Array = TypeVar("Array", Tensor, np.ndarray)

_OP = "distance_transform"


@overload
def distance_transform(
    masks: Array,
    *,
    metric: Literal["euclidean", "taxicab", "chessboard"] = "euclidean",
    spacing: float | Sequence[float] | None = None,
    dims: int = 2,
    return_indices: Literal[False] = False,
    device: torch.device | str | None = None,
) -> Array: ...


@overload
def distance_transform(
    masks: Array,
    *,
    metric: Literal["euclidean", "taxicab", "chessboard"] = "euclidean",
    spacing: float | Sequence[float] | None = None,
    dims: int = 2,
    return_indices: Literal[True],
    device: torch.device | str | None = None,
) -> tuple[Array, Array]: ...


def distance_transform(
    masks: Any,
    *,
    metric: Literal["euclidean", "taxicab", "chessboard"] = "euclidean",
    spacing: float | Sequence[float] | None = None,
    dims: int = 2,
    return_indices: bool = False,
    device: torch.device | str | None = None,
) -> Any:
    """Measure the distance of every pixel of a mask to the nearest pixel outside.

    Exact, for a batch of masks or volumes at once. Results are the same on every instruction set,
    at every thread count, and on CPU and CUDA.

    Parameters
    ----------
    masks : Tensor or ndarray ``[..., H, W]`` or ``[..., D, H, W]``, bool or uint8
        Pixels that are not 0 are inside. Fewer than 2³¹ pixels a mask, sides of at most 2²⁴.
    metric : {"euclidean", "taxicab", "chessboard"}
        With dx and dy the differences of columns and rows: ``sqrt(dx² + dy²)``, ``|dx| + |dy|``, or
        ``max(|dx|, |dy|)``.
    spacing : float or `dims` floats from 1e-6 to 1e6, optional
        For "euclidean": the distance between neighbours along each axis, in the order of the axes.
    dims : {2, 3}
        How many of the last dimensions are a mask.
    return_indices : bool
        Also return where the nearest pixels outside are.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    distances : float32, of the shape of `masks`
        0 outside. Infinite where a mask has no pixel outside.
    indices : int32 ``[..., dims, H, W]`` or ``[..., dims, D, H, W]``
        Only with `return_indices`: row and column (or plane, row and column) of the nearest pixel
        outside, of equally near ones the first in raster order. -1 where there is none.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For a wrong shape, dtype, metric, spacing or number of dimensions.

    Notes
    -----
    P. F. Felzenszwalb and D. P. Huttenlocher, "Distance Transforms of Sampled Functions" (Theory of
    Computing, 2012); A. Meijster et al., "A General Algorithm for Computing Distance Transforms in
    Linear Time" (2000). Without `spacing`, or where it is the same along all axes, the nearest
    pixel is found in integers, and the distance is rounded once. Unequal spacings make squares
    float64.
    Time grows with the number of pixels, whatever the distances; for indices of "chessboard", with
    its product with the logarithm of a side at most.

    Examples
    --------
    >>> import torch, visops
    >>> mask = torch.ones(3, 4, dtype=torch.bool)
    >>> mask[1, 0] = False
    >>> visops.distance_transform(mask)
    tensor([[1.0000, 1.4142, 2.2361, 3.1623],
            [0.0000, 1.0000, 2.0000, 3.0000],
            [1.0000, 1.4142, 2.2361, 3.1623]])
    >>> visops.distance_transform(mask, metric="chessboard")[0]
    tensor([1., 1., 2., 3.])
    """
    lengths = _lengths(spacing, dims)
    call = _both if flag(_OP, "return_indices", return_indices) else _distances
    return call_operator(_OP, call, device, {"masks": masks}, metric, lengths, dims)


def _lengths(spacing: Any, dims: int) -> list[float]:
    """Return a length for each axis, or none."""
    if spacing is None:
        return []
    lengths, is_one = number_or_list(_OP, "spacing", spacing, "a number or one per axis")
    if is_one:
        return lengths * (2 if dims == 2 else 3 if dims == 3 else 0)  # none: an error
    return lengths


def _distances(masks: Tensor, *options: Any) -> Tensor:
    distances: Tensor = _distance_transform(masks, *options, False)[0]
    return distances


def _both(masks: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    distances, indices = _distance_transform(masks, *options, True)
    return distances, indices
