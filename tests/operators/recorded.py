"""Calls with gradients, and the operators that they make: what laws and the fuzzer share."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .case import Arguments, OpCase


def is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def with_leaves(case: OpCase, arguments: Arguments) -> tuple[Arguments, list[Tensor]]:
    """Return copies of what is differentiable, of which a gradient is wanted."""

    def leaf(value: Any) -> Any:
        return value.detach().requires_grad_() if is_float(value) else value

    given = {n: pytree.tree_map(leaf, arguments.get(n)) for n in case.differentiable}
    given = {name: value for name, value in given.items() if value is not None}
    leaves = [leaf for leaf in pytree.tree_leaves(given) if is_float(leaf)]
    return {**arguments, **given}, leaves


def weights(result: Tensor) -> Tensor:
    """Return a gradient in which no two neighbours are equal."""
    steps = torch.arange(result.numel(), device=result.device).remainder(7) - 2.5
    return steps.view(result.shape).to(result.dtype)


def gradients(
    results: list[Tensor],
    leaves: list[Tensor],
    again: bool = False,
    layout: Callable[[Tensor], Tensor] = Tensor.contiguous,
    incoming: Callable[[Tensor], Tensor] = weights,
) -> list[Tensor]:
    """Return derivatives by the leaves, for `incoming` gradients in a `layout`."""
    wanted = [result for result in results if result.requires_grad]
    if not wanted or not leaves:
        return []
    given = [layout(incoming(result)) for result in wanted]
    return list(
        torch.autograd.grad(wanted, leaves, given, create_graph=again, materialize_grads=True)
    )


def results_and_gradients(case: OpCase, arguments: Arguments) -> list[Tensor]:
    given, leaves = with_leaves(case, arguments)
    results = case.results(given)
    found = gradients(results, leaves)
    return [result.detach() for result in results] + found


class OperatorCalls(TorchDispatchMode):
    """Collects the calls of visops' operators, with their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.namespace == "visops":
            self.calls.append((func, args))
        return func(*args, **(kwargs or {}))
