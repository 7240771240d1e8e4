"""Common filters, made of filter2d: Gaussian and box blurs, and Sobel derivatives."""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.numbers import as_index, check_order, integer_of, real_number
from .filter2d import computed_in, filtered

Array = TypeVar("Array", Tensor, np.ndarray)

_MOST = 65535  # taps of a kernel's side: more than an image is wide
# OpenCV's kernels of these sizes where no sigma is given; the middle and one side, in 256ths.
_SMALL = {
    1: (256,),
    3: (128, 64),
    5: (96, 64, 16),
    7: (72, 56, 28, 8),
    9: (60, 51, 30, 13, 4),
}


def gaussian_blur(
    image: Array,
    size: int | Sequence[int] | None = None,
    sigma: float | Sequence[float] | None = None,
    *,
    border: str = "reflect_101",
    fill: float = 0.0,
    channels: str | None = None,
) -> Array:
    """Blur images with a Gaussian: ``cv2.GaussianBlur``.

    Parameters
    ----------
    image : Tensor ``[..., H, W]``, or ndarray ``[H, W]`` or ``[..., H, W, C]``
        As in :func:`filter2d`.
    size : int or (int, int), optional
        Height and width of the kernel, odd. By default from `sigma`: 3 sigma to either side for
        8-bit images, 4 for others.
    sigma : float or (float, float), optional
        Standard deviation in pixels, vertical and horizontal. By default from `size`: 0.3 ((size -
        1) / 2 - 1) + 0.8, and for sizes up to 9 OpenCV's own kernels, such as 1, 2, 1.
    border, fill, channels
        As in :func:`filter2d`.

    Returns
    -------
    Tensor or ndarray
        The image's shape and dtype.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        As :func:`filter2d`; if neither `size` nor `sigma` is given, a size is not odd and positive,
        or sigma is not positive and finite; or a size passes 65535.

    Notes
    -----
    Values of floating images are OpenCV's but for rounding. For uint8, OpenCV computes with fixed
    points: results differ by at most a level.

    Examples
    --------
    >>> import torch, visops
    >>> image = torch.zeros(1, 3, 5)
    >>> image[0, 1, 2] = 16
    >>> visops.gaussian_blur(image, 3, border="constant")
    tensor([[[0., 1., 2., 1., 0.],
             [0., 2., 4., 2., 0.],
             [0., 1., 2., 1., 0.]]])
    """
    op = "gaussian_blur"
    sizes = (None, None) if size is None else _pair(op, "size", size)
    sigmas = (None, None) if sigma is None else _pair(op, "sigma", sigma)
    reach = 3 if getattr(image, "dtype", None) in (torch.uint8, torch.int8, "uint8", "int8") else 4
    column, row = (
        _gaussian(op, extent, deviation, reach)
        for extent, deviation in zip(sizes, sigmas, strict=True)
    )
    kernels = (row[None, :], column[:, None])
    return filtered(op, image, kernels, border, fill, channels, None)  # type: ignore[no-any-return]


def box_blur(
    image: Array,
    size: int | Sequence[int],
    *,
    border: str = "reflect_101",
    fill: float = 0.0,
    channels: str | None = None,
) -> Array:
    """Blur images with a box, the mean of each neighbourhood: ``cv2.blur``.

    Parameters
    ----------
    image : Tensor ``[..., H, W]``, or ndarray ``[H, W]`` or ``[..., H, W, C]``
    size : int or (int, int)
        Height and width of the box.
    border, fill, channels
        As in :func:`filter2d`.

    Returns
    -------
    Tensor or ndarray
        The image's shape and dtype.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        As :func:`filter2d`, and if a size is not within 1 to 65535.

    Notes
    -----
    Values of floating images are OpenCV's but for rounding, and those of 16-bit integers equal. For
    uint8, means are exact and halves round to even; OpenCV's may be a level more.

    Examples
    --------
    >>> import numpy as np, visops
    >>> visops.box_blur(np.array([[0.0, 3.0, 6.0, 0.0]]), (1, 3))
    array([[2., 3., 3., 4.]])
    """
    op = "box_blur"
    height, width = (_extent(op, side) for side in _pair(op, "size", size))
    # Sums of integers are exact, and so are their halves, which decide the rounding.
    kernels = (np.ones((1, width)), np.ones((height, 1)))
    return filtered(  # type: ignore[no-any-return]
        op, image, kernels, border, fill, channels, None, divisor=height * width
    )


def sobel(
    image: Array,
    dx: int,
    dy: int,
    size: int = 3,
    *,
    border: str = "reflect_101",
    fill: float = 0.0,
    channels: str | None = None,
    dtype: Any = None,
) -> Array:
    """Differentiate images with Sobel's kernels: ``cv2.Sobel``.

    Parameters
    ----------
    image : Tensor ``[..., H, W]``, or ndarray ``[H, W]`` or ``[..., H, W, C]``
    dx, dy : int
        Orders of the derivatives along x and y, 0 to 2, not both 0.
    size : {1, 3, 5, 7}
        The kernel's; 1 doesn't smooth across the derivative.
    border, fill, channels
        As in :func:`filter2d`.
    dtype : torch.dtype or NumPy dtype, optional
        The result's. By default floating, as derivatives have signs: the image's dtype, float32
        for integers of 8 and 16 bits, and float64 for others. Integers saturate.

    Returns
    -------
    Tensor or ndarray
        The image's shape. The kernel is not normalised, as in OpenCV.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        As :func:`filter2d`, and for orders and sizes out of range.

    Notes
    -----
    Values are OpenCV's, exactly for images of 8 and 16 bits.

    Examples
    --------
    >>> import numpy as np, visops
    >>> ramp = np.arange(5, dtype=np.uint8)[None].repeat(3, 0)
    >>> visops.sobel(ramp, 1, 0)[1]
    array([0., 8., 8., 8., 0.], dtype=float32)
    """
    op = "sobel"
    orders = [integer_of(op, name, order, (0, 1, 2)) for name, order in (("dx", dx), ("dy", dy))]
    if orders == [0, 0]:
        raise ValueError(f"visops.{op}: dx and dy are 0, one of them must be positive")
    size = integer_of(op, "size", size, (1, 3, 5, 7))
    row, column = (_derivative(order, size) for order in orders)
    if dtype is None and isinstance(image, (Tensor, np.ndarray)):
        dtype = _floating(op, image)
    kernels = (row[None, :], column[:, None])
    return filtered(op, image, kernels, border, fill, channels, dtype)  # type: ignore[no-any-return]


def _floating(op: str, image: Tensor | np.ndarray) -> torch.dtype | None:
    """Return the dtype of derivatives; None for that of the image."""
    if isinstance(image, np.ndarray):
        if image.dtype.kind not in "iu":
            return None
        return torch.float32 if image.dtype.itemsize <= 2 else torch.float64
    return None if image.is_floating_point() else computed_in(op, image.dtype)


def _pair(op: str, name: str, value: Any) -> tuple[Any, Any]:
    check_order(op, name, value, "a number or two, vertical and horizontal")
    if isinstance(value, Sequence):
        if len(value) != 2:
            raise ValueError(
                f"visops.{op}: {name} is {value!r}, must be a number or two, vertical and "
                "horizontal"
            )
        return value[0], value[1]
    return value, value


def _extent(op: str, side: Any) -> int:
    try:
        found = as_index(side)
    except TypeError:
        raise TypeError(f"visops.{op}: size is {side!r}, must be an integer") from None
    if found < 1:
        raise ValueError(f"visops.{op}: size is {found}, must be positive")
    if found > _MOST:
        raise ValueError(f"visops.{op}: size is {found}, must be at most {_MOST}")
    return found


def _gaussian(op: str, size: Any, sigma: Any, reach: int) -> np.ndarray:
    """Return a kernel [size] whose sum is 1."""
    if sigma is None:
        if size is None:
            raise ValueError(f"visops.{op}: size and sigma are None, one of them is needed")
    else:
        sigma = real_number(op, "sigma", sigma)
        if not 0 < sigma < math.inf:
            raise ValueError(f"visops.{op}: sigma is {sigma}, must be positive and finite")
        if size is None:
            size = 2 * reach * sigma + 1
            if size >= _MOST:
                raise ValueError(
                    f"visops.{op}: sigma is {sigma}, which takes a kernel of more than {_MOST} "
                    "elements; give a size"
                )
            size = round(size) | 1
    size = _extent(op, size)
    if size % 2 == 0:
        raise ValueError(f"visops.{op}: size is {size}, must be odd")
    if sigma is None:
        # Not `in _SMALL`, which would make a constant of a size that a graph leaves open.
        side = next((side for known, side in _SMALL.items() if known == size), None)
        if side is not None:
            # Not side[:0:-1] of an array: dynamo's NumPy drops the bound of such a slice.
            return np.array([*reversed(side[1:]), *side]) / 256
        last = np.arange(size)[-1:]  # an array: torch.compile would keep a number for good
        sigma = 0.3 * (last / 2 - 1) + 0.8
    return gaussian(size, sigma)


def gaussian(size: int, sigma: float | np.ndarray) -> np.ndarray:
    """Return a Gaussian's weights [size], whose sum is 1; of sigma [N, 1], [N, size]."""
    weights = np.exp(-0.5 * ((np.arange(size) - size // 2) / sigma) ** 2)
    return weights / weights.sum(-1, keepdims=True)  # type: ignore[no-any-return]


def _derivative(order: int, size: int) -> np.ndarray:
    """Return Sobel's kernel along one axis: binomial, differentiated `order` times."""
    if size == 1 and order > 0:
        size = 3
    kernel = np.ones(1)
    for _ in range(size - 1 - order):
        kernel = np.convolve(kernel, [1.0, 1.0])
    for _ in range(order):
        kernel = np.convolve(kernel, [-1.0, 1.0])
    return kernel
