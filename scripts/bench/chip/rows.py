"""What the rows of all families share: sizes, tensors, and the copy that bounds a job."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from bench.harness import Case, Contender, Tolerance, case
from torch import Tensor
from torch.utils import _pytree as pytree

COPY = "copy"
ANYTHING = Tolerance(why="another job")


def count(number: int, share: float) -> int:
    """A share of a batch, one at least."""
    return max(1, math.ceil(number * share))


def noise(shape: Sequence[int], dtype: torch.dtype, device: str) -> Tensor:
    """Random pixels: bytes, or numbers in [0, 1)."""
    if dtype == torch.uint8:
        return torch.randint(0, 256, tuple(shape), dtype=dtype, device=device)
    return torch.rand(tuple(shape), device=device).to(dtype)


def nothing(_: Any) -> list[Tensor]:
    """What is compared of a copy."""
    return []


def size_of(values: Any) -> int:
    """Bytes of all tensors."""
    tensors = (leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def against_copy(
    device: str,
    inputs: Any,
    ours: Callable[[], Any],
    peers: Iterable[Contender] = (),
    moved: int | None = None,
    comparable: Callable[[Any], Any] | None = None,
) -> list[Contender]:
    """Ours, its peers, and a copy of the bytes that a job moves.

    `moved` counts them where they are fewer than all of the inputs and the result.
    """
    total = size_of(inputs) + size_of(ours()) if moved is None else moved
    source = torch.empty(max(1, total // 2), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return [
        Contender("visops", ours, comparable=comparable),
        *peers,
        Contender(COPY, lambda: target.copy_(source), ANYTHING, comparable=nothing, bound=True),
    ]


def row(group: str, label: str, build: Callable[..., Any], *arguments: Any, device: str) -> Case:
    """A case whose builder takes the device after these arguments."""
    return case(group, label, build, *arguments, device, device=device, threads=1)
