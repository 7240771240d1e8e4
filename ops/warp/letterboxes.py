"""Letterboxes: images shrunk or enlarged into a size of another shape, with bars beside them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

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
from .._torch.fakes import differs
from .._torch.numbers import has_order, is_symbol, tensor_of_symbols
from .._torch.options import Convention, check_word, flag
from .matrix_algebra import Array


class _Position(NamedTuple):
    """Where the image lies in the result; each ``[...]``, in whole pixels."""

    factors: tuple[Tensor, Tensor]  # x, y: width and height there, over the image's own
    offsets: tuple[Tensor, Tensor]  # x, y of its corner


def letterbox(
    image_size: Any,
    size: Any,
    *,
    center: bool = True,
    scaleup: bool = True,
    convention: Convention = "half_pixel",
    like: Tensor | np.ndarray | None = None,
) -> Any:
    """Matrix that fits an image into a size, and keeps its shape: bars fill what is left.

    The image is resized by one factor, its sides are rounded to whole pixels, half to even, and its
    corner is a whole pixel: the geometry that YOLO's detectors are trained with. Call
    :func:`unletterbox_boxes` to move the boxes that they find back to the image.

    Parameters
    ----------
    image_size : pair of int, or integer Tensor or ndarray ``[2]`` or ``[B, 2]``
        Height and width of the image.
    size : int or pair of int
        Height and width of the result; an integer stands for both.
    center : bool
        Whether the bars on both sides are equal; of an odd number of pixels, the right or bottom
        bar has one more. Otherwise the image is at the top left.
    scaleup : bool
        Whether small images are enlarged.
    convention : {"half_pixel", "integer"}
        The matrix is for this `convention` of :func:`warp_affine` and :func:`augment`. Boxes are
        moved by the one for "half_pixel".
    like : Tensor or ndarray, optional
        Where `image_size` consists of Python's numbers: an image, whose library and device the
        result has.

    Returns
    -------
    Tensor or ndarray, float64
        ``[2, 3]`` or ``[B, 2, 3]``, source to destination. With "half_pixel", its last column is
        the width of the left and the height of the top bar.

    Raises
    ------
    TypeError, ValueError
        A size has a wrong shape, or is not a positive integer; `convention` is unknown.

    Examples
    --------
    >>> import torch, visops
    >>> photo = torch.zeros(3, 480, 640, dtype=torch.uint8)
    >>> matrix = visops.letterbox((480, 640), 320)
    >>> matrix
    tensor([[ 0.5000,  0.0000,  0.0000],
            [ 0.0000,  0.5000, 40.0000]], dtype=torch.float64)
    >>> batch = visops.augment(
    ...     [photo],
    ...     matrix,
    ...     (320, 320),
    ...     convention="half_pixel",
    ...     window=[0, 0, 640, 480],  # bars begin sharply
    ...     fill=114,
    ...     out_dtype=torch.uint8,
    ... )
    >>> batch[0, 0, 39:41, 0].tolist()
    [114, 0]
    """
    op = "letterbox"
    check_like(op, like)
    check_word(op, "convention", convention, ("half_pixel", "integer"))
    center, scaleup = flag(op, "center", center), flag(op, "scaleup", scaleup)
    device = common_device(op, (image_size, like))
    _, position = _position(op, image_size, size, device, center, scaleup)
    (p, q), (x, y) = position.factors, position.offsets
    if convention == "integer":  # the centre of pixel 0 moves from 0.5 to 0
        x, y = x + (0.5 * p - 0.5), y + (0.5 * q - 0.5)
    zero = torch.zeros_like(x)
    rows = torch.stack((p, zero, x, zero, q, y), dim=-1)
    return restore(rows.unflatten(-1, (2, 3)), torch.float64, (image_size, like))


def unletterbox_boxes(
    boxes: Array,
    image_size: Any,
    size: Any,
    *,
    center: bool = True,
    scaleup: bool = True,
    clip: bool = True,
) -> Array:
    """Move boxes found in a letterboxed image to the image itself.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[..., N, 4]``
        x1, y1, x2, y2 in pixels of the letterboxed image; pixel (0, 0) covers 0 to 1.
    image_size, size, center, scaleup
        As :func:`letterbox` was called with. Sizes ``[B, 2]`` go with boxes ``[B, N, 4]``, and
        sizes ``[N, 2]``, of each box's image, with boxes ``[N, 4]``: those that
        :func:`batched_nms` kept.
    clip : bool
        Whether to clip boxes to the image.

    Returns
    -------
    Tensor or ndarray ``[..., N, 4]``
        In pixels of the image, of the type and floating dtype of `boxes` (float64 for integers).

    Raises
    ------
    TypeError, ValueError
        As :func:`letterbox`, and if shapes don't fit.

    Notes
    -----
    Differentiable with respect to `boxes`.

    Examples
    --------
    >>> import torch, visops
    >>> found = torch.tensor([[80.0, 100.0, 160.0, 300.0]])  # in 320 x 320
    >>> visops.unletterbox_boxes(found, (480, 640), 320)
    tensor([[160., 120., 320., 480.]])
    """
    op = "unletterbox_boxes"
    center, scaleup = flag(op, "center", center), flag(op, "scaleup", scaleup)
    clip = flag(op, "clip", clip)
    device = common_device(op, (boxes, image_size))
    found = as_float64(op, "boxes", boxes, device)
    shape = list(found.shape)
    if found.dim() < 2 or found.shape[-1] != 4:
        raise ValueError(f"visops.{op}: boxes has shape {shape}, expected [..., N, 4]")
    extents, position = _position(op, image_size, size, found.device, center, scaleup)
    each = extents.dim() == 2 and found.dim() == 2  # a box has a size of its own
    if each:
        found = found.unsqueeze(1)
    if extents.dim() == 2 and (found.dim() != 3 or differs(found.shape[0], 1, extents.shape[0])):
        count = extents.shape[0]
        raise ValueError(
            f"visops.{op}: boxes has shape {shape}, expected [{count}, N, 4] or [{count}, 4] as "
            f"image_size has {count} samples"
        )
    moved = (found - _for_corners(position.offsets)) / _for_corners(position.factors)
    if clip:
        moved = torch.minimum(moved.clamp(min=0.0), _for_corners(extents.flip(-1).unbind(-1)))
    moved = moved.squeeze(1) if each else moved
    return restore(moved, floating_dtype(boxes), (boxes, image_size))


def _position(
    op: str, image_size: Any, size: Any, device: torch.device | None, center: bool, scaleup: bool
) -> tuple[Tensor, _Position]:
    """Return images' sizes, float64 [2] or [B, 2], and where images lie in the result."""
    extents = as_float64(op, "image_size", image_size, device)
    if extents.dim() not in (1, 2) or extents.shape[-1] != 2:
        shape = list(extents.shape)
        photo = extents.dim() > 2 and op == "letterbox"
        hint = "; for a photo, call visops.transforms.Letterbox(size)(photo)" if photo else ""
        raise ValueError(f"visops.{op}: image_size has shape {shape}, expected [2] or [B, 2]{hint}")
    whole = (extents >= 1) & (extents == extents.floor()) & torch.isfinite(extents)
    refuse(op, "image_size", ~whole.all(-1), "must be two positive integers, height and width")
    height, width = extents.unbind(-1)
    rows, columns = _target(op, size)
    # A number divided by a tensor is its product with a reciprocal, which may miss a tie.
    tall, wide = (tensor_of_symbols(side, extents.device) for side in (rows, columns))
    factor = torch.minimum(tall / height, wide / width)
    if not scaleup:
        factor = factor.clamp(max=1.0)
    inner = [(side * factor).round().clamp(min=1.0) for side in (width, height)]
    bars = [limit - side for limit, side in zip((columns, rows), inner, strict=True)]
    offsets = [(bar / 2).floor() if center else torch.zeros_like(bar) for bar in bars]
    return extents, _Position((inner[0] / width, inner[1] / height), (offsets[0], offsets[1]))


def _for_corners(x_and_y: Sequence[Tensor]) -> Tensor:
    """Return x, y, x, y as [..., 1, 4], to go with boxes [..., N, 4]."""
    return torch.stack((*x_and_y, *x_and_y), dim=-1).unsqueeze(-2)


def _target(op: str, size: Any) -> tuple[int, int]:
    is_pair = isinstance(size, (Sequence, np.ndarray, Tensor)) and getattr(size, "ndim", 1) > 0
    sides = size if is_pair else (size, size)
    try:
        if not has_order(size):
            raise TypeError
        rows, columns = (side if is_symbol(side) else int(side) for side in sides)
        whole = min(rows, columns) >= 1 and max(rows, columns) < 2**31
        pairs = zip((rows, columns), sides, strict=True)
        whole = whole and all(is_symbol(side) or n == float(side) for n, side in pairs)
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise ValueError(
            f"visops.{op}: size is {size!r}, must be a positive integer or (height, width), "
            "below 2^31"
        )
    return rows, columns
