"""The network's convolution: values, its operators, and its place within torch."""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import visops
from guarded import guarded_memory
from references.conv import conv2d as reference
from torch import Tensor

from convolution.conv2d_cases import (
    CASES,
    COMPLEX,
    FLOATS,
    INTEGERS,
    LAYOUTS,
    Case,
    assert_near,
    both_gradients,
    by_torch,
    channels_last,
    elements,
    exact_sums,
    operands,
    wide,
)

OPS = torch.ops.visops
every_case = pytest.mark.parametrize("name", CASES)


def terms_of(case: Case, dtype: torch.dtype = torch.float64) -> int:
    return int(np.prod(case.weight[1:])) * (2 if dtype.is_complex else 1) + 1


@pytest.mark.matrix
@every_case
def test_definition(name: str) -> None:
    """The loops agree with the operator, and with torch, which other tests compare with."""
    case = CASES[name]
    tensors = operands(case)
    found = OPS.conv2d(*tensors, *case.options)
    input, weight, bias = (t.numpy() for t in tensors)
    steps = (case.stride, case.sides, case.dilation, case.groups)
    loops = reference(input, weight, bias, *steps)
    np.testing.assert_allclose(found, loops, rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_torch(case, *tensors), loops, rtol=0, atol=1e-12)


@pytest.mark.matrix
@every_case
@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
def test_numbers(dtype: torch.dtype, name: str) -> None:
    case = CASES[name]
    tensors = operands(case, dtype)
    found = OPS.conv2d(*tensors, *case.options)
    assert found.dtype == dtype
    assert_near(found, *exact_sums(case, *tensors), terms_of(case, dtype))
    without = OPS.conv2d(*tensors[:2], None, *case.options)
    assert_near(without, *exact_sums(case, *tensors[:2]), terms_of(case, dtype))


def whole_sums(case: Case, input: Tensor, weight: Tensor, bias: Tensor) -> np.ndarray:
    """In int64, modulo 2**64."""
    images, kernels, start = (t.numpy().astype(np.int64) for t in (input, weight, bias))
    top, bottom, left, right = case.sides
    padded = np.pad(images, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = [d * (k - 1) + 1 for k, d in zip(case.weight[2:], case.dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    windows = windows[:, :, :: case.stride[0], :: case.stride[1]]
    windows = windows[..., :: case.dilation[0], :: case.dilation[1]]
    groups = [
        np.einsum("ncyxvu,mcvu->nmyx", w, k)
        for w, k in zip(
            np.split(windows, case.groups, 1), np.split(kernels, case.groups), strict=True
        )
    ]
    return np.concatenate(groups, 1) + start[:, None, None]


@pytest.mark.matrix
@every_case
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap(dtype: torch.dtype, name: str) -> None:
    case = CASES[name]
    tensors = operands(case, dtype)
    found = OPS.conv2d(*tensors, *case.options)
    assert found.dtype == dtype
    expected = whole_sums(case, *tensors).astype(found.numpy().dtype)
    assert np.array_equal(found.numpy(), expected)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_gradients_of_integers_wrap(dtype: torch.dtype) -> None:
    """The weight's, as operators give it: sums of products of all pixels."""
    case = CASES["3x3"]
    input, weight, _ = operands(case, dtype)
    grad = elements((2, 8, 9, 11), dtype, 3)
    found = OPS.conv2d_backward_weight(grad, input, weight.shape, *case.options)
    turned = Case((3, 2, 9, 11), (8, 2, 9, 11), padding=(1, 1))
    nothing = torch.zeros(8, dtype=dtype)
    expected = whole_sums(turned, input.transpose(0, 1), grad.transpose(0, 1), nothing)
    whole = expected.transpose(1, 0, 2, 3).astype(found.numpy().dtype)
    assert np.array_equal(found.numpy(), whole)


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_complex_halves() -> None:
    """As complex numbers of float32, rounded: the sums are in float32."""
    case = CASES["groups"]
    wide = [t.to(torch.complex32).to(torch.complex64) for t in operands(case, torch.complex64)]
    input, weight, bias = (t.to(torch.complex32) for t in wide)
    expected = OPS.conv2d(*wide, *case.options)
    found = OPS.conv2d(input, weight, bias, *case.options)
    assert found.dtype == torch.complex32
    torch.testing.assert_close(found.to(torch.complex64), expected, rtol=1e-3, atol=1e-3)
    grad = elements(tuple(expected.shape), torch.complex64, 3).to(torch.complex32)
    arguments = (weight.shape, *case.options)
    found = OPS.conv2d_backward_weight(grad, input, *arguments)
    expected = OPS.conv2d_backward_weight(grad.to(torch.complex64), wide[0], *arguments)
    assert found.dtype == torch.complex32
    torch.testing.assert_close(found.to(torch.complex64), expected, rtol=1e-3, atol=5e-2)


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["3x3", "stem", "groups", "steps", "1x1"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_layouts(dtype: torch.dtype, layout: str, name: str) -> None:
    """Strides change no bit; channels_last stays."""
    case = CASES[name]
    input, weight, bias = operands(case, dtype)
    expected = OPS.conv2d(input, weight, bias, *case.options)
    laid = LAYOUTS[layout]
    spaced = bias.repeat_interleave(2)[::2]
    assert not spaced.is_contiguous()
    found = OPS.conv2d(laid(input), laid(weight), spaced, *case.options)
    assert torch.equal(found, expected)
    last = layout == "channels_last" and not input.is_contiguous(memory_format=torch.channels_last)
    assert found.is_contiguous(
        memory_format=torch.channels_last if last else torch.contiguous_format
    )
    grad = elements(tuple(expected.shape), dtype, 3)
    for op, (first, second), size in (
        (OPS.conv2d_backward_input, (grad, weight), (input.shape, *case.options, False)),
        (OPS.conv2d_backward_weight, (grad, input), (weight.shape, *case.options)),
    ):
        assert torch.equal(op(laid(first), laid(second), *size), op(first, second, *size))


@pytest.mark.matrix
def test_channels_last_of_many_channels() -> None:
    """Whole and partial squares of pixels by channels are transposed."""
    for channels, width in ((8, 16), (16, 33), (35, 7), (70, 50)):
        case = Case((2, channels, 5, width), (19, channels, 3, 3), (1, 2), (1, 1))
        input, weight, bias = operands(case, torch.float32)
        expected = OPS.conv2d(input, weight, bias, *case.options)
        assert torch.equal(OPS.conv2d(channels_last(input), weight, bias, *case.options), expected)
        grad = elements(tuple(expected.shape), torch.float32, 3)
        size = (weight.shape, *case.options)
        gradient = OPS.conv2d_backward_weight(grad, input, *size)
        laid = OPS.conv2d_backward_weight(channels_last(grad), channels_last(input), *size)
        assert torch.equal(laid, gradient)


@pytest.mark.matrix
@every_case
@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
def test_gradients(dtype: torch.dtype, name: str) -> None:
    case = CASES[name]
    input, weight, _ = operands(case, dtype)
    grad = elements(tuple(OPS.conv2d(input, weight, None, *case.options).shape), dtype, 3)
    exact = both_gradients(case, grad, input, weight)
    magnitudes = both_gradients(case, *(wide(t).abs() for t in (grad, input, weight)))
    terms = (case.weight[0] // case.groups * case.weight[2] * case.weight[3], grad[:, 0].numel())
    found = (
        OPS.conv2d_backward_input(grad, weight, input.shape, *case.options, False),
        OPS.conv2d_backward_weight(grad, input, weight.shape, *case.options),
    )
    for i in range(2):
        assert found[i].dtype == dtype
        assert_near(found[i], exact[i], magnitudes[i].abs(), 2 * terms[i])


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["3x3", "steps", "depthwise"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64], ids=str)
def test_gradients_of_integers(dtype: torch.dtype, name: str) -> None:
    """The operators take integers too: the same sums, which wrap."""
    case = CASES[name]
    input, weight, _ = operands(case, dtype)
    small = [t % 8 for t in (input, weight)]
    grad = elements(tuple(OPS.conv2d(*small, None, *case.options).shape), dtype, 3) % 8
    exact = both_gradients(case, grad, *small)
    shapes = [t.shape for t in small]
    by_input = OPS.conv2d_backward_input(grad, small[1], shapes[0], *case.options, False)
    by_weight = OPS.conv2d_backward_weight(grad, small[0], shapes[1], *case.options)
    assert torch.equal(by_input, exact[0].to(torch.int64).to(dtype))
    assert torch.equal(by_weight, exact[1].to(torch.int64).to(dtype))


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_many_blocks(dtype: torch.dtype) -> None:
    """Images larger than a block in both directions, and more channels than a block holds."""
    for case in (
        Case((1, 40, 37, 230), (9, 40, 3, 3), padding=(1, 1)),
        Case((2, 130, 20, 20), (20, 130, 3, 3), (2, 1), (1, 1)),
        Case((1, 300, 9, 9), (70, 300, 3, 3), padding=(1, 1)),
        Case((3, 70, 24, 24), (16, 70, 1, 1)),
    ):
        input, weight, bias = operands(case, dtype)
        exact, magnitude = exact_sums(case, input, weight, bias)
        found = OPS.conv2d(input, weight, bias, *case.options)
        assert_near(found, exact, magnitude, terms_of(case))
        grad = elements(tuple(found.shape), dtype, 3)
        gradients = both_gradients(case, grad, input, weight)
        by_input = OPS.conv2d_backward_input(grad, weight, input.shape, *case.options, False)
        by_weight = OPS.conv2d_backward_weight(grad, input, weight.shape, *case.options)
        for ours, theirs in zip((by_input, by_weight), gradients, strict=True):
            scale = float(theirs.abs().max())
            assert float((ours - theirs).abs().max()) <= 100 * torch.finfo(dtype).eps * scale


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["3x3", "valid", "stem", "wide", "steps"])
def test_infinities_do_not_spread(name: str) -> None:
    """Values computed between rows and beyond images reach no result."""
    case = CASES[name]
    input, weight, _ = operands(case, torch.float32)
    weight = weight.abs() + 1
    for value in (float("inf"), float("nan")):
        for at in ((0, 0), (0, -1), (-1, -1)):
            marked = input.clone()
            marked[0, 0, at[0], at[1]] = value
            expected = by_torch(case, marked, weight)
            found = OPS.conv2d(marked, weight, None, *case.options)
            assert torch.equal(found.isfinite(), expected.isfinite())
            grad = torch.ones(expected.shape)
            by_weight = OPS.conv2d_backward_weight(grad, marked, weight.shape, *case.options)
            reaches = both_gradients(case, grad, marked.isfinite().logical_not(), weight)[1] > 0
            assert torch.equal(by_weight.isfinite(), ~reaches)


@pytest.mark.parametrize("sizes", [(0, 3, 5, 5), (2, 0, 5, 5)], ids=str)
def test_empty(sizes: tuple[int, int, int, int]) -> None:
    """No images, and no channels: only the bias."""
    weight = torch.zeros(4, sizes[1], 3, 3)
    bias = torch.arange(4.0)
    found = visops.conv2d(torch.zeros(sizes), weight, bias, padding=1, method="implicit")
    assert found.shape == (sizes[0], 4, 5, 5)
    assert torch.equal(found, bias[:, None, None].expand(found.shape))
    grad = torch.ones(found.shape)
    options = ([1, 1], [1, 1], [1, 1], 1)
    assert OPS.conv2d_backward_input(grad, weight, sizes, *options, False).shape == sizes
    by_weight = OPS.conv2d_backward_weight(grad, torch.zeros(sizes), weight.shape, *options)
    assert torch.equal(by_weight, torch.zeros(weight.shape))


def test_image_without_pixels() -> None:
    found = visops.conv2d(torch.zeros(1, 2, 0, 3), torch.ones(1, 2, 1, 1), torch.ones(1), padding=1)
    assert torch.equal(found, torch.ones(1, 1, 2, 5))


def test_a_stride_longer_than_the_image_takes_no_longer() -> None:
    """As much was prefetched, or searched for a kernel element, as the stride is long."""
    image, weight = torch.rand(2, 8, 64, 22), torch.rand(4, 8, 3, 5)
    image, weight = image.requires_grad_(), weight.requires_grad_()
    began = time.process_time()
    stride = (3, 2**31 - 1)
    found = visops.conv2d(image, weight, stride=stride, dilation=2, method="implicit")
    gradients = torch.autograd.grad(found.square().sum(), (image, weight))
    assert time.process_time() - began < 5.0
    wanted = F.conv2d(image, weight, stride=(3, 22), dilation=2)
    torch.testing.assert_close(found, wanted)
    theirs = torch.autograd.grad(wanted.square().sum(), (image, weight))
    torch.testing.assert_close(gradients, theirs)


def test_no_output_channels() -> None:
    input, weight = torch.ones(1, 2, 3, 3), torch.zeros(0, 2, 3, 3)
    assert visops.conv2d(input, weight).shape == (1, 0, 1, 1)
    gradient = OPS.conv2d_backward_input(
        torch.zeros(1, 0, 1, 1), weight, input.shape, [1, 1], [0, 0], [1, 1], 1, False
    )
    assert torch.equal(gradient, torch.zeros(input.shape))


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


@pytest.mark.parametrize("method", ["implicit", "im2col", "torch"])
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(half: torch.dtype, method: Any) -> None:
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
