"""Gradients of deformable attention: gradcheck, grid_sample's, second derivatives, fixed sums."""

from typing import Any

import pytest
import torch
import visops
from kernels import SLOTS, use_slot
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from deformable.attention_cases import (
    FLOATING,
    METHODS,
    SHAPES,
    TOLERANCES,
    Problem,
    assert_near,
    by_grid_sample,
    problem,
    smooth_problem,
)

every_method = pytest.mark.parametrize("method", METHODS)


def attend(given: Problem, method: str = "default") -> Any:
    """Return the attention as a function of its tensors."""

    def function(value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
        return Problem(value, given.shapes, locations, weights, given.points).attend(method)

    return function


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients_of_grid_sample(dtype: torch.dtype) -> None:
    made = smooth_problem(queries=30, heads=2, channels=32, points=4)
    leaves = [
        leaf.to(dtype).requires_grad_()
        for leaf in (
            made.value,
            made.locations.unflatten(3, (4, 4)),
            made.weights.unflatten(3, (4, 4)),
        )
    ]
    grad = torch.rand(2, 30, 64, dtype=dtype)
    found = visops.multi_scale_deformable_attention(leaves[0], SHAPES, *leaves[1:])
    wanted = by_grid_sample(leaves[0], SHAPES, *leaves[1:])
    of_ours = torch.autograd.grad(found, leaves, grad)
    of_theirs = torch.autograd.grad(wanted, leaves, grad)
    for ours, theirs in zip(of_ours, of_theirs, strict=True):
        scale = max(1.0, float(theirs.abs().max()))
        bound = (1e-12 if dtype == torch.float64 else 2e-5) * scale
        torch.testing.assert_close(ours, theirs, rtol=0, atol=bound)


@pytest.mark.matrix
@every_method
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_gradients_of_other_dtypes(dtype: torch.dtype, method: str) -> None:
    """As float64's for the same numbers, and of their tensors' dtypes."""
    samples_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    given = problem(dtype, channels=37, samples_dtype=samples_dtype, on_pixels=False)
    exact = Problem(
        given.value.double(), given.shapes, given.locations.double(), given.weights.double(),
        given.points,
    )  # fmt: skip
    grad = torch.rand(2, 5, 3 * 37).to(dtype)
    found = torch.autograd.grad(
        given.with_gradients().attend(method), given.leaves, grad, allow_unused=True
    )
    wanted = torch.autograd.grad(
        exact.with_gradients().attend(method), exact.leaves, grad.double(), allow_unused=True
    )
    for ours, theirs, leaf in zip(found, wanted, given.leaves, strict=True):
        if ours is None or theirs is None:
            assert ours is theirs
            continue
        assert ours.dtype == leaf.dtype
        kept = 10 * TOLERANCES[leaf.dtype] if leaf is not given.value else TOLERANCES[dtype]
        bound = kept * max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=bound)


@every_method
def test_second_derivatives(method: str) -> None:
    """The gradient of values is linear in the incoming one, and differentiable by the samples."""
    given = smooth_problem(batch=1, queries=2, heads=2, channels=2, points=1)
    value, locations, weights = given.with_gradients().leaves
    function = attend(given, method)
    if method == "discrete":
        locations = locations.detach()

    def value_gradient(grad: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
        out = function(value, locations, weights)
        (found,) = torch.autograd.grad(out, value, grad, create_graph=True)
        return found

    grad = torch.rand(1, 2, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(value_gradient, (grad, locations, weights), nondet_tol=0)
    held = locations.detach(), weights.detach()
    assert gradgradcheck(lambda v: function(v, *held), (value,), (grad,))


def test_other_second_derivatives_are_refused() -> None:
    given = smooth_problem(batch=1, queries=2, channels=2).with_gradients()
    (found,) = torch.autograd.grad(given.attend().sum(), given.locations, create_graph=True)
    with pytest.raises(RuntimeError, match=r"visops\.multi_scale_deformable_attention: the grad"):
        found.sum().backward()


def test_threads_divide_levels_and_rows(restored_threads: None) -> None:
    """More threads than heads: the gradient of values is cut into bands, with the same bits."""
    given = problem(batch=1, heads=1, channels=19, queries=200, points=(3, 1, 2, 4))
    given.with_gradients()
    grad = torch.rand(1, 200, 19)
    found = []
    for threads in (1, 2, 7, 16):
        torch.set_num_threads(threads)
        found.append(torch.autograd.grad(given.attend(), given.value, grad)[0])
    assert all(torch.equal(other, found[0]) for other in found[1:])


@pytest.mark.matrix
@every_method
def test_samples_that_do_not_count(method: str) -> None:
    """No gradient, not even NaN, whatever weights and gradients are."""
    given = problem(shapes=[(3, 4)], points=3, queries=1, batch=1, heads=1)
    given.locations[..., 0, :] = float("nan")
    given.locations[..., 1, 0] = float("inf")
    given.weights[..., :2] = float("inf")
    given.locations[..., 2, :] = 0.4
    out = given.with_gradients().attend(method)
    of_value, of_locations, of_weights = torch.autograd.grad(
        out.sum(), given.leaves, allow_unused=True
    )
    assert bool(of_value.isfinite().all())
    assert of_weights[..., :2].tolist() == [[[[0, 0]]]]
    assert bool((of_weights[..., 2] != 0).all())
    if method == "default":
        assert not bool(of_locations[..., :2, :].any())


@pytest.mark.skipif("cuda_emulated" not in SLOTS, reason="needs a test build")
def test_shapes_on_a_device_are_not_trusted() -> None:
    """The host does not read a tensor on a device; emulation takes its way.

    A level that does not fit has no pixels, and pixels of no level have no gradient.
    """
    given = problem(queries=9).with_gradients()
    rest = (given.locations, given.weights, list(given.points))
    operator = torch.ops.visops.multi_scale_deformable_attention
    with use_slot("cuda_emulated"):
        found = operator(given.value, torch.tensor(SHAPES), [], *rest)
        assert_near(found, given.expected(), torch.float32)
        for shapes in (
            [(7, 9), (4, 5), (1, 3), (3, 2)],
            [(7, 9), (-4, 5), (1, 3), (2**40, 2**40)],
            [(2**62, 4), (4, 5), (1, 3), (3, 1)],
        ):
            found = operator(given.value, torch.tensor(shapes), [], *rest)
            grads = torch.autograd.grad(found.sum(), given.leaves)
            assert all(bool(part.isfinite().all()) for part in (found, *grads))
            covered = sum(h * w for h, w in shapes if 0 <= h < 10 and w < 10 and (h, w) != (3, 2))
            assert not bool(grads[0][:, covered:].any())
