"""Deformable convolution as torch sees it: opcheck, compile, export, vmap, autocast, fakes."""

import contextlib

import pytest
import torch
import visops
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from deformable.deform_conv2d_cases import Problem, assert_near, problem

OPS = torch.ops.visops


def convolve(
    x: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None
) -> Tensor:
    found: Tensor = visops.deform_conv2d(x, offset, weight, bias, 1, 1, 1, mask)
    return found


def test_gradient_without_mask_and_bias() -> None:
    """Where all options equal their defaults, the dispatcher passes three arguments on."""
    given = problem(mask=False)
    weight = given.weight.clone().requires_grad_()

    def call(weight: Tensor) -> Tensor:
        found: Tensor = OPS.deform_conv2d(
            given.input, given.offset, weight, None, [1, 1], [0, 0], [1, 1], None
        )
        return found

    given.offset = given.offset[:, :, 1:-1, 1:-1]
    wanted = torch.autograd.grad(
        visops.deform_conv2d(given.input, given.offset, weight).sum(), weight
    )
    torch._dynamo.reset()
    for way in (call, torch.compile(call, backend="aot_eager")):
        with FlopCounterMode(display=False) if way is call else contextlib.nullcontext():
            found = torch.autograd.grad(way(weight).sum(), weight)
        assert torch.equal(found[0], wanted[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype: torch.dtype) -> None:
    """Half-precision products; offsets and masks stay float32 or become it."""
    given = problem(channels=8).with_gradients()
    project = torch.nn.Conv2d(8, 18, 3, padding=1)
    with torch.autocast("cpu", dtype=dtype):
        found = given.convolve()
        assert found.dtype == dtype
        half = Problem(
            given.input.to(dtype),
            given.offset,
            given.weight.to(dtype),
            None if given.bias is None else given.bias.to(dtype),
            given.mask,
            *given.options,
        )
        assert torch.equal(found, half.convolve())
        operator = OPS.deform_conv2d(*given.leaves[:4], [1, 1], [1, 1], [1, 1], given.mask)
        assert torch.equal(operator, found)
        offset = project(given.input)
        assert offset.dtype == dtype
        visops.deform_conv2d(given.input, offset, given.weight, padding=1).sum().backward()
    assert_near(found, given.convolve(), dtype)
    assert given.weight.grad is not None
    assert given.weight.grad.dtype == torch.float32
    assert project.weight.grad is not None
    assert bool(project.weight.grad.isfinite().all())


def test_autocast_leaves_float64_alone() -> None:
    given = problem(torch.float64)
    wanted = given.convolve()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(given.convolve(), wanted)


def test_defaults_of_the_operator() -> None:
    given = problem(padding=(0, 0), bias=False, mask=False)
    found = OPS.deform_conv2d(given.input, given.offset, given.weight)
    assert torch.equal(found, given.convolve())
