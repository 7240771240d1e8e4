"""Losses of boxes matched one to one, as torchvision has them."""

import torch
from torch import Tensor

from .._torch.fakes import broadcast_shapes
from .._torch.numbers import real_number
from .._torch.options import Reduction, check_reduction
from .._torch.unsupported_inputs import (
    is_multiple_dispatch_error,
    reject_float8,
    require_plain,
    require_tensors,
)
from .iou_autograd import area, aspect_difference, centre_distance, hull_sides, intersection


def generalized_box_iou_loss(
    boxes1: Tensor,
    boxes2: Tensor,
    reduction: Reduction = "none",
    eps: float = 1e-7,
) -> Tensor:
    """1 less the generalized intersection over union of boxes matched one to one.

    Arguments and values are those of ``torchvision.ops.generalized_box_iou_loss``.

    Parameters
    ----------
    boxes1, boxes2 : Tensor ``[N, 4]`` or ``[4]``
        Corners ``x1, y1, x2, y2``, of any floating or integer dtype; they may broadcast.
    reduction : {"none", "mean", "sum"}
        The mean of no boxes is 0.
    eps : float
        Added to areas that are divided by; boxes of about its root or smaller need a smaller one.

    Returns
    -------
    Tensor ``[N]``, or one number if reduced
        In [0, 2]; float64 if either argument is, else float32.

    Raises
    ------
    TypeError, ValueError
        For anything but tensors, wrong shapes, dtypes, devices or words.

    Notes
    -----
    Differentiable any number of times, with torch's own operators. For arrays, or all pairs:
    ``1 - visops.generalized_box_iou(boxes1, boxes2, aligned=True)``, without `eps`.

    Source: H. Rezatofighi et al., "Generalized intersection over union: a metric and a loss for
    bounding box regression", CVPR 2019.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 5]])
    >>> visops.generalized_box_iou_loss(boxes, boxes.flip(0), reduction="mean")
    tensor(0.5000)
    """
    op = "generalized_box_iou_loss"
    a, b = _read(op, boxes1, boxes2, reduction)
    eps = real_number(op, "eps", eps)
    inter, union = _parts(a, b)
    hull = area(hull_sides(a, b))
    loss = 1 - (inter / (union + eps) - (hull - union) / (hull + eps))
    return _reduced(loss, reduction)


def distance_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: Reduction = "none", eps: float = 1e-7
) -> Tensor:
    """1 less the distance intersection over union of boxes matched one to one.

    Arguments and values are those of ``torchvision.ops.distance_box_iou_loss``.

    Parameters
    ----------
    boxes1, boxes2, reduction, eps
        As for :func:`generalized_box_iou_loss`.

    Returns
    -------
    Tensor ``[N]``, or one number if reduced

    Raises
    ------
    TypeError, ValueError
        As for :func:`generalized_box_iou_loss`.

    Notes
    -----
    Source: Z. Zheng et al., "Distance-IoU loss: faster and better learning for bounding box
    regression", AAAI 2020.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 5]])
    >>> visops.distance_box_iou_loss(boxes, boxes.flip(0), reduction="sum")
    tensor(1.0625)
    """
    op = "distance_box_iou_loss"
    a, b = _read(op, boxes1, boxes2, reduction)
    eps = real_number(op, "eps", eps)
    return _reduced(_distance_loss(a, b, eps)[0], reduction)


def complete_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: Reduction = "none", eps: float = 1e-7
) -> Tensor:
    """1 less the complete intersection over union of boxes matched one to one.

    Arguments and values are those of ``torchvision.ops.complete_box_iou_loss``, except that here
    `eps` is the one of every quotient: theirs uses it for the aspect ratio only.

    Parameters
    ----------
    boxes1, boxes2, reduction, eps
        As for :func:`generalized_box_iou_loss`.

    Returns
    -------
    Tensor ``[N]``, or one number if reduced

    Raises
    ------
    TypeError, ValueError
        As for :func:`generalized_box_iou_loss`.

    Notes
    -----
    As in the paper, no gradient flows through the weight of the aspect ratio. The ratio of a box
    without height is that of a very wide one (torchvision: NaN for boxes that are points).

    Source: Z. Zheng et al., "Distance-IoU loss: faster and better learning for bounding box
    regression", AAAI 2020.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10]])
    >>> visops.complete_box_iou_loss(boxes, torch.tensor([[0.0, 0, 10, 5]]))
    tensor([0.5345])
    """
    op = "complete_box_iou_loss"
    a, b = _read(op, boxes1, boxes2, reduction)
    eps = real_number(op, "eps", eps)
    loss, iou = _distance_loss(a, b, eps)
    v = aspect_difference(a, b)
    alpha = (v / (1 - iou + v + eps)).detach()
    return _reduced(loss + alpha * v, reduction)


def _read(op: str, boxes1: Tensor, boxes2: Tensor, reduction: str) -> tuple[Tensor, Tensor]:
    check_reduction(op, reduction)
    require_plain(op, boxes1=boxes1, boxes2=boxes2)
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        require_tensors(op, **{name: boxes})
        if boxes.dim() == 0 or boxes.shape[-1] != 4:
            shape = list(boxes.shape)
            raise ValueError(f"visops.{op}: {name} has shape {shape}, must be [..., 4]")
        if boxes.dtype == torch.bool or boxes.is_complex():
            given = str(boxes.dtype).removeprefix("torch.")
            raise ValueError(
                f"visops.{op}: {name} has dtype {given}, must be a floating or integer type"
            )
        reject_float8(op, name, boxes)
    _reject_strangers(op, boxes1, boxes2)
    if boxes1.device != boxes2.device:
        raise ValueError(
            f"visops.{op}: boxes2 is on {boxes2.device}, boxes1 is on {boxes1.device}; "
            "all tensors must be on one device"
        )
    try:
        broadcast_shapes(boxes1.shape, boxes2.shape)
    except RuntimeError:
        raise ValueError(
            f"visops.{op}: boxes2 has shape {list(boxes2.shape)}, must fit boxes1's "
            f"{list(boxes1.shape)}"
        ) from None
    dtype = torch.float64 if torch.float64 in (boxes1.dtype, boxes2.dtype) else torch.float32
    return boxes1.to(dtype), boxes2.to(dtype)


def _reject_strangers(op: str, boxes1: Tensor, boxes2: Tensor) -> None:
    """Refuse subclasses of which neither takes the other, as torch does in ``boxes1 + boxes2``."""
    if type(boxes1) is type(boxes2) or torch.compiler.is_compiling():
        return
    try:
        # Computes nothing, but asks both. torchvision's boxes are plain tensors once sliced.
        torch.result_type(boxes1[..., :2], boxes2[..., :2])
    except TypeError as error:
        if not is_multiple_dispatch_error(error):
            raise
        first, second = type(boxes1).__name__, type(boxes2).__name__
        raise TypeError(
            f"visops.{op}: boxes1 has the type {first} and boxes2 the type {second}, which don't "
            "take each other; pass boxes.as_subclass(torch.Tensor)"
        ) from None


def _parts(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the areas of intersection and union."""
    inter = intersection(a, b)
    return inter, area(a[..., 2:] - a[..., :2]) + area(b[..., 2:] - b[..., :2]) - inter


def _distance_loss(a: Tensor, b: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    inter, union = _parts(a, b)
    iou = inter / (union + eps)
    diagonal = (hull_sides(a, b) ** 2).sum(-1) + eps
    return 1 - iou + centre_distance(a, b) / diagonal, iou


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    return loss.sum() / max(loss.numel(), 1)
