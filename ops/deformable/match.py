"""Costs of matching predictions with targets.

The schema is in csrc/library.cpp, checks of arguments in csrc/torch/deformable/match.cpp.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .._native import solve_assignments
from .._torch.declaring import operator
from .._torch.numbers import listed, real_number, real_numbers
from .._torch.options import flag
from .._torch.outside_graphs import outside_graphs
from .._torch.unsupported_inputs import called, reject_float8, require_tensors, require_values
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


# The assignment with the least sum of costs: csrc/core/numbers/assignment.cpp.

_SOLVER = "linear_sum_assignment"
Pairs = tuple[Any, Any]


@outside_graphs
def linear_sum_assignment(
    costs: Tensor | np.ndarray | Sequence[Tensor | np.ndarray], *, maximize: bool = False
) -> Pairs | list[Pairs]:
    """Assign rows to columns so that the sum of their costs is the least.

    ``scipy.optimize.linear_sum_assignment``, for all images of a batch in one call: what
    :func:`match_cost` returns goes in as it is. The pairs are SciPy's, also where several
    assignments have the least sum. It is solved on the CPU in float64; costs on a GPU come over in
    one copy, for which the host waits.

    Parameters
    ----------
    costs : Tensor or ndarray ``[Q, n]``, or a sequence of such
        Real numbers of any dtype. ``inf`` forbids a pair.
    maximize : bool
        Whether the sum is to be the greatest; then ``-inf`` forbids a pair.

    Returns
    -------
    (rows, columns) : int64 ``[min(Q, n)]`` each
        Pairs by rising row: tensors on the device of `costs`, or arrays. For a sequence, a list
        of such.

    Raises
    ------
    TypeError, ValueError
        A matrix has another rank, or holds NaN or -inf; too many pairs are forbidden.
    RuntimeError
        For tensors without values or strides, such as those on meta.

    Notes
    -----
    Takes time of the order of min(Q, n)² max(Q, n), usually much less. D. F. Crouse, "On
    implementing 2D rectangular assignment algorithms", IEEE TAES, 2016.

    Examples
    --------
    >>> import torch, visops
    >>> costs = torch.tensor([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> rows, columns = visops.linear_sum_assignment(costs)
    >>> columns, costs[rows, columns].sum()
    (tensor([1, 0, 2]), tensor(5.))
    >>> [pairs[1].tolist() for pairs in visops.linear_sum_assignment([costs, costs[:, :1]])]
    [[1, 0, 2], [0]]
    """
    maximize = flag(_SOLVER, "maximize", maximize)
    is_one = isinstance(costs, (Tensor, np.ndarray))
    matrices: list[Any] = [costs] if is_one else _listed(costs)
    for index, matrix in enumerate(matrices):
        _check("costs" if is_one else f"costs[{index}]", matrix)
    shapes = np.array([tuple(m.shape) for m in matrices], np.int64).reshape(-1, 2)
    flat = _on_host(matrices)
    if maximize:
        flat = -flat
    rows, columns, problems = solve_assignments(flat, shapes)
    for index in np.flatnonzero(problems).tolist():
        name = "costs" if is_one else f"costs[{index}]"
        forbidding = "-inf" if maximize else "inf"
        wrong = "inf" if maximize else "-inf"
        if problems[index] == 1:
            raise ValueError(f"visops.{_SOLVER}: {name} holds NaN or {wrong}, must hold neither")
        raise ValueError(
            f"visops.{_SOLVER}: {name} has no assignment, as {forbidding} forbids too many pairs"
        )
    counts = shapes.min(1).tolist()
    tensors = [torch.from_numpy(own).split(counts) for own in (rows, columns)]
    found: list[Pairs] = []
    for matrix, *pair in zip(matrices, *tensors, strict=True):
        if isinstance(matrix, np.ndarray):
            found.append((pair[0].numpy(), pair[1].numpy()))
        else:
            found.append((pair[0].to(matrix.device), pair[1].to(matrix.device)))
    return found[0] if is_one else found


def _listed(costs: Any) -> list[Any]:
    if not isinstance(costs, (list, tuple)):
        raise TypeError(
            f"visops.{_SOLVER}: costs is a {type(costs).__name__}, must be a torch.Tensor, a "
            "numpy.ndarray, or a list of such"
        )
    return list(costs)


def _check(name: str, matrix: Any) -> None:
    if not isinstance(matrix, (Tensor, np.ndarray)):
        raise TypeError(
            f"visops.{_SOLVER}: {name} is a {type(matrix).__name__}, must be a torch.Tensor or a "
            "numpy.ndarray"
        )
    if isinstance(matrix, Tensor):
        require_values(_SOLVER, name, matrix)
        reject_float8(_SOLVER, name, matrix)
    if matrix.ndim != 2:
        raise ValueError(f"visops.{_SOLVER}: {name} has shape {list(matrix.shape)}, must be [Q, n]")
    if isinstance(matrix, np.ndarray):
        is_real = matrix.dtype.kind in "buif"
    else:
        is_real = not matrix.dtype.is_complex
    if not is_real:
        raise ValueError(f"visops.{_SOLVER}: {name} has dtype {matrix.dtype}, must be real")


def _on_host(matrices: list[Any]) -> np.ndarray:
    """Return all costs one after another, in float64; those of a GPU come over together."""
    devices = {matrix.device for matrix in matrices if isinstance(matrix, Tensor)}
    if len(devices) == 1 and all(isinstance(matrix, Tensor) for matrix in matrices):
        whole = torch.cat([matrix.detach().reshape(-1) for matrix in matrices])
        return _as_doubles(whole)
    flat = [_as_doubles(matrix).reshape(-1) for matrix in matrices]
    return np.concatenate(flat) if flat else np.empty(0)


def _as_doubles(costs: Tensor | np.ndarray) -> np.ndarray:
    if isinstance(costs, Tensor):
        values = costs.detach().cpu().resolve_neg()
        costs = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return costs.astype(np.float64)
