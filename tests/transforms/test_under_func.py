"""Transforms within torch.func: the gradients of autograd, and the results of single samples."""

from typing import Any

import pytest
import torch
from torch import Tensor
from visops import transforms as T

CHAINS: dict[str, list[Any]] = {
    "geometry": [T.RandomAffine(30, scale=(0.8, 1.2)), T.RandomHorizontalFlip(), T.Resize((9, 8))],
    "contrast": [T.RandomResizedCrop((9, 8)), T.ColorJitter(0.3, 0.3, 0.3, 0.1)],
    "contrast of few": [T.RandomApply([T.ColorJitter(contrast=0.5)], p=0.7), T.RandomErasing(1)],
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_gradients_and_batches(name: str, exact: bool) -> None:
    chain = T.Compose(CHAINS[name], seed=0, exact=exact)
    images = torch.rand(3, 3, 20, 30)

    def total(image: Tensor) -> Tensor:
        return chain(image, index=4).square().sum()  # type: ignore[no-any-return]

    leaf = images[0].clone().requires_grad_()
    (expected,) = torch.autograd.grad(total(leaf), leaf)
    torch.testing.assert_close(torch.func.grad(total)(images[0]), expected)
    mapped = torch.vmap(lambda image: chain(image, index=4))(images)
    assert torch.equal(mapped, torch.stack([chain(image, index=4) for image in images]))
    each = torch.vmap(torch.func.grad(total))(images)
    torch.testing.assert_close(each[0], expected)
