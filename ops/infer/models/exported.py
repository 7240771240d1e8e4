"""Networks from torch.export files, including those exported for one batch size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

__all__ = ["call_in_fixed_batches", "load_exported"]


def load_exported(path: str) -> tuple[Any, int | None]:
    """Load a ``.pt2`` file; return the network, and its batch size if that is fixed."""
    program = torch.export.load(path)
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in inputs:
            shape = getattr(node.meta.get("val"), "shape", ())
            # A dynamic batch size is a symbol, not an int.
            return program.module(), shape[0] if shape and isinstance(shape[0], int) else None
    return program.module(), None


def call_in_fixed_batches(call: Callable[..., Any], size: int, inputs: Tensor) -> Any:
    """Call a network that takes exactly `size` images on any number of them.

    The last batch is padded with copies of the last image, whose outputs are cut off.
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
