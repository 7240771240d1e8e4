"""Affine matrices from parameters.

Every function takes tensors or NumPy arrays, with or without batch dimensions, computes in float64
and is differentiable. The first argument that is a tensor or an array decides which of the two
comes back. Where all arguments are Python's numbers, the result is a tensor on the CPU, or what
``like=image`` is: an array for an array, a tensor on the device of a tensor.

Invalid values (not finite, singular, collinear) raise an error that names the sample. On CUDA,
under ``torch.compile`` and under ``vmap`` values can't be checked without synchronizing or breaking
the graph; there the result of such a sample is NaN.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import as_float64, check_like, common_device, refuse, restore
from .._torch.fakes import holds
from .._torch.numbers import is_symbol, plain_float, tensor_of_symbols
from .._torch.unsupported_inputs import require_plain

Scalar = float | Tensor | np.ndarray
Pair = Sequence[Scalar] | Tensor | np.ndarray


def get_affine_matrix(
    center: Pair,
    angle: Scalar,
    translate: Pair = (0.0, 0.0),
    scale: Scalar | Pair = 1.0,
    shear: Pair = (0.0, 0.0),
    *,
    like: Tensor | np.ndarray | None = None,
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
    scale : number or pair of numbers, or Tensor or ndarray ``[B]`` or ``[B, 2]``
        Scale factor, not 0; a pair, or ``[B, 2]``, has one for x and one for y.
    shear : like `center`
        Shear angles (x, y) in degrees.
    like : Tensor or ndarray, optional
        Where all other arguments are Python's numbers: an image, whose library and device the
        result has.

    Returns
    -------
    Tensor or ndarray, float64
        ``[2, 3]``, or ``[B, 2, 3]`` if any argument is batched. Maps source to destination, as
        :func:`visops.warp_affine` expects. An ndarray if the first argument that is a tensor or an
        array is an array (`like` comes last); otherwise a tensor.

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
    return _matrix("get_affine_matrix", center, angle, translate, scale, shear, like)


def get_rotation_matrix2d(
    center: Pair,
    angle: Scalar,
    scale: Scalar | Pair = 1.0,
    *,
    like: Tensor | np.ndarray | None = None,
) -> Any:
    """Matrix that scales and rotates about `center`: ``cv2.getRotationMatrix2D``.

    The same as ``get_affine_matrix(center, -angle, scale=scale)``.

    Parameters
    ----------
    center : pair of numbers, or Tensor or ndarray ``[2]`` or ``[B, 2]``
        Fixed point (x, y), in pixels.
    angle : number, or Tensor or ndarray ``[B]``
        Rotation in degrees; positive turns counter-clockwise on the screen, as in OpenCV and
        kornia and unlike :func:`get_affine_matrix`.
    scale : number or pair of numbers, or Tensor or ndarray ``[B]`` or ``[B, 2]``
        Scale factor, not 0; a pair, or ``[B, 2]`` as in kornia, has one for x and one for y.
    like : Tensor or ndarray, optional
        As in :func:`get_affine_matrix`.

    Returns
    -------
    Tensor or ndarray, float64
        ``[2, 3]``, or ``[B, 2, 3]`` if any argument is batched. Maps source to destination.

    Raises
    ------
    ValueError
        An argument is not finite, has the wrong shape, or `scale` is 0.

    Examples
    --------
    >>> import numpy as np, visops
    >>> image = np.zeros((4, 4), np.uint8)
    >>> visops.get_rotation_matrix2d((1.5, 1.5), 90, 2, like=image)
    array([[ 0. ,  2. , -1.5],
           [-2. ,  0. ,  4.5]])
    """
    zero = (0.0, 0.0)
    return _matrix("get_rotation_matrix2d", center, angle, zero, scale, zero, like, turn=-1.0)


def _matrix(
    op: str,
    center: Any,
    angle: Any,
    translate: Any,
    scale: Any,
    shear: Any,
    like: Any,
    turn: float = 1.0,
) -> Any:
    """get_affine_matrix() under the name `op`; `turn` is the sign of a clockwise angle."""
    check_like(op, like)
    require_plain(op, center=center, angle=angle, translate=translate, scale=scale, shear=shear)
    pairs = [_pair(op, "center", center), _pair(op, "translate", translate)]
    scales = _scales(op, scale)
    numbers = (*pairs[0], angle, *pairs[1], *_pair(op, "shear", shear), *scales)
    sources = (center, *numbers, translate, shear, scale)
    if not any(isinstance(source, (Tensor, np.ndarray)) for source in sources):
        device = common_device(op, (like,))
        found = _affine_elements_of_numbers(op, numbers, turn, device)
        if any(isinstance(element, Tensor) for element in found):
            elements = torch.stack(
                [e if isinstance(e, Tensor) else tensor_of_symbols(e, device) for e in found]
            )
        else:
            elements = torch.tensor(found, dtype=torch.float64, device=device)
        return restore(elements.reshape(2, 3), torch.float64, (like,))

    device = common_device(op, (*numbers, like))
    names = ("center", "center", "angle", "translate", "translate", "shear", "shear")
    tensors = []
    for name, number in zip((*names, *["scale"] * len(scales)), numbers, strict=True):
        tensor = as_float64(op, name, number, device)
        if tensor.dim() > 1:
            shape = list(tensor.shape)
            raise ValueError(f"visops.{op}: {name} has shape {shape}, expected a number or [B]")
        refuse(op, name, ~torch.isfinite(tensor), "is not finite")
        tensors.append(tensor)
    lengths: list[int] = []  # not a set: torch.export's symbols can't be hashed
    for tensor in tensors:
        if tensor.dim() == 1 and all(holds(tensor.shape[0] != length) for length in (1, *lengths)):
            lengths.append(tensor.shape[0])
    if len(lengths) > 1:
        raise ValueError(f"visops.{op}: arguments have different batch sizes {sorted(lengths)}")

    cx, cy, degrees, tx, ty, shear_x, shear_y, *factors = torch.broadcast_tensors(*tensors)
    cos, sin = _cos_sin_of_degrees(turn * degrees)
    (cos_x, sin_x), (cos_y, sin_y) = _cos_sin_of_degrees(shear_x), _cos_sin_of_degrees(shear_y)
    flat = functools.reduce(torch.logical_or, [factor == 0 for factor in factors])
    refuse(op, "scale", flat, "is 0, the matrix would be singular")
    refuse(op, "shear", (cos_x == 0) | (cos_y == 0), "must not be a right angle")
    rows = _affine_elements(cx, cy, cos, sin, tx, ty, factors, sin_x / cos_x, sin_y / cos_y)
    matrix = torch.stack(rows, dim=-1).reshape(*degrees.shape, 2, 3)
    matrix = torch.where(flat[..., None, None], math.nan, matrix)
    return restore(matrix, torch.float64, (*sources, like))


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


def _scales(op: str, value: Any) -> tuple[Any, ...]:
    """Return the factor for both axes, or those of x and y."""
    is_pairs = isinstance(value, (Tensor, np.ndarray)) and value.ndim == 2
    if is_pairs or isinstance(value, (tuple, list)):
        return _pair(op, "scale", value)
    return (value,)


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


def _cos_sin(degrees: Any) -> tuple[Any, Any]:
    return (_cos_sin_of_degrees if isinstance(degrees, Tensor) else _cos_sin_of_number)(degrees)


def _affine_elements(
    cx: Any, cy: Any, cos: Any, sin: Any, tx: Any, ty: Any, scales: Any, tan_x: Any, tan_y: Any
) -> tuple[Any, ...]:
    """Compute the six elements of get_affine_matrix, from floats or from tensors."""
    if len(scales) == 1:
        (scale,) = scales
        a, c = cos + sin * tan_y, sin - cos * tan_y  # R(angle) SHy
        b, d = -(a * tan_x + sin), cos - c * tan_x  # ... SHx
        a, b, c, d = scale * a, scale * b, scale * c, scale * d
    else:
        (p, q), (r, s) = (scales[0] * cos, -scales[1] * sin), (scales[0] * sin, scales[1] * cos)
        a, c = p - q * tan_y, r - s * tan_y  # R(angle) S(scales) SHy
        b, d = q - a * tan_x, s - c * tan_x  # ... SHx
    a, b, c, d = a + 0.0, b + 0.0, c + 0.0, d + 0.0  # turns -0 into 0
    return a, b, cx + tx - (a * cx + b * cy), c, d, cy + ty - (c * cx + d * cy)


def _affine_elements_of_numbers(
    op: str, values: Sequence[Any], turn: float, device: torch.device | None
) -> tuple[Any, ...]:
    """Return the six elements, tensors where they depend on sizes that a graph leaves open."""
    pairs = [f"{name}[{i}]" for name in ("translate", "shear", "scale") for i in (0, 1)]
    names = ["center[0]", "center[1]", "angle", *pairs]
    if len(values) == 8:
        names = [*names[:7], "scale"]
    is_open = is_symbol(values)
    numbers: list[Any] = []
    for name, value in zip(names, values, strict=True):
        if is_open and is_symbol(value):
            tensor = tensor_of_symbols(value, device)
            if name.startswith("scale"):  # a plain 0 is refused
                tensor = torch.where(tensor == 0, math.nan, tensor)
            numbers.append(tensor)
            continue
        try:
            number = plain_float(value)
        except (TypeError, ValueError):
            kind = type(value).__name__
            raise TypeError(f"visops.{op}: {name} is a {kind}, expected a number") from None
        if not math.isfinite(number):
            raise ValueError(f"visops.{op}: {name} is {number}, must be finite")
        if number == 0.0 and name.startswith("scale"):
            raise ValueError(f"visops.{op}: {name} is 0, the matrix would be singular")
        numbers.append(number)
    cx, cy, degrees, tx, ty, shear_x, shear_y, *scales = numbers
    cos, sin = _cos_sin(turn * degrees)
    (cos_x, sin_x), (cos_y, sin_y) = _cos_sin(shear_x), _cos_sin(shear_y)
    if 0.0 in [cosine for cosine in (cos_x, cos_y) if not isinstance(cosine, Tensor)]:
        raise ValueError(f"visops.{op}: shear is ({shear_x}, {shear_y}), must not be a right angle")
    return _affine_elements(cx, cy, cos, sin, tx, ty, scales, sin_x / cos_x, sin_y / cos_y)
