"""Warps by homographies: :func:`visops.augment` with the interface of :func:`warp_affine`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import as_tensor, reject_channels_first
from .._torch.call import renamed
from .._torch.fakes import prefers_channels_last
from .._torch.options import Convention, Interpolation, PaddingMode, flag
from .._torch.unsupported_inputs import require_plain
from .augment import augment
from .matrix_algebra import Array

_OP = "warp_perspective"

_DIRECT = (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)

# Integers that augment() doesn't take, and floats that hold all their values.
_WIDER = {
    torch.int16: torch.float32,
    torch.uint16: torch.float32,
    torch.bool: torch.float32,
    torch.int8: torch.float32,
    torch.int32: torch.float64,
}
_NEAREST_ONLY = (torch.bool, torch.int8, torch.int32)


def warp_perspective(
    image: Array,
    matrix: Any,
    size: Sequence[int] | None = None,
    *,
    mode: Interpolation = "bilinear",
    padding_mode: PaddingMode = "constant",
    fill: float | Sequence[float] = 0,
    inverse_map: bool = False,
    convention: Convention = "integer",
) -> Array:
    r"""Warp images with homographies: see a plane from another side.

    Every output pixel :math:`(x, y)` takes the image's value at :math:`(u/w, v/w)`, where
    :math:`(u, v, w) = M^{-1} (x, y, 1)`: the definition of OpenCV's ``warpPerspective``. Where
    :math:`w = 0` the result is `fill`.

    Coordinates, rounding and bits are those of :func:`augment`, which computes it: float32 (float64
    for float64 and int32 images), integers rounded half to even and saturated; the same bits on
    every instruction set, at every thread count, and on CPU and CUDA.

    Parameters
    ----------
    image : Tensor ``[B, C, H, W]`` or ``[C, H, W]``, or ndarray ``[H, W]`` or ``[H, W, C]``
        uint8, int16, uint16, float16, bfloat16, float32 or float64 in every mode; bool, int8 and
        int32 with ``mode="nearest"``. Integers but uint8 are converted to floats and back.
    matrix : Tensor or array_like, ``[3, 3]``, ``[B, 3, 3]``, ``[2, 3]`` or ``[B, 2, 3]``
        In pixels, for columns (x, y). Maps source to destination, unless `inverse_map`. A tensor
        has any floating dtype and is on the image's device; anything else is converted to float64.
        Without a batch, or with a batch of 1, it applies to every sample.
    size : pair of int, optional
        Height and width of the result. Default: the image's.
    mode, padding_mode, fill, inverse_map, convention
        As in :func:`warp_affine`.

    Returns
    -------
    Tensor or ndarray
        The image's kind, dtype, device and rank. A channels_last image gives a channels_last
        result.

    Raises
    ------
    RuntimeError, TypeError, ValueError
        An argument has a wrong shape, type, device or value; a matrix is not finite or, if it has
        to be inverted, singular. The message names the argument and the sample. CUDA matrices are
        not checked, which would synchronize: a sample with such a matrix becomes `fill`.

    Notes
    -----
    Differentiable once with respect to `image` and `matrix`. For antialiasing, colour and lists of
    images in the same pass, call :func:`augment`.

    Source: G. Bradski, "The OpenCV Library", 2000, for the definition.

    Examples
    --------
    >>> import torch, visops
    >>> image = torch.arange(12.0).reshape(1, 3, 4)
    >>> half = [[1, 0, 0], [0, 1, 0], [0, 0, 2]]  # divides coordinates by 2
    >>> visops.warp_perspective(image, half, size=(2, 2))
    tensor([[[ 0.,  2.],
             [ 8., 10.]]])
    """
    require_plain(_OP, image=image, matrix=matrix)
    inverse_map = flag(_OP, "inverse_map", inverse_map)
    pixels = _pixels(image)
    rank, dtype = pixels.dim(), pixels.dtype
    if rank not in (3, 4):
        raise ValueError(
            f"visops.{_OP}: image has shape {list(pixels.shape)}, "
            "must be [batch, channels, height, width] or [channels, height, width]"
        )
    name = str(dtype).removeprefix("torch.")
    if dtype not in _WIDER and dtype not in _DIRECT:
        raise ValueError(
            f"visops.{_OP}: image has dtype {name}, must be uint8, int16, uint16, float16, "
            "bfloat16, float32 or float64, or bool, int8 or int32 with mode 'nearest'"
        )
    if dtype in _NEAREST_ONLY and mode != "nearest":
        raise ValueError(f"visops.{_OP}: image has dtype {name}, which needs mode 'nearest'")
    images = pixels if rank == 4 else pixels.unsqueeze(0)
    images = images.to(_WIDER.get(dtype, dtype))
    with_channels_last = prefers_channels_last(images)
    try:
        warped = augment(
            images,
            matrix,
            tuple(images.shape[-2:]) if size is None else size,
            mode=mode,
            padding_mode=padding_mode,
            fill=fill,
            inverse_map=inverse_map,
            convention=convention,
            layout="CHW",
            out_dtype=images.dtype,
            memory_format=torch.channels_last if with_channels_last else torch.contiguous_format,
        )
    except (RuntimeError, TypeError, ValueError) as error:
        names = {"images have": "image has", "images": "image"}
        raise renamed(error, _OP, "augment", names) from None
    if dtype in _WIDER:
        warped = _as_integers(warped, dtype)
    result = warped if rank == 4 else warped.squeeze(0)
    if isinstance(image, np.ndarray):
        return _as_array(result, image.ndim)  # type: ignore[return-value]
    return result  # type: ignore[return-value]


def _pixels(image: Any) -> Tensor:
    """Return a tensor as it is, and an array as [C, H, W]."""
    if isinstance(image, Tensor):
        return image
    if not isinstance(image, np.ndarray):
        kind = type(image).__name__
        raise TypeError(
            f"visops.{_OP}: image is a {kind}, must be a torch.Tensor or a numpy.ndarray"
        )
    if image.ndim not in (2, 3):
        raise ValueError(
            f"visops.{_OP}: image has shape {list(image.shape)}, "
            "must be [height, width] or [height, width, channels]"
        )
    reject_channels_first(_OP, image)
    pixels = as_tensor(_OP, "image", image)
    return pixels.unsqueeze(0) if image.ndim == 2 else pixels.permute(2, 0, 1)


def _as_integers(values: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.bool:
        return values != 0
    limits = torch.iinfo(dtype)
    return values.round().clamp(limits.min, limits.max).to(dtype)


def _as_array(result: Tensor, rank: int) -> np.ndarray:
    """Return [C, H, W] as [H, W] or [H, W, C], in rows."""
    planes = result.detach()[0] if rank == 2 else result.detach().permute(1, 2, 0)
    return planes.contiguous().numpy()
