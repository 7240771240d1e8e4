"""Suppression by lowering scores: the public functions.

The schemas are in csrc/library.cpp, the checks of arguments in csrc/torch/suppression, fake kernels
in nms_operators.py.
"""

from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import no_boxes
from .._torch.call import call_operator, output_limit
from .arguments import whole_ids
from .nms_operators import batched_soft_nms as _batched_soft_nms
from .nms_operators import soft_nms as _soft_nms
from .nms_operators import soft_nms_rotated as _soft_nms_rotated

Array = TypeVar("Array", Tensor, np.ndarray)


def soft_nms(
    boxes: Array,
    scores: Array,
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = 0.001,
    method: Literal["linear", "gaussian", "hard"] = "linear",
    *,
    max_output: int | None = None,
    device: torch.device | str | None = None,
) -> tuple[Array, Array]:
    """Lower the scores of boxes that overlap better ones, instead of dropping them.

    The box with the highest score is kept and the scores of boxes that overlap it fall; this
    repeats with the new scores. Equal scores go by index. This is Soft-NMS of Bodla, Singh,
    Chellappa and Davis (2017), with the same results on the CPU and on CUDA.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[N, 4]``
        Corners ``x1, y1, x2, y2``, in any unit, of any floating or integer dtype. Boxes that are
        inverted, flat, infinite or NaN lower no score and keep their own.
    scores : Tensor or ndarray ``[N]``, floating
        NaN takes no part.
    iou_threshold : float in [0, 1]
        For "linear" and "hard".
    sigma : float > 0
        For "gaussian".
    min_score : float >= 0
        Boxes whose score falls below this are dropped.
    method : {"linear", "gaussian", "hard"}
        What a score is multiplied by: "linear", ``1 - iou`` if the intersection over union exceeds
        `iou_threshold`; "gaussian", ``exp(-iou ** 2 / sigma)`` for any overlap; "hard", 0 if it
        exceeds `iou_threshold`, which keeps the boxes that :func:`nms` keeps.
    max_output : int, optional
        Keep at most so many.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    keep : int64 ``[K]``
        Indices of the kept boxes, by falling new score.
    new_scores : ``[K]``
        Their new scores, in the dtype of `scores`; computed in float32, or in float64 if boxes or
        scores are float64 or boxes are integers. They have no gradient.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, dtypes, devices, or options out of range.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 5], [20, 20, 30, 30]])
    >>> visops.soft_nms(boxes, torch.tensor([0.9, 0.8, 0.7]))
    (tensor([0, 2, 1]), tensor([0.9000, 0.7000, 0.4000]))
    """
    tensors = {"boxes": boxes, "scores": scores}
    options = (method, iou_threshold, sigma, min_score)
    return _call("soft_nms", _soft_nms, device, tensors, options, max_output)


def batched_soft_nms(
    boxes: Array,
    scores: Array,
    idxs: Array | None,
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = 0.001,
    method: str = "linear",
    *,
    max_output: int | None = None,
    device: torch.device | str | None = None,
) -> tuple[Array, Array]:
    """Lower scores within groups: classes, images, or both, in one call.

    Groups are independent, as if :func:`soft_nms` were called for each.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[N, 4]`` or ``[B, N, 4]``
        As in :func:`soft_nms`; ``[B, N, 4]`` are the boxes of B images.
    scores : Tensor or ndarray ``[N]``, ``[B, N]`` or ``[B, N, C]``
        With C scores, a box takes part in C groups, one for each class.
    idxs : Tensor or ndarray of the shape of `scores`, or None
        Integers, or floating whole numbers: boxes with different ids never meet. Required for
        ``[N, 4]``, optional for ``[B, N]``, None for ``[B, N, C]``. Floating ids on a CUDA device
        are not checked; fractions are dropped there.
    iou_threshold, sigma, min_score, method
        As in :func:`soft_nms`.
    max_output : int, optional
        Keep at most so many of each image, the best of all its groups.
    device : optional
        For arrays: where to compute.

    Returns
    -------
    rows : int64 ``[K]``, ``[K, 2]`` or ``[K, 3]``
        For ``[N]``: indices; for ``[B, N]``: (image, box); for ``[B, N, C]``: (image, class, box).
        By image, then falling new score, then class and box.
    new_scores : ``[K]``
        In the dtype of `scores`.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        As :func:`soft_nms`, and for ids of a wrong shape or dtype.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 5], [0, 0, 10, 10]])
    >>> visops.batched_soft_nms(boxes, torch.tensor([0.9, 0.8, 0.7]), torch.tensor([0, 0, 1]))
    (tensor([0, 2, 1]), tensor([0.9000, 0.7000, 0.4000]))
    """
    tensors = {"boxes": boxes, "scores": scores, "idxs": idxs}
    options = (method, iou_threshold, sigma, min_score)
    return _call("batched_soft_nms", _batched_soft_nms, device, tensors, options, max_output)


def soft_nms_rotated(
    boxes: Array,
    scores: Array,
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = 0.001,
    method: str = "linear",
    *,
    idxs: Array | None = None,
    max_output: int | None = None,
    device: torch.device | str | None = None,
) -> tuple[Array, Array]:
    """Lower the scores of rotated boxes that overlap better ones, instead of dropping them.

    As :func:`soft_nms`, with the overlap of :func:`box_iou_rotated`. Overlaps and scores are
    computed in float64 whatever the dtype.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[N, 5]``
        ``x, y, width, height, angle``, as in :func:`nms_rotated`. Boxes that suppress nothing
        there lower no score here and keep their own.
    scores : Tensor or ndarray ``[N]``, floating
        NaN takes no part.
    iou_threshold, sigma, min_score, method
        As in :func:`soft_nms`. "hard" keeps the boxes that :func:`nms_rotated` keeps.
    idxs : Tensor or ndarray ``[N]``, integers or floating whole numbers, optional
        Groups, such as classes: boxes with different ids never meet. Floating ids on a CUDA device
        are not checked; fractions are dropped there.
    max_output : int, optional
        Keep at most so many.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    keep : int64 ``[K]``
        Indices of the kept boxes, by falling new score.
    new_scores : ``[K]``
        Their new scores, in the dtype of `scores`. They have no gradient.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, dtypes, devices, or options out of range.

    Examples
    --------
    >>> import math, torch, visops
    >>> boxes = torch.tensor([[5, 5, 8, 4, 0], [5, 5, 8, 4, math.pi / 2], [50, 5, 8, 4, 0]])
    >>> visops.soft_nms_rotated(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.3)
    (tensor([0, 2, 1]), tensor([0.9000, 0.7000, 0.5333]))
    """
    tensors = {"boxes": boxes, "scores": scores, "idxs": idxs}
    options = (method, iou_threshold, sigma, min_score)
    return _call("soft_nms_rotated", _soft_nms_rotated, device, tensors, options, max_output)


def _call(
    op: str,
    call: Any,
    device: torch.device | str | None,
    tensors: dict[str, Any],
    options: tuple[str, float, float, float],
    max_output: int | None,
) -> Any:
    tensors["boxes"] = no_boxes(tensors["boxes"], 5 if op == "soft_nms_rotated" else 4)
    if "idxs" in tensors:
        tensors["idxs"] = whole_ids(op, "idxs", tensors["idxs"])
    limit = output_limit(op, max_output, of_arrays=isinstance(tensors["boxes"], np.ndarray))
    return call_operator(op, call, device, tensors, *options, limit, optional=("idxs",))
