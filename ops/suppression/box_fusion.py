"""Fusion: several models' boxes become one set.

The schemas are in csrc/library.cpp, the checks of arguments in
csrc/torch/suppression/box_fusion.cpp.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import no_boxes
from .._torch.call import call_operator, renamed
from .._torch.declaring import operator
from .._torch.fakes import dynamic_size
from .._torch.numbers import listed, real_numbers
from .._torch.options import flag
from .._torch.vmap_calls import OneCallOfEqualSizes
from .arguments import whole_ids

Array = TypeVar("Array", Tensor, np.ndarray)


def weighted_boxes_fusion(
    boxes: Sequence[Array] | Array,
    scores: Sequence[Array] | Array,
    labels: Sequence[Array] | Array,
    *,
    weights: Sequence[float] | None = None,
    iou_threshold: float = 0.55,
    min_score: float = 0.0,
    conf_type: Literal["avg", "max", "box_and_model_avg", "absent_model_aware_avg"] = "avg",
    allows_overflow: bool = False,
    device: torch.device | str | None = None,
) -> tuple[Array, Array, Array]:
    """Fuse the boxes that several models found in one image.

    Where suppression keeps the best of boxes that overlap, fusion takes their mean, weighted by
    their scores. Label by label and by falling weighted score, every box joins the cluster whose
    fused box it overlaps most, if by more than `iou_threshold`; otherwise it begins a cluster.
    Results are the same on every instruction set, at every thread count, and on CPU and CUDA.

    Parameters
    ----------
    boxes : sequence of Tensor or ndarray ``[N_m, 4]``, floating
        For each model the corners ``x1, y1, x2, y2``, in any unit. Models with equally many boxes
        may be stacked, ``[M, N, 4]``. Boxes that are inverted, flat, infinite or NaN stay alone.
    scores : sequence of Tensor or ndarray ``[N_m]``, floating
        Boxes with negative, infinite or NaN scores take no part.
    labels : sequence of Tensor or ndarray ``[N_m]``, integers or floating whole numbers
        Boxes with different labels never meet.
    weights : sequence of float, optional
        How much each model is trusted: its scores are multiplied by its weight. 1 by default.
    iou_threshold : float in [0, 1]
    min_score : float >= 0
        Boxes with a lower score, before weighting, take no part.
    conf_type : {"avg", "max", "box_and_model_avg", "absent_model_aware_avg"}
        How a cluster's weighted scores become one; see the notes.
    allows_overflow : bool
        With "avg", let a cluster with several boxes of one model exceed a score of 1.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    boxes : ``[K, 4]``
        The results keep the dtypes of the arguments.
    scores : ``[K]``
        Falling. Ties go by label, then by the weighted score of the cluster's best box.
    labels : ``[K]``

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For sequences of different lengths, and wrong shapes, dtypes, devices or ranges.

    Notes
    -----
    The definition is that of R. Solovyev, W. Wang and T. Gabruseva, "Weighted boxes fusion:
    Ensembling boxes from different object detection models" (Image and Vision Computing, 2021) and
    of the package ensemble-boxes, with everything in float64. With n boxes in a cluster, their
    weighted scores s and the weights w of their models, the cluster's score is

    ======================== =============================================================
    avg                      sum s / n * min(n, models) / W; with `allows_overflow`
                             sum s / W
    max                      max s / max of all weights
    box_and_model_avg        sum s / sum w * (weights of models in the cluster) / W
    absent_model_aware_avg   sum s / (sum w + weights of models that are not in the cluster)
    ======================== =============================================================

    where W is the sum of the models' weights. If all s are 0, the score is 0 and the boxes count
    alike. There is no gradient. On CUDA the call synchronizes to learn the result's size.

    Examples
    --------
    >>> import torch, visops
    >>> one = torch.tensor([[0.0, 0, 10, 10], [50, 50, 60, 60]])
    >>> other = torch.tensor([[0.0, 0, 10, 12]])
    >>> boxes, scores, labels = visops.weighted_boxes_fusion(
    ...     [one, other],
    ...     [torch.tensor([0.75, 0.5]), torch.tensor([0.25])],
    ...     [torch.tensor([7, 7]), torch.tensor([7])],
    ... )
    >>> boxes
    tensor([[ 0.0000,  0.0000, 10.0000, 10.5000],
            [50.0000, 50.0000, 60.0000, 60.0000]])
    >>> scores, labels
    (tensor([0.5000, 0.2500]), tensor([7, 7]))
    """
    op = "weighted_boxes_fusion"
    overflows = flag(op, "allows_overflow", allows_overflow)
    options = (iou_threshold, min_score, conf_type, overflows)
    return _call(op, _plane, boxes, scores, labels, weights, options, device, columns=4)


def weighted_boxes_fusion_1d(
    segments: Sequence[Array] | Array,
    scores: Sequence[Array] | Array,
    labels: Sequence[Array] | Array,
    *,
    weights: Sequence[float] | None = None,
    iou_threshold: float = 0.55,
    min_score: float = 0.0,
    conf_type: str = "avg",
    allows_overflow: bool = False,
    device: torch.device | str | None = None,
) -> tuple[Array, Array, Array]:
    """Fuse the segments of a line, such as actions in time, that several models found.

    The same as :func:`weighted_boxes_fusion` of boxes with one height. The overlap is the common
    length over the length that either covers.

    Parameters
    ----------
    segments : sequence of Tensor or ndarray ``[N_m, 2]``, floating
        For each model the ends ``x1, x2``, in any unit. Segments that are inverted, empty, infinite
        or NaN stay alone.
    scores, labels, weights, iou_threshold, min_score, conf_type, allows_overflow, device
        As in :func:`weighted_boxes_fusion`.

    Returns
    -------
    segments : ``[K, 2]``
    scores : ``[K]``
    labels : ``[K]``
        As from :func:`weighted_boxes_fusion`.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For sequences of different lengths, and wrong shapes, dtypes, devices or ranges.

    Notes
    -----
    The definition is that of ensemble-boxes' function of this name, with everything in float64.

    Examples
    --------
    >>> import torch, visops
    >>> segments, scores, labels = visops.weighted_boxes_fusion_1d(
    ...     [torch.tensor([[0.0, 10.0]]), torch.tensor([[0.0, 12.0], [30.0, 40.0]])],
    ...     [torch.tensor([0.75]), torch.tensor([0.25, 0.5])],
    ...     [torch.tensor([7]), torch.tensor([7, 7])],
    ... )
    >>> segments
    tensor([[ 0.0000, 10.5000],
            [30.0000, 40.0000]])
    >>> scores, labels
    (tensor([0.5000, 0.2500]), tensor([7, 7]))
    """
    op = "weighted_boxes_fusion_1d"
    overflows = flag(op, "allows_overflow", allows_overflow)
    options = (iou_threshold, min_score, conf_type, overflows)
    return _call(
        *(op, _segments, segments, scores, labels, weights, options),
        device,
        columns=2,
        name="segments",
    )


def weighted_boxes_fusion_3d(
    boxes: Sequence[Array] | Array,
    scores: Sequence[Array] | Array,
    labels: Sequence[Array] | Array,
    *,
    weights: Sequence[float] | None = None,
    iou_threshold: float = 0.55,
    min_score: float = 0.0,
    conf_type: str = "avg",
    allows_overflow: bool = False,
    device: torch.device | str | None = None,
) -> tuple[Array, Array, Array]:
    """Fuse the boxes that several models found in one volume.

    As :func:`weighted_boxes_fusion`, with the overlap of volumes.

    Parameters
    ----------
    boxes : sequence of Tensor or ndarray ``[N_m, 6]``, floating
        For each model the corners ``x1, y1, z1, x2, y2, z2``, in any unit. Boxes that are inverted,
        flat, infinite or NaN stay alone.
    scores, labels, weights, iou_threshold, min_score, conf_type, allows_overflow, device
        As in :func:`weighted_boxes_fusion`.

    Returns
    -------
    boxes : ``[K, 6]``
    scores : ``[K]``
    labels : ``[K]``
        As from :func:`weighted_boxes_fusion`.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For sequences of different lengths, and wrong shapes, dtypes, devices or ranges.

    Notes
    -----
    Clusters are those of ensemble-boxes' function of this name, and scores those of
    :func:`weighted_boxes_fusion`. The package's differ where `weights` are not 1 and
    `allows_overflow` is False, and for "max"; see :doc:`/box_fusion`.

    Examples
    --------
    >>> import torch, visops
    >>> one = torch.tensor([[0.0, 0, 0, 10, 10, 10]])
    >>> other = torch.tensor([[0.0, 0, 0, 10, 10, 12]])
    >>> boxes, scores, labels = visops.weighted_boxes_fusion_3d(
    ...     [one, other],
    ...     [torch.tensor([0.75]), torch.tensor([0.25])],
    ...     [torch.tensor([7]), torch.tensor([7])],
    ... )
    >>> boxes
    tensor([[ 0.0000,  0.0000,  0.0000, 10.0000, 10.0000, 10.5000]])
    >>> scores, labels
    (tensor([0.5000]), tensor([7]))
    """
    op = "weighted_boxes_fusion_3d"
    overflows = flag(op, "allows_overflow", allows_overflow)
    options = (iou_threshold, min_score, conf_type, overflows)
    return _call(
        *(op, _space, boxes, scores, labels, weights, options),
        device,
        columns=6,
    )


def non_maximum_weighted(
    boxes: Sequence[Array] | Array,
    scores: Sequence[Array] | Array,
    labels: Sequence[Array] | Array,
    *,
    weights: Sequence[float] | None = None,
    iou_threshold: float = 0.55,
    min_score: float = 0.0,
    device: torch.device | str | None = None,
) -> tuple[Array, Array, Array]:
    """Average each of the best boxes with those that it would suppress.

    Label by label and by falling weighted score, every box joins the cluster whose best box it
    overlaps most, if by more than `iou_threshold`; otherwise it begins a cluster. A cluster becomes
    the mean of its boxes, weighted by their weighted scores times their overlaps with its best box,
    and keeps the best box's score. Results are the same on every instruction set, at every thread
    count, and on CPU and CUDA.

    Parameters
    ----------
    boxes, scores, labels, weights, iou_threshold, min_score, device
        As in :func:`weighted_boxes_fusion`.

    Returns
    -------
    boxes : ``[K, 4]``
    scores : ``[K]``
        Weighted scores over the largest weight.
    labels : ``[K]``
        As from :func:`weighted_boxes_fusion`.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For sequences of different lengths, and wrong shapes, dtypes, devices or ranges.

    Notes
    -----
    The method is that of H. Zhou, Z. Li, C. Ning and J. Tang, "CAD: Scale invariant framework for
    real-time object detection" (ICCV workshops, 2017), as the package ensemble-boxes defines it,
    with everything in float64. If all scores of a cluster are 0, overlaps alone weight its boxes.
    There is no gradient. On CUDA the call synchronizes to learn the result's size.

    Examples
    --------
    >>> import torch, visops
    >>> one = torch.tensor([[0.0, 0, 10, 10], [50, 50, 60, 60]])
    >>> other = torch.tensor([[0.0, 0, 10, 8]])
    >>> boxes, scores, labels = visops.non_maximum_weighted(
    ...     [one, other],
    ...     [torch.tensor([0.8, 0.5]), torch.tensor([0.4])],
    ...     [torch.tensor([7, 7]), torch.tensor([7])],
    ... )
    >>> boxes
    tensor([[ 0.0000,  0.0000, 10.0000,  9.4286],
            [50.0000, 50.0000, 60.0000, 60.0000]])
    >>> scores, labels
    (tensor([0.8000, 0.5000]), tensor([7, 7]))
    """
    options = (iou_threshold, min_score)
    return _call(
        *("non_maximum_weighted", _around_best, boxes, scores, labels, weights, options),
        device,
        columns=4,
    )


def _call(
    op: str,
    operator: Callable[..., Any],
    boxes: Any,
    scores: Any,
    labels: Any,
    weights: Sequence[float] | None,
    options: tuple[Any, ...],
    device: torch.device | str | None,
    *,
    columns: int,
    name: str = "boxes",
) -> Any:
    """Fuse; `name` is what the caller calls the boxes, of so many `columns`."""
    given = {
        key: listed(op, key, entries, "a sequence with an entry for each model")
        for key, entries in ((name, boxes), ("scores", scores), ("labels", labels))
    }
    counts = [len(entries) for entries in given.values()]
    if counts[0] == 0:  # neither tensors nor arrays
        raise ValueError(f"visops.{op}: {name} is empty, must have an entry for each model")
    given[name] = [no_boxes(entry, columns) for entry in given[name]]
    first = next(iter(given["labels"]), None)
    given["labels"] = [
        whole_ids(op, f"labels[{m}]", entry) for m, entry in enumerate(given["labels"])
    ]
    tensors = {f"{key}[{m}]": e for key, entries in given.items() for m, e in enumerate(entries)}
    of_models = [1.0] * counts[0]
    if weights is not None:
        of_models = real_numbers(op, "weights", weights, "a number for each model")

    def fuse(*parts: Tensor) -> Any:
        second, third = counts[0], counts[0] + counts[1]
        lists = parts[:second], parts[second:third], parts[third:]
        return operator(*lists, of_models, *options)

    fused: tuple[Any, Any, Any] = call_operator(op, fuse, device, tensors)
    if isinstance(first, Tensor) and first.is_floating_point():
        return fused[0], fused[1], fused[2].to(first.dtype)
    if isinstance(first, np.ndarray) and first.dtype.kind == "f":
        return fused[0], fused[1], fused[2].astype(first.dtype)
    return fused


def _segments(segments: Sequence[Tensor], *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Fuse segments as boxes from 0 to 1 in y, where they stay: no sum of theirs is rounded."""
    op, boxes = "weighted_boxes_fusion_1d", []
    for m, of_model in enumerate(segments):
        shape = list(of_model.shape)
        if len(shape) != 2 or shape[1] != 2:
            raise RuntimeError(f"visops.{op}: segments[{m}] has shape {shape}, must be [N, 2]")
        low, high = of_model[:, :1], of_model[:, 1:]
        boxes.append(torch.cat([low, torch.zeros_like(low), high, torch.ones_like(high)], 1))
    try:
        fused, scores, labels = _plane(boxes, *rest)
    except (RuntimeError, ValueError) as error:
        raise renamed(error, op, "weighted_boxes_fusion", {"boxes": "segments"}) from None
    return fused[:, ::2].contiguous(), scores, labels


def _fake(
    boxes: Sequence[Tensor], scores: Sequence[Tensor], labels: Sequence[Tensor], *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    count, first = dynamic_size(), boxes[0]
    return (
        first.new_empty((count, first.shape[1]), dtype=_common_dtype(boxes)),
        first.new_empty((count,), dtype=_common_dtype(scores)),
        labels[0].new_empty((count,)),
    )


def _common_dtype(tensors: Sequence[Tensor]) -> torch.dtype:
    return functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))


def _fusion(name: str) -> Callable[..., Any]:
    return operator(name, fake=_fake, vmap=OneCallOfEqualSizes(), without_gradient=True)


_plane = _fusion("weighted_boxes_fusion")
_space = _fusion("weighted_boxes_fusion_3d")
_around_best = _fusion("non_maximum_weighted")
