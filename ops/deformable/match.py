"""Costs of matching predictions with targets.

The schema is in csrc/library.cpp, checks of arguments in csrc/torch/deformable/match.cpp.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from .._torch.declaring import operator
from .._torch.numbers import listed, real_number, real_numbers
from .._torch.unsupported_inputs import called, require_tensors
from .._torch.vmap_calls import one_call_each

_OP = "match_cost"


def match_cost(
    logits: Tensor,
    boxes: Tensor,
    target_labels: Tensor | Sequence[Tensor],
    target_boxes: Tensor | Sequence[Tensor],
    *,
    weights: Sequence[float],
    kind: Literal["focal", "softmax"] = "focal",
    counts: Sequence[int] | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
) -> list[Tensor]:
    r"""Compute what DETR's matcher minimises: class, L1 and GIoU costs of queries and targets.

    The costs of an image's queries with its own targets are

    .. math:: w_\text{box} \lVert b - \hat b \rVert_1 + w_\text{class}\, c
              - w_\text{giou} \operatorname{GIoU}(b, \hat b)

    Queries are never compared with another image's targets, and no matrix but the result is stored.
    :func:`linear_sum_assignment` takes the list as it is. Results are bit-identical on every
    instruction set, at every thread count, and on CPU and CUDA.

    Parameters
    ----------
    logits : Tensor ``[B, Q, K]``
        Class logits of Q queries. For "softmax" the last class is usually "no object".
    boxes : Tensor ``[B, Q, 4]``
        Predicted boxes as (cx, cy, w, h), usually in units of the image.
    target_labels : Tensor ``[T]``, or a sequence of B tensors ``[n_i]``
        Labels from 0 to K - 1, int64 or int32: all images' one after another, or each image's. CUDA
        tensors are not read by the host, which would synchronize; a label that is no class makes
        its costs NaN there.
    target_boxes : Tensor ``[T, 4]``, or a sequence of B tensors ``[n_i, 4]``
        Boxes in the format of `boxes`.
    weights : (float, float, float)
        The weights of the class, L1 and GIoU costs. Deformable DETR has (2, 5, 2), DETR (1, 5, 2).
    kind : {"focal", "softmax"}
        Deformable DETR's class cost from sigmoids, or DETR's, the negated probability.
    counts : sequence of B integers, optional
        How many of T targets each image has. Needed for tensors of all targets, and only there.
    alpha, gamma : float
        The focal loss's numbers, for "focal".

    Returns
    -------
    list of B tensors ``[Q, n_i]``
        Views of one tensor, each contiguous. float32 (float64 for float64 logits), in which
        everything is computed. Boxes without area are no error: a quotient of 0 / 0 in the GIoU
        counts as 0. NaN in a prediction makes its costs NaN, which SciPy refuses.

    Raises
    ------
    RuntimeError, TypeError
        For wrong shapes, dtypes, devices, counts, labels and numbers.

    Notes
    -----
    Not differentiable: matchers run without gradients. Arguments that require one are detached, so
    the result never does.

    Carion et al., "End-to-End Object Detection with Transformers", 2020 (``models/matcher.py``);
    Zhu et al., "Deformable DETR", 2021 (``models/matcher.py``).

    Examples
    --------
    >>> import torch, visops
    >>> logits = torch.tensor([[[4.0, -4.0], [-4.0, 4.0]]])
    >>> boxes = torch.tensor([[[0.25, 0.25, 0.5, 0.5], [0.75, 0.75, 0.5, 0.5]]])
    >>> (costs,) = visops.match_cost(
    ...     logits, boxes, [torch.tensor([1])], [boxes[0, 1:]], weights=(2, 5, 2)
    ... )
    >>> costs.argmin(0)
    tensor([1])
    """
    labels, targets, numbers = _targets(target_labels, target_boxes, counts)
    require_tensors(_OP, logits=logits, boxes=boxes)
    factors = real_numbers(_OP, "weights", weights, "three numbers: of class, box and giou")
    flat = called(
        _match_cost,
        logits.detach(),
        boxes.detach(),
        labels,
        targets.detach(),
        numbers,
        factors,
        kind,
        real_number(_OP, "alpha", alpha),
        real_number(_OP, "gamma", gamma),
    )
    queries = logits.shape[1]
    parts = flat.split([queries * count for count in numbers])
    return [part.view(queries, count) for part, count in zip(parts, numbers, strict=True)]


def _targets(
    labels: Any, boxes: Any, counts: Sequence[int] | None
) -> tuple[Tensor, Tensor, list[Any]]:
    """Return all images' labels and boxes, and how many each image has."""
    if isinstance(labels, Tensor) and isinstance(boxes, Tensor):
        if counts is None:
            raise TypeError(
                f"visops.{_OP}: counts is None, must have the number of targets of each image "
                "where targets are tensors"
            )
        return labels, boxes, listed(_OP, "counts", counts, "a number for each image")
    for name, value in (("target_labels", labels), ("target_boxes", boxes)):
        is_list = isinstance(value, list | tuple) and all(isinstance(v, Tensor) for v in value)
        if not is_list:
            raise TypeError(
                f"visops.{_OP}: {name} is a {type(value).__name__}, must be a torch.Tensor as the "
                "other targets are, or both lists of tensors"
            )
    if counts is not None:
        raise TypeError(f"visops.{_OP}: counts is for tensors of all targets; lists have their own")
    if len(labels) != len(boxes) or not labels:
        raise RuntimeError(
            f"visops.{_OP}: target_labels has {len(labels)} tensors, target_boxes {len(boxes)}; "
            "both must have one for each image"
        )
    for i, (label, box) in enumerate(zip(labels, boxes, strict=True)):
        if label.dim() != 1 or box.dim() != 2 or box.shape[0] != label.shape[0]:
            raise RuntimeError(
                f"visops.{_OP}: target_labels[{i}] has shape {list(label.shape)}, "
                f"target_boxes[{i}] {list(box.shape)}; must be [n] and [n, 4]"
            )
    return torch.cat(list(labels)), torch.cat(list(boxes)), [len(label) for label in labels]


def _fake(logits: Tensor, boxes: Tensor, target_labels: Tensor, *options: Any) -> Tensor:
    dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
    return logits.new_empty((logits.shape[1] * target_labels.shape[0],), dtype=dtype)


_match_cost = operator(
    _OP,
    fake=_fake,
    vmap=one_call_each,
    without_gradient=True,
    note="Returns each image's [queries, targets], one image after another.",
)
