"""Deformable convolution: values, gradients, and what torch sees of it."""

import contextlib
from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from deformable.deform_conv2d_cases import (
    FLOATING,
    KINDS,
    TOLERANCES,
    Problem,
    assert_near,
    problem,
)

every_dtype = pytest.mark.parametrize("dtype", FLOATING, ids=str)
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.matrix
@every_kind
def test_reference(kind: str) -> None:
    """Every kind of problem in two dtypes; all four in turn."""
    at = list(KINDS).index(kind)
    wanted: dict[torch.dtype, np.ndarray] = {}
    for dtype in (torch.float32, FLOATING[at % 2 * 3 or at % 3]):
        given = problem(dtype, seed=at, **KINDS[kind])
        if dtype not in wanted:
            wanted[dtype] = given.expected()
        found = given.convolve()
        assert found.dtype == dtype
        assert_near(found, wanted[dtype], dtype)


@every_kind
def test_torchvision(kind: str) -> None:
    peer = pytest.importorskip("torchvision.ops").deform_conv2d
    given = problem(torch.float64, seed=5, **KINDS[kind])
    assert_near(given.convolve(), given.convolve(peer), torch.float64)
    given = given.to(torch.float32)
    assert_near(given.convolve(), given.convolve(peer), torch.float32)


def test_torchvision_on_a_larger_map() -> None:
    """Blocks of pixels, parts of rows and several tasks."""
    peer = pytest.importorskip("torchvision.ops").deform_conv2d
    for kinds in (
        {"channels": 72, "outs": 50, "size": (20, 31)},
        {"channels": 1100, "outs": 3, "size": (5, 6), "kernel": (1, 2)},
        {"channels": 96, "outs": 96, "groups": 2, "offset_groups": 3, "size": (17, 16)},
    ):
        options: dict[str, Any] = kinds
        given = problem(torch.float64, **options)
        assert_near(given.convolve(), given.convolve(peer), torch.float64)


@pytest.mark.matrix
@every_dtype
def test_no_offset_is_a_convolution(dtype: torch.dtype) -> None:
    given = problem(dtype, channels=8, outs=6, groups=2, stride=(2, 1), mask=False)
    given.offset.zero_()
    wanted = functional.conv2d(
        given.input.double(),
        given.weight.double(),
        given.bias.double() if given.bias is not None else None,
        *given.options,
        groups=2,
    )
    assert_near(given.convolve(), wanted, dtype)


@pytest.mark.matrix
def test_by_hand() -> None:
    """A kernel of one element: samples themselves; y comes before x."""
    image = torch.arange(12.0).view(1, 1, 3, 4)
    positions = {
        (0.0, 0.0): 0.0,
        (1.0, 0.0): 4.0,
        (0.0, 1.0): 1.0,
        (0.5, 1.5): 3.5,
        (2.5, 3.0): 5.5,  # half of pixel 11
        (-0.5, 1.0): 0.5,
        (-1.0, 1.0): 0.0,
        (3.0, 1.0): 0.0,
        (2.0, 4.0): 0.0,
        (float("nan"), 0.0): 0.0,
        (0.0, float("-inf")): 0.0,
        (1e30, 0.0): 0.0,
    }
    wanted = list(positions.values())
    offset = torch.tensor(list(positions)).view(3, 4, 2) - torch.stack(
        torch.meshgrid(torch.arange(3.0), torch.arange(4.0), indexing="ij"), -1
    )
    offset = offset.permute(2, 0, 1)[None].contiguous()
    found = visops.deform_conv2d(image, offset, torch.ones(1, 1, 1, 1))
    assert found.flatten().tolist() == wanted
    mask = torch.full((1, 1, 3, 4), 2.0)
    mask[0, 0, 2, 1:] = float("inf")  # of samples that don't count
    found = visops.deform_conv2d(image, offset, torch.ones(1, 1, 1, 1), mask=mask)
    assert found.flatten().tolist() == [2 * value for value in wanted]


@pytest.mark.matrix
def test_pixels_that_are_not_finite() -> None:
    """Only samples that read them are affected; a tap outside is 0, whatever lies beside it."""
    image = torch.ones(1, 1, 2, 3)
    image[0, 0, 0, 0] = float("nan")
    offset = torch.zeros(1, 2, 2, 3)
    offset[0, :, 0, 0] = -0.5  # three of its taps are outside
    offset[0, 1, 1, 2] = 0.5
    found = visops.deform_conv2d(image, offset, torch.ones(1, 1, 1, 1))[0, 0]
    assert found[0, 0].isnan()
    assert found[1, 2] == 0.5
    assert int(found.isnan().sum()) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_positions_of_other_dtypes(dtype: torch.dtype) -> None:
    """Offsets and masks may be wider than the input, or narrower."""
    for positions in (torch.float16, torch.bfloat16, torch.float32):
        given = problem(dtype, positions=positions)
        assert_near(given.convolve(), given.expected(), dtype)
    given = problem(positions=dtype)
    assert given.mask is not None
    given.mask = given.mask.float()
    assert_near(given.convolve(), given.expected(), torch.float32)


@pytest.mark.matrix
def test_sizes_of_zero() -> None:
    given = problem(batch=0)
    assert given.convolve().shape == (0, 4, 7, 9)
    for size, padding in (((0, 4), (2, 1)), ((0, 0), (2, 2))):  # all of it is padding
        given = problem(size=size, padding=padding).with_gradients()
        found = given.convolve()
        assert given.bias is not None
        assert torch.equal(found, given.bias.view(1, 4, 1, 1).expand_as(found))
        grads = torch.autograd.grad(found.sum(), given.leaves)
        assert not any(bool(grads[i].any()) for i in (0, 1, 2, 4))


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_torchvision(kind: str) -> None:
    peer = pytest.importorskip("torchvision.ops").deform_conv2d
    given = problem(torch.float64, smooth=True, seed=3, **KINDS[kind]).with_gradients()
    found, wanted = given.convolve(), given.convolve(peer)
    grad = torch.rand_like(wanted)
    ours, theirs = (torch.autograd.grad(out, given.leaves, grad) for out in (found, wanted))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12 * max(1, float(b.abs().max())))


@pytest.mark.parametrize(
    "sizes",
    [
        {"channels": 72, "outs": 50, "size": (20, 31)},
        {"channels": 300, "outs": 3, "size": (5, 6), "kernel": (1, 2)},
        {"channels": 96, "outs": 96, "groups": 2, "offset_groups": 3, "size": (9, 16)},
    ],
    ids=str,
)
def test_gradients_of_larger_problems(sizes: dict[str, Any]) -> None:
    """Several blocks, parts of rows, and channels that are divided."""
    peer = pytest.importorskip("torchvision.ops").deform_conv2d
    given = problem(torch.float64, smooth=True, **sizes).with_gradients()
    found, wanted = given.convolve(), given.convolve(peer)
    grad = torch.rand_like(wanted)
    ours, theirs = (torch.autograd.grad(out, given.leaves, grad) for out in (found, wanted))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11 * max(1, float(b.abs().max())))


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("last", [False, True])
def test_gradients_of_other_dtypes(dtype: torch.dtype, last: bool) -> None:
    """As float64's for the same numbers, and of their tensors' dtypes and layouts."""
    positions = torch.float64 if dtype == torch.float64 else torch.float32
    made = problem(dtype, channels=37, outs=18, positions=positions, smooth=True)
    if last:
        made.input = made.input.to(memory_format=torch.channels_last)
    given, exact = made.with_gradients(), made.to(torch.float64).with_gradients()
    grad = torch.rand(2, 18, 7, 9).to(dtype)
    ours = torch.autograd.grad(given.convolve(), given.leaves, grad)
    theirs = torch.autograd.grad(exact.convolve(), exact.leaves, grad.double())
    assert ours[0].stride() == given.input.stride()
    for found, wanted, leaf in zip(ours, theirs, given.leaves, strict=True):
        assert found.dtype == leaf.dtype
        bound = 10 * TOLERANCES[leaf.dtype] * max(1.0, float(wanted.abs().max()))
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=bound)


@pytest.mark.matrix
def test_borders() -> None:
    """On a pixel the slope is that to the right; at -1 and beyond the last pixel, none."""
    image = torch.tensor([[[[1.0, 3.0, 7.0]]]], dtype=torch.float64)
    positions = {-1.5: 0, -1.0: 0, -0.5: 1, 0.0: 2, 0.5: 2, 1.0: 4, 2.0: -7, 2.5: -7, 3.0: 0}
    for position, slope in positions.items():
        offset = torch.zeros(1, 2, 1, 3, dtype=torch.float64)
        offset[0, 1, 0, 0] = position
        offset.requires_grad_()
        found = visops.deform_conv2d(image, offset, torch.ones(1, 1, 1, 1).double())
        (gradient,) = torch.autograd.grad(found[0, 0, 0, 0], offset)
        assert gradient[0, 1, 0, 0] == slope


@pytest.mark.matrix
def test_samples_that_do_not_count() -> None:
    """No gradient, not even NaN, whatever masks are."""
    given = problem(kernel=(1, 1), padding=(0, 0))
    assert given.mask is not None
    given.offset[:, 0, 0] = float("nan")
    given.offset[:, 1, 1] = float("inf")
    given.offset[:, :, 2] = 1e20
    given.mask[:, :, :3] = float("inf")
    found = given.with_gradients().convolve()
    grads = torch.autograd.grad(found.sum(), given.leaves)
    assert all(bool(gradient.isfinite().all()) for gradient in grads)
    assert not bool(grads[1][:, :, :3].any())
    assert not bool(grads[4][:, :, :3].any())
    assert bool(grads[1][:, :, 3:].any())


def test_second_derivatives_are_refused() -> None:
    given = problem(torch.float64).with_gradients()
    for leaf in (given.input, given.offset, given.weight):
        (found,) = torch.autograd.grad(given.convolve().square().sum(), leaf, create_graph=True)
        with pytest.raises(RuntimeError, match=r"visops\.deform_conv2d: its gradients can't be"):
            found.sum().backward()


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
