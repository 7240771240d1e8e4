"""Deformable convolution as torch sees it: opcheck, compile, export, vmap, autocast, fakes."""

import contextlib
from typing import Any

import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils.flop_counter import FlopCounterMode

from deformable.deform_conv2d_cases import Problem, assert_near, problem

OPS = torch.ops.visops


def convolve(
    x: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None
) -> Tensor:
    found: Tensor = visops.deform_conv2d(x, offset, weight, bias, 1, 1, 1, mask)
    return found


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_opcheck(dtype: torch.dtype, mask: bool) -> None:
    positions = torch.float32 if dtype == torch.bfloat16 else dtype
    given = problem(dtype, positions=positions, mask=mask, groups=2, offset_groups=2, size=(4, 5))
    options = [list(pair) for pair in given.options]
    grad = torch.rand(2, 4, 4, 5).to(dtype)
    for leaves in (False, True):
        if leaves:
            given.with_gradients()
        tensors = (given.input, given.offset, given.weight, given.bias)
        torch.library.opcheck(OPS.deform_conv2d, (*tensors, *options, given.mask))
    for last in (False, True):
        layout = torch.channels_last if last else torch.contiguous_format
        x, offset, weight = (t.detach() for t in (given.input, given.offset, given.weight))
        x = x.contiguous(memory_format=layout)
        rest = (*options, None if given.mask is None else given.mask.detach())
        torch.library.opcheck(OPS.deform_conv2d, (x, offset, weight, None, *rest))
        torch.library.opcheck(
            OPS.deform_conv2d_backward_input, (grad, offset, weight, list(x.shape), *rest, last)
        )
        torch.library.opcheck(OPS.deform_conv2d_backward_offset, (grad, x, offset, weight, *rest))
        torch.library.opcheck(
            OPS.deform_conv2d_backward_samples, (grad, x, offset, weight, *rest, last)
        )
        torch.library.opcheck(
            OPS.deform_conv2d_backward_weight, (grad, x, offset, list(weight.shape), *rest)
        )


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic: bool) -> None:
    """Fullgraph, with gradients, in both layouts."""
    compiled = torch.compile(convolve, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for size, layout in (
        ((7, 9), torch.contiguous_format),
        ((5, 8), torch.contiguous_format),
        ((7, 9), torch.channels_last),
    ):
        given = problem(size=size)
        given.input = given.input.contiguous(memory_format=layout)
        leaves = given.with_gradients().leaves
        found, wanted = compiled(*leaves), convolve(*leaves)
        assert torch.equal(found, wanted)
        assert found.stride() == wanted.stride()
        for ours, eager in zip(
            torch.autograd.grad(found.square().sum(), leaves),
            torch.autograd.grad(wanted.square().sum(), leaves),
            strict=True,
        ):
            assert torch.equal(ours, eager)


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


def test_export() -> None:
    layer = visops.DeformConv2d(6, 4, 3, padding=1)
    given = problem()
    batch, rows = torch.export.Dim("batch"), torch.export.Dim("rows", min=2)
    shapes = {0: batch, 2: rows}
    inputs = (given.input, given.offset, given.mask)
    program = torch.export.export(layer, inputs, dynamic_shapes=(shapes, shapes, shapes))
    other = problem(batch=3, size=(11, 9))
    inputs = (other.input, other.offset, other.mask)
    assert torch.equal(program.module()(*inputs), layer(*inputs))
    assert "visops.deform_conv2d" in str(program.graph)


@pytest.mark.parametrize(
    "mapped",
    [
        (0, 0, None, None, 0),
        (1, None, None, None, None),
        (None, 2, None, None, 0),
        (0, 0, 0, None, 0),
        (None, None, 1, 0, None),
    ],
    ids=str,
)
def test_vmap(mapped: tuple[int | None, ...]) -> None:
    parts = [problem(torch.float64, seed=seed, size=(4, 5)) for seed in range(3)]
    leaves = [
        torch.stack([part.leaves[i] for part in parts], dim)
        if dim is not None
        else parts[0].leaves[i]
        for i, dim in enumerate(mapped)
    ]
    found = torch.vmap(convolve, in_dims=mapped)(*leaves)

    def loss(*tensors: Tensor) -> Tensor:
        return convolve(*tensors).square().sum()

    grads = torch.vmap(torch.func.grad(loss, argnums=tuple(range(5))), in_dims=mapped)(*leaves)
    for i in range(3):
        own = [
            (leaf if dim is None else leaf.select(dim, i)).clone().requires_grad_()
            for leaf, dim in zip(leaves, mapped, strict=True)
        ]
        wanted = convolve(*own)
        torch.testing.assert_close(found[i], wanted, rtol=0, atol=1e-13)
        for ours, theirs in zip(
            grads, torch.autograd.grad(wanted.square().sum(), own), strict=True
        ):
            torch.testing.assert_close(ours[i], theirs, rtol=0, atol=1e-11)


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


def test_fake_tensors() -> None:
    given = problem(torch.float16)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        leaves: list[Any] = [mode.from_tensor(t.requires_grad_()) for t in given.leaves]
        found = convolve(*leaves)
        assert (tuple(found.shape), found.dtype) == ((2, 4, 7, 9), torch.float16)
        grads = torch.autograd.grad(found.sum(), leaves)
        assert [g.shape for g in grads] == [t.shape for t in leaves]
        assert [g.dtype for g in grads] == [t.dtype for t in leaves]


def test_no_gradient_is_wanted() -> None:
    given = problem()
    wanted = given.convolve()
    given.with_gradients()
    with torch.no_grad():
        assert not given.convolve().requires_grad
    with torch.inference_mode():
        assert torch.equal(given.convolve(), wanted)


def test_defaults_of_the_operator() -> None:
    given = problem(padding=(0, 0), bias=False, mask=False)
    found = OPS.deform_conv2d(given.input, given.offset, given.weight)
    assert torch.equal(found, given.convolve())
