"""The other poolings within torch: gradients, opcheck, compile, vmap, fake tensors, threads."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from torch import Tensor

from roi.align_cases import LAYOUTS, channels_last, same_bits
from roi.pooling_cases import OPS, OUTPUT_SIZE, POOLINGS, problem

every_pooling = pytest.mark.parametrize("name", POOLINGS)


def pool(name: str, boxes: Tensor, **options: Any) -> Callable[[Tensor], Tensor]:
    return lambda maps: POOLINGS[name].function(maps, boxes, OUTPUT_SIZE, **options)


@every_pooling
def test_gradients_of_all_layouts_and_dtypes(name: str) -> None:
    """Sums are in float32 and rounded once; layouts change no bit."""
    maps, boxes = problem(name, count=40, channels=3)
    grad = torch.randn(40, 3, *OUTPUT_SIZE, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        double = torch.float64 if dtype == torch.float64 else torch.float32
        values, rounded = maps.to(dtype), grad.to(dtype)
        wanted = None
        for layout, lay in LAYOUTS.items():
            for lying in (rounded, channels_last(rounded), LAYOUTS["spaced"](rounded)):
                leaf = lay(values).detach().requires_grad_()
                found = torch.autograd.grad(pool(name, boxes.to(double))(leaf), leaf, lying)[0]
                assert found.dtype == dtype
                if wanted is None:
                    leaf = values.to(double).requires_grad_()
                    result = pool(name, boxes.to(double))(leaf)
                    wanted = torch.autograd.grad(result, leaf, rounded.to(double))[0].to(dtype)
                assert same_bits(found, wanted)
                last = layout in ("channels_last", "sliced_channels_last")
                assert found.is_contiguous(
                    memory_format=torch.channels_last if last else torch.contiguous_format
                )


@every_pooling
def test_third_derivative(name: str) -> None:
    """Everything is linear, so gradients can be differentiated again and again."""
    maps, boxes = problem(name, count=4, channels=1)
    index = OPS.roi_pool(maps, boxes[:, :5], OUTPUT_SIZE)[1]
    grad = torch.randn(4, 1, *OUTPUT_SIZE).double().requires_grad_()
    if name == "roi_pool":
        leaf = maps.clone().requires_grad_()

        def at(values: Tensor) -> Tensor:
            return visops.roi.pooling_autograd._pool_at(values, index, boxes, 1.0)  # type: ignore[attr-defined,no-any-return]

        assert torch.equal(at(maps), visops.roi_pool(maps, boxes, OUTPUT_SIZE))
        torch.autograd.gradcheck(at, leaf, fast_mode=True, nondet_tol=0.0)
        torch.autograd.gradgradcheck(at, leaf, fast_mode=True)

    def gradient(g: Tensor) -> Tensor:
        leaf = maps.clone().requires_grad_()
        result = pool(name, boxes)(leaf)
        return torch.autograd.grad(result, leaf, g, create_graph=True)[0]

    torch.autograd.gradcheck(gradient, grad, fast_mode=True, nondet_tol=0.0)
    torch.autograd.gradgradcheck(gradient, grad, fast_mode=True)


@every_pooling
def test_boxes_have_no_gradient(name: str) -> None:
    maps, boxes = problem(name)
    boxes.requires_grad_()
    result = pool(name, boxes)(maps.requires_grad_())
    found = torch.autograd.grad(result.sum(), (maps, boxes), allow_unused=True)
    assert found[1] is None
    assert found[0] is not None
    # If the maps need no gradient, the result has none.
    assert not pool(name, boxes)(maps.detach()).requires_grad


@pytest.mark.cuda
@every_pooling
def test_cuda_boxes_that_are_not_valid(name: str) -> None:
    """Zeros, and no gradient."""
    maps, boxes = problem(name, count=8)
    good = boxes[:1].clone()
    bad = good.repeat(8, 1)
    for i, (column, number) in enumerate(
        ((0, 2), (0, -1), (0, 0.5), (0, torch.nan), (1, torch.nan), (2, torch.inf), (4, 1e300))
    ):
        bad[i, column] = number
    if name == "roi_pool":
        bad[7, 0] = 1e30
    else:
        bad[7, 3] = -100
    leaf = maps.cuda().requires_grad_()
    value = pool(name, bad.cuda().float())(leaf.float())
    assert torch.equal(value, torch.zeros_like(value))
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    assert torch.equal(gradient, torch.zeros_like(leaf))
