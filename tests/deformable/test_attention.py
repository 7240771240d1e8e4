"""Values of deformable attention: against a reference in float64, grid_sample, and by hand."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor

from deformable.attention_cases import (
    FLOATING,
    METHODS,
    SHAPES,
    Problem,
    assert_near,
    by_grid_sample,
    problem,
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
def test_values_that_are_not_finite(method: str) -> None:
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


@every_method
@every_dtype
def test_layouts_of_values(dtype: torch.dtype, method: str) -> None:
    """Slices of a wider projection are read in place; channels apart are copied."""
    for channels in (8, 5):
        given = problem(dtype, channels=channels)
        wanted = given.attend(method)
        joined = torch.cat([given.value * 2, given.value, given.value * 3], 3)
        scattered = given.value.movedim(3, 1).contiguous().movedim(1, 3)
        turned = given.value.transpose(1, 2).contiguous().transpose(1, 2)
        expanded = given.value[:1].expand(2, -1, -1, -1)
        for value in (joined[..., channels : 2 * channels], scattered, turned):
            assert torch.equal(replace(given, value=value).attend(method), wanted)
        found = replace(given, value=expanded).attend(method)
        assert torch.equal(found[0], wanted[0])


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


def test_a_query_by_itself() -> None:
    """Results don't depend on the other queries, images and heads."""
    given = problem(channels=20)
    wanted: Tensor = given.attend().unflatten(2, (3, 20))
    for b, q, h in ((0, 0, 0), (1, 4, 2), (1, 2, 1)):
        alone = Problem(
            given.value[b : b + 1, :, h : h + 1],
            given.shapes,
            given.locations[b : b + 1, q : q + 1, h : h + 1],
            given.weights[b : b + 1, q : q + 1, h : h + 1],
            given.points,
        )
        assert torch.equal(alone.attend()[0, 0], wanted[b, q, h])
