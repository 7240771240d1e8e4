"""Matrices from points: affine maps and similarities that fit best.

As in :mod:`visops.warp.affine_matrix`: tensors or NumPy arrays, batched or not, computed in
float64, differentiable. Invalid samples raise, or become NaN where values can't be checked.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import (
    as_float64,
    check_like,
    common_device,
    floating_dtype,
    refuse,
    restore,
)
from .._torch.options import flag
from .matrix_algebra import matrix_elements


def affine_from_points(src: Any, dst: Any, *, like: Tensor | np.ndarray | None = None) -> Any:
    """Find the affine matrix that maps the points `src` to the points `dst`.

    Three points map exactly (as with ``cv2.getAffineTransform``); more map with the least sum of
    squared distances.

    Parameters
    ----------
    src, dst : Tensor or ndarray or nested sequence, ``[N, 2]`` or ``[B, N, 2]``, N >= 3
        Points (x, y) in pixels. A ``[N, 2]`` argument goes with every sample of the other.
    like : Tensor or ndarray, optional
        Where the points are Python's numbers: an image, whose library and device the result has.

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
    s, d = read_points(op, src, dst, 3, like)

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
    det = _reject_collinear(op, s, s_matrix, det, _eps(src))

    rows = []
    for axis in (0, 1):
        v1, v2 = d_matrix[..., axis, 0], d_matrix[..., axis, 1]
        a = (v1 * y2 - v2 * y1) / det
        b = (v2 * x1 - v1 * x2) / det
        offset = d0[..., 0, axis] - (a * s0[..., 0, 0] + b * s0[..., 0, 1])
        rows.append(torch.stack((a, b, offset), dim=-1))
    return restore(torch.stack(rows, dim=-2), floating_dtype(src, dst), (src, dst, like))


def similarity_from_points(
    src: Any, dst: Any, *, scale: bool = True, like: Tensor | np.ndarray | None = None
) -> Any:
    """Find the rotation, scale and shift that bring the points `src` nearest to `dst`.

    Two points map exactly; more map with the least sum of squared distances. There is no shear and
    no reflection: the usual way to align a face's landmarks to a template.

    Parameters
    ----------
    src, dst : Tensor or ndarray or nested sequence, ``[N, 2]`` or ``[B, N, 2]``, N >= 2
        Points (x, y) in pixels. A ``[N, 2]`` argument goes with every sample of the other.
    scale : bool
        Whether the scale is free; otherwise it is 1, a rigid motion.
    like : Tensor or ndarray, optional
        Where the points are Python's numbers: an image, whose library and device the result has.

    Returns
    -------
    Tensor or ndarray
        ``[2, 3]`` or ``[B, 2, 3]``, source to destination, in the floating dtype of the points
        (float64 for integers and Python numbers). Where no rotation is better than another, as when
        all points of `dst` are one, the best scale is 0 and so is the matrix's 2 x 2 part.

    Raises
    ------
    ValueError
        Shapes don't fit, a point is not finite, or all points of a sample of `src` are one point
        (to the precision of their dtype). If not `scale`, also if no rotation is better than
        another. See the top of this page for CUDA.

    Notes
    -----
    In the plane the best similarity solves linear equations, so there is no singular value
    decomposition, and derivatives of any order exist. The result is that of S. Umeyama,
    "Least-squares estimation of transformation parameters between two point patterns", IEEE Trans.
    PAMI 13(4), 1991, and where points fit exactly that of ``cv2.estimateAffinePartial2D``.

    Examples
    --------
    >>> import torch, visops
    >>> eyes = torch.tensor([[30.0, 50.0], [70.0, 50.0]])
    >>> template = torch.tensor([[40.0, 30.0], [60.0, 30.0]])
    >>> visops.similarity_from_points(eyes, template)
    tensor([[ 0.5000,  0.0000, 25.0000],
            [ 0.0000,  0.5000,  5.0000]])
    """
    op = "similarity_from_points"
    scale = flag(op, "scale", scale)
    s, d = read_points(op, src, dst, 2, like)
    s0, d0 = s.mean(-2, keepdim=True), d.mean(-2, keepdim=True)
    (sx, sy), (dx, dy) = (s - s0).unbind(-1), (d - d0).unbind(-1)
    spread = (sx * sx + sy * sy).sum(-1)
    rounding = s.shape[-2] * (8.0 * _eps(src) * s.abs().amax((-1, -2))) ** 2
    coincident = ~(spread > rounding)
    refuse(op, "src", coincident, "is a single point: all its points coincide")
    # With columns (a, b) and (-b, a), the distances are least where their derivatives are 0.
    a, b = (sx * dx + sy * dy).sum(-1), (sx * dy - sy * dx).sum(-1)
    if scale:
        size = torch.where(coincident, math.nan, spread)
    else:
        squared = a * a + b * b
        unclear = ~(squared > 0)
        refuse(op, "dst", unclear, "has no best rotation: every one is as good")
        size = torch.where(coincident | unclear, math.nan, squared).sqrt()
    a, b = a / size, b / size
    (x, y), (x0, y0) = d0[..., 0, :].unbind(-1), s0[..., 0, :].unbind(-1)
    rows = (a, -b, x - (a * x0 - b * y0), b, a, y - (b * x0 + a * y0))
    matrix = torch.stack(rows, dim=-1).unflatten(-1, (2, 3)) + 0.0  # turns -0 into 0
    return restore(matrix, floating_dtype(src, dst), (src, dst, like))


def read_points(op: str, src: Any, dst: Any, least: int, like: Any) -> tuple[Tensor, Tensor]:
    """Return float64 points [N, 2] or [B, N, 2], at least `least` of them."""
    check_like(op, like)
    device = common_device(op, (src, dst, like))
    s, d = as_float64(op, "src", src, device), as_float64(op, "dst", dst, device)
    for name, points in (("src", s), ("dst", d)):
        if points.dim() not in (2, 3) or points.shape[-1] != 2 or points.shape[-2] < least:
            shape = list(points.shape)
            expected = f"[N, 2] or [B, N, 2] with at least {least} points"
            raise ValueError(f"visops.{op}: {name} has shape {shape}, expected {expected}")
        refuse(op, name, ~torch.isfinite(points).flatten(-2).all(-1), "is not finite")
    batches_differ = s.dim() == d.dim() == 3 and s.shape[0] != d.shape[0]
    if s.shape[-2] != d.shape[-2] or batches_differ:
        raise ValueError(
            f"visops.{op}: dst has shape {list(d.shape)}, must fit src's {list(s.shape)}"
        )
    return s, d


def _eps(points: Any) -> float:
    """Return the rounding error of the points' own dtype."""
    return torch.finfo(floating_dtype(points)).eps


def _reject_collinear(op: str, src: Tensor, s_matrix: Tensor, det: Tensor, eps: float) -> Tensor:
    """Return `det`, NaN for samples whose points all lie on a line; raise where it can look.

    They do if moving them within the rounding error `eps` of their own dtype could put them there.
    """
    count = src.shape[-2]
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
