"""The network's convolution within torch: gradients, opcheck, compile, vmap, autocast, threads."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import visops
from guarded import guarded_memory
from torch import Tensor

from convolution.conv2d_cases import CASES, Case, channels_last, operands

OPS = torch.ops.visops
some_cases = pytest.mark.parametrize("name", ["3x3", "steps", "groups", "four sides"])
TINY = {
    "3x3": Case((2, 2, 4, 3), (3, 2, 3, 3), padding=(1, 1)),
    "steps": Case((1, 2, 6, 5), (2, 2, 2, 3), stride=(2, 1), padding=(1, 1), dilation=(2, 1)),
    "groups": Case((1, 4, 3, 4), (2, 2, 2, 2), groups=2),
}


def implicit(case: Case) -> Callable[..., Tensor]:
    """The public function with the case's options and method "implicit"."""

    def call(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        padding: Any = case.padding
        arguments = (bias, case.stride, padding, case.dilation, case.groups)
        return visops.conv2d(input, weight, *arguments, method="implicit")

    return call


def leaves(case: Case, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [t.requires_grad_() for t in operands(case, dtype)]


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_gradcheck(dtype: torch.dtype, name: str) -> None:
    tensors = leaves(TINY[name], dtype)
    assert torch.autograd.gradcheck(implicit(TINY[name]), tensors)
    fast = dtype.is_complex  # a projection of the Jacobian: the whole takes seconds
    assert torch.autograd.gradgradcheck(implicit(TINY[name]), tensors, fast_mode=fast)


@some_cases
def test_gradients_equal_torchs(name: str) -> None:
    """Up to the third order, for any subset of the tensors."""
    case = CASES[name]
    if len(case.padding) == 4:
        pytest.skip("torch pads opposite sides alike")
    tensors = leaves(case)

    def derivatives(function: Callable[..., Tensor]) -> list[Tensor]:
        value = function(*tensors).square().sum()
        found = list(torch.autograd.grad(value, tensors, create_graph=True))
        again = sum(g.square().sum() for g in found)
        found += torch.autograd.grad(again, tensors, create_graph=True)  # type: ignore[arg-type]
        last = sum(g.square().sum() for g in found[3:])
        return [*found, *torch.autograd.grad(last, tensors[:2])]  # type: ignore[arg-type]

    def by_torch(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.conv2d(input, weight, bias, case.stride, case.padding, case.dilation, case.groups)

    for ours, theirs in zip(derivatives(implicit(case)), derivatives(by_torch), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    (only,) = torch.autograd.grad(implicit(case)(*tensors).sum(), tensors[1:2])
    (expected,) = torch.autograd.grad(by_torch(*tensors).sum(), tensors[1:2])
    torch.testing.assert_close(only, expected)


def test_gradients_keep_the_layout() -> None:
    input, weight, bias = operands(CASES["stem"], torch.float32)
    images = channels_last(input).requires_grad_()
    value = visops.conv2d(images, weight, bias, 2, 3, method="implicit")
    (gradient,) = torch.autograd.grad(value.sum(), images, create_graph=True)
    assert gradient.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("method", ["implicit", "im2col", "torch"])
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(half: torch.dtype, method: str) -> None:
    """Results are halves, as torch's convolution gives; float64 stays."""
    input, weight, bias = leaves(CASES["3x3"], torch.float32)
    with torch.autocast("cpu", dtype=half):
        found = visops.conv2d(input, weight, bias, padding=1, method=method)
        assert visops.conv2d(*operands(CASES["3x3"]), method=method).dtype == torch.float64
    assert found.dtype == half
    halves = input.to(half), weight.to(half), bias.to(half)
    expected = visops.conv2d(*halves, padding=1, method=method)
    assert torch.equal(found, expected)
    found.sum().backward()
    assert input.grad is not None
    assert input.grad.dtype == torch.float32


def test_autocast_of_the_operator() -> None:
    input, weight, bias = leaves(CASES["3x3"], torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = OPS.conv2d(input, weight, bias)
        per_image = torch.func.grad(lambda x: sum_of(x, weight))(input)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, OPS.conv2d(*(t.bfloat16() for t in (input, weight, bias))))
    assert per_image.dtype == torch.float32


def sum_of(input: Tensor, weight: Tensor) -> Tensor:
    return visops.conv2d(input, weight, method="implicit").sum()


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect() of glibc")
@pytest.mark.parametrize("end", [False, True])
def test_memory_beyond_tensors_is_not_read(end: bool) -> None:
    """Images begin or end where readable memory does: reading beyond would crash."""
    cases = (
        Case((2, 3, 5, 7), (4, 3, 1, 1)),
        Case((3, 2, 50, 60), (8, 2, 1, 1)),
        Case((2, 9, 7, 33), (2, 9, 3, 3), padding=(1, 1)),
        Case((1, 3, 20, 19), (2, 3, 3, 3), stride=(2, 2)),
    )
    for case in cases:
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.uint8):
            for laid in (torch.contiguous_format, torch.channels_last):
                input, weight, _ = operands(case, dtype)
                if case.input[0] * case.input[2] > 100 and dtype == torch.float64:
                    continue  # larger than the memory
                with guarded_memory() as memory:
                    size = input.numel() * input.element_size()
                    part = memory[-size:] if end else memory[:size]
                    flat = torch.from_numpy(part).view(dtype)
                    image = flat.as_strided(input.shape, input.to(memory_format=laid).stride())
                    image.copy_(input)
                    found = OPS.conv2d(image, weight, None, *case.options)
                    grad = torch.ones_like(found)
                    OPS.conv2d_backward_weight(grad, image, weight.shape, *case.options)
                    expected = OPS.conv2d(image.clone(), weight, None, *case.options)
                    assert torch.equal(found, expected)
                    del image, flat, part
