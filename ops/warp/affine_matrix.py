"""Affine matrices from parameters, and their inverses and products.

Every function takes tensors or NumPy arrays, with or without batch dimensions, computes in float64
and is differentiable. The first argument that is a tensor or an array decides which of the two
comes back.

Invalid values (not finite, singular, collinear) raise an error that names the sample. On CUDA,
under ``torch.compile`` and under ``vmap`` values can't be checked without synchronizing or breaking
the graph; there the result of such a sample is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import as_float64, common_device, floating_dtype, refuse, restore

__all__ = [
    "compose_affine",
    "get_affine_matrix",
    "invert_affine",
]

Array = TypeVar("Array", Tensor, np.ndarray)
Scalar = float | Tensor | np.ndarray
Pair = Sequence[Scalar] | Tensor | np.ndarray


def get_affine_matrix(
    center: Pair,
    angle: Scalar,
    translate: Pair = (0.0, 0.0),
    scale: Scalar = 1.0,
    shear: Pair = (0.0, 0.0),
) -> Any:
    r"""Matrix that shears, scales, rotates about `center` and then translates.

    .. math:: T(translate)\; C(center)\; R(angle)\; S(scale)\; SH_y\; SH_x\; C(center)^{-1}

    with :math:`SH_x = [[1, -\tan s_x], [0, 1]]` and :math:`SH_y = [[1, 0], [-\tan s_y, 1]]`: the
    parameters mean what they mean to :func:`torchvision.transforms.v2.functional.affine`. Multiples
    of 90 degrees give exactly 0, 1 and -1.

    Parameters
    ----------
    center : pair of numbers, or Tensor or ndarray ``[2]`` or ``[B, 2]``
        Fixed point (x, y) of rotation, scale and shear, in pixels. In the integer convention the
        middle of an image is ``((W - 1) / 2, (H - 1) / 2)``; in the half-pixel one,
        ``(W / 2, H / 2)``.
    angle : number, or Tensor or ndarray ``[B]``
        Rotation in degrees; positive turns clockwise on the screen.
    translate : like `center`
        Shift (x, y) in pixels.
    scale : number, or Tensor or ndarray ``[B]``
        Scale factor, not 0.
    shear : like `center`
        Shear angles (x, y) in degrees.

    Returns
    -------
    Tensor or ndarray, float64
        ``[2, 3]``, or ``[B, 2, 3]`` if any argument is batched. Maps source to destination, as
        :func:`visops.warp_affine` expects. An ndarray if the first argument that is a tensor or an
        array is an array; otherwise a tensor.

    Raises
    ------
    ValueError
        An argument is not finite, has the wrong shape, `scale` is 0, or `shear` is a right angle.

    Examples
    --------
    >>> import torch, visops
    >>> visops.get_affine_matrix(center=(1.5, 1.5), angle=90)
    tensor([[ 0., -1.,  3.],
            [ 1.,  0.,  0.]], dtype=torch.float64)
    """
    op = "get_affine_matrix"
    pairs = [_pair(op, "center", center), _pair(op, "translate", translate)]
    numbers = (*pairs[0], angle, *pairs[1], scale, *_pair(op, "shear", shear))
    sources = (center, *numbers, translate, shear)
    if not any(isinstance(source, (Tensor, np.ndarray)) for source in sources):
        elements = _affine_elements_of_numbers(op, numbers)
        return torch.tensor(elements, dtype=torch.float64).reshape(2, 3)

    device = common_device(op, numbers)
    names = ("center", "center", "angle", "translate", "translate", "scale", "shear", "shear")
    tensors = []
    for name, number in zip(names, numbers, strict=True):
        tensor = as_float64(op, name, number, device)
        if tensor.dim() > 1:
            shape = list(tensor.shape)
            raise ValueError(f"visops.{op}: {name} has shape {shape}, expected a number or [B]")
        refuse(op, name, ~torch.isfinite(tensor), "is not finite")
        tensors.append(tensor)
    lengths: list[int] = []  # not a set: torch.export's symbols can't be hashed
    for tensor in tensors:
        if tensor.dim() == 1 and tensor.shape[0] != 1 and tensor.shape[0] not in lengths:
            lengths.append(tensor.shape[0])
    if len(lengths) > 1:
        raise ValueError(f"visops.{op}: arguments have different batch sizes {sorted(lengths)}")

    cx, cy, degrees, tx, ty, factor, shear_x, shear_y = torch.broadcast_tensors(*tensors)
    cos, sin = _cos_sin_of_degrees(degrees)
    (cos_x, sin_x), (cos_y, sin_y) = _cos_sin_of_degrees(shear_x), _cos_sin_of_degrees(shear_y)
    refuse(op, "scale", factor == 0, "is 0, the matrix would be singular")
    refuse(op, "shear", (cos_x == 0) | (cos_y == 0), "must not be a right angle")
    rows = _affine_elements(cx, cy, cos, sin, tx, ty, factor, sin_x / cos_x, sin_y / cos_y)
    matrix = torch.stack(rows, dim=-1).reshape(*factor.shape, 2, 3)
    matrix = torch.where((factor == 0)[..., None, None], math.nan, matrix)
    return restore(matrix, torch.float64, sources)


def invert_affine(matrix: Array) -> Array:
    """Invert affine matrices: from source to destination, to destination to source.

    Parameters
    ----------
    matrix : Tensor or ndarray, ``[..., 2, 3]``

    Returns
    -------
    Tensor or ndarray, ``[..., 2, 3]``
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
    (a, b, tx), (c, d, ty) = matrix_elements(m)
    det = a * d - b * c
    # The determinant's own rounding error: 2^-51 of the terms subtracted.
    singular = ~(det.abs() > 2.0**-51 * ((a * d).abs() + (b * c).abs()))
    refuse(op, "matrix", singular, "is singular")
    det = torch.where(singular, math.nan, det)
    p, q, r, s = d / det, -b / det, -c / det, a / det
    elements = (p, q, -(p * tx + q * ty), r, s, -(r * tx + s * ty))
    inverse = torch.stack(elements, dim=-1).reshape(m.shape) + 0.0  # turns -0 into 0
    return restore(inverse, floating_dtype(matrix), (matrix,))


def compose_affine(*matrices: Array) -> Array:
    """Compose affine matrices into one that applies them in turn, the first argument first.

    Warping once with the composition interpolates once, which is sharper and cheaper than twice.

    Parameters
    ----------
    *matrices : Tensor or ndarray, ``[..., 2, 3]``
        One or more; batch dimensions broadcast.

    Returns
    -------
    Tensor or ndarray, ``[..., 2, 3]``
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
    result = as_matrix(op, "matrices[0]", matrices[0], device)
    for i, matrix in enumerate(matrices[1:], start=1):
        following = as_matrix(op, f"matrices[{i}]", matrix, device)
        check_broadcast(op, f"matrices[{i}]", following.shape[:-2], result.shape[:-2])
        # Written out: a matrix product's order of summation depends on the BLAS.
        x, y = following[..., :1], following[..., 1:2]
        result = x * result[..., :1, :] + y * result[..., 1:, :]
        linear, offset = result[..., :2], result[..., 2:] + following[..., 2:]
        result = torch.cat((linear, offset), dim=-1)
    return restore(result, floating_dtype(*matrices), matrices)


def matrix_elements(matrix: Tensor) -> list[tuple[Tensor, ...]]:
    """Split [..., R, C] into R rows of C tensors [...]."""
    return [row.unbind(-1) for row in matrix.unbind(-2)]


def as_matrix(op: str, name: str, value: Any, device: torch.device | None) -> Tensor:
    matrix = as_float64(op, name, value, device)
    if matrix.dim() < 2 or matrix.shape[-2:] != (2, 3):
        shape = list(matrix.shape)
        raise ValueError(f"visops.{op}: {name} has shape {shape}, expected [..., 2, 3]")
    refuse(op, name, ~torch.isfinite(matrix).flatten(-2).all(-1), "is not finite")
    return matrix


def check_broadcast(op: str, name: str, batch: torch.Size, other: torch.Size) -> None:
    if any(m != n and 1 not in (m, n) for m, n in zip(batch[::-1], other[::-1], strict=False)):
        raise ValueError(
            f"visops.{op}: {name} has batch dimensions {list(batch)}, "
            f"which don't fit the other argument's {list(other)}"
        )


def _pair(op: str, name: str, value: Any) -> tuple[Any, Any]:
    """Split a pair of numbers, or an array [..., 2], into x and y."""
    if isinstance(value, (Tensor, np.ndarray)):
        if value.ndim not in (1, 2) or value.shape[-1] != 2:
            shape = list(value.shape)
            raise ValueError(f"visops.{op}: {name} has shape {shape}, expected [2] or [B, 2]")
        return value[..., 0], value[..., 1]
    if not isinstance(value, Sequence) or len(value) != 2:
        raise ValueError(f"visops.{op}: {name} is {value!r}, expected a pair (x, y)")
    return value[0], value[1]


def _cos_sin_of_degrees(degrees: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine, exact at multiples of 90; differentiable there too."""
    quarters = torch.round(degrees.detach() / 90.0)
    rest = torch.deg2rad(degrees - 90.0 * quarters)
    quarter = torch.remainder(quarters, 4.0)
    x = (quarter == 0).to(degrees.dtype) - (quarter == 2).to(degrees.dtype)
    y = (quarter == 1).to(degrees.dtype) - (quarter == 3).to(degrees.dtype)
    cos, sin = torch.cos(rest), torch.sin(rest)
    return x * cos - y * sin, y * cos + x * sin


def _cos_sin_of_number(degrees: float) -> tuple[float, float]:
    """_cos_sin_of_degrees() without the cost of tensors."""
    quarters = round(degrees / 90.0)
    rest = math.radians(degrees - 90.0 * quarters)
    cos, sin = math.cos(rest), math.sin(rest)
    return ((cos, sin), (-sin, cos), (-cos, -sin), (sin, -cos))[quarters % 4]


def _affine_elements(
    cx: Any, cy: Any, cos: Any, sin: Any, tx: Any, ty: Any, scale: Any, tan_x: Any, tan_y: Any
) -> tuple[Any, ...]:
    """Compute the six elements of get_affine_matrix, from floats or from tensors."""
    a, c = cos + sin * tan_y, sin - cos * tan_y  # R(angle) SHy
    b, d = -(a * tan_x + sin), cos - c * tan_x  # ... SHx
    # Adding 0.0 turns -0 into 0.
    a, b, c, d = scale * a + 0.0, scale * b + 0.0, scale * c + 0.0, scale * d + 0.0
    return a, b, cx + tx - (a * cx + b * cy), c, d, cy + ty - (c * cx + d * cy)


def _affine_elements_of_numbers(op: str, values: Sequence[Any]) -> tuple[float, ...]:
    translation, shears = ("translate[0]", "translate[1]"), ("shear[0]", "shear[1]")
    names = ("center[0]", "center[1]", "angle", *translation, "scale", *shears)
    numbers = []
    for name, value in zip(names, values, strict=True):
        try:
            number = float(value)
        except (TypeError, ValueError):
            kind = type(value).__name__
            raise TypeError(f"visops.{op}: {name} is a {kind}, expected a number") from None
        if not math.isfinite(number):
            raise ValueError(f"visops.{op}: {name} is {number}, must be finite")
        numbers.append(number)
    cx, cy, degrees, tx, ty, scale, shear_x, shear_y = numbers
    if scale == 0.0:
        raise ValueError(f"visops.{op}: scale is 0, the matrix would be singular")
    cos, sin = _cos_sin_of_number(degrees)
    (cos_x, sin_x), (cos_y, sin_y) = _cos_sin_of_number(shear_x), _cos_sin_of_number(shear_y)
    if cos_x == 0.0 or cos_y == 0.0:
        raise ValueError(f"visops.{op}: shear is ({shear_x}, {shear_y}), must not be a right angle")
    return _affine_elements(cx, cy, cos, sin, tx, ty, scale, sin_x / cos_x, sin_y / cos_y)
