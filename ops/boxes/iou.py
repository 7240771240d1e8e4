"""Overlaps of all pairs of two sets of boxes, or one to one: the public functions.

The schemas are in csrc/library.cpp, the checks of arguments in csrc/torch/boxes/iou.cpp and
pairs.py, fake kernels, gradients and vmap in iou_autograd.py.
"""

from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.options import BoxFormat, check_word
from .pairs import rotated_overlaps, upright_overlaps

Array = TypeVar("Array", Tensor, np.ndarray)
_Device = torch.device | str | None


def box_iou(
    boxes1: Array,
    boxes2: Array,
    fmt: Literal["xyxy", "xywh", "cxcywh", "cxcywhr"] = "xyxy",
    *,
    kind: Literal["iou", "iof"] = "iou",
    aligned: bool = False,
    device: _Device = None,
) -> Array:
    """Overlaps of all pairs, or of boxes one to one: intersection over union.

    For float32 and float64, the values equal those of ``torchvision.ops.box_iou`` bit for bit, but
    no intermediate results are stored for the pairs. Results and gradients are bit-identical on
    every instruction set, at every thread count, and on CPU and CUDA.

    Parameters
    ----------
    boxes1 : Tensor or ndarray ``[..., N, 4]``
    boxes2 : Tensor or ndarray ``[..., M, 4]``
        Corners ``x1, y1, x2, y2``, in any unit. float16, bfloat16 (computed in float32), float32,
        float64 or integers (computed in float64); the two may differ. Dimensions before the last
        two broadcast. No boxes may also be ``[0]``.
    fmt : {"xyxy", "xywh", "cxcywh", "cxcywhr"}
        What a box's four numbers are: corners; a corner, width and height; or the centre, width and
        height. They are converted to corners first. "cxcywhr" is torchvision's for rotated boxes:
        :func:`box_iou_rotated` with angles in degrees, counter-clockwise in images.
    kind : {"iou", "iof"}
        What the intersection is divided by: the union, or the area of the box of `boxes1`
        (intersection over foreground).
    aligned : bool
        Whether box i of `boxes1` is paired with box i of `boxes2` only; N and M are equal.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    Tensor or ndarray ``[..., N, M]``, or ``[..., N]`` if `aligned`
        float64 if either set of boxes is, else float32. Two boxes without area overlap by 0
        (torchvision: NaN). NaN coordinates give NaN.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, dtypes or devices. ValueError for unknown words, and for tensors where
        `aligned` or "iof" are asked for.

    Notes
    -----
    Differentiable twice with respect to both sets. The gradient is that of torch's autograd for the
    formula: equal coordinates get half of it each. It is deterministic and needs no memory for the
    pairs beyond the result's own gradient. The second derivative is composed of torch's operators
    and stores some dozens of numbers for each pair; so are `aligned` results and their gradients.
    Aligned overlaps equal those of all pairs bit for bit, but for the last bits of distance and
    complete ones. A batch is one call of the kernel for each sample.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 5], [20, 20, 30, 30]])
    >>> visops.box_iou(boxes, boxes[:2])
    tensor([[1.0000, 0.5000],
            [0.5000, 1.0000],
            [0.0000, 0.0000]])
    """
    op = "box_iou"
    _check_kind(op, kind)
    if isinstance(fmt, str) and fmt == "cxcywhr":
        return rotated_overlaps(  # type: ignore[no-any-return]
            op, boxes1, boxes2, device, kind=kind, aligned=aligned, degrees=True
        )
    return upright_overlaps(  # type: ignore[no-any-return]
        op, boxes1, boxes2, device, kind=kind, eps=1e-7, fmt=fmt, aligned=aligned
    )


def generalized_box_iou(
    boxes1: Array,
    boxes2: Array,
    *,
    fmt: BoxFormat = "xyxy",
    aligned: bool = False,
    device: _Device = None,
) -> Array:
    """Generalized intersection over union of all pairs, or of boxes one to one, in [-1, 1].

    The overlap less the fraction of the smallest box around both that neither covers. It also tells
    how far boxes are apart, and its gradient moves them together.

    Parameters
    ----------
    boxes1 : Tensor or ndarray ``[..., N, 4]``
    boxes2 : Tensor or ndarray ``[..., M, 4]``
    fmt : {"xyxy", "xywh", "cxcywh"}
    aligned : bool
    device : optional
        As in :func:`box_iou`.

    Returns
    -------
    Tensor or ndarray ``[..., N, M]``, or ``[..., N]`` if `aligned`
        As :func:`box_iou`. If the smallest box around both has no area, the fraction is 0.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        As :func:`box_iou`.

    Notes
    -----
    Values are those of ``torchvision.ops.generalized_box_iou``. Gradients: see :func:`box_iou`.

    Source: H. Rezatofighi et al., "Generalized intersection over union: a metric and a loss for
    bounding box regression", CVPR 2019.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 5], [20, 0, 30, 10]])
    >>> visops.generalized_box_iou(boxes[:1], boxes)
    tensor([[ 1.0000,  0.5000, -0.3333]])
    """
    return upright_overlaps(  # type: ignore[no-any-return]
        "generalized_box_iou",
        boxes1,
        boxes2,
        device,
        kind="generalized",
        eps=1e-7,
        fmt=fmt,
        aligned=aligned,
    )


def distance_box_iou(
    boxes1: Array,
    boxes2: Array,
    eps: float = 1e-7,
    *,
    fmt: BoxFormat = "xyxy",
    aligned: bool = False,
    device: _Device = None,
) -> Array:
    """Distance intersection over union of all pairs.

    The overlap less the squared distance of the centres, in units of the squared diagonal of the
    smallest box around both.

    Parameters
    ----------
    boxes1 : Tensor or ndarray ``[..., N, 4]``
    boxes2 : Tensor or ndarray ``[..., M, 4]``
    eps : float
        Added to the squared diagonal; >= 0.
    fmt : {"xyxy", "xywh", "cxcywh"}
    aligned : bool
    device : optional
        As in :func:`box_iou`.

    Returns
    -------
    Tensor or ndarray ``[..., N, M]``, or ``[..., N]`` if `aligned`
        As :func:`box_iou`.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        As :func:`box_iou`, and for an `eps` that is negative or not finite.

    Notes
    -----
    Values are those of ``torchvision.ops.distance_box_iou``. Gradients: see :func:`box_iou`.

    Source: Z. Zheng et al., "Distance-IoU loss: faster and better learning for bounding box
    regression", AAAI 2020.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 5], [20, 0, 30, 10]])
    >>> visops.distance_box_iou(boxes[:1], boxes)
    tensor([[ 1.0000,  0.4688, -0.4000]])
    """
    return upright_overlaps(  # type: ignore[no-any-return]
        "distance_box_iou",
        boxes1,
        boxes2,
        device,
        kind="distance",
        eps=eps,
        fmt=fmt,
        aligned=aligned,
    )


def complete_box_iou(
    boxes1: Array,
    boxes2: Array,
    eps: float = 1e-7,
    *,
    fmt: BoxFormat = "xyxy",
    aligned: bool = False,
    device: _Device = None,
) -> Array:
    """Complete intersection over union of all pairs: distance and shape.

    :func:`distance_box_iou` less a term for boxes with different aspect ratios.

    Parameters
    ----------
    boxes1 : Tensor or ndarray ``[..., N, 4]``
    boxes2 : Tensor or ndarray ``[..., M, 4]``
    eps : float
        Added to two denominators; >= 0.
    fmt : {"xyxy", "xywh", "cxcywh"}
    aligned : bool
    device : optional
        As in :func:`box_iou`.

    Returns
    -------
    Tensor or ndarray ``[..., N, M]``, or ``[..., N]`` if `aligned`
        As :func:`box_iou`.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        As :func:`distance_box_iou`.

    Notes
    -----
    Values are those of ``torchvision.ops.complete_box_iou``, except for the arctangent, which is
    the same everywhere and computed once for each box, not for each pair. Boxes without height have
    an aspect ratio of infinity, points of 0. Gradients: see :func:`box_iou`; they treat the weight
    of the added term as a constant, as in the paper and in torchvision.

    Source: Z. Zheng et al., "Distance-IoU loss: faster and better learning for bounding box
    regression", AAAI 2020.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 5], [20, 0, 30, 10]])
    >>> visops.complete_box_iou(boxes[:1], boxes)
    tensor([[ 1.0000,  0.4655, -0.4000]])
    """
    return upright_overlaps(  # type: ignore[no-any-return]
        "complete_box_iou",
        boxes1,
        boxes2,
        device,
        kind="complete",
        eps=eps,
        fmt=fmt,
        aligned=aligned,
    )


def box_iou_rotated(
    boxes1: Array,
    boxes2: Array,
    *,
    kind: Literal["iou", "iof"] = "iou",
    aligned: bool = False,
    device: _Device = None,
) -> Array:
    r"""Overlaps of rotated boxes, all pairs or one to one: intersection over union.

    A box's corners are its centre and, from there, :math:`(\pm w/2, \pm h/2)` turned by the
    angle: :math:`x' = x \cos a - y \sin a,\; y' = x \sin a + y \cos a`, counter-clockwise where
    y points up, clockwise in images. The overlap is computed in float64 whatever the dtype, as a
    sum of continuous functions of the boxes, so equal boxes and shared edges are no special case: a
    box overlaps itself by exactly 1. Results and gradients are bit-identical on every instruction
    set, at every thread count, and on CPU and CUDA.

    Parameters
    ----------
    boxes1 : Tensor or ndarray ``[..., N, 5]``
    boxes2 : Tensor or ndarray ``[..., M, 5]``
        Centre ``x, y``, ``width``, ``height``, ``angle`` in radians. Any floating or integer dtype;
        the two may differ. A box with a side that is not positive, or with an infinite number,
        overlaps nothing.
        Dimensions before the last two broadcast. No boxes may also be ``[0]``.
    kind : {"iou", "iof"}
    aligned : bool
        As in :func:`box_iou`. `aligned` results are composed of torch's operators and may differ
        from those of all pairs in the last bits.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    Tensor or ndarray ``[..., N, M]``, or ``[..., N]`` if `aligned`
        In [0, 1]. float64 if either set of boxes is, else float32. NaN in a box gives NaN.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, dtypes or devices.

    Notes
    -----
    Differentiable twice with respect to both sets. The gradient is the rate at which a box's moving
    border changes the intersection. An edge on an edge of the other box counts half, so a box has
    no gradient with itself. The second derivative is composed of torch's operators and stores some
    dozens of numbers for each pair.

    Examples
    --------
    >>> import math, torch, visops
    >>> boxes = torch.tensor([[5.0, 5, 10, 10, 0], [5, 5, 10, 10, math.pi / 4]])
    >>> visops.box_iou_rotated(boxes, boxes)
    tensor([[1.0000, 0.7071],
            [0.7071, 1.0000]])
    """
    op = "box_iou_rotated"
    _check_kind(op, kind)
    return rotated_overlaps(  # type: ignore[no-any-return]
        op, boxes1, boxes2, device, kind=kind, aligned=aligned, degrees=False
    )


def _check_kind(op: str, kind: str) -> None:
    check_word(op, "kind", kind, ("iou", "iof"))
