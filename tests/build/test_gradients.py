"""What holds for the gradients of every operator, drawn from its schema."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from build.operators import DIFFERENTIABLE, gradients, is_leaf, valid_call

every_operator = pytest.mark.parametrize("name", DIFFERENTIABLE)


def wanted(arguments: dict[str, Any]) -> list[str]:
    """Return the names of the arguments by which a gradient may be wanted."""
    return [n for n, value in arguments.items() if any(map(is_leaf, pytree.tree_leaves(value)))]


@pytest.mark.filterwarnings("ignore:Error detected in")  # of derivatives that are refused
@every_operator
def test_saved_tensors_are_unpacked_once(name: str) -> None:
    """Non-reentrant checkpoints compute the forward pass again to unpack them, and only once."""
    target, arguments = valid_call(name)
    times: Counter[int] = Counter()

    def pack(tensor: Tensor) -> tuple[int, Tensor]:
        times[len(times)] = 0
        return len(times) - 1, tensor

    def unpack(packed: tuple[int, Tensor]) -> Tensor:
        times[packed[0]] += 1
        return packed[1]

    def recorded(**given: Any) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return target.function(**given)

    for argument in wanted(arguments):
        gradients(recorded, arguments, argument)
    assert max(times.values(), default=0) <= 1


@pytest.mark.filterwarnings("ignore:Error detected in")
@every_operator
def test_batches_of_gradients(name: str) -> None:
    """Those of two incoming gradients at once, as torch.autograd.functional and hessians ask."""
    target, arguments = valid_call(name)

    def copied(value: Any) -> Any:
        return value.detach().clone().requires_grad_() if is_leaf(value) else value

    given = {key: pytree.tree_map(copied, value) for key, value in arguments.items()}
    leaves = [leaf for leaf in pytree.tree_leaves(given) if is_leaf(leaf)]
    results = [r for r in pytree.tree_leaves(target.function(**given)) if r is not None]
    results = [result for result in results if result.requires_grad]
    if not results:
        return
    incoming = [torch.stack([torch.ones_like(r), torch.full_like(r, 2.0)]) for r in results]

    def of(grads: list[Tensor], batched: bool) -> Any:
        return torch.autograd.grad(
            results, leaves, grads, True, is_grads_batched=batched, allow_unused=True
        )

    try:
        each = [of([grad[i] for grad in incoming], False) for i in range(2)]
    except Exception as error:
        if "can't be differentiated again" not in str(error):
            raise
        return
    for found, *expected in zip(of(incoming, True), *each, strict=True):
        if found is not None:
            torch.testing.assert_close(found, torch.stack(expected))
