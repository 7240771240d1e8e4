"""What the rows of all families share: sizes, tensors, and the copy that bounds a job."""

import math
from collections.abc import Callable, Iterable
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


def nothing(_: Any) -> list[Tensor]:
    """What is compared where results must differ: of a copy, or of labels in another order."""
    return []


def size_of(values: Any) -> int:
    """Bytes of all tensors."""
    tensors = (leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def copy_of(device: str, moved: int) -> Contender:
    """The bound: a copy that reads and writes so many bytes together."""
    source = torch.empty(max(1, moved // 2), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return Contender(COPY, lambda: target.copy_(source), ANYTHING, comparable=nothing, bound=True)


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
    return [Contender("visops", ours, comparable=comparable), *peers, copy_of(device, total)]


def row(group: str, label: str, build: Callable[..., Any], *arguments: Any, device: str) -> Case:
    """A case whose builder takes the device after these arguments."""
    return case(group, label, build, *arguments, device, device=device, threads=1)
