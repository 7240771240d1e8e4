"""Inverses and products of matrices, and how matrices are read.

A matrix is affine, ``[2, 3]``, or a homography, ``[3, 3]``, whose scale doesn't matter.
"""

import math
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import as_float64, common_device, floating_dtype, refuse, restore

Array = TypeVar("Array", Tensor, np.ndarray)


def invert_affine(matrix: Array) -> Array:
    """Invert matrices: from source to destination, to destination to source.

    Parameters
    ----------
    matrix : Tensor or ndarray, ``[..., 2, 3]`` or ``[..., 3, 3]``
        Affine matrices, or homographies.

    Returns
    -------
    Tensor or ndarray, ``[..., 2, 3]`` or ``[..., 3, 3]``
        In the dtype of `matrix` (float64 for integers).

    Raises
    ------
    ValueError
        The shape is wrong, or a matrix is not finite or is singular.

    Examples
    --------
    >>> import torch, visops
    >>> visops.invert_affine(torch.tensor([[2.0, 0.0, 6.0], [0.0, 4.0, 8.0]]))
    tensor([[ 0.5000,  0.0000, -3.0000],
            [ 0.0000,  0.2500, -2.0000]])
    """
    op = "invert_affine"
    m = as_matrix(op, "matrix", matrix, common_device(op, (matrix,)))
    inverse = _inverse_affine(op, m) if m.shape[-2] == 2 else _inverse_homography(op, m)
    return restore(inverse + 0.0, floating_dtype(matrix), (matrix,))  # + 0.0 turns -0 into 0


def compose_affine(*matrices: Array) -> Array:
    """Compose matrices into one that applies them in turn, the first argument first.

    Warping once with the composition interpolates once, which is sharper and cheaper than twice.

    Parameters
    ----------
    *matrices : Tensor or ndarray, ``[..., 2, 3]`` or ``[..., 3, 3]``
        One or more, affine or homographies; batch dimensions broadcast.

    Returns
    -------
    Tensor or ndarray, ``[..., 2, 3]``, or ``[..., 3, 3]`` if any argument is
        In the promoted floating dtype of the arguments.

    Raises
    ------
    ValueError
        There is no matrix, or shapes don't fit.

    Examples
    --------
    >>> import torch, visops
    >>> double = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    >>> right = torch.tensor([[1.0, 0.0, 5.0], [0.0, 1.0, 0.0]])
    >>> visops.compose_affine(double, right)
    tensor([[2., 0., 5.],
            [0., 2., 0.]])
    """
    op = "compose_affine"
    if not matrices:
        raise ValueError(f"visops.{op}: got no matrix, at least one is needed")
    device = common_device(op, matrices)
    read = [as_matrix(op, f"matrices[{i}]", matrix, device) for i, matrix in enumerate(matrices)]
    if any(matrix.shape[-2] == 3 for matrix in read):
        read = [with_last_row(matrix) for matrix in read]
    result = read[0]
    for i, following in enumerate(read[1:], start=1):
        check_broadcast(op, f"matrices[{i}]", following.shape[:-2], result.shape[:-2])
        # Written out: a matrix product's order of summation depends on the BLAS.
        x, y = following[..., :1], following[..., 1:2]
        if following.shape[-2] == 3:
            z = following[..., 2:]
            result = x * result[..., :1, :] + y * result[..., 1:2, :] + z * result[..., 2:, :]
            continue
        result = x * result[..., :1, :] + y * result[..., 1:, :]
        linear, offset = result[..., :2], result[..., 2:] + following[..., 2:]
        result = torch.cat((linear, offset), dim=-1)
    return restore(result, floating_dtype(*matrices), matrices)


def matrix_elements(matrix: Tensor) -> list[tuple[Tensor, ...]]:
    """Split [..., R, C] into R rows of C tensors [...]."""
    return [row.unbind(-1) for row in matrix.unbind(-2)]


def as_matrix(op: str, name: str, value: Any, device: torch.device | None) -> Tensor:
    """Return float64 [..., 2, 3] or [..., 3, 3]."""
    matrix = as_float64(op, name, value, device)
    if matrix.dim() < 2 or tuple(matrix.shape[-2:]) not in ((2, 3), (3, 3)):
        shape = list(matrix.shape)
        expected = "[..., 2, 3] or [..., 3, 3]"
        raise ValueError(f"visops.{op}: {name} has shape {shape}, expected {expected}")
    refuse(op, name, ~torch.isfinite(matrix).flatten(-2).all(-1), "is not finite")
    return matrix


def check_broadcast(op: str, name: str, batch: torch.Size, other: torch.Size) -> None:
    """Raise unless the batch dimensions broadcast."""
    if any(m != n and 1 not in (m, n) for m, n in zip(batch[::-1], other[::-1], strict=False)):
        raise ValueError(
            f"visops.{op}: {name} has batch dimensions {list(batch)}, "
            f"which don't fit the other argument's {list(other)}"
        )


def determinant(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return the determinants of [..., 3, 3], and the sum of the sizes of their terms."""
    (a, b, c), (d, e, f), (g, h, i) = matrix_elements(matrix)
    terms = (a * e * i, b * f * g, c * d * h, -(c * e * g), -(b * d * i), -(a * f * h))
    stacked = torch.stack(terms)
    return stacked.sum(0), stacked.abs().sum(0)


def with_last_row(matrix: Tensor) -> Tensor:
    """Return [..., 3, 3]."""
    if matrix.shape[-2] == 3:
        return matrix
    # From the matrix itself: numbers from Python would be copied to the device, and waited for.
    zeros, one = torch.zeros_like(matrix[..., :1, :2]), torch.ones_like(matrix[..., :1, :1])
    return torch.cat((matrix, torch.cat((zeros, one), dim=-1)), dim=-2)


def _inverse_affine(op: str, m: Tensor) -> Tensor:
    (a, b, tx), (c, d, ty) = matrix_elements(m)
    det = a * d - b * c
    det = _reject_singular(op, det, (a * d).abs() + (b * c).abs(), 2.0**-51)
    p, q, r, s = d / det, -b / det, -c / det, a / det
    elements = (p, q, -(p * tx + q * ty), r, s, -(r * tx + s * ty))
    return torch.stack(elements, dim=-1).reshape(m.shape)


def _inverse_homography(op: str, m: Tensor) -> Tensor:
    """Return the adjugate over the determinant: of an affine matrix, exactly an affine one."""
    (a, b, c), (d, e, f), (g, h, i) = matrix_elements(m)
    det, terms = determinant(m)
    det = _reject_singular(op, det, terms, 2.0**-49)
    elements = (
        *(e * i - f * h, c * h - b * i, b * f - c * e),
        *(f * g - d * i, a * i - c * g, c * d - a * f),
        *(d * h - e * g, b * g - a * h, a * e - b * d),
    )
    return torch.stack([element / det for element in elements], dim=-1).reshape(m.shape)


def _reject_singular(op: str, det: Tensor, terms: Tensor, rounding: float) -> Tensor:
    """Return `det`, NaN where it is within the rounding error of the sum of its terms."""
    # Not `rounding * terms`: torch fails for numbers times scalars mapped over no entries.
    singular = ~(det.abs() > torch.full_like(terms, rounding) * terms)
    refuse(op, "matrix", singular, "is singular")
    return torch.where(singular, math.nan, det)


# Points and boxes moved by a matrix.
#
# As in :mod:`visops.warp.affine_matrix`: tensors or NumPy arrays, batched or not, computed in
# float64, differentiable. Invalid samples raise, or become NaN where values can't be checked.


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
    p, m = _read("transform_points", "points", points, 2, matrix)
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
    b, m = _read("transform_boxes", "boxes", boxes, 4, matrix)
    corners = torch.stack([b[..., i] for i in (0, 1, 2, 1, 2, 3, 0, 3)], dim=-1)
    moved = _move(corners.unflatten(-1, (4, 2)), m.unsqueeze(-3), within_horizon=True)
    bounds = torch.cat((moved.amin(-2), moved.amax(-2)), dim=-1)
    return restore(bounds, floating_dtype(boxes), (boxes, matrix))


def _read(op: str, name: str, value: Any, columns: int, matrix: Any) -> tuple[Tensor, Tensor]:
    """Return rows ``[..., N, columns]`` and a matrix that broadcasts with them, in float64."""
    device = common_device(op, (value, matrix))
    rows, m = as_float64(op, name, value, device), as_matrix(op, "matrix", matrix, device)
    if rows.dim() < 2 or rows.shape[-1] != columns:
        shape = list(rows.shape)
        raise ValueError(f"visops.{op}: {name} has shape {shape}, expected [..., N, {columns}]")
    check_broadcast(op, "matrix", m.shape[:-2], rows.shape[:-2])
    return rows, m


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
