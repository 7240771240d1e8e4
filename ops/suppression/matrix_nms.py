"""Matrix suppression: all scores decay at once.

The schema is in csrc/library.cpp, the checks of arguments in csrc/torch/suppression/matrix_nms.cpp.
"""

from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import no_boxes
from .._torch.call import call_operator, output_limit
from .._torch.declaring import operator
from .._torch.fakes import dynamic_size
from .._torch.vmap_calls import OneCallOfEqualSizes
from .arguments import whole_ids

Array = TypeVar("Array", Tensor, np.ndarray)

_OP = "matrix_nms"


def matrix_nms(
    objects: Array,
    scores: Array,
    idxs: Array | None = None,
    *,
    method: Literal["gaussian", "linear"] = "gaussian",
    sigma: float = 2.0,
    min_score: float = 0.0,
    max_output: int | None = None,
    device: torch.device | str | None = None,
) -> tuple[Array, Array]:
    """Lower the scores of boxes or masks that overlap better ones: SOLOv2's Matrix NMS.

    No object is dropped for overlapping another, and none depends on another's fate. An object's
    score decays by how much the better ones of its group overlap it; a better one counts the less,
    the more it is overlapped itself. Results are the same on every instruction set, at every thread
    count, and on CPU and CUDA.

    Parameters
    ----------
    objects : Tensor or ndarray ``[N, 4]`` or ``[N, H, W]``
        Boxes with the corners ``x1, y1, x2, y2`` in any unit, floating or integers, or masks, bool
        or uint8, whose pixels that are not 0 are inside. Boxes that are inverted, flat, infinite or
        NaN, and empty masks, overlap nothing.
    scores : Tensor or ndarray ``[N]``, floating
        Objects with NaN or negative scores take no part.
    idxs : Tensor or ndarray ``[N]``, integers or floating whole numbers, optional
        Groups, such as labels: objects with different ids never meet.
    method : {"gaussian", "linear"}
        f(iou) is exp(-sigma iou²) or 1 - iou; see the notes.
    sigma : float > 0
        For "gaussian".
    min_score : float >= 0
        Objects with a new score below this are left out.
    max_output : int, optional
        Keep at most so many, the best of all groups.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    keep : int64 ``[K]``
        Indices by falling new score; equal ones by index.
    new_scores : ``[K]``
        In the scores' dtype.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, dtypes, devices and ranges.

    Notes
    -----
    X. Wang, R. Zhang, T. Kong, L. Li and C. Shen, "SOLOv2: Dynamic and Fast Instance Segmentation"
    (NeurIPS 2020). Objects come by falling score, equal ones by index. The score of object j is
    multiplied by the smallest f(iou_ij) / f(comp_i) over all better objects i of its group, where
    comp_i is the largest overlap of i with an object better than i. With "linear", an object that
    equals a better one (comp = 1) decays nobody; the published code divides by 0.

    Overlaps and scores are computed in float32; for float64 and integer boxes and for masks, in
    float64; with float64 scores, only the scores in float64. Pixels that masks share are counted
    exactly. There is no gradient. On CUDA the call synchronizes to learn the result's size.

    Examples
    --------
    >>> import torch, visops
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 8], [20, 20, 30, 30]])
    >>> keep, scores = visops.matrix_nms(boxes, torch.tensor([0.9, 0.8, 0.7]), method="linear")
    >>> keep, scores
    (tensor([0, 2, 1]), tensor([0.9000, 0.7000, 0.1600]))
    """
    limit = output_limit(_OP, max_output, of_arrays=isinstance(objects, np.ndarray))
    ids = whole_ids(_OP, "idxs", idxs)
    tensors = {"objects": no_boxes(objects, 4), "scores": scores, "idxs": ids}
    options = (method, sigma, min_score, limit)
    kept: tuple[Array, Array] = call_operator(
        _OP, _matrix_nms, device, tensors, *options, optional=("idxs",)
    )
    return kept


def _fake(objects: Tensor, scores: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    count = dynamic_size()
    return objects.new_empty((count,), dtype=torch.int64), scores.new_empty((count,))


_matrix_nms = operator(_OP, fake=_fake, vmap=OneCallOfEqualSizes(), without_gradient=True)
