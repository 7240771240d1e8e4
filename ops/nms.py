"""Non-maximum suppression: the public functions.

The schemas are in csrc/library.cpp, the arguments' checks in csrc/ops/nms.cpp, fake kernels and
vmap in _nms_formulas.py.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ._call import call_operator, output_limit
from ._nms_formulas import batched_nms as _batched_nms
from ._nms_formulas import nms as _nms
from ._nms_formulas import nms_padded as _nms_padded

__all__ = ["batched_nms", "nms", "nms_padded"]

Array = TypeVar("Array", Tensor, np.ndarray)


def nms(
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    *,
    max_output: int | None = None,
    score_threshold: float | None = None,
    device: torch.device | str | None = None,
) -> Array:
    """Keep the best of boxes that overlap: greedy non-maximum suppression.

    By falling score, a box is kept unless one that was kept before overlaps it with an intersection
    over union of more than `iou_threshold`. The indices are those of ``torchvision.ops.nms``, to
    the last tie: the overlap is computed in float32 (float64 for float64 and integer boxes) and
    compared strictly, equal scores go by index. Results are the same on every instruction set, at
    every thread count, and on CPU and CUDA.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[N, 4]``
        Corners ``x1, y1, x2, y2``, in any unit. float16, bfloat16 (computed in float32), float32,
        float64 or integers (exact up to 2^53). Boxes that are inverted, flat, infinite or NaN
        suppress nothing, and nothing suppresses them.
    scores : Tensor or ndarray ``[N]``, floating
        NaN comes before everything, as in ``torch.sort``.
    iou_threshold : float in [0, 1]
    max_output : int, optional
        Stop after so many.
    score_threshold : float, optional
        Only boxes whose score is more than this take part; NaN is not.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    int64 ``[K]``
        Indices of the kept boxes, by falling score.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, dtypes, devices, or a threshold outside [0, 1].

    Notes
    -----
    On the CPU kept boxes lie in a grid, in which a candidate looks only where boxes that overlap it
    can be: time grows little faster than N. On CUDA memory is proportional to N, and the result's
    size is waited for; `nms_padded` waits for nothing.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
    >>> visops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5)
    tensor([0, 2])
    """
    tensors = {"boxes": boxes, "scores": scores}
    return _call("nms", _nms, device, tensors, iou_threshold, max_output, score_threshold)


def batched_nms(
    boxes: Array,
    scores: Array,
    idxs: Array | None,
    iou_threshold: float,
    *,
    max_output: int | None = None,
    score_threshold: float | None = None,
    device: torch.device | str | None = None,
) -> Array:
    """Suppress within groups: classes, images, or both, in one call.

    Every group is on its own, as if :func:`nms` were called for each; no coordinate is shifted, so
    that no result depends on how large coordinates or ids are, or on their sign.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[N, 4]`` or ``[B, N, 4]``
        As in :func:`nms`; ``[B, N, 4]`` are the boxes of B images.
    scores : Tensor or ndarray ``[N]``, ``[B, N]`` or ``[B, N, C]``
        With C scores a box takes part in C groups, one a class.
    idxs : Tensor or ndarray of the shape of `scores`, or None
        Any integers: boxes with different ones never meet. Required for ``[N, 4]``, optional for
        ``[B, N]``, None for ``[B, N, C]``.
    iou_threshold : float in [0, 1]
    max_output : int, optional
        Keep at most so many of an image, the best of all its groups.
    score_threshold : float, optional
        Only scores above it take part; detectors' scores need it.
    device : optional
        For arrays: where to compute.

    Returns
    -------
    int64 ``[K]``, ``[K, 2]`` or ``[K, 3]``
        For ``[N]``: indices by falling score. For ``[B, N]``: (image, box); for ``[B, N, C]``:
        (image, class, box), as in ONNX's NonMaxSuppression; by image, then falling score, then
        class and box.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        As :func:`nms`, and for ids of another shape or dtype.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11]])
    >>> visops.batched_nms(boxes, torch.tensor([0.8, 0.9]), torch.tensor([3, -7]), 0.5)
    tensor([1, 0])
    >>> visops.batched_nms(boxes[None], torch.rand(1, 2, 80), None, 0.5, max_output=1).shape
    torch.Size([1, 3])
    """
    tensors = {"boxes": boxes, "scores": scores, "idxs": idxs}
    return _call(
        "batched_nms", _batched_nms, device, tensors, iou_threshold, max_output, score_threshold
    )


def nms_padded(
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    max_output: int,
    *,
    score_threshold: float | None = None,
    device: torch.device | str | None = None,
) -> tuple[Array, Array]:
    """Suppress to results of a fixed size: for CUDA graphs, export and vmap.

    Nothing waits for the device.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[B, N, 4]``
        As in :func:`nms`, of B images.
    scores : Tensor or ndarray ``[B, N]``
    iou_threshold : float in [0, 1]
    max_output : int
    score_threshold : float, optional
        Only scores above it take part.
    device : optional
        For arrays: where to compute.

    Returns
    -------
    indices : int64 ``[B, max_output]``
        Of kept boxes, by falling score; -1 where there are no more.
    count : int64 ``[B]``
        How many were kept.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        As :func:`nms`.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]]])
    >>> visops.nms_padded(boxes, torch.tensor([[0.9, 0.8, 0.7]]), 0.5, 3)
    (tensor([[ 0,  2, -1]]), tensor([2]))
    """
    tensors = {"boxes": boxes, "scores": scores}
    return _call(
        "nms_padded", _nms_padded, device, tensors, iou_threshold, max_output, score_threshold
    )


def _call(
    op: str,
    call: Any,
    device: torch.device | str | None,
    tensors: dict[str, Any],
    iou_threshold: float,
    max_output: int | None,
    score_threshold: float | None,
) -> Any:
    limit = output_limit(op, max_output, of_arrays=isinstance(tensors["boxes"], np.ndarray))
    return call_operator(
        op, call, device, tensors, iou_threshold, limit, score_threshold, optional=("idxs",)
    )
