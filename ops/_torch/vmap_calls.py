"""The vmap rule of operators that have no batch dimension to fold calls into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["one_call_each"]


def one_call_each(call: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """Return a rule that calls once per mapped entry and stacks the results."""

    def rule(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        results = [
            call(*(_entry(a, d, i) for a, d in zip(arguments, in_dims, strict=True)))
            for i in range(info.batch_size)
        ]
        if isinstance(results[0], Tensor):
            return torch.stack(results), 0
        stacked = tuple(torch.stack(parts) for parts in zip(*results, strict=True))
        return stacked, (0,) * len(stacked)

    return rule


def _entry(argument: Any, dim: Any, i: int) -> Any:
    if isinstance(argument, (list, tuple)) and isinstance(dim, (list, tuple)):  # a list of tensors
        return [_entry(a, d, i) for a, d in zip(argument, dim, strict=True)]
    return argument if dim is None else argument.select(dim, i)
