"""Points and boxes moved by an affine matrix, and the matrix from points.

As in :mod:`visops.affine_matrix`: tensors or NumPy arrays, batched or not, computed in float64,
differentiable. Invalid samples raise, or become NaN where values can't be checked.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import as_float64, common_device, floating_dtype, refuse, restore
from .affine_matrix import as_matrix, check_broadcast, matrix_elements

__all__ = ["affine_from_points", "transform_boxes", "transform_points"]

Array = TypeVar("Array", Tensor, np.ndarray)


def affine_from_points(src: Any, dst: Any) -> Any:
    """Find the affine matrix that maps the points `src` to the points `dst`.

    Three points map exactly (as with ``cv2.getAffineTransform``); more map with the least sum of
    squared distances.

    Parameters
    ----------
    src, dst : Tensor or ndarray or nested sequence, ``[N, 2]`` or ``[B, N, 2]``, N >= 3
        Points (x, y) in pixels. A ``[N, 2]`` argument goes with every sample of the other.

    Returns
    -------
    Tensor or ndarray
        ``[2, 3]`` or ``[B, 2, 3]``, source to destination, in the floating dtype of the points
        (float64 for integers and Python numbers).

    Raises
    ------
    ValueError
        Shapes don't fit, a point is not finite, or all points of a sample of `src` lie on a line
        (to the precision of their dtype). See the top of this page for CUDA.

    Examples
    --------
    >>> import torch, visops
    >>> visops.affine_from_points([[0, 0], [1, 0], [0, 1]], [[5, 5], [5, 6], [4, 5]])
    tensor([[ 0., -1.,  5.],
            [ 1.,  0.,  5.]], dtype=torch.float64)
    """
    op = "affine_from_points"
    device = common_device(op, (src, dst))
    s, d = as_float64(op, "src", src, device), as_float64(op, "dst", dst, device)
    for name, points in (("src", s), ("dst", d)):
        if points.dim() not in (2, 3) or points.shape[-1] != 2 or points.shape[-2] < 3:
            shape = list(points.shape)
            expected = "[N, 2] or [B, N, 2] with at least 3 points"
            raise ValueError(f"visops.{op}: {name} has shape {shape}, expected {expected}")
        refuse(op, name, ~torch.isfinite(points).flatten(-2).all(-1), "is not finite")
    batches_differ = s.dim() == d.dim() == 3 and s.shape[0] != d.shape[0]
    if s.shape[-2] != d.shape[-2] or batches_differ:
        raise ValueError(
            f"visops.{op}: dst has shape {list(d.shape)}, must fit src's {list(s.shape)}"
        )

    # Both cases are A S = D with 2x2 matrices: offsets of two points from the third, or the
    # normal equations of the centred points.
    count = s.shape[-2]
    if count == 3:
        s0, d0 = s[..., :1, :], d[..., :1, :]
        s_matrix = (s - s0)[..., 1:, :].transpose(-1, -2)
        d_matrix = (d - d0)[..., 1:, :].transpose(-1, -2)
    else:
        s0, d0 = s.mean(-2, keepdim=True), d.mean(-2, keepdim=True)
        s_matrix = (s - s0).transpose(-1, -2) @ (s - s0)
        d_matrix = (d - d0).transpose(-1, -2) @ (s - s0)
    (x1, x2), (y1, y2) = matrix_elements(s_matrix)
    det = x1 * y2 - x2 * y1
    det = _refuse_collinear(op, s, s_matrix, det, floating_dtype(src))

    rows = []
    for axis in (0, 1):
        v1, v2 = d_matrix[..., axis, 0], d_matrix[..., axis, 1]
        a = (v1 * y2 - v2 * y1) / det
        b = (v2 * x1 - v1 * x2) / det
        offset = d0[..., 0, axis] - (a * s0[..., 0, 0] + b * s0[..., 0, 1])
        rows.append(torch.stack((a, b, offset), dim=-1))
    return restore(torch.stack(rows, dim=-2), floating_dtype(src, dst), (src, dst))


def transform_points(points: Array, matrix: Any) -> Array:
    """Where an affine matrix moves points (key points, polygons).

    Parameters
    ----------
    points : Tensor or ndarray, ``[..., N, 2]``
        (x, y) in pixels, in the convention that `matrix` is in.
    matrix : Tensor or ndarray, ``[..., 2, 3]``
        Source to destination: the matrix that :func:`visops.warp_affine` moves the image with.
        Its batch dimensions broadcast with those of `points` before N.

    Returns
    -------
    Tensor or ndarray, ``[..., N, 2]``
        Of the type and floating dtype of `points` (float64 for integers).

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
    """Axis-aligned bounds of boxes whose corners an affine matrix has moved.

    Detectors' boxes count from a pixel's corner (an image's own box is ``0, 0, W, H``), which is
    the half-pixel convention: move them with the matrix that is given to
    :func:`visops.warp_affine` together with ``convention="half_pixel"``.

    Parameters
    ----------
    boxes : Tensor or ndarray, ``[..., N, 4]``
        x1, y1, x2, y2 in pixels, in the convention that `matrix` is in.
    matrix : Tensor or ndarray, ``[..., 2, 3]``
        Source to destination. Its batch dimensions broadcast with those of `boxes` before N.

    Returns
    -------
    Tensor or ndarray, ``[..., N, 4]``
        The smallest upright box around the four moved corners, of the type and floating dtype of
        `boxes` (float64 for integers). Not clipped to the image.

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
    moved = _move(corners.unflatten(-1, (4, 2)), m.unsqueeze(-3))
    bounds = torch.cat((moved.amin(-2), moved.amax(-2)), dim=-1)
    return restore(bounds, floating_dtype(boxes), (boxes, matrix))


def _move(points: Tensor, matrix: Tensor) -> Tensor:
    """Move points [..., N, 2] by matrix [..., 2, 3]."""
    (a, b, tx), (c, d, ty) = matrix_elements(matrix.unsqueeze(-3))
    x, y = points.unbind(-1)
    return torch.stack((a * x + b * y + tx, c * x + d * y + ty), dim=-1)


def _refuse_collinear(
    op: str, src: Tensor, s_matrix: Tensor, det: Tensor, dtype: torch.dtype
) -> Tensor:
    """Return `det`, NaN for samples whose points all lie on a line; raise where it can look.

    They do if moving them within the rounding error of their own dtype could put them there.
    """
    count = src.shape[-2]
    eps = torch.finfo(dtype).eps
    largest = src.abs().amax((-1, -2))
    if count == 3:
        lengths = s_matrix.square().sum(-2).sqrt().sum(-1)
        noise = 8.0 * eps * largest * lengths
    else:
        # det / trace is nearly the smaller eigenvalue: the squared distance from the line. The
        # normal equations have their own rounding error, relative to the larger one.
        trace = s_matrix[..., 0, 0] + s_matrix[..., 1, 1]
        from_points = count * (8.0 * eps * largest) ** 2
        from_equations = 16.0 * count * torch.finfo(torch.float64).eps * trace
        noise = trace * torch.maximum(from_points, from_equations)
    collinear = ~(det.abs() > noise)
    refuse(op, "src", collinear, "is collinear: its points lie on one line")
    return torch.where(collinear, math.nan, det)
