"""Gradients of pairwise overlaps, and intersection over foreground with its own."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from references import rotated as reference
from torch import Tensor
from visops.boxes.iou_autograd import overlap, rotated_overlap

from boxes.iou_cases import FUNCTIONS, PEERS, PROPER, SIZES, pair_of_sets, rotated_boxes

every_measure = pytest.mark.parametrize("measure", FUNCTIONS)


def gradients(
    function: Callable[..., Tensor], boxes1: Tensor, boxes2: Tensor, grad: Tensor
) -> tuple[Tensor, ...]:
    boxes1, boxes2 = (b.detach().clone().requires_grad_() for b in (boxes1, boxes2))
    return torch.autograd.grad(function(boxes1, boxes2), (boxes1, boxes2), grad)


def random_grad(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    rng = np.random.default_rng(5)
    values = torch.from_numpy(rng.standard_normal((len(boxes1), len(boxes2))))
    return values.to(boxes1.dtype)


def assert_near(found: Any, wanted: Any, within: float, least: float = 0.0) -> None:
    """Equal within a fraction of the largest component, or of `least` if that is larger."""
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        size = float(theirs.abs().max()) if theirs.numel() else 1.0
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=within * max(size, least))


def per_unit(boxes1: Tensor, boxes2: Tensor) -> float:
    """The usual size of a gradient; where all boxes are equal, it happens to be 0."""
    sides = torch.cat([b[:, 2:] - b[:, :2] for b in (boxes1, boxes2)])
    return len(sides) / float(sides.min())


def touching_have_none() -> bool:
    """Whether torch's clamp has no gradient at the bound, as ours: since 2.15; before, it was 1."""
    side = torch.zeros((), requires_grad=True)
    return torch.autograd.grad(side.clamp(min=0), side)[0].item() == 0


@pytest.mark.matrix
@every_measure
@pytest.mark.parametrize("kind", PROPER)
def test_torchvision(kind: str, measure: str) -> None:
    """Whole numbers and copies too: equal arguments of max and min share the gradient."""
    if kind == "grid" and not touching_have_none():
        pytest.skip("this torch's clamp has a gradient at the bound")
    for count1, count2 in SIZES:
        boxes1, boxes2 = pair_of_sets(kind, count1, count2, torch.float64)
        grad = random_grad(boxes1, boxes2)
        wanted = gradients(PEERS[measure], boxes1, boxes2, grad)
        found = gradients(FUNCTIONS[measure], boxes1, boxes2, grad)
        assert_near(found, wanted, 1e-11, per_unit(boxes1, boxes2) if kind == "one" else 0.0)


@every_measure
def test_float32(measure: str) -> None:
    """As close to float64 as torchvision's own gradient in float32."""
    boxes1, boxes2 = pair_of_sets("clusters", 60, 150, torch.float32)
    grad = random_grad(boxes1, boxes2)
    exact = gradients(PEERS[measure], boxes1.double(), boxes2.double(), grad.double())
    found = gradients(FUNCTIONS[measure], boxes1, boxes2, grad)
    theirs = gradients(PEERS[measure], boxes1, boxes2, grad)
    for a, b, c in zip(found, theirs, exact, strict=True):
        assert (a - c).abs().max() <= 2 * (b - c).abs().max()


@every_measure
def test_two_dtypes(measure: str) -> None:
    boxes1, boxes2 = pair_of_sets("clusters", 20, 30, torch.float32)
    grad = random_grad(boxes1.double(), boxes2)
    wanted = gradients(FUNCTIONS[measure], boxes1.double(), boxes2.double(), grad)
    found = gradients(FUNCTIONS[measure], boxes1, boxes2.double(), grad)
    assert torch.equal(found[0], wanted[0].float())
    assert torch.equal(found[1], wanted[1])
    whole = boxes2.round().to(torch.int32)
    boxes = boxes1.clone().requires_grad_()
    (found_1,) = torch.autograd.grad(FUNCTIONS[measure](boxes, whole), boxes, grad.float())
    wanted = gradients(FUNCTIONS[measure], boxes1.double(), whole.double(), grad.float().double())
    assert torch.equal(found_1, wanted[0].float())


def second(
    function: Callable[..., Tensor], boxes1: Tensor, boxes2: Tensor, grad: Tensor
) -> tuple[Tensor, ...]:
    boxes1, boxes2, grad = (t.detach().clone().requires_grad_() for t in (boxes1, boxes2, grad))
    first = torch.autograd.grad(function(boxes1, boxes2), (boxes1, boxes2), grad, create_graph=True)
    weighted = sum((f.sin() * f).sum() for f in first)
    return torch.autograd.grad(weighted, (boxes1, boxes2, grad))  # type: ignore[arg-type]


@every_measure
@pytest.mark.parametrize("kind", ["uniform", "clusters", "grid"])
def test_second_derivative(kind: str, measure: str) -> None:
    """Also of `complete`, where gradgradcheck would see alpha change."""
    if kind == "grid" and not touching_have_none():
        pytest.skip("this torch's clamp has a gradient at the bound")
    boxes1, boxes2 = pair_of_sets(kind, 12, 20, torch.float64)
    grad = random_grad(boxes1, boxes2)
    wanted = second(PEERS[measure], boxes1, boxes2, grad)
    assert_near(second(FUNCTIONS[measure], boxes1, boxes2, grad), wanted, 1e-10)


@every_measure
def test_third_derivative(measure: str) -> None:
    boxes1, boxes2 = pair_of_sets("uniform", 4, 5, torch.float64)

    def third(function: Callable[..., Tensor]) -> Tensor:
        boxes = boxes1.clone().requires_grad_()
        value = function(boxes, boxes2).sin().sum()
        for _ in range(3):
            (gradient,) = torch.autograd.grad(value, boxes, create_graph=True)
            value = gradient.square().sum()
        return gradient.detach()

    assert_near([third(FUNCTIONS[measure])], [third(PEERS[measure])], 1e-9)


@every_measure
def test_second_derivative_of_some(measure: str) -> None:
    """Integers, and boxes that need no gradient, are left out."""
    boxes1, boxes2 = pair_of_sets("grid", 6, 7, torch.float64)
    boxes1, whole = boxes1 * 2 + 0.25, (boxes2 * 4).to(torch.int64)
    results = []
    for function, others in ((FUNCTIONS[measure], whole), (PEERS[measure], whole.double())):
        boxes = boxes1.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(boxes, others).sum(), boxes, create_graph=True)
        results.append(torch.autograd.grad(first.square().sum(), boxes))
    assert_near(results[0], results[1], 1e-10)


@every_measure
def test_only_what_is_needed(measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from visops.boxes import iou_autograd as formulas

    calls = []
    backward = formulas._box_iou_backward

    def counted(*arguments: Any) -> Tensor:
        calls.append(arguments[1].shape[0])
        result: Tensor = backward(*arguments)
        return result

    monkeypatch.setattr(formulas, "_box_iou_backward", counted)
    boxes1, boxes2 = pair_of_sets("clusters", 4, 9, torch.float32)
    for needed, count in ((boxes1, [4]), (boxes2, [9])):
        calls.clear()
        needed.requires_grad_()
        FUNCTIONS[measure](boxes1, boxes2).sum().backward()
        needed.requires_grad_(False)
        assert calls == count


@every_measure
def test_boxes_without_area(measure: str) -> None:
    """Where 0 / 0 gives 0, the gradient is 0; others are finite."""
    flat = torch.tensor(
        [[0.0, 0, 0, 0], [0, 0, 4, 0], [0, 0, 0, 4], [9, 9, 9, 9]], dtype=torch.float64
    )
    function = FUNCTIONS[measure]
    for options in ((), (0.0,)) if measure in ("distance", "complete") else ((),):
        for others in (flat, flat[:1], torch.tensor([[1.0, 1, 5, 3]], dtype=torch.float64)):
            boxes1, boxes2 = flat.clone().requires_grad_(), others.clone().requires_grad_()
            value = function(boxes1, boxes2, *options)
            first = torch.autograd.grad(value.sum(), (boxes1, boxes2), create_graph=True)
            assert all(bool(g.isfinite().all()) for g in first)
            again = torch.autograd.grad(sum(g.sum() for g in first), (boxes1, boxes2))  # type: ignore[arg-type]
            assert all(bool(g.isfinite().all()) for g in again)
    points = torch.zeros(2, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(points, points.detach()).sum(), points)
    assert torch.equal(gradient, torch.zeros(2, 4))


@every_measure
def test_a_box_with_itself_stays(measure: str) -> None:
    boxes = pair_of_sets("clusters", 30, 0, torch.float64)[0].requires_grad_()
    value = FUNCTIONS[measure](boxes, boxes.detach()).diagonal()
    (gradient,) = torch.autograd.grad(value.sum(), boxes)
    assert value.tolist() == [1.0] * 30
    np.testing.assert_allclose(gradient, 0, atol=1e-15)


@every_measure
def test_nan_reaches_what_it_meets(measure: str) -> None:
    boxes1, boxes2 = pair_of_sets("clusters", 5, 9, torch.float32)
    boxes1[2, 1] = float("nan")
    first, other = gradients(FUNCTIONS[measure], boxes1, boxes2, torch.ones(5, 9))
    assert first.isnan().any(1).tolist() == [False, False, True, False, False]
    assert bool(other.isnan().any(1).all())


OPS = torch.ops.visops
NAN, INF = math.nan, math.inf
KINDS = ("iof", "iof2")
every_kind = pytest.mark.parametrize("kind", KINDS)


def share(a: list[float], b: list[float]) -> float:
    """The share of box a that b covers, from its definition."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if any(math.isnan(v) for v in (*a, *b)):
        return NAN
    area = (a[2] - a[0]) * (a[3] - a[1])
    return max(width, 0.0) * max(height, 0.0) / area if area else 0.0


@pytest.mark.matrix
@every_kind
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.int32])
def test_reference(kind: str, dtype: torch.dtype) -> None:
    """Also few columns, which CPU kernels compute with the roles swapped."""
    for boxes_of, (count1, count2) in itertools.product((*PROPER, "flat", "inverted"), SIZES):
        try:
            sets = pair_of_sets(boxes_of, count1, count2, dtype)
        except KeyError:
            continue
        found = OPS.box_iou(*sets, kind)
        assert found.shape == (count1, count2)
        if not all(boxes.double().isfinite().all() for boxes in sets):  # beyond float16
            continue
        assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        first, second = (boxes.double().tolist() for boxes in sets)
        expected = [
            [share(a, b) if kind == "iof" else share(b, a) for b in second[:7]] for a in first[:40]
        ]
        eps = torch.finfo(found.dtype).eps
        wanted = torch.tensor(expected, dtype=torch.float64).reshape(
            min(count1, 40), min(count2, 7)
        )
        torch.testing.assert_close(found[:40, :7].double(), wanted, rtol=8 * eps, atol=8 * eps)


@pytest.mark.matrix
def test_special_boxes() -> None:
    boxes = torch.tensor(
        [
            [0.0, 0, 10, 10],
            [0, 0, 5, 5],
            [5, 5, 5, 5],
            [NAN, 0, 1, 1],
            [0, NAN, 9, 9],
            [0, 0, INF, 1],
        ]
    )
    many = boxes.repeat(4, 1)  # as rows enough for vectors
    found = visops.box_iou(many, boxes, kind="iof")
    assert torch.equal(found[:6].isnan(), found[6:12].isnan())
    expected = [
        [1, 0.25, 0, NAN, NAN, 0.1],
        [1, 1, 0, NAN, NAN, 0.2],
        [0, 0, 0, NAN, NAN, 0],
        *[[NAN] * 6] * 2,
        [0, 0, 0, NAN, NAN, NAN],
    ]
    torch.testing.assert_close(found[:6], torch.tensor(expected), equal_nan=True)
    other = OPS.box_iou(boxes, many, "iof2")
    torch.testing.assert_close(other, found.mT, rtol=0, atol=0, equal_nan=True)


@pytest.mark.matrix
@every_kind
def test_gradients(kind: str) -> None:
    """Those of the formula in torch's operators, by both sets of boxes."""
    for boxes_of, (count1, count2) in itertools.product(PROPER, SIZES[2:]):
        sets = pair_of_sets(boxes_of, count1, count2, torch.float64)
        leaves = [boxes.requires_grad_() for boxes in sets]
        grad = torch.from_numpy(np.random.default_rng(0).standard_normal((count1, count2)))
        found = torch.autograd.grad(OPS.box_iou(*leaves, kind), leaves, grad)
        formula = overlap(leaves[0][:, None], leaves[1][None], kind, 0.0)
        expected = torch.autograd.grad(formula, leaves, grad)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.matrix
def test_rotated_reference() -> None:
    """Against exact polygons; gradients against the formula in torch's operators."""
    rng = np.random.default_rng(3)
    boxes1, boxes2 = rotated_boxes(rng, 25, 5.0), rotated_boxes(rng, 12, 5.0)
    wanted = np.zeros((25, 12))
    for i, j in itertools.product(range(25), range(12)):
        a, b = reference.rectangle(boxes1[i]), reference.rectangle(boxes2[j])
        wanted[i, j] = float(reference.intersection(a, b) / (a.width * a.height))
    np.testing.assert_allclose(
        visops.box_iou_rotated(boxes1, boxes2, kind="iof"), wanted, atol=1e-12
    )
    leaves = [torch.from_numpy(boxes).requires_grad_() for boxes in (boxes1, boxes2)]
    other = OPS.box_iou_rotated(leaves[1], leaves[0], "iof2")
    np.testing.assert_allclose(other.detach().mT, wanted, atol=1e-12)
    grad = torch.from_numpy(rng.standard_normal((25, 12)))
    for kind in KINDS:
        found = torch.autograd.grad(OPS.box_iou_rotated(*leaves, kind), leaves, grad)
        formula = rotated_overlap(leaves[0][:, None], leaves[1][None], kind)
        expected = torch.autograd.grad(formula, leaves, grad)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", ["iou", *KINDS])
def test_formula_where_boxes_share_edges(kind: str) -> None:
    """An edge on the other box's border counts half, for the other box's edge lies there too."""
    rows = [[0, 0, 2, 2, 0], [0, 0, 2, 2, 0], [1, 0, 2, 2, 0], [0, 0, 4, 2, 0], [0, 1, 2, 4, 0]]
    boxes = torch.tensor(rows, dtype=torch.float64)
    formula = rotated_overlap(boxes[:, None], boxes[None], kind)
    expected = OPS.box_iou_rotated(boxes, boxes, kind)
    torch.testing.assert_close(formula, expected, rtol=0, atol=1e-12)


def test_special_rotated_boxes() -> None:
    special = torch.tensor([[0.0, 0, 2, 2, 0], [0, 0, 0, 2, 0], [NAN, 0, 1, 1, 0], [0, 0, 4, 4, 0]])
    found = visops.box_iou_rotated(special, special, kind="iof")
    expected = [[1, 0, NAN, 1], [0, 0, NAN, 0], [NAN] * 4, [0.25, 0, NAN, 1]]
    torch.testing.assert_close(found, torch.tensor(expected), equal_nan=True)
