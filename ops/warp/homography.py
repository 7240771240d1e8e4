"""Homographies from points.

As in :mod:`visops.warp.affine_matrix`: tensors or NumPy arrays, batched or not, computed in
float64, differentiable. Invalid samples raise, or become NaN where values can't be checked.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import floating_dtype, refuse, restore
from .._torch.differentiable import may_be_differentiated
from .matrix_algebra import determinant, matrix_elements
from .point_fits import read_points


def homography_from_points(src: Any, dst: Any, *, like: Tensor | np.ndarray | None = None) -> Any:
    """Find the homography (perspective map) that maps the points `src` to the points `dst`.

    Four points map exactly, as with ``cv2.getPerspectiveTransform``. More are fitted by the direct
    linear transformation of points whose centre is 0 and whose root mean square distance from it
    is the square root of 2, as in scikit-image: it minimises an algebraic error, which is 0 if
    the points fit exactly. Every point counts; there is no search for outliers.

    Parameters
    ----------
    src, dst : Tensor or ndarray or nested sequence, ``[N, 2]`` or ``[B, N, 2]``, N >= 4
        Points (x, y) in pixels. A ``[N, 2]`` argument goes with every sample of the other.
    like : Tensor or ndarray, optional
        Where the points are Python's numbers: an image, whose library and device the result has.

    Returns
    -------
    Tensor or ndarray
        ``[3, 3]`` or ``[B, 3, 3]``, source to destination, in the floating dtype of the points
        (float64 for integers and Python numbers). The last element is 1, as in OpenCV; where it
        would be 0, because the point (0, 0) goes to infinity, the sum of squares is 1 instead.

    Raises
    ------
    ValueError
        Shapes don't fit, a point is not finite, or no single homography fits (to the precision of
        the points' dtype): of four points of `src` or `dst`, three lie on a line; of more, all, or
        all but one. See the top of this page for CUDA.

    Notes
    -----
    Differentiable any number of times for four points, twice for more. For more than four points
    the call synchronizes with a CUDA device, in torch's singular value decomposition.

    Source: R. Hartley and A. Zisserman, "Multiple view geometry in computer vision", 2003, chapter
    4, for the normalisation; for four points, their coordinates in each other's projective basis.

    Examples
    --------
    A page in a photo, seen from above:

    >>> import torch, visops
    >>> page = torch.tensor([[120.0, 80.0], [480.0, 120.0], [520.0, 560.0], [60.0, 500.0]])
    >>> upright = torch.tensor([[0.0, 0.0], [209.0, 0.0], [209.0, 296.0], [0.0, 296.0]])
    >>> matrix = visops.homography_from_points(page, upright)
    >>> visops.transform_points(page, matrix).round().abs()
    tensor([[  0.,   0.],
            [209.,   0.],
            [209., 296.],
            [  0., 296.]])
    """
    op = "homography_from_points"
    s, d = read_points(op, src, dst, 4, like)
    s_unit, s_shift, s_factor = _normalised(s)
    d_unit, d_shift, d_factor = _normalised(d)
    eps = (_relative_eps(src, s, s_factor), _relative_eps(dst, d, d_factor))
    if s.shape[-2] == 4:
        unit = _of_four(op, s_unit, d_unit, eps)
    else:
        unit = _of_more(op, s_unit, d_unit, torch.maximum(*eps))
    matrix, terms = _denormalised(unit, s_shift, s_factor, d_shift, d_factor)
    return restore(_scaled(matrix, terms), floating_dtype(src, dst), (src, dst, like))


def _normalised(points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return factor (points - shift), with a root mean square distance from 0 of sqrt(2)."""
    shift = points.mean(-2, keepdim=True)
    centred = points - shift
    squared = centred.square().sum((-1, -2))
    # Points that coincide are refused later; until then, don't divide by 0.
    factor = (2.0 * points.shape[-2] / torch.where(squared > 0, squared, 1.0)).sqrt()
    return factor[..., None, None] * centred, shift[..., 0, :], factor


def _denormalised(
    unit: Tensor, s_shift: Tensor, s_factor: Tensor, d_shift: Tensor, d_factor: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the homography of the points themselves, from that of the normalised ones.

    Also return the sum of the absolute terms of its last element, [..., 1, 1].
    """
    left = s_factor[..., None, None] * unit[..., :, :2]
    products = left * s_shift[..., None, :]
    last = unit[..., :, 2] - products.sum(-1)
    terms = unit[..., 2:, 2:].abs() + products[..., 2:, :].abs().sum(-1, keepdim=True)
    top = torch.cat((left, last.unsqueeze(-1)), dim=-1)
    rows, row = top[..., :2, :] / d_factor[..., None, None], top[..., 2:, :]
    return torch.cat((rows + d_shift.unsqueeze(-1) * row, row), dim=-2), terms


def _scaled(matrix: Tensor, terms: Tensor) -> Tensor:
    """Make the last element 1, unless it is 0 but for the rounding of its terms."""
    norm = matrix.square().sum((-1, -2), keepdim=True).sqrt()
    last = matrix[..., 2:, 2:]
    vanishes = last.abs() <= 2.0**-48 * terms
    return matrix / torch.where(vanishes, norm, last) + 0.0  # turns -0 into 0


def _relative_eps(points: Any, read: Tensor, factor: Tensor) -> Tensor:
    """Return the rounding error of the points' own dtype, in units of the normalised points."""
    eps = max(torch.finfo(floating_dtype(points)).eps, 2.0**-50)
    return eps * factor * read.abs().amax((-1, -2))


def _of_four(op: str, src: Tensor, dst: Tensor, eps: tuple[Tensor, Tensor]) -> Tensor:
    """Return the map from one projective basis to the other: no equations to solve."""
    matrices = []
    for name, points, rounding in (("src", src, eps[0]), ("dst", dst, eps[1])):
        weights = _weights(points)
        flat = ~(weights.abs() > 16.0 * rounding.unsqueeze(-1)).all(-1)
        refuse(op, name, flat, "is degenerate: three of its points lie on one line")
        weights = torch.where(flat.unsqueeze(-1), math.nan, weights)
        homogeneous = torch.cat((points, torch.ones_like(points[..., :1])), dim=-1)
        # Columns: the first three points, scaled so that they add up to the fourth.
        basis = homogeneous[..., :3, :].transpose(-1, -2) * weights[..., None, :3]
        matrices.append(basis)
    source, destination = matrices
    return _product(destination, _adjugate(source))


def _weights(points: Tensor) -> Tensor:
    """Return areas of triangles [..., 4], with which w0 p0 + w1 p1 + w2 p2 = w3 p3."""
    p = points.unbind(-2)

    def area(i: int, j: int, k: int) -> Tensor:
        (ax, ay), (bx, by) = (p[j] - p[i]).unbind(-1), (p[k] - p[i]).unbind(-1)
        return ax * by - ay * bx

    return torch.stack((area(3, 1, 2), area(0, 3, 2), area(0, 1, 3), area(0, 1, 2)), dim=-1)


def _adjugate(matrix: Tensor) -> Tensor:
    (a, b, c), (d, e, f), (g, h, i) = matrix_elements(matrix)
    elements = (
        *(e * i - f * h, c * h - b * i, b * f - c * e),
        *(f * g - d * i, a * i - c * g, c * d - a * f),
        *(d * h - e * g, b * g - a * h, a * e - b * d),
    )
    return torch.stack(elements, dim=-1).unflatten(-1, (3, 3))


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Return the matrix product, in one order of sums whatever the BLAS."""
    return (left.unsqueeze(-1) * right.unsqueeze(-3)).sum(-2)


def _of_more(op: str, src: Tensor, dst: Tensor, eps: Tensor) -> Tensor:
    """Return the right singular vector of the smallest singular value, as a matrix."""
    equations = _equations(src, dst)
    with torch.no_grad():
        _, values, vectors = torch.linalg.svd(equations.detach(), full_matrices=False)
        # The smallest value is the error of the fit; if the next is 0 too, several fit.
        unclear = ~(values[..., 7] > 16.0 * eps * values[..., 0])
        unclear = unclear | ~(values[..., 7] > values[..., 8])
        best = vectors[..., 8, :]
        det, terms = determinant(best.unflatten(-1, (3, 3)))
        unclear = unclear | ~(det.abs() > 16.0 * eps * terms)
        where = "or all but one, lie on one line"
        refuse(op, "src", unclear, f"and dst fit no single homography: all points of one, {where}")
        best = torch.where(unclear.unsqueeze(-1), math.nan, best)
        gaps = values[..., :8].square() - values[..., 8:].square()
        others = vectors[..., :8, :]
    if may_be_differentiated(equations):
        best = _with_derivatives(best, equations, others, gaps)
    return best.unflatten(-1, (3, 3))


def _with_derivatives(h: Tensor, equations: Tensor, others: Tensor, gaps: Tensor) -> Tensor:
    """Give the singular vector `h` its first and second derivatives.

    torch's own are infinite where any two singular values are equal, as for points that form a
    square. Here it takes only that the smallest is less than the others. It is an eigenvector of
    M = AᵀA: a step h - K (M h - r h), where r is the eigenvalue and K the inverse of M - r on the
    `others`, changes nothing but has the first derivative; another has the second.
    """
    gram = equations.transpose(-1, -2) @ equations
    for _ in range(2):
        image = (gram @ h.unsqueeze(-1)).squeeze(-1)
        eigenvalue = (h * image).sum(-1, keepdim=True) / (h * h).sum(-1, keepdim=True)
        residual = (image - eigenvalue * h).unsqueeze(-2)
        step = (((residual * others).sum(-1) / gaps).unsqueeze(-1) * others).sum(-2)
        h = h - (step - step.detach())
    return h


def _equations(src: Tensor, dst: Tensor) -> Tensor:
    """Return [..., 2 N, 9]: what is 0 for the elements of a homography that fits."""
    src, dst = torch.broadcast_tensors(src, dst)
    x, y = dst[..., 0:1], dst[..., 1:2]
    p = torch.cat((src, torch.ones_like(x)), dim=-1)
    zero = torch.zeros_like(p)
    return torch.cat(
        (torch.cat((p, zero, -x * p), dim=-1), torch.cat((zero, p, -y * p), dim=-1)), dim=-2
    )
