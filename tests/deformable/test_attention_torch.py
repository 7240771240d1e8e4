"""Deformable attention as torch sees it: opcheck, compile, vmap, torch.func, autocast, fakes."""

from typing import Any, cast

import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from deformable.attention_cases import METHODS, SHAPES, Problem, problem

OPS = torch.ops.visops
NAME = "multi_scale_deformable_attention"
every_method = pytest.mark.parametrize("method", METHODS)


def attend(value: Tensor, locations: Tensor, weights: Tensor, shapes: Any = SHAPES) -> Tensor:
    """With as many samples on each level."""
    samples = (len(SHAPES), weights.shape[-1] // len(SHAPES))
    found: Tensor = visops.multi_scale_deformable_attention(
        value, shapes, locations.unflatten(-2, samples), weights.unflatten(-1, samples)
    )
    return found


@every_method
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_opcheck(dtype: torch.dtype, method: str) -> None:
    given = problem(dtype, samples_dtype=torch.float32 if dtype == torch.bfloat16 else dtype)
    value, _, sizes, locations, weights, points = given.arguments()
    shapes = torch.tensor(SHAPES)
    grad = torch.rand(2, 5, 24).to(dtype)
    rest = (locations, weights, points, method)
    for leaves in (False, True):
        for tensor in (value, locations, weights, grad):
            tensor.requires_grad_(leaves)
        for levels in cast(Any, ((None, sizes), (shapes, []))):
            torch.library.opcheck(getattr(OPS, NAME), (value, *levels, *rest))
            torch.library.opcheck(
                getattr(OPS, f"{NAME}_backward_value"), (grad, *levels, *rest, list(value.shape))
            )
            if not leaves:
                torch.library.opcheck(
                    getattr(OPS, f"{NAME}_backward_samples"), (grad, value, *levels, *rest)
                )


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic: bool) -> None:
    """Fullgraph, with gradients; shapes as integers and as a tensor."""
    for shapes in (SHAPES, torch.tensor(SHAPES)):
        compiled = torch.compile(attend, fullgraph=True, dynamic=dynamic, backend="aot_eager")
        for queries in (5, 9):
            given = problem(queries=queries).with_gradients()
            found = compiled(*given.leaves, shapes)
            wanted = attend(*given.leaves, shapes)
            assert torch.equal(found, wanted)
            grads = torch.autograd.grad(found.sum(), given.leaves)
            for ours, eager in zip(
                grads, torch.autograd.grad(wanted.sum(), given.leaves), strict=True
            ):
                assert torch.equal(ours, eager)


@pytest.mark.parametrize(
    "mapped", [(0, 0, 0), (None, 0, 0), (0, None, None), (2, 1, None), (None, 3, 0)]
)
def test_vmap(mapped: tuple[int | None, ...]) -> None:
    parts = [problem(torch.float64, seed=seed) for seed in range(3)]
    leaves = [
        torch.stack([part.leaves[i] for part in parts], dim)
        if dim is not None
        else parts[0].leaves[i]
        for i, dim in enumerate(mapped)
    ]
    found = torch.vmap(attend, in_dims=mapped)(*leaves)

    def loss(*tensors: Tensor) -> Tensor:
        return attend(*tensors).square().sum()

    grads = torch.vmap(torch.func.grad(loss, argnums=(0, 1, 2)), in_dims=mapped)(*leaves)
    for i in range(3):
        own = [
            (leaf if dim is None else leaf.select(dim, i)).clone().requires_grad_()
            for leaf, dim in zip(leaves, mapped, strict=True)
        ]
        wanted = attend(*own)
        assert torch.equal(found[i], wanted)
        for ours, theirs in zip(
            grads, torch.autograd.grad(wanted.square().sum(), own), strict=True
        ):
            torch.testing.assert_close(ours[i], theirs, rtol=0, atol=1e-13)


def test_vmap_of_nothing() -> None:
    given = problem(torch.float64, queries=0)
    stacked = [torch.stack([leaf] * 2) for leaf in given.leaves]
    assert torch.vmap(attend)(*stacked).shape == (2, 2, 0, 24)
    found = torch.vmap(attend, in_dims=(None, 0, 0))(given.value, *stacked[1:])
    assert found.shape == (2, 2, 0, 24)
    none = [leaf[:0] for leaf in stacked]
    assert torch.vmap(attend)(*none).shape == (0, 2, 0, 24)


def test_jacobian() -> None:
    given = problem(torch.float64, batch=1, queries=2, heads=1, channels=2, shapes=SHAPES)
    found = torch.func.jacrev(attend)(*given.leaves)
    basis = torch.eye(given.value.numel(), dtype=torch.float64).view(-1, *given.value.shape)
    columns = torch.stack([attend(b, given.locations, given.weights) for b in basis], -1)
    torch.testing.assert_close(found, columns.view(found.shape), rtol=0, atol=1e-14)


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


def test_fake_tensors() -> None:
    given = problem(torch.float16)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        leaves = [mode.from_tensor(t.requires_grad_()) for t in given.leaves]
        for shapes in (SHAPES, mode.from_tensor(torch.tensor(SHAPES))):
            found = attend(leaves[0], leaves[1], leaves[2], shapes)
            assert (tuple(found.shape), found.dtype) == ((2, 5, 24), torch.float16)
            grads = torch.autograd.grad(found.sum(), leaves)
            assert [g.shape for g in grads] == [t.shape for t in leaves]


def test_no_gradient_is_wanted() -> None:
    given = problem()
    wanted = given.attend()
    given.with_gradients()
    with torch.no_grad():
        assert not given.attend().requires_grad
    with torch.inference_mode():
        assert torch.equal(given.attend(), wanted)


def test_defaults_of_the_operator() -> None:
    given = problem()
    assert torch.equal(getattr(OPS, NAME)(*given.arguments()), given.attend())
