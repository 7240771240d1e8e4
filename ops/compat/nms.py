"""Suppression in the interface of the extension that visops replaces; public as visops.compat."""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.options import check_word
from .._torch.unsupported_inputs import require_plain
from ..suppression.nms import batched_nms as _batched_nms
from ..suppression.nms import nms as _nms
from ..suppression.soft_nms import batched_soft_nms as _batched_soft_nms
from ..suppression.soft_nms import soft_nms as _soft_nms

Array = TypeVar("Array", Tensor, np.ndarray)


def nms(dets: Array, iou_thr: float, device_id: int | None = None) -> tuple[Array, Array]:
    """Greedy suppression of boxes that carry their scores.

    The same as :func:`visops.nms`; see there for the rules.

    Parameters
    ----------
    dets : Tensor or ndarray ``[N, 5]``, floating
        ``x1, y1, x2, y2, score``.
    iou_thr : float in [0, 1]
        Boxes that overlap a kept box by more are dropped.
    device_id : int, optional
        For arrays: the CUDA device to compute on; None is the CPU.

    Returns
    -------
    dets : ``[K, 5]``
        The kept rows, by falling score.
    inds : int64 ``[K]``
        Their indices.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        An argument has a wrong type, dtype or shape, or `device_id` comes with a tensor.

    Notes
    -----
    Differs from python_cpp_extension on the CPU, which also dropped boxes with an overlap equal
    to `iou_thr` and returned rows by rising index.

    Examples
    --------
    >>> import numpy as np
    >>> from visops.compat import nms
    >>> dets = np.array([[49.1, 32.4, 51.0, 35.9, 0.9],
    ...                  [49.3, 32.9, 51.0, 35.3, 0.9],
    ...                  [49.2, 31.8, 51.0, 35.4, 0.5],
    ...                  [35.1, 11.5, 39.1, 15.7, 0.5],
    ...                  [35.6, 11.8, 39.3, 14.2, 0.5],
    ...                  [35.3, 11.5, 39.9, 14.5, 0.4],
    ...                  [35.2, 11.7, 39.7, 15.7, 0.3]], dtype=np.float32)
    >>> suppressed, inds = nms(dets, 0.6)
    >>> inds
    array([0, 3, 4])
    """
    _check_dets("compat.nms", dets)
    device = None if device_id is None else f"cuda:{device_id}"
    if device is not None and isinstance(dets, Tensor):
        raise TypeError("visops.compat.nms: device_id is for arrays; move dets with .to()")
    inds = _nms(dets[:, :4], dets[:, 4], iou_thr, device=device)
    return dets[inds], inds


def soft_nms(
    dets: Array,
    iou_thr: float,
    method: Literal["linear", "gaussian"] = "linear",
    sigma: float = 0.5,
    min_score: float = 1e-3,
) -> tuple[Array, Array]:
    """Soft suppression of boxes that carry their scores.

    The same as :func:`visops.soft_nms`; see there for the rules. Tensors are computed on their own
    device, CUDA too.

    Parameters
    ----------
    dets : Tensor or ndarray ``[N, 5]``, floating
        ``x1, y1, x2, y2, score``.
    iou_thr : float in [0, 1]
        For the method "linear".
    method : {"linear", "gaussian"}
    sigma : float
        For the method "gaussian".
    min_score : float
        Boxes whose score falls below this are dropped.

    Returns
    -------
    dets : ``[K, 5]``
        The kept boxes with their new scores, by falling score.
    inds : int64 ``[K]``
        Their indices.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        An argument has a wrong type, dtype or shape.

    Notes
    -----
    Differs from python_cpp_extension in ties, which go by index, and if all scores are below
    `min_score`: the extension kept the highest.

    Examples
    --------
    >>> import numpy as np
    >>> from visops.compat import soft_nms
    >>> dets = np.array([[4.0, 3.0, 5.0, 3.0, 0.9],
    ...                  [4.0, 3.0, 5.0, 4.0, 0.9],
    ...                  [3.0, 1.0, 3.0, 1.0, 0.5],
    ...                  [3.0, 1.0, 3.0, 1.0, 0.5],
    ...                  [3.0, 1.0, 3.0, 1.0, 0.4],
    ...                  [3.0, 1.0, 3.0, 1.0, 0.0]], dtype=np.float32)
    >>> suppressed, inds = soft_nms(dets, 0.6, sigma=0.5)
    >>> len(suppressed), len(inds)
    (5, 5)
    """
    op = "compat.soft_nms"
    _check_dets(op, dets)
    _check_method(op, method)
    inds, scores = _soft_nms(
        dets[:, :4],
        dets[:, 4],
        method=method,
        iou_threshold=iou_thr,
        sigma=sigma,
        min_score=min_score,
    )
    return _joined(dets[inds, :4], scores), inds


def batched_nms(
    bboxes: Tensor, scores: Tensor, inds: Tensor, nms_cfg: Mapping[str, Any]
) -> tuple[Tensor, Tensor]:
    """Suppression within classes.

    No coordinate is shifted; see :func:`visops.batched_nms` and :func:`visops.batched_soft_nms`.

    Parameters
    ----------
    bboxes : Tensor ``[N, 4]``
        ``x1, y1, x2, y2``.
    scores : Tensor ``[N]``, floating
    inds : Tensor ``[N]``, integers
        Class of each box.
    nms_cfg : dict
        ``type`` is "nms" (the default) or "soft_nms"; the rest are arguments of that function,
        such as ``iou_thr``. It is neither changed nor evaluated.

    Returns
    -------
    dets : Tensor ``[K, 5]``
        Kept boxes and their scores, by falling score.
    keep : Tensor, int64 ``[K]``
        Their indices.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        An argument has a wrong type, dtype or shape, or `nms_cfg` has an entry that its type does
        not take.

    Examples
    --------
    >>> import torch
    >>> from visops.compat import batched_nms
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [0, 0, 10, 10]])
    >>> scores, classes = torch.tensor([0.9, 0.8, 0.7]), torch.tensor([0, 0, 1])
    >>> batched_nms(boxes, scores, classes, {"type": "nms", "iou_thr": 0.5})[1]
    tensor([0, 2])
    """
    op = "compat.batched_nms"
    options = dict(nms_cfg)
    kind = options.pop("type", "nms")
    allowed = {"nms": ("iou_thr",), "soft_nms": ("iou_thr", "method", "sigma", "min_score")}
    if kind not in tuple(allowed):  # a tuple: kind may be unhashable
        raise ValueError(f"visops.{op}: nms_cfg has type {kind!r}, must be 'nms' or 'soft_nms'")
    unknown = sorted(set(options) - set(allowed[kind]))
    if unknown:
        raise ValueError(
            f"visops.{op}: nms_cfg has {unknown[0]!r}, {kind} takes {', '.join(allowed[kind])}"
        )
    if "iou_thr" not in options:
        raise ValueError(f"visops.{op}: nms_cfg has no 'iou_thr'")
    require_plain(op, bboxes=bboxes, scores=scores, inds=inds)
    threshold = options.pop("iou_thr")
    if kind == "nms":
        keep = _batched_nms(bboxes, scores, inds, threshold)
        kept_scores = scores[keep]
    else:
        _check_method(op, options.get("method", "linear"))
        keep, kept_scores = _batched_soft_nms(
            bboxes, scores, inds, iou_threshold=threshold, **options
        )
    return _joined(bboxes[keep], kept_scores), keep


def _joined(boxes: Array, scores: Array) -> Array:
    if isinstance(boxes, np.ndarray):
        return np.concatenate([boxes, scores[:, None]], axis=1)
    return torch.cat([boxes, scores[:, None]], dim=1)


def _check_dets(op: str, dets: Any) -> None:
    require_plain(op, dets=dets)
    if not isinstance(dets, (Tensor, np.ndarray)):
        kind = type(dets).__name__
        raise TypeError(f"visops.{op}: dets is a {kind}, must be a torch.Tensor or numpy.ndarray")
    if dets.ndim != 2 or dets.shape[1] != 5:
        raise ValueError(f"visops.{op}: dets has shape {list(dets.shape)}, must be [N, 5]")


def _check_method(op: str, method: str) -> None:
    check_word(op, "method", method, ("linear", "gaussian"))
