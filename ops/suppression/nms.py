"""Non-maximum suppression: the public functions.

The schemas are in csrc/library.cpp, the checks of arguments in csrc/torch/suppression/nms.cpp,
fake kernels and vmap in nms_operators.py.
"""

import itertools
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import no_boxes
from .._torch.call import call_operator, output_limit
from .._torch.unsupported_inputs import reject_vmap
from .arguments import whole_ids
from .nms_operators import batched_nms as _batched_nms
from .nms_operators import nms as _nms
from .nms_operators import nms_match as _nms_match
from .nms_operators import nms_padded as _nms_padded
from .nms_operators import nms_rotated as _nms_rotated

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

    By falling score, a box is kept unless a box kept before overlaps it with an intersection over
    union of more than `iou_threshold`. The indices are exactly those of ``torchvision.ops.nms``,
    ties included: the overlap is computed in float32 (float64 for float64 and integer boxes) and
    compared strictly, and equal scores go by index. Results are the same on every instruction set,
    at every thread count, and on CPU and CUDA.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[N, 4]``
        Corners ``x1, y1, x2, y2``, in any unit. float16, bfloat16 (computed in float32), float32,
        float64 or integers (exact up to 2^53). Boxes that are inverted, flat, infinite or NaN
        suppress nothing, and nothing suppresses them. No boxes may also be ``[0]``.
    scores : Tensor or ndarray ``[N]``, floating
        NaN comes before everything, as in ``torch.sort``.
    iou_threshold : float in [0, 1]
    max_output : int, optional
        Keep at most so many.
    score_threshold : float, optional
        Only boxes with a score above this take part; NaN does not.
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
    On the CPU kept boxes lie in a grid, where a candidate looks only at cells that can have boxes
    that overlap it: time grows little faster than N. On CUDA memory is proportional to N, and the
    call synchronizes to learn the result's size; `nms_padded` does not.

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

    Groups are independent, as if :func:`nms` were called for each. No coordinate is shifted, so
    results don't depend on the size or sign of coordinates and ids.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[N, 4]`` or ``[B, N, 4]``
        As in :func:`nms`; ``[B, N, 4]`` are the boxes of B images.
    scores : Tensor or ndarray ``[N]``, ``[B, N]`` or ``[B, N, C]``
        With C scores, a box takes part in C groups, one for each class.
    idxs : Tensor or ndarray of the shape of `scores`, or None
        Integers, or floating whole numbers: boxes with different ids never meet. Required for
        ``[N, 4]``, optional for ``[B, N]``, None for ``[B, N, C]``. Floating ids on a CUDA device
        are not checked; fractions are dropped there.
    iou_threshold : float in [0, 1]
    max_output : int, optional
        Keep at most so many of each image, the best of all its groups.
    score_threshold : float, optional
        Only scores above this take part; with detectors, set it, since most scores are near 0.
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
        As :func:`nms`, and for ids of a wrong shape or dtype.

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

    It never synchronizes with the device.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[B, N, 4]``
        As in :func:`nms`, for B images.
    scores : Tensor or ndarray ``[B, N]``
    iou_threshold : float in [0, 1]
    max_output : int
        Places for indices, 8 bytes each, however many boxes there are.
    score_threshold : float, optional
        Only scores above this take part.
    device : optional
        For arrays: where to compute.

    Returns
    -------
    indices : int64 ``[B, max_output]``
        Indices of kept boxes, by falling score; then -1.
    count : int64 ``[B]``
        How many boxes are kept.

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
    if max_output is None:
        raise TypeError("visops.nms_padded: max_output is None, must be an integer")
    return _call(
        "nms_padded", _nms_padded, device, tensors, iou_threshold, max_output, score_threshold
    )


def nms_rotated(
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    *,
    idxs: Array | None = None,
    max_output: int | None = None,
    score_threshold: float | None = None,
    device: torch.device | str | None = None,
) -> Array:
    """Keep the best of rotated boxes that overlap.

    As :func:`nms`, with the overlap of :func:`box_iou_rotated`. It is computed in float64 whatever
    the dtype, and without polygons, so equal boxes and shared edges are no special case: a box and
    its copy overlap by exactly 1.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[N, 5]``
        Centre, size and angle: ``x, y, width, height, angle``, the angle in radians, from the x to
        the y axis (clockwise on a screen, where y points down). Any floating or integer dtype.
        Boxes whose sides are not positive, with NaN or numbers beyond 1e150, or with half a side or
        an area below 1e-290, suppress nothing, and nothing suppresses them.
    scores : Tensor or ndarray ``[N]``, floating
        NaN comes before everything.
    iou_threshold : float in [0, 1]
        Boxes that overlap a kept box by more are dropped.
    idxs : Tensor or ndarray ``[N]``, integers or floating whole numbers, optional
        Groups, such as classes: boxes with different ids never meet. Floating ids on a CUDA device
        are not checked; fractions are dropped there.
    max_output : int, optional
        Keep at most so many.
    score_threshold : float, optional
        Only boxes with a score above this take part; NaN does not.
    device : optional
        For arrays: where to compute.

    Returns
    -------
    int64 ``[K]``
        Indices of the kept boxes, by falling score.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        As :func:`nms`.

    Examples
    --------
    >>> import math, torch, visops
    >>> boxes = torch.tensor([[5, 5, 8, 4, 0], [5, 5, 8, 4, math.pi], [5, 5, 8, 4, math.pi / 2]])
    >>> visops.nms_rotated(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5)
    tensor([0, 2])
    """
    tensors = {"boxes": boxes, "scores": scores, "idxs": idxs}
    return _call(
        "nms_rotated", _nms_rotated, device, tensors, iou_threshold, max_output, score_threshold
    )


def nms_match(
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    *,
    device: torch.device | str | None = None,
) -> list[Array]:
    """Return the boxes that :func:`nms` keeps, each with the boxes that it suppresses.

    A box belongs to the first kept one, by falling score, that overlaps it by more than
    `iou_threshold`.

    Parameters
    ----------
    boxes : Tensor or ndarray ``[N, 4]``
    scores : Tensor or ndarray ``[N]``, floating
    iou_threshold : float in [0, 1]
        All as in :func:`nms`.
    device : optional
        For arrays: where to compute.

    Returns
    -------
    list of int64 ``[n]``
        For each kept box a group of indices: its own, then those of the boxes that it suppresses.
        Groups, and indices in a group, come by falling score. Every box is in one group. For a
        tensor with the index of each box's kept box, and no synchronization beyond that of `nms`,
        call ``torch.ops.visops.nms_match(boxes, scores, iou_threshold)``.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        As :func:`nms`.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[1.0, 1, 11, 11], [0, 0, 10, 10], [20, 20, 30, 30]])
    >>> visops.nms_match(boxes, torch.tensor([0.8, 0.9, 0.7]), 0.5)
    [tensor([1, 0]), tensor([2])]
    """
    if torch.compiler.is_exporting():
        raise RuntimeError(
            "visops.nms_match: a list whose length depends on values can't be exported; export "
            "torch.ops.visops.nms_match(boxes, scores, iou_threshold), which returns a tensor"
        )
    tensors = {"boxes": boxes, "scores": scores}
    tensors["boxes"] = no_boxes(boxes, 4)
    reject_vmap("nms_match", "call it for each sample", boxes, scores)
    members, sizes = call_operator("nms_match", _groups, device, tensors, iou_threshold)
    ends = itertools.accumulate(sizes.tolist())
    return [members[end - size : end] for size, end in zip(sizes.tolist(), ends, strict=True)]


def _groups(boxes: Tensor, scores: Tensor, iou_threshold: float) -> tuple[Tensor, Tensor]:
    """All boxes, group by group, and the groups' sizes."""
    matched = _nms_match(boxes, scores, iou_threshold)
    if boxes.is_meta:
        raise RuntimeError(
            "visops.nms_match: boxes is on meta, must have values, which decide how many groups "
            "there are"
        )
    # Some sorts on CUDA place NaN by its sign (with_one_nan() in csrc/torch/operators.h).
    keys = scores.nan_to_num(torch.nan, torch.inf, -torch.inf)
    by_score = keys.sort(descending=True, stable=True).indices
    rank = torch.empty_like(by_score)
    rank[by_score] = torch.arange(len(by_score), device=by_score.device)
    group = rank[matched[by_score]].sort(stable=True)
    sizes = group.values.unique_consecutive(return_counts=True)[1]
    return by_score[group.indices], sizes


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
    tensors["boxes"] = no_boxes(tensors["boxes"], 5 if op == "nms_rotated" else 4)
    if "idxs" in tensors:
        tensors["idxs"] = whole_ids(op, "idxs", tensors["idxs"])
    return call_operator(
        op, call, device, tensors, iou_threshold, limit, score_threshold, optional=("idxs",)
    )
