"""Points and boxes moved by a matrix.

As in :mod:`visops.warp.affine_matrix`: tensors or NumPy arrays, batched or not, computed in
float64, differentiable. Invalid samples raise, or become NaN where values can't be checked.
"""

import math
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import as_float64, common_device, floating_dtype, restore
from .matrix_algebra import as_matrix, check_broadcast, matrix_elements

Array = TypeVar("Array", Tensor, np.ndarray)


def transform_points(points: Array, matrix: Any) -> Array:
    """Where a matrix moves points (key points, polygons).

    Parameters
    ----------
    points : Tensor or ndarray, ``[..., N, 2]``
        (x, y) in pixels, in the convention that `matrix` is in.
    matrix : Tensor or ndarray, ``[..., 2, 3]`` or ``[..., 3, 3]``
        Source to destination: the matrix that :func:`visops.warp_affine` or
        :func:`visops.warp_perspective` moves the image with. Its batch dimensions broadcast with
        those of `points` before N.

    Returns
    -------
    Tensor or ndarray, ``[..., N, 2]``
        The type and floating dtype of `points` (float64 for integers). A homography moves
        points on its horizon to infinity: their coordinates are infinite or NaN.

    Raises
    ------
    ValueError
        Shapes don't fit.

    Examples
    --------
    >>> import torch, visops
    >>> matrix = visops.get_affine_matrix(center=(1.5, 1.5), angle=90)
    >>> visops.transform_points(torch.tensor([[0.0, 0.0], [3.0, 0.0]]), matrix)
    tensor([[3., 0.],
            [3., 3.]])
    """
    op = "transform_points"
    device = common_device(op, (points, matrix))
    p, m = as_float64(op, "points", points, device), as_matrix(op, "matrix", matrix, device)
    if p.dim() < 2 or p.shape[-1] != 2:
        shape = list(p.shape)
        raise ValueError(f"visops.{op}: points has shape {shape}, expected [..., N, 2]")
    check_broadcast(op, "matrix", m.shape[:-2], p.shape[:-2])
    return restore(_move(p, m), floating_dtype(points), (points, matrix))


def transform_boxes(boxes: Array, matrix: Any) -> Array:
    """Axis-aligned bounds of boxes whose corners a matrix has moved.

    Detectors' boxes count from a pixel's corner (an image's own box is ``0, 0, W, H``), which is
    the half-pixel convention: move them with the matrix that is given to
    :func:`visops.warp_affine` together with ``convention="half_pixel"``.

    Parameters
    ----------
    boxes : Tensor or ndarray, ``[..., N, 4]``
        x1, y1, x2, y2 in pixels, in the convention that `matrix` is in.
    matrix : Tensor or ndarray, ``[..., 2, 3]`` or ``[..., 3, 3]``
        Source to destination. Its batch dimensions broadcast with those of `boxes` before N.

    Returns
    -------
    Tensor or ndarray, ``[..., N, 4]``
        The smallest upright box around the four moved corners, of the type and floating dtype of
        `boxes` (float64 for integers). Not clipped to the image. NaN for boxes that a
        homography's horizon touches or cuts: what they become has no bounds.

    Raises
    ------
    ValueError
        Shapes don't fit.

    Examples
    --------
    >>> import torch, visops
    >>> turn = visops.get_affine_matrix(center=(50, 50), angle=90)
    >>> visops.transform_boxes(torch.tensor([[0.0, 0.0, 10.0, 20.0]]), turn)
    tensor([[ 80.,   0., 100.,  10.]])
    """
    op = "transform_boxes"
    device = common_device(op, (boxes, matrix))
    b, m = as_float64(op, "boxes", boxes, device), as_matrix(op, "matrix", matrix, device)
    if b.dim() < 2 or b.shape[-1] != 4:
        shape = list(b.shape)
        raise ValueError(f"visops.{op}: boxes has shape {shape}, expected [..., N, 4]")
    check_broadcast(op, "matrix", m.shape[:-2], b.shape[:-2])
    corners = torch.stack([b[..., i] for i in (0, 1, 2, 1, 2, 3, 0, 3)], dim=-1)
    moved = _move(corners.unflatten(-1, (4, 2)), m.unsqueeze(-3), within_horizon=True)
    bounds = torch.cat((moved.amin(-2), moved.amax(-2)), dim=-1)
    return restore(bounds, floating_dtype(boxes), (boxes, matrix))


def _move(points: Tensor, matrix: Tensor, within_horizon: bool = False) -> Tensor:
    """Move points [..., N, 2] by matrix [..., 2, 3] or [..., 3, 3].

    With `within_horizon`, N points become NaN unless all are on the same side of the horizon.
    """
    (a, b, tx), (c, d, ty), *last = matrix_elements(matrix.unsqueeze(-3))
    x, y = points.unbind(-1)
    moved = torch.stack((a * x + b * y + tx, c * x + d * y + ty), dim=-1)
    if not last:
        return moved
    ((g, h, i),) = last
    depth = g * x + h * y + i
    if within_horizon:
        side = torch.sign(depth)
        together = (side[..., :1] != 0) & (side == side[..., :1]).all(-1, keepdim=True)
        depth = torch.where(together, depth, math.nan)
    return moved / depth.unsqueeze(-1)
