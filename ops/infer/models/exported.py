"""Networks from files of torch.export, those too that were exported for one size of batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

__all__ = ["call_in_fixed_batches", "load_exported"]


def load_exported(path: str) -> tuple[Any, int | None]:
    """Load a ``.pt2`` file; return the network, and its size of batch if it has but one."""
    program = torch.export.load(path)
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in inputs:
            shape = getattr(node.meta.get("val"), "shape", ())
            # One that was exported as dynamic is a symbol.
            return program.module(), shape[0] if shape and isinstance(shape[0], int) else None
    return program.module(), None


def call_in_fixed_batches(call: Callable[..., Any], size: int, inputs: Tensor) -> Any:
    """Call a network that takes `size` images, no more nor less, on any number of them.

    The last ones are filled up with the last image again, and the outputs of these are cut off.
    """
    outputs = []
    for part in inputs.split(size):
        kept = len(part)
        filled = torch.cat([part, *[part[-1:]] * (size - kept)]) if kept < size else part
        outputs.append(tree_map(partial(_first, kept), call(filled)))
    return outputs[0] if len(outputs) == 1 else tree_map(_joined, *outputs)


def _first(count: int, value: Any) -> Any:
    return value[:count] if _has_rows(value) else value


def _joined(first: Any, *others: Any) -> Any:
    return torch.cat([first, *others]) if _has_rows(first) else first


def _has_rows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0
