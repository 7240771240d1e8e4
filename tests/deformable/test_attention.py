"""Deformable attention: values, gradients, properties, errors."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import SLOTS, use_slot
from threads import torch_threads
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from deformable.attention_cases import (
    FLOATING,
    METHODS,
    SHAPES,
    Problem,
    assert_near,
    by_grid_sample,
    problem,
    smooth_problem,
)

every_method = pytest.mark.parametrize("method", METHODS)
every_dtype = pytest.mark.parametrize("dtype", FLOATING, ids=str)


@pytest.mark.matrix
@every_method
@every_dtype
def test_reference(dtype: torch.dtype, method: str) -> None:
    """Channels that fill vectors, and every number left over."""
    points: Any = itertools.cycle((2, (3, 1, 0, 2), (0, 0, 0, 5), 1))
    for seed, channels in enumerate((1, 3, 4, 7, 8, 16, 20, 32, 33, 64, 71, 132)):
        given = problem(
            dtype,
            channels=channels,
            points=next(points),
            seed=seed,
            queries=4,
            on_pixels=method == "default",
        )
        found = given.attend(method)
        assert found.dtype == dtype
        assert_near(found, given.expected(method), dtype)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_samples_of_other_dtypes(dtype: torch.dtype) -> None:
    """Locations and weights may be wider than values, or narrower."""
    for samples_dtype in (torch.float16, torch.bfloat16, torch.float32):
        given = problem(dtype, samples_dtype=samples_dtype)
        assert_near(given.attend(), given.expected(), dtype)
    given = problem(torch.float32, samples_dtype=dtype)
    given.weights = given.weights.float()
    assert_near(given.attend(), given.expected(), torch.float32)


@pytest.mark.matrix
@every_method
def test_more_samples_than_are_placed_at_once(method: str) -> None:
    given = problem(points=(70, 1, 64, 30), queries=2, channels=37, on_pixels=method == "default")
    assert_near(given.attend(method), given.expected(method), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_grid_sample(dtype: torch.dtype) -> None:
    made = problem(dtype, queries=40, heads=4, channels=32, points=4)
    locations, weights = (t.unflatten(3, (4, 4)) for t in (made.locations, made.weights))
    found = visops.multi_scale_deformable_attention(made.value, SHAPES, locations, weights)
    wanted = by_grid_sample(made.value, SHAPES, locations, weights)
    bound = 1e-12 if dtype == torch.float64 else 2e-5  # its coordinates are rounded once more
    torch.testing.assert_close(found, wanted, rtol=0, atol=bound)


@pytest.mark.matrix
def test_by_hand() -> None:
    value = torch.arange(12.0).view(1, 12, 1, 1)  # 3 x 4
    positions = {
        (0.125, 1 / 6): 0.0,  # the first pixel's centre
        (0.0, 0.0): 0.0,  # a corner: a quarter of pixel 0
        (0.25, 1 / 6): 0.5,
        (0.5, 0.5): 5.5,
        (1.0, 0.5): 3.5,  # half of pixel 7
        (1.0, 1.0): 2.75,  # a quarter of pixel 11
        (1.125, 0.5): 0.0,  # a whole pixel beyond the last centre
        (-0.125, 0.5): 0.0,
        (float("nan"), 0.5): 0.0,
        (0.5, float("inf")): 0.0,
    }
    locations = torch.tensor(list(positions)).view(1, -1, 1, 1, 1, 2)
    weights = torch.ones(1, len(positions), 1, 1, 1)
    found = visops.multi_scale_deformable_attention(value, [(3, 4)], locations, weights)
    torch.testing.assert_close(found.flatten(), torch.tensor(list(positions.values())))
    found = visops.multi_scale_deformable_attention(
        value, [(3, 4)], locations, weights, method="discrete"
    )
    assert found.flatten().tolist() == [5, 0, 5, 10, 11, 11, 11, 8, 0, 0]


@pytest.mark.matrix
@every_method
def test_values_that_are_not_finite(method: Any) -> None:
    """Only samples that read them are affected; a tap outside is 0, whatever lies beside it."""
    value = torch.ones(1, 12, 1, 8)
    value[0, 0] = float("inf")
    locations = torch.tensor([[0.01, 0.01], [0.9, 0.8], [-4.0, 0.5]]).view(1, 3, 1, 1, 1, 2)
    weights = torch.tensor([1.0, 1.0, float("inf")]).view(1, 3, 1, 1, 1)
    found = visops.multi_scale_deformable_attention(
        value, [(3, 4)], locations, weights, method=method
    )
    assert bool((found[0, 0] == float("inf")).all())
    assert bool(found[0, 1].isfinite().all())
    assert bool((found[0, 2] == (0 if method == "default" else float("inf"))).all())


def test_forms_of_shapes() -> None:
    given = problem()
    wanted = given.attend()
    numbers: list[Any] = [
        [list(pair) for pair in SHAPES],
        torch.tensor(SHAPES),
        torch.tensor(SHAPES, dtype=torch.int32),
        torch.tensor(SHAPES).t().contiguous().t(),
        np.array(SHAPES),
        torch.tensor(SHAPES).numpy().astype(np.int32),
    ]
    for shapes in numbers:
        given.shapes = shapes
        assert torch.equal(given.attend(), wanted)
    starts = [0, 63, 83, 86]
    for level_start_index in (starts, torch.tensor(starts), np.array(starts)):
        assert torch.equal(given.attend(level_start_index=level_start_index), wanted)


@pytest.mark.matrix
@every_method
def test_sizes_of_zero(method: str) -> None:
    for name in ("batch", "queries", "heads", "channels", "points"):
        sizes: dict[str, Any] = {name: 0}
        given = problem(**sizes)
        found = given.attend(method)
        assert found.shape == (
            sizes.get("batch", 2),
            sizes.get("queries", 5),
            sizes.get("heads", 3) * sizes.get("channels", 8),
        )
        assert not bool(found.any())
    given = problem(channels=0)
    given.weights.requires_grad_()
    given.attend(method).sum().backward()
    assert given.weights.grad is not None
    assert not bool(given.weights.grad.any())
    given = problem(shapes=[(0, 4), (3, 2), (5, 0)])
    given.value[:] = 1
    given.weights[..., 2:4] = 0  # those on the level that has pixels
    assert not bool(given.attend(method).any())
    assert not bool(problem(shapes=[(0, 0)]).attend(method).any())


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


def test_threads_divide_levels_and_rows() -> None:
    """More threads than heads: the gradient of values is cut into bands, with the same bits."""
    given = problem(batch=1, heads=1, channels=19, queries=200, points=(3, 1, 2, 4))
    given.with_gradients()
    grad = torch.rand(1, 200, 19)
    found = []
    for threads in (1, 2, 7, 16):
        with torch_threads(threads):
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


SEEDS = st.integers(0, 2**32 - 1)
SIDES = st.tuples(st.integers(0, 9), st.integers(0, 9))
LEVELS = st.lists(SIDES, min_size=1, max_size=4)
few = settings(max_examples=25)


def double(seed: int, shapes: list[tuple[int, int]], channels: int = 5, points: int = 2) -> Problem:
    return problem(
        torch.float64, shapes=shapes, channels=channels, points=points, seed=seed, on_pixels=False
    )


@few
@given(SEEDS, LEVELS, st.integers(0, 40), st.integers(0, 4), st.sampled_from(METHODS))
def test_reference_at_random(
    seed: int, shapes: list[tuple[int, int]], channels: int, points: int, method: str
) -> None:
    made = double(seed, shapes, channels, points)
    assert_near(made.attend(method), made.expected(method), torch.float64)


OP = "multi_scale_deformable_attention"
FEW_SHAPES = ((2, 3), (1, 2))


def value(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, 8, 2, 4, dtype=dtype)


def locations(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, 5, 2, 2, 3, 2, dtype=dtype)


def weights(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, 5, 2, 2, 3, dtype=dtype)


def bad_call(
    of_value: Any = None,
    shapes: Any = FEW_SHAPES,
    positions: Any = None,
    factors: Any = None,
    **options: Any,
) -> Callable[[], Any]:
    arguments = (
        value() if of_value is None else of_value,
        shapes,
        locations() if positions is None else positions,
        weights() if factors is None else factors,
    )
    return lambda: visops.multi_scale_deformable_attention(*arguments, **options)


HALF, DOUBLE = torch.float16, torch.float64


def test_mapped_shapes() -> None:
    shapes = torch.tensor(FEW_SHAPES).expand(3, 2, 2)

    def call(shapes: Tensor) -> Any:
        return visops.multi_scale_deformable_attention(value(), shapes, locations(), weights())

    check(
        RuntimeError,
        f"{OP}: spatial_shapes can't be mapped by vmap",
        lambda: torch.vmap(call)(shapes),
    )


def test_starts_on_a_device_are_not_read() -> None:
    found = bad_call(level_start_index=torch.tensor([7, 7], device="meta"))()
    assert torch.equal(found, bad_call()())
    assert isinstance(np.asarray(found), np.ndarray)


OPS = torch.ops.visops
NAME = "multi_scale_deformable_attention"


def attend_on_levels(
    value: Tensor, locations: Tensor, weights: Tensor, shapes: Any = SHAPES
) -> Tensor:
    """With as many samples on each level."""
    samples = (len(SHAPES), weights.shape[-1] // len(SHAPES))
    found: Tensor = visops.multi_scale_deformable_attention(
        value, shapes, locations.unflatten(-2, samples), weights.unflatten(-1, samples)
    )
    return found


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype: torch.dtype) -> None:
    """What a layer computes under autocast: half-precision values, float32 softmax."""
    given = problem()
    project = torch.nn.Linear(8, 8)
    with torch.autocast("cpu", dtype=dtype):
        value = project(given.value)
        weights = given.weights.softmax(-1)
        found = Problem(value, given.shapes, given.locations, weights, given.points).attend()
        assert (value.dtype, weights.dtype, found.dtype) == (dtype, torch.float32, dtype)
        found.sum().backward()
        assert torch.equal(given.attend(), problem().attend())
    assert project.weight.grad is not None
    assert bool(project.weight.grad.isfinite().all())


def test_defaults_of_the_operator() -> None:
    given = problem()
    assert torch.equal(getattr(OPS, NAME)(*given.arguments()), given.attend())
