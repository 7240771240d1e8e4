"""Weighted boxes fusion: several models' boxes become one set.

The schema is in csrc/library.cpp, the checks of arguments in csrc/torch/suppression/box_fusion.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import no_boxes
from .._torch.call import call_operator
from .._torch.differentiable import without_gradient
from .._torch.fake_checks import check_same_device, check_shape, register_fake, require
from .arguments import whole_ids

__all__ = ["weighted_boxes_fusion"]

Array = TypeVar("Array", Tensor, np.ndarray)

_OP = "weighted_boxes_fusion"
_fuse = torch.ops.visops.weighted_boxes_fusion.default
without_gradient("weighted_boxes_fusion")


def weighted_boxes_fusion(
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
    given = {"boxes": list(boxes), "scores": list(scores), "labels": list(labels)}
    counts = [len(entries) for entries in given.values()]
    if counts[0] == 0:  # neither tensors nor arrays
        raise ValueError(f"visops.{_OP}: boxes is empty, must have an entry for each model")
    given["boxes"] = [no_boxes(entry, 4) for entry in given["boxes"]]
    first = next(iter(given["labels"]), None)
    given["labels"] = [
        whole_ids(_OP, f"labels[{m}]", entry) for m, entry in enumerate(given["labels"])
    ]
    tensors = {f"{name}[{m}]": e for name, entries in given.items() for m, e in enumerate(entries)}
    of_models = [1.0] * counts[0] if weights is None else [float(weight) for weight in weights]
    options = (of_models, iou_threshold, min_score, conf_type, allows_overflow)

    def fuse(*parts: Tensor) -> Any:
        second, third = counts[0], counts[0] + counts[1]
        return _fuse(parts[:second], parts[second:third], parts[third:], *options)

    fused: tuple[Any, Any, Any] = call_operator(_OP, fuse, device, tensors)
    if isinstance(first, Tensor) and first.is_floating_point():
        return fused[0], fused[1], fused[2].to(first.dtype)
    if isinstance(first, np.ndarray) and first.dtype.kind == "f":
        return fused[0], fused[1], fused[2].astype(first.dtype)
    return fused


@register_fake("weighted_boxes_fusion")
def _fuse_fake(
    boxes: Sequence[Tensor], scores: Sequence[Tensor], labels: Sequence[Tensor], *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Check shapes and devices as csrc/torch/suppression/box_fusion.cpp does for real tensors."""
    for name, values in (("scores", scores), ("labels", labels)):
        message = f"visops.{_OP}: {name} has {len(values)} entries, boxes has {len(boxes)}"
        require(len(values) == len(boxes), message)
    for m, of_model in enumerate(boxes):
        shape = list(of_model.shape)
        message = f"visops.{_OP}: boxes[{m}] has shape {shape}, must be [N, 4]"
        require(of_model.dim() == 2, message)
        require(of_model.shape[1] == 4, message)
        for name, values in (("boxes", boxes), ("scores", scores), ("labels", labels)):
            if name != "boxes":
                check_shape(_OP, f"{name}[{m}]", values[m], of_model.shape[:1], str(shape[:1]))
            check_same_device(_OP, "boxes[0]", boxes[0], f"{name}[{m}]", values[m])
    count = torch.library.get_ctx().new_dynamic_size(min=0)  # 0 if no box takes part
    of_boxes, of_scores = torch.cat(list(boxes)), torch.cat(list(scores))
    return (
        of_boxes.new_empty((count, 4)),
        of_scores.new_empty((count,)),
        labels[0].new_empty((count,)),
    )
