"""Intersection over foreground: the share of a box that another covers, and its gradients."""

import itertools
import math

import numpy as np
import pytest
import torch
import visops
from references import rotated as reference
from visops.boxes.iou_formulas import overlap, rotated_overlap

from boxes.iou_cases import PROPER, SIZES, pair_of_sets, rotated_boxes

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
