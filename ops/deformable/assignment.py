"""The assignment with the least sum of costs: csrc/core/numbers/assignment.cpp."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._native import solve_assignments
from .._torch.options import flag
from .._torch.unsupported_inputs import outside_graphs, reject_float8, require_values

_OP = "linear_sum_assignment"
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
    maximize = flag(_OP, "maximize", maximize)
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
            raise ValueError(f"visops.{_OP}: {name} holds NaN or {wrong}, must hold neither")
        raise ValueError(
            f"visops.{_OP}: {name} has no assignment, as {forbidding} forbids too many pairs"
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
            f"visops.{_OP}: costs is a {type(costs).__name__}, must be a torch.Tensor, a "
            "numpy.ndarray, or a list of such"
        )
    return list(costs)


def _check(name: str, matrix: Any) -> None:
    if not isinstance(matrix, (Tensor, np.ndarray)):
        raise TypeError(
            f"visops.{_OP}: {name} is a {type(matrix).__name__}, must be a torch.Tensor or a "
            "numpy.ndarray"
        )
    if isinstance(matrix, Tensor):
        require_values(_OP, name, matrix)
        reject_float8(_OP, name, matrix)
    if matrix.ndim != 2:
        raise ValueError(f"visops.{_OP}: {name} has shape {list(matrix.shape)}, must be [Q, n]")
    if isinstance(matrix, np.ndarray):
        is_real = matrix.dtype.kind in "buif"
    else:
        is_real = not matrix.dtype.is_complex
    if not is_real:
        raise ValueError(f"visops.{_OP}: {name} has dtype {matrix.dtype}, must be real")


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
