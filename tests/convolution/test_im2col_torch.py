"""im2col and col2im within torch: gradients, opcheck, compile, vmap, fake tensors, threads."""

from typing import Any

import pytest
import torch
import visops
from torch import Tensor

from convolution.im2col_cases import every_window, numbers

OPS = torch.ops.visops
LAYOUTS = ("unfold", "patches")
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def leaf(shape: Any, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return numbers(shape, dtype, seed).requires_grad_()


@every_layout
def test_gradient_is_the_other(layout: str) -> None:
    for _, w in every_window():
        image = leaf((2, 3, *w.sizes))
        columns = OPS.im2col(image, *w.arguments, None, layout)
        grad = numbers(columns.shape, torch.float64, 1)
        (found,) = torch.autograd.grad(columns, image, grad)
        assert torch.equal(found, OPS.col2im(grad, w.sizes, *w.arguments, layout))
        grad.requires_grad_()
        back = OPS.col2im(grad, w.sizes, *w.arguments, layout)
        (found,) = torch.autograd.grad(back, grad, image.detach())
        assert torch.equal(found, columns)


@every_layout
def test_expanded_gradient(layout: str) -> None:
    image = leaf((2, 3, 6, 7))
    visops.im2col(image, 3, padding=1, layout=layout).sum().backward()
    ones = torch.ones_like(visops.im2col(image, 3, padding=1, layout=layout))
    assert torch.equal(
        image.grad,  # type: ignore[arg-type]
        visops.col2im(ones, (6, 7), 3, padding=1, layout=layout),
    )


def test_conjugate_and_negative_views() -> None:
    image = numbers((2, 5, 6), torch.complex64)
    for view in (image.conj(), image.conj().imag):
        assert torch.equal(
            visops.im2col(view, 3), visops.im2col(view.resolve_conj().resolve_neg(), 3)
        )
