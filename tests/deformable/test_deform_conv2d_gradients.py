"""Gradients of deformable convolution: gradcheck, torchvision's, borders, fixed sums."""

from typing import Any

import pytest
import torch
import visops

from deformable.deform_conv2d_cases import (
    FLOATING,
    KINDS,
    TOLERANCES,
    problem,
)


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
