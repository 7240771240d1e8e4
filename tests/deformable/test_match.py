"""Costs of matching against loops and the usual matcher; and the assignment of least cost."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check
from kernels import use_slot
from scipy.optimize import linear_sum_assignment
from scipy.optimize import linear_sum_assignment as scipys
from torch import Tensor

from deformable.match_cases import KINDS, WEIGHTS, Problem, problem, usual_matcher

every_kind = pytest.mark.parametrize("kind", KINDS)


def assert_near(found: list[Tensor], wanted: Any, bound: float) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=bound, atol=bound)


@pytest.mark.matrix
@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_reference(dtype: torch.dtype, kind: str) -> None:
    bound = 1e-13 if dtype == torch.float64 else 1e-5
    for seed, counts in enumerate(((3, 0, 7), (1,), (200, 5), (0, 0))):
        for classes in (1, 4, 91):
            given = problem(dtype, counts=counts, classes=classes, seed=seed)
            found = given.costs(kind)
            assert all(part.dtype == dtype and part.is_contiguous() for part in found)
            assert_near(found, given.expected(kind), bound)


@pytest.mark.matrix
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 3.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_focal_numbers(dtype: torch.dtype, gamma: float) -> None:
    given = problem(dtype)
    numbers: dict[str, Any] = {"alpha": 0.6, "gamma": gamma, "weights": (1.0, 0.0, 0.0)}
    bound = 1e-13 if dtype == torch.float64 else 1e-5
    assert_near(given.costs("focal", **numbers), given.expected("focal", **dict(numbers)), bound)


@pytest.mark.matrix
@pytest.mark.parametrize("gamma", [1e-3, 0.05, 0.1, 0.5])
def test_small_gamma(gamma: float) -> None:
    """p^gamma is far from 0 where p is less than the smallest numbers: it is exp(gamma log p)."""
    logits = torch.tensor([0.0, 40, 86, 87, 88, 100, 104, 150, 700, 744, 745, 746, 800, 2000])
    logits = torch.cat([logits, -logits]).view(1, -1, 1)
    boxes = torch.rand(1, logits.shape[1], 4)
    given = Problem(logits, boxes, [torch.tensor([0])], [boxes[0, :1]])
    x = logits.double().flatten()
    p, q = (-torch.nn.functional.softplus(-x)).exp(), (-torch.nn.functional.softplus(x)).exp()
    of_p, of_q = ((-torch.nn.functional.softplus(s * x) * gamma).exp() for s in (-1, 1))
    wanted = 0.25 * of_q * -(p + 1e-8).log() - 0.75 * of_p * -(q + 1e-8).log()
    for dtype, bound in ((torch.float32, 2e-5), (torch.float64, 1e-12)):
        made = Problem(logits.to(dtype), boxes.to(dtype), given.labels, [boxes[0, :1].to(dtype)])
        found = made.costs("focal", gamma=gamma, weights=(1.0, 0.0, 0.0))[0]
        torch.testing.assert_close(found.flatten().double(), wanted, rtol=bound, atol=bound)


@pytest.mark.matrix
@every_kind
def test_logits_of_any_size(kind: str) -> None:
    """No overflow, and full precision where 1 - p would have none left."""
    logits = torch.linspace(-700, 700, 281).view(1, 281, 1).repeat(1, 1, 3)
    logits[..., 1:] += torch.tensor([0.5, -20.0])
    boxes = torch.rand(1, 281, 4)
    given = Problem(logits, boxes, [torch.tensor([0, 1, 2])], [boxes[0, :3]])
    for dtype, bound in ((torch.float32, 2e-5), (torch.float64, 1e-12)):
        made = Problem(logits.to(dtype), boxes.to(dtype), given.labels, [boxes[0, :3].to(dtype)])
        found = made.costs(kind)[0]
        assert bool(found.isfinite().all())
        if kind == "softmax":
            assert_near([found], made.expected(kind), bound)
        else:
            clipped = made._replace(logits=made.logits.clamp(-600, 600))
            assert_near([found], clipped.expected(kind), bound)


@every_kind
def test_usual_matcher(kind: str) -> None:
    """In float64, where its 1 - p has digits left."""
    given = problem(torch.float64, counts=(20, 4, 0, 51), queries=100, classes=91)
    found, wanted = given.costs(kind), usual_matcher(given, kind)
    assert_near(found, wanted, 1e-7)
    for ours, theirs in zip(found, wanted, strict=True):
        for a, b in zip(linear_sum_assignment(ours), linear_sum_assignment(theirs), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.matrix
@every_kind
def test_by_hand(kind: str) -> None:
    """A query that is right, one that misses, and boxes without area."""
    logits = torch.tensor([[[0.0, 0.0]]]).repeat(1, 3, 1)
    boxes = torch.tensor([[[0.5, 0.5, 0.2, 0.2], [0.1, 0.5, 0.2, 0.2], [0.5, 0.5, 0.0, 0.0]]])
    given = Problem(logits, boxes, [torch.tensor([0, 1])], [boxes[0, ::2]])
    focal = 0.25 * 0.25 * np.log(2) - 0.75 * 0.25 * np.log(2)
    of_class = 2 * (focal if kind == "focal" else -0.5)
    missed = of_class + 5 * 0.4 + 2 * (0.12 - 0.08) / 0.12  # the hull is 0.6 x 0.2
    expected = np.array(
        [[of_class - 2, of_class + 5 * 0.4], [missed, of_class + 5 * 0.8 + 2 * 0.6]]
    )
    expected = np.vstack([expected, [of_class + 5 * 0.4, of_class]])  # 0 / 0 counts as 0
    assert_near(given.costs(kind), [expected], 1e-5)


@every_kind
def test_forms_of_targets(kind: Any) -> None:
    given = problem()
    wanted = given.costs(kind)
    labels, targets = torch.cat(given.labels), torch.cat(given.targets)
    for other in (labels, labels.int()):
        found = visops.match_cost(
            given.logits, given.boxes, other, targets, weights=WEIGHTS, kind=kind, counts=(3, 0, 7)
        )
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
    strided = given._replace(logits=given.logits.mT.contiguous().mT)
    assert all(torch.equal(a, b) for a, b in zip(strided.costs(kind), wanted, strict=True))


def test_many_images() -> None:
    """More than a kernel takes at once."""
    counts = [i % 4 for i in range(150)]
    given = problem(counts=counts, queries=3)
    assert_near(given.costs(), given.expected("focal"), 1e-5)


@pytest.mark.matrix
@every_kind
def test_nan(kind: str) -> None:
    """NaN stays where it is."""
    given = problem(counts=(4,))
    given.logits[0, 1], given.boxes[0, 2, 3] = float("nan"), float("nan")
    given.targets[0][3, 0] = float("nan")
    found = given.costs(kind)[0].isnan()
    wanted = torch.zeros(11, 4, dtype=torch.bool)
    wanted[1], wanted[2], wanted[:, 3] = True, True, True
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 0, 3)])
def test_nothing(shape: tuple[int, int, int]) -> None:
    logits, boxes = torch.rand(shape), torch.rand(*shape[:2], 4)
    found = visops.match_cost(
        logits,
        boxes,
        torch.zeros(2 * shape[0], dtype=torch.int64),
        torch.rand(2 * shape[0], 4),
        weights=WEIGHTS,
        counts=[2] * shape[0],
    )
    assert [tuple(part.shape) for part in found] == [(shape[1], 2)] * shape[0]


LOGITS, BOXES = torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)
LABELS, TARGETS = torch.zeros(5, dtype=torch.int64), torch.zeros(5, 4)


def match(
    logits: Any = LOGITS,
    boxes: Any = BOXES,
    labels: Any = LABELS,
    targets: Any = TARGETS,
    **options: Any,
) -> Callable[[], Any]:
    made = {"weights": (2, 5, 2), "counts": [2, 3], **options}
    return lambda: visops.match_cost(logits, boxes, labels, targets, **made)


@pytest.mark.parametrize("label", [-1, 4, 2**40])
def test_labels(label: int) -> None:
    """An error where the host has them; NaN where only the kernel reads them."""
    labels = LABELS.clone()
    labels[3] = label
    message = f"match_cost: target_labels[3] is {label}, logits has 4 classes"
    with use_slot("default"):
        check(RuntimeError, message, match(labels=labels))
    with use_slot("cuda_emulated"):
        for kind in ("focal", "softmax"):
            found = match(labels=labels, kind=kind)()
            assert found[1][:, 1].isnan().all()
            assert not found[1][:, ::2].isnan().any()
            assert not found[0].isnan().any()


Assign: Any = visops.linear_sum_assignment
ASSIGNMENTS_KINDS = ("numbers", "few values", "equal", "rounded", "forbidden")


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


@pytest.mark.parametrize("kind", ASSIGNMENTS_KINDS)
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
