"""Eager calls record their gradient without the dispatcher: the same bits as through it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from torch import Tensor

SIZE = [5, 9]
CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "warp_affine": (
        lambda x, m: visops.warp_affine(x, m, SIZE, inverse_map=True),
        lambda x, m: torch.ops.visops.affine(
            x, m, SIZE, "bilinear", "constant", [0.0], True, False
        ),
    ),
    "augment": (
        lambda x, m: visops.augment(x, m, SIZE, inverse_map=True),
        # Defaults that the call leaves out reach the formulas all the same.
        lambda x, m: torch.ops.visops.augment(x, m, SIZE, inverse_map=True),
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wanted", [(True, False), (False, True), (True, True)])
def test_gradients_are_those_of_the_dispatcher(name: str, wanted: tuple[bool, bool]) -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(2, 3, 7, 8, generator=generator)
    matrix = torch.tensor([[0.9, 0.1, 0.5], [-0.1, 0.9, 1.0]])
    grad = torch.rand(2, 3, *SIZE, generator=generator)

    def gradients(call: Callable[..., Any]) -> list[Tensor]:
        inputs = [
            tensor.clone().requires_grad_(needed)
            for tensor, needed in zip((image, matrix), wanted, strict=True)
        ]
        output = call(*inputs)
        needed = [tensor for tensor in inputs if tensor.requires_grad]
        return [output.detach(), *torch.autograd.grad(output, needed, grad)]

    eager, dispatched = CALLS[name]
    for ours, theirs in zip(gradients(eager), gradients(dispatched), strict=True):
        assert torch.equal(ours, theirs)
