"""Patches cut out of images, and pasted back: the public functions.

Schemas are in csrc/library.cpp, checks of arguments in csrc/torch/roi/crops.cpp and
csrc/torch/roi/paste.cpp, and fake kernels, gradients and vmap in crops_autograd.py.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import as_tensor, no_boxes, number_list
from .._torch.call import call_operator
from .._torch.options import Interpolation, PaddingMode
from .._torch.unsupported_inputs import require_plain
from .arguments import as_boxes, output_pair
from .crops_autograd import crop_rois as _crop
from .crops_autograd import paste_rois as _paste

Array = TypeVar("Array", Tensor, np.ndarray)
_Device = torch.device | str | None


def crop_rois(
    images: Array,
    boxes: Array | Sequence[Array],
    size: int | Sequence[int],
    *,
    interpolation: Interpolation = "bilinear",
    padding_mode: PaddingMode = "constant",
    fill: float | Sequence[float] = 0,
    device: _Device = None,
) -> Array:
    r"""Cut boxes out of images, and resize them to patches of one size.

    Pixel :math:`(i, j)` of a patch takes the image's value at

    .. math:: y_1 + (i + \tfrac12)(y_2 - y_1) / h, \qquad x_1 + (j + \tfrac12)(x_2 - x_1) / w

    where pixel :math:`(0, 0)` of the image covers 0 to 1: coordinates are those of pixel corners,
    as in detectors and slices. Images are read in place, however many boxes there are. Positions
    are computed in float64, values accumulate in float32 (float64 for float64); integers are
    rounded half to even and saturate. A box of whole pixels, cropped at its own size, is a copy.
    Results are bit-identical on every instruction set, at every thread count, and on CPU and CUDA;
    so are gradients.

    Parameters
    ----------
    images : Tensor or ndarray ``[B, C, H, W]``
        Any strides. uint8, int16, uint16, float16, bfloat16, float32 or float64 with every
        interpolation; bool, int8, int32 and int64 with "nearest".
    boxes : Tensor or ndarray ``[K, 5]``, or a list of ``[L, 4]``
        Batch index, ``x1, y1, x2, y2``; or ``x1, y1, x2, y2``, with one entry per image. In pixels,
        of any floating or integer dtype; boxes may extend beyond the image.
    size : int or (int, int)
        Height and width of the patches.
    interpolation : {"bilinear", "nearest", "bicubic"}
        No filter is applied: to shrink a lot without aliasing, use :func:`augment` with
        ``antialias=True``.
    padding_mode : {"constant", "replicate", "reflect", "symmetric", "circular"}
        What lies beyond the image, as in :func:`warp_affine`.
    fill : number or sequence of C numbers
        The value beyond the image if `padding_mode` is "constant". It gets no gradient.
    device : optional
        For arrays: where to compute. Arrays are copied there, and the result back.

    Returns
    -------
    Tensor or ndarray ``[K, C, h, w]``
        Has the images' dtype; channels_last if they are.

    Raises
    ------
    RuntimeError, TypeError, ValueError
        For wrong shapes, dtypes and devices. On the CPU also for boxes that have a batch index out
        of range, are not finite, or have ``x2 < x1`` or ``y2 < y1``. Boxes on CUDA are not checked,
        which would synchronize: patches of such boxes are `fill` and have no gradient.

    Notes
    -----
    Differentiable with respect to `images`, twice, and to `boxes`. The gradients are sums in a
    fixed order, hence deterministic. :func:`paste_rois` is the way back.

    Examples
    --------
    >>> import torch, visops
    >>> image = torch.arange(12.0).reshape(1, 1, 3, 4)
    >>> boxes = torch.tensor([[0.0, 1, 0, 3, 2], [0, 0.5, 0.5, 2.5, 2.5]])
    >>> visops.crop_rois(image, boxes, 2)
    tensor([[[[1.0000, 2.0000],
              [5.0000, 6.0000]]],
    <BLANKLINE>
    <BLANKLINE>
            [[[2.5000, 3.5000],
              [6.5000, 7.5000]]]])
    """
    op = "crop_rois"
    fills = number_list(op, "fill", fill)
    sizes = output_pair(op, size, "size")

    def call(images: Tensor, boxes: Tensor) -> Any:
        return _crop(images, boxes, sizes, interpolation, padding_mode, fills)

    tensors = {"images": images, "boxes": _joined(op, boxes, images)}
    return call_operator(op, call, device, tensors)  # type: ignore[no-any-return]


def paste_rois(
    images: Array,
    patches: Array,
    boxes: Array | Sequence[Array],
    *,
    blend: Literal["replace", "feather", "alpha"] = "replace",
    alpha: Array | None = None,
    feather: float = 8.0,
    interpolation: Interpolation = "bilinear",
    device: _Device = None,
) -> Array:
    r"""Paste patches into images, each into its box: the way back from :func:`crop_rois`.

    Pixels whose centres lie in a box, :math:`x_1 \le x + \tfrac12 < x_2` and likewise for y, take
    the value of the patch, resized to the box with sub-pixel accuracy; its outermost pixels are
    repeated. Boxes are pasted in order, later ones over earlier ones:
    ``out = w * patch + (1 - w) * out``. Everything is computed in float32 (float64 for float64) and
    rounded once; all other pixels keep their values. Results are bit-identical on every instruction
    set, at every thread count, and on CPU and CUDA; so are gradients.

    Parameters
    ----------
    images : Tensor or ndarray ``[B, C, H, W]``
        uint8, int16, uint16, float16, bfloat16, float32 or float64; any strides. Not modified.
    patches : Tensor or ndarray ``[K, C, h, w]``
        Of the images' dtype and of any size.
    boxes : Tensor or ndarray ``[K, 5]``, or a list of ``[L, 4]``
        As in :func:`crop_rois`. Parts beyond the image are ignored.
    blend : {"replace", "feather", "alpha"}
        The weight w: 1; a ramp from 0 at the box's sides to 1; `alpha`.
    alpha : Tensor or ndarray ``[K, h, w]`` or ``[K, 1, h, w]``
        For ``blend="alpha"``: a weight for each pixel of the patches, resized with them, usually in
        [0, 1]. Floating or bool; converted to float32 (float64 for float64 images).
    feather : float
        For ``blend="feather"``: the width of the ramp in pixels of the image, > 0; capped at half
        the box's shorter side.
    interpolation : {"bilinear", "nearest", "bicubic"}
    device : optional
        For arrays: where to compute. Arrays are copied there, and the result back.

    Returns
    -------
    Tensor or ndarray ``[B, C, H, W]``
        New images.

    Raises
    ------
    RuntimeError, TypeError, ValueError
        As for :func:`crop_rois`, and for patches or an `alpha` that don't match images and boxes.
        Boxes on CUDA are not checked: invalid ones are not pasted.

    Notes
    -----
    Differentiable with respect to `images`, `patches` and `alpha`, but not `boxes`; all but the
    gradient of `alpha` can be differentiated again. Deterministic.

    Examples
    --------
    >>> import torch, visops
    >>> image = torch.zeros(1, 1, 3, 5)
    >>> box = torch.tensor([[0.0, 1, 0, 4, 2]])
    >>> visops.paste_rois(image, torch.tensor([[[[2.0, 8.0]]]]), box)
    tensor([[[[0., 2., 5., 8., 0.],
              [0., 2., 5., 8., 0.],
              [0., 0., 0., 0., 0.]]]])
    """
    op = "paste_rois"
    tensors = {
        "images": images,
        "patches": patches,
        "boxes": _joined(op, boxes, images),
        "alpha": alpha,
    }

    def call(images: Tensor, patches: Tensor, boxes: Tensor, alpha: Tensor | None) -> Any:
        weights = None if alpha is None else _as_alpha(alpha, images.dtype)
        return _paste(images, patches, boxes, weights, blend, feather, interpolation)

    return call_operator(  # type: ignore[no-any-return]
        op, call, device, tensors, optional=("alpha",)
    )


def _joined(op: str, boxes: Any, images: Any) -> Any:
    """Join boxes of a list into one tensor, or into one array if the images are an array."""
    if not isinstance(boxes, (list, tuple)):
        return no_boxes(boxes, 5)
    if not isinstance(images, np.ndarray):
        if not isinstance(images, Tensor):
            return boxes  # call_operator() says what is wrong
        return as_boxes(op, boxes, images, name="images")
    parts = [
        as_tensor(op, f"boxes[{i}]", part) if isinstance(part, np.ndarray) else part
        for i, part in enumerate(boxes)
    ]
    return as_boxes(op, parts, as_tensor(op, "images", images), name="images").numpy()


def _as_alpha(alpha: Tensor, dtype: torch.dtype) -> Tensor:
    require_plain("paste_rois", alpha=alpha)
    if not (alpha.is_floating_point() or alpha.dtype == torch.bool):
        name = str(alpha.dtype).removeprefix("torch.")
        raise TypeError(
            f"visops.paste_rois: alpha has dtype {name}, must be a floating type or bool"
        )
    if alpha.dim() == 4 and alpha.shape[1] == 1:
        alpha = alpha.squeeze(1)
    return alpha.to(torch.float64 if dtype == torch.float64 else torch.float32)
