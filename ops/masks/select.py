"""Masks by score: suppression, merging into a label map, and how stable masks are.

The schemas are in csrc/library.cpp, the checks of arguments in csrc/torch/masks/select.cpp and
stability.cpp.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._torch.call import call_operator, output_limit, renamed
from .._torch.numbers import real_number
from .operators import merge_masks as _merge_masks
from .operators import stability_score as _stability_score
from .operators import suppress_masks as _suppress_masks
from .packed import (
    ArrayOrPacked,
    Device,
    PackedMasks,
    bits_of_masks,
    size_of_masks,
    values_of_masks,
)

_INTEGERS = (
    *(torch.uint8, torch.int8, torch.int16, torch.uint16),
    *(torch.int32, torch.uint32, torch.int64, torch.uint64),
)


def mask_nms(
    masks: ArrayOrPacked,
    scores: Tensor | np.ndarray,
    iou_threshold: float,
    *,
    idxs: Tensor | np.ndarray | None = None,
    max_output: int | None = None,
    score_threshold: float | None = None,
    device: Device = None,
) -> Any:
    """Keep the best of masks that overlap: greedy non-maximum suppression.

    :func:`nms` with the overlap of :func:`mask_iou`. Masks are compared bit by bit, and only where
    both boxes and areas allow so large an overlap. Results are the same on every instruction set,
    at every thread count, and on CPU and CUDA.

    Parameters
    ----------
    masks : Tensor or ndarray ``[N, H, W]``, bool or uint8, or PackedMasks
        Empty masks suppress nothing, and nothing suppresses them.
    scores : Tensor or ndarray ``[N]``, floating
        Equal scores go by index; NaN comes before everything, as in :func:`nms`.
    iou_threshold : float in [0, 1]
        Masks that overlap a kept mask by more are dropped. Overlaps are ratios of counts in
        float64, so 1 pixel of 5 does not exceed 0.2.
    idxs : Tensor or ndarray ``[N]``, integers, optional
        Groups, such as classes: masks with different ids never meet.
    max_output : int, optional
        Keep at most so many.
    score_threshold : float, optional
        Only masks with a score above this take part; NaN does not.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    int64 ``[K]``
        Indices of the kept masks, by falling score.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, dtypes, devices, or a threshold outside [0, 1].

    Notes
    -----
    On CUDA the call synchronizes to learn the result's size.

    Examples
    --------
    >>> import torch, visops
    >>> masks = torch.zeros(3, 4, 8, dtype=torch.bool)
    >>> masks[0, :, :4] = masks[1, :, :5] = masks[2, :, 3:] = True
    >>> visops.mask_nms(masks, torch.tensor([0.8, 0.9, 0.7]), 0.5)
    tensor([1, 2])
    """
    op = "mask_nms"
    limit = output_limit(op, max_output, of_arrays=isinstance(values_of_masks(masks), np.ndarray))
    level = _number(op, "score_threshold", score_threshold, masks)

    def call(values: Tensor, scores: Tensor, ids: Tensor | None) -> Tensor:
        bits = _bits(op, values, masks)
        _check_scores(op, bits, scores)
        if values.is_meta:
            raise RuntimeError(
                f"visops.{op}: masks is on meta, must have values, which decide how many are kept"
            )
        if ids is not None:
            _check_ids(op, bits, ids)
            ids = ids.to(torch.int64)
        order, part = _order(scores, level, strict=True)
        try:
            kept = _suppress_masks(bits, order, part, ids, iou_threshold)
        except RuntimeError as error:
            raise renamed(error, op, "suppress_masks", {"bits": "masks"}) from None
        best: Tensor = order.masked_select(kept)
        return best if limit == -1 else best[:limit]

    size_of_masks(op, "masks", masks)
    tensors = {"masks": values_of_masks(masks), "scores": scores, "idxs": idxs}
    return call_operator(op, call, device, tensors, optional=("idxs",))


def merge_masks(
    masks: ArrayOrPacked,
    scores: Tensor | np.ndarray,
    *,
    overlap_threshold: float = 0.5,
    score_threshold: float | None = None,
    device: Device = None,
) -> Any:
    """Merge masks into one label map, the best on top.

    The instances of panoptic segmentation: by falling score, a mask is drawn on the pixels that no
    mask before it has, unless those that others have are more than `overlap_threshold` of its own.

    Parameters
    ----------
    masks : Tensor or ndarray ``[N, H, W]``, bool or uint8, or PackedMasks
        Empty masks are not drawn.
    scores : Tensor or ndarray ``[N]``, floating
        Equal scores go by index; NaN comes before everything.
    overlap_threshold : float in [0, 1]
        The largest share of a mask's pixels that may belong to others. 1 draws all masks, 0 only
        those that touch none drawn before.
    score_threshold : float, optional
        Only masks with at least this score are drawn; NaN is not.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    labels : int32 ``[H, W]``
        0 where no mask is drawn. Masks have labels from 1 on, in the order in which they are drawn.
        A mask covered entirely by others keeps a label, of no pixels.
    ids : int32 ``[N]``
        The label of each mask; 0 if it is not drawn. So ``labels == ids[n]`` is what is left of
        mask n.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, dtypes, devices, or a threshold outside [0, 1].

    Notes
    -----
    The heuristic of A. Kirillov et al., "Panoptic Segmentation" (CVPR 2019), as detectron2's
    ``combine_semantic_and_instance_outputs`` has it for instances
    (``detectron2/modeling/meta_arch/panoptic_fpn.py``): with `score_threshold`, and `labels` on
    which stuff may be drawn where they are 0. On CUDA it waits for nothing.

    Examples
    --------
    >>> import torch, visops
    >>> masks = torch.zeros(3, 2, 8, dtype=torch.bool)
    >>> masks[0, :, :4] = masks[1, :, 3:7] = masks[2, :, 1:4] = True
    >>> labels, ids = visops.merge_masks(masks, torch.tensor([0.9, 0.8, 0.7]))
    >>> labels[0], ids
    (tensor([1, 1, 1, 1, 2, 2, 2, 0], dtype=torch.int32), tensor([1, 2, 0], dtype=torch.int32))
    """
    op = "merge_masks"
    level = _number(op, "score_threshold", score_threshold, masks)
    width = size_of_masks(op, "masks", masks)[1]

    def call(values: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        bits = _bits(op, values, masks)
        _check_scores(op, bits, scores)
        order, part = _order(scores, level, strict=False)
        try:
            merged: tuple[Tensor, Tensor] = _merge_masks(
                bits, width, order, part, overlap_threshold
            )
        except RuntimeError as error:
            raise renamed(error, op, op, {"bits": "masks"}) from None
        return merged

    return call_operator(op, call, device, {"masks": values_of_masks(masks), "scores": scores})


def stability_score(
    logits: Tensor | np.ndarray,
    mask_threshold: float = 0.0,
    threshold_offset: float = 1.0,
    *,
    device: Device = None,
) -> Any:
    """Score how little masks change with the threshold, as Segment Anything does.

    The intersection over union of the masks at ``mask_threshold + threshold_offset`` and at
    ``mask_threshold - threshold_offset``. One pass over the numbers.

    Parameters
    ----------
    logits : Tensor or ndarray ``[..., H, W]``, floating
        Masks before the threshold. NaN is outside.
    mask_threshold : float
        Pixels above it are inside.
    threshold_offset : float >= 0
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    float32 ``[...]``
        0 for a mask without pixels at the lower threshold, where the original has NaN. Pixels are
        counted exactly. There is no gradient.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For a wrong shape or dtype, a threshold that is NaN, or a negative offset.

    Notes
    -----
    ``calculate_stability_score`` of Segment Anything (``segment_anything/utils/amg.py``).
    Thresholds are rounded to the dtype of `logits`, as torch does in comparisons.

    Examples
    --------
    >>> import torch, visops
    >>> logits = torch.tensor([[[-3.0, -0.5, 0.5, 2.0], [-3.0, 0.0, 4.0, 6.0]]])
    >>> visops.stability_score(logits)
    tensor([0.5000])
    """
    return call_operator(
        "stability_score",
        _score_once,
        device,
        {"logits": logits},
        mask_threshold,
        threshold_offset,
    )


def _score_once(logits: Tensor, *thresholds: float) -> Tensor:
    """Score the masks; those that an expanded dimension repeats, once, without a copy of each."""
    leading = logits.shape[:-2]
    if not torch.compiler.is_compiling():
        for dim in range(len(leading)):
            if logits.stride(dim) == 0 and leading[dim] > 1:
                logits = logits.narrow(dim, 0, 1)
    scores: Tensor = _stability_score(logits, *thresholds)
    return scores if scores.shape == leading else scores.expand(leading).contiguous()


def _bits(op: str, values: Tensor, masks: Any) -> Tensor:
    """Return `values`, the tensor of `masks`, packed."""
    return values if isinstance(masks, PackedMasks) else bits_of_masks(op, "masks", values)


def _number(op: str, name: str, value: Any, masks: Any) -> float | None:
    if value is None:
        return None
    number: float = real_number(op, name, value)
    if math.isnan(number):
        error = RuntimeError if isinstance(values_of_masks(masks), Tensor) else ValueError
        raise error(f"visops.{op}: {name} is nan, must be a number")
    return number


def _check_scores(op: str, bits: Tensor, scores: Tensor) -> None:
    if scores.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        dtype = str(scores.dtype).removeprefix("torch.")
        raise RuntimeError(f"visops.{op}: scores has dtype {dtype}, must be a floating type")
    _check_count(op, "scores", bits, scores)


def _check_ids(op: str, bits: Tensor, ids: Tensor) -> None:
    if ids.dtype not in _INTEGERS:
        dtype = str(ids.dtype).removeprefix("torch.")
        raise RuntimeError(f"visops.{op}: idxs has dtype {dtype}, must be an integer type")
    _check_count(op, "idxs", bits, ids)


def _check_count(op: str, name: str, bits: Tensor, values: Tensor) -> None:
    if values.dim() != 1 or values.shape[0] != bits.shape[0]:
        raise RuntimeError(
            f"visops.{op}: {name} has shape {list(values.shape)}, must be [{bits.shape[0]}]"
        )
    if values.device != bits.device:
        raise RuntimeError(
            f"visops.{op}: {name} is on {values.device}, masks is on {bits.device}; all tensors "
            "must be on one device"
        )


def _order(
    scores: Tensor, threshold: float | None, *, strict: bool
) -> tuple[Tensor, Tensor | None]:
    """Return masks by falling score, and which of them the threshold lets take part."""
    # Some sorts on CUDA place NaN by its sign (with_one_nan() in csrc/torch/operators.h).
    keys = scores.detach().nan_to_num(torch.nan, torch.inf, -torch.inf)
    order: Tensor = keys.sort(descending=True, stable=True).indices
    if threshold is None:
        return order, None
    part = keys > threshold if strict else keys >= threshold
    return order, part[order]
