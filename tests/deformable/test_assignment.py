"""Assignments: SciPy's pairs, also where several are the best, and its errors."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check
from scipy.optimize import linear_sum_assignment as scipys

Assign: Any = visops.linear_sum_assignment
KINDS = ("numbers", "few values", "equal", "rounded", "forbidden")


def matrix(rng: np.random.Generator, kind: str) -> np.ndarray:
    shape = tuple(rng.integers(0, 14, 2))
    values = rng.normal(size=shape)
    if kind == "few values":
        values = rng.integers(0, 3, shape).astype(float)
    elif kind == "equal":
        values = np.zeros(shape)
    elif kind == "rounded":
        values = values.round(1)
    elif kind == "forbidden":
        values[rng.random(shape) < 0.3] = np.inf
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_scipys(kind: str) -> None:
    rng, solved = np.random.default_rng(0), 0
    for index in range(200):
        costs, maximize = matrix(rng, kind), index % 3 == 0
        costs = -costs if maximize else costs
        try:
            expected = scipys(costs, maximize=maximize)
        except ValueError:
            with pytest.raises(ValueError, match=r"costs has no assignment, as -?inf forbids"):
                Assign(costs, maximize=maximize)
            continue
        found = Assign(costs, maximize=maximize)
        assert all(isinstance(own, np.ndarray) and own.dtype == np.int64 for own in found)
        assert [own.tolist() for own in found] == [own.tolist() for own in expected]
        solved += 1
    assert solved > 60


def test_what_match_cost_returns() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 40, 7, generator=generator)
    boxes = torch.rand(3, 40, 4, generator=generator)
    counts = (2, 0, 9)
    labels = [torch.randint(0, 7, (n,), generator=generator) for n in counts]
    targets = [torch.rand(n, 4, generator=generator) for n in counts]
    costs = visops.match_cost(logits, boxes, labels, targets, weights=(2, 5, 2))
    pairs = Assign(costs)
    assert [len(rows) for rows, _ in pairs] == list(counts)
    for (rows, columns), own in zip(pairs, costs, strict=True):
        expected = scipys(own.numpy())
        assert rows.tolist() == expected[0].tolist()
        assert columns.tolist() == expected[1].tolist()
    assert Assign([]) == []


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool]
)
def test_any_real_dtype_and_layout(dtype: torch.dtype) -> None:
    values = (torch.rand(9, 6, generator=torch.Generator().manual_seed(1)) * 9).to(dtype)
    for costs in (values, values.t(), values.flip(0)[::2], values.float().requires_grad_()):
        rows, columns = Assign(costs)
        expected = scipys(costs.detach().double().numpy())
        assert (rows.tolist(), columns.tolist()) == tuple(own.tolist() for own in expected)
    mixed = Assign([values, values.double().numpy(), values.t()])
    assert [type(rows) for rows, _ in mixed] == [torch.Tensor, np.ndarray, torch.Tensor]
    assert mixed[0][1].tolist() == mixed[1][1].tolist()


@pytest.mark.parametrize(
    ("error", "message", "costs"),
    [
        (ValueError, "costs holds NaN or -inf, must hold neither", np.array([[1.0, np.nan]])),
        (ValueError, "costs[1] holds NaN or -inf", [np.ones((1, 1)), np.array([[-np.inf]])]),
        (ValueError, "costs has shape [3], must be [Q, n]", np.ones(3)),
        (ValueError, "costs[0] has shape [1, 2, 3], must be", [torch.ones(1, 2, 3)]),
        (ValueError, "costs has dtype complex128, must be real", np.ones((2, 2), complex)),
        (
            ValueError,
            "costs has dtype torch.complex64, must be",
            torch.ones(2, 2, dtype=torch.cfloat),
        ),
        (ValueError, "costs has dtype <U1, must be real", np.array([["a"]])),
        (TypeError, "costs is a int, must be a torch.Tensor, a numpy.ndarray, or a list", 3),
        (TypeError, "costs[1] is a list, must be a torch.Tensor or", [np.ones((1, 1)), [[1.0]]]),
    ],
)
def test_errors(error: type[Exception], message: str, costs: Any) -> None:
    check(error, f"linear_sum_assignment: {message}", lambda: Assign(costs))


def test_what_forbids_where_the_sum_is_to_be_the_greatest() -> None:
    message = "linear_sum_assignment: costs holds NaN or inf, must hold neither"
    check(ValueError, message, lambda: Assign(np.array([[np.inf]]), maximize=True))
    message = "linear_sum_assignment: costs has no assignment, as -inf forbids too many pairs"
    check(ValueError, message, lambda: Assign(np.array([[-np.inf]]), maximize=True))


def test_a_compiled_matcher_calls_it() -> None:
    @torch.compile(backend="eager")
    def match(costs: torch.Tensor) -> torch.Tensor:
        rows, columns = Assign(costs * 2)
        return costs[rows, columns].sum()

    costs = torch.tensor([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    assert match(costs) == 5.0
