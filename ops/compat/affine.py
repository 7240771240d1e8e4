"""Affine warps under python_cpp_extension's names."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._torch.unsupported_inputs import require_plain, require_tensors
from ..warp.affine import warp_affine
from ..warp.point_fits import affine_from_points


def affine_torch(input: Tensor, affine_matrix: Tensor, out_h: int, out_w: int) -> Tensor:
    """Bilinear warp of a batch with destination-to-source matrices, zeros outside.

    The same as ``visops.warp_affine(input, affine_matrix, (out_h, out_w), inverse_map=True)``.

    Parameters
    ----------
    input : Tensor ``[B, C, H, W]``, float32 or float64
        CPU or CUDA, any C.
    affine_matrix : Tensor ``[B, 2, 3]`` or ``[2, 3]``
        Destination to source, in pixels, centres at integers; on the device of `input`.
    out_h, out_w : int
        Size of the result in pixels.

    Returns
    -------
    Tensor ``[B, C, out_h, out_w]``
        Differentiable with respect to both tensors.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        An argument has a wrong type, dtype or shape.

    Notes
    -----
    Differs from python_cpp_extension where coordinates lie between -2 and 0, and for outputs
    beyond 66.6 million elements: see the top of this page.

    Examples
    --------
    >>> import torch
    >>> from visops.compat import affine_torch
    >>> image = torch.arange(4.0).reshape(1, 1, 2, 2)
    >>> half_a_pixel = torch.tensor([[[1.0, 0.0, -0.5], [0.0, 1.0, 0.0]]])
    >>> affine_torch(image, half_a_pixel, 2, 3)
    tensor([[[[0.0000, 0.5000, 0.5000],
              [1.0000, 2.5000, 1.5000]]]])
    """
    op = "compat.affine_torch"
    require_tensors(op, input=input, affine_matrix=affine_matrix)
    require_plain(op, input=input, affine_matrix=affine_matrix)
    if input.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"visops.{op}: input has dtype {input.dtype}, must be torch.float32 or torch.float64"
        )
    if input.dim() != 4:
        raise ValueError(
            f"visops.{op}: input has shape {list(input.shape)}, "
            "must be [batch, channels, height, width]"
        )
    return warp_affine(input, affine_matrix, (out_h, out_w), inverse_map=True)


def affine_opencv(
    image_uint8: np.ndarray,
    from_point: Any,
    to_point: Any,
    *,
    size: Sequence[int] = (800, 600),
) -> np.ndarray:
    """Bilinear warp that takes three points of the image to three points of the result.

    The same as ``cv2.warpAffine(image, cv2.getAffineTransform(from_point, to_point), (600, 800))``,
    within 1 grey level on 0.2 % of pixels for OpenCV 5 and 8 levels for OpenCV 4, whose
    coordinates are multiples of 1/32 pixel. OpenCV itself is not needed.

    Parameters
    ----------
    image_uint8 : ndarray ``[H, W]``, ``[H, W, 1]`` or ``[H, W, 3]``, uint8
        Any strides.
    from_point, to_point : array_like ``[3, 2]``
        Points (x, y) in pixels, in the image and in the result.
    size : pair of int
        Rows and columns of the result.

    Returns
    -------
    ndarray, uint8
        800 rows of 600 columns unless `size` says otherwise; of the image's rank. Zero outside.

    Raises
    ------
    TypeError, ValueError
        An argument has a wrong type or shape, or `from_point` lies on a line.

    Notes
    -----
    Differs from python_cpp_extension where coordinates lie between -2 and 0: see the top of
    this page.

    Examples
    --------
    >>> import numpy as np
    >>> from visops.compat import affine_opencv
    >>> image = np.zeros((480, 640, 3), np.uint8)
    >>> corners = [[0, 0], [639, 0], [0, 479]]
    >>> affine_opencv(image, corners, [[0, 0], [599, 0], [0, 799]]).shape
    (800, 600, 3)
    """
    op = "compat.affine_opencv"
    if not isinstance(image_uint8, np.ndarray) or image_uint8.dtype != np.uint8:
        kind = getattr(image_uint8, "dtype", type(image_uint8).__name__)
        raise TypeError(f"visops.{op}: image_uint8 is {kind}, must be a numpy.ndarray of uint8")
    require_plain(op, from_point=from_point, to_point=to_point)
    shape = image_uint8.shape
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] not in (1, 3)):
        raise ValueError(
            f"visops.{op}: image_uint8 has shape {list(shape)}, "
            "must be [height, width] or [height, width, 1 or 3]"
        )
    points = []
    for name, value in (("from_point", from_point), ("to_point", to_point)):
        point = np.asarray(value, dtype=np.float64)
        if point.shape != (3, 2):
            raise ValueError(f"visops.{op}: {name} has shape {list(point.shape)}, must be [3, 2]")
        points.append(point)
    return warp_affine(image_uint8, affine_from_points(*points), size)
