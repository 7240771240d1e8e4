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
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from convolution.conv2d_cases import CASES, Case, channels_last, elements, operands

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


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("3x3", "contiguous"),
        ("steps", "channels_last"),
        ("groups", "channels_last"),
        ("four sides", "contiguous"),
    ],
)
def test_opcheck(layout: str, name: str) -> None:
    case = CASES[name]
    laid = channels_last if layout == "channels_last" else Tensor.clone
    input, weight, bias = operands(case)
    grad = laid(OPS.conv2d(input, weight, None, *case.options))
    input = laid(input)
    size = (input.shape, *case.options, layout == "channels_last")
    torch.library.opcheck(OPS.conv2d, (input, weight, None, *case.options))
    tensors = [t.detach().requires_grad_() for t in (input, weight, bias, grad)]
    input, weight, bias, grad = tensors
    torch.library.opcheck(OPS.conv2d, (input, weight, bias, *case.options))
    torch.library.opcheck(OPS.conv2d_backward_input, (grad, weight, *size))
    arguments = (grad, input, weight.shape, *case.options)
    torch.library.opcheck(OPS.conv2d_backward_weight, arguments)


@pytest.mark.parametrize("method", ["implicit", "im2col", "torch", "auto"])
def test_compile(method: str) -> None:
    """A loss and its gradients in one graph, for any size of images."""

    def loss(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return visops.conv2d(input * 2, weight, bias, 1, "same", method=method).square().mean()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for i, (batch, height, width) in enumerate(((2, 9, 11), (3, 14, 8), (5, 7, 30))):
        case = Case((batch, 6, height, width), (4, 6, 3, 3))  # "auto" is implicit
        tensors = leaves(case, torch.float32)
        with torch._dynamo.config.patch(error_on_recompile=i > 0):
            value = compiled(*tensors)
        wanted = loss(*tensors)
        torch.testing.assert_close(value, wanted)
        found = torch.autograd.grad(value, tensors)
        for ours, theirs in zip(found, torch.autograd.grad(wanted, tensors), strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dims", [(0, None, None), (2, None, None), (0, 0, None), (None, 1, 0)])
def test_vmap(dims: tuple[int | None, ...]) -> None:
    case = CASES["groups"]
    function = implicit(case)
    sets = [[t + i for t in operands(case)] for i in range(3)]
    batches = [
        sets[0][k] if dim is None else torch.stack([s[k] for s in sets], dim)
        for k, dim in enumerate(dims)
    ]
    found = torch.vmap(function, in_dims=dims)(*batches)
    for i in range(3):
        own = [sets[0 if dim is None else i][k] for k, dim in enumerate(dims)]
        assert torch.equal(found[i], function(*own))


def test_gradients_of_each_image() -> None:
    case = CASES["3x3"]
    input, weight, bias = operands(case)

    def loss(image: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return implicit(case)(image, weight, bias).square().sum()

    each = torch.vmap(torch.func.grad(loss, argnums=(0, 1, 2)), in_dims=(0, None, None))
    found = each(input, weight, bias)
    for i, image in enumerate(input):
        own = [t.detach().clone().requires_grad_() for t in (image, weight, bias)]
        for ours, theirs in zip(found, torch.autograd.grad(loss(*own), own), strict=True):
            torch.testing.assert_close(ours[i], theirs)


def test_jacobian() -> None:
    case = TINY["steps"]
    tensors = tuple(operands(case))
    found = torch.func.jacrev(implicit(case), argnums=(0, 1, 2))(*tensors)
    expected = torch.autograd.functional.jacobian(implicit(case), tensors)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


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


def test_no_gradient_is_wanted() -> None:
    tensors = leaves(CASES["3x3"])
    function = implicit(CASES["3x3"])
    with torch.no_grad():
        assert not function(*tensors).requires_grad
    with torch.inference_mode():
        expected = function(*tensors)
    assert torch.equal(function(*tensors), expected)


def test_changed_tensors_are_noticed() -> None:
    input, weight, bias = leaves(CASES["3x3"])
    value = implicit(CASES["3x3"])(input, weight, bias)
    weight.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


def test_fake_tensors() -> None:
    case = CASES["steps"]
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        input, weight, bias = (mode.from_tensor(t) for t in leaves(case, torch.float32))
        value = implicit(case)(input, weight, bias)
        gradients = torch.autograd.grad(value.sum(), (input, weight, bias))
        assert [g.shape for g in gradients] == [input.shape, weight.shape, bias.shape]
    expected = implicit(case)(*operands(case, torch.float32))
    assert (value.shape, value.stride(), value.dtype) == (
        (expected.shape, expected.stride(), expected.dtype)
    )
    meta = implicit(case)(*(t.to("meta") for t in operands(case)))
    assert (meta.shape, meta.dtype, meta.is_meta) == (expected.shape, torch.float64, True)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_threads_change_nothing(dtype: torch.dtype) -> None:
    """Blocks depend on the number of threads; sums don't."""
    for case in (
        Case((2, 20, 40, 50), (30, 20, 3, 3), padding=(1, 1)),
        Case((1, 20, 90, 150), (12, 20, 3, 3)),  # several bands
        Case((1, 64, 7, 7), (90, 64, 3, 3), (2, 1), (1, 1)),
        Case((3, 8, 30, 30), (8, 1, 3, 3), groups=8),
    ):
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            tensors = leaves(case, dtype)
            value = implicit(case)(*tensors)
            grad = elements(tuple(value.shape), dtype, 3)
            results.append((value.detach(), *torch.autograd.grad(value, tensors[:2], grad)))
        for other in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


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


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32])
@some_cases
def test_cuda(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    tensors = operands(case, dtype)
    expected = OPS.conv2d(*tensors, *case.options)
    found = OPS.conv2d(*(t.cuda() for t in tensors), *case.options)
    tolerance = {torch.float16: 1e-2, torch.float32: 1e-4}.get(dtype, 1e-10)
    torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance)
    grad = elements(tuple(expected.shape), dtype, 3)
    for op, second, size in (
        (OPS.conv2d_backward_input, tensors[1], (tensors[0].shape, *case.options, False)),
        (OPS.conv2d_backward_weight, tensors[0], (tensors[1].shape, *case.options)),
    ):
        wanted = op(grad, second, *size)
        found = op(grad.cuda(), second.cuda(), *size)
        torch.testing.assert_close(found.cpu(), wanted, rtol=tolerance, atol=tolerance)
