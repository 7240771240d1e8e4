"""Deformable attention as torch sees it: opcheck, compile, vmap, torch.func, autocast, fakes."""

from typing import Any

import pytest
import torch
import visops
from torch import Tensor

from deformable.attention_cases import SHAPES, Problem, problem

OPS = torch.ops.visops
NAME = "multi_scale_deformable_attention"


def attend(value: Tensor, locations: Tensor, weights: Tensor, shapes: Any = SHAPES) -> Tensor:
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
