"""Values of pairwise overlaps: against a scalar reference, against torchvision, and by hand."""

import itertools

import numpy as np
import pytest
import torch
import visops
from references import box_iou as reference
from suppression.nms_cases import BOXES, FLOATING, INTEGER, LAYOUTS
from torch import Tensor

from boxes.iou_cases import FUNCTIONS, PEERS, PROPER, SIZES, pair_of_sets

every_measure = pytest.mark.parametrize("measure", FUNCTIONS)
NAN, INF = float("nan"), float("inf")


def expected(boxes1: Tensor, boxes2: Tensor, measure: str, eps: float = 1e-7) -> np.ndarray:
    """The reference's overlaps, in the dtype that the boxes are computed in."""
    single = all(b.is_floating_point() and b.dtype != torch.float64 for b in (boxes1, boxes2))
    dtype = torch.float32 if single else torch.float64
    double = torch.float64 in (boxes1.dtype, boxes2.dtype)
    first, second = boxes1.to(dtype).numpy(), boxes2.to(dtype).numpy()
    found = reference.overlaps(first, second, measure, eps)
    return found.astype(np.float64 if double else np.float32)


def assert_same(found: Tensor | np.ndarray, wanted: np.ndarray, measure: str) -> None:
    """The same bits, but for the last ones where an arctangent is involved."""
    found = np.asarray(found)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    within = 4 * np.finfo(wanted.dtype).eps if measure == "complete" else 0.0
    np.testing.assert_allclose(found, wanted, rtol=within, atol=within)


@pytest.mark.matrix
@every_measure
@pytest.mark.parametrize("kind", BOXES)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_reference(dtype: torch.dtype, kind: str, measure: str) -> None:
    layouts = itertools.cycle(itertools.permutations(LAYOUTS.values(), 2))
    for seed, (count1, count2) in enumerate(((1, 1), (9, 20), (33, 6))):
        boxes1, boxes2 = pair_of_sets(kind, count1, count2, dtype, seed)
        wanted = expected(boxes1, boxes2, measure)
        first, second = next(layouts)
        assert_same(FUNCTIONS[measure](first(boxes1), second(boxes2)), wanted, measure)


@pytest.mark.matrix
@every_measure
@pytest.mark.parametrize("dtype", INTEGER, ids=str)
def test_integers(dtype: torch.dtype, measure: str) -> None:
    rng = np.random.default_rng(0)
    corners = rng.integers(0, 60, (2, 25, 2))
    boxes1, boxes2 = torch.from_numpy(
        np.concatenate([corners, corners + rng.integers(0, 60, (2, 25, 2))], -1)
    ).to(dtype)
    found = FUNCTIONS[measure](boxes1, boxes2)
    assert found.dtype == torch.float32
    assert_same(found, expected(boxes1, boxes2, measure), measure)


@every_measure
@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float32, torch.float64),
        (torch.float64, torch.float16),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.int32),
        (torch.int64, torch.float64),
        (torch.uint8, torch.int16),
    ],
    ids=str,
)
def test_two_dtypes(dtypes: tuple[torch.dtype, torch.dtype], measure: str) -> None:
    boxes1, boxes2 = pair_of_sets("clusters", 12, 21, torch.float64)
    boxes1 = boxes1.abs().clamp(max=100).to(dtypes[0])
    boxes2 = boxes2.abs().clamp(max=100).to(dtypes[1])
    assert_same(FUNCTIONS[measure](boxes1, boxes2), expected(boxes1, boxes2, measure), measure)


def test_large_integers_are_exact() -> None:
    """In float32, 2^24 + 1 would be 2^24."""
    boxes = torch.tensor([[0, 0, 2**24 + 1, 1], [0, 0, 2**24, 1]])
    assert visops.box_iou(boxes, boxes).tolist() == [[1.0, 1.0 - 2**-24], [1.0 - 2**-24, 1.0]]
    wide = torch.tensor([[2**40, 0, 2**40 + 1, 1], [2**40 + 1, 0, 2**40 + 2, 1]])
    assert visops.box_iou(wide, wide).tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.matrix
@every_measure
@pytest.mark.parametrize("kind", PROPER)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_torchvision(dtype: torch.dtype, kind: str, measure: str) -> None:
    for count1, count2 in SIZES:
        boxes1, boxes2 = pair_of_sets(kind, count1, count2, dtype)
        wanted = PEERS[measure](boxes1, boxes2)
        assert_same(FUNCTIONS[measure](boxes1, boxes2), wanted.numpy(), measure)


@every_measure
def test_torchvision_where_it_has_values(measure: str) -> None:
    """Inverted, flat and infinite boxes too, except where torchvision has NaN."""
    for seed in range(5):
        boxes1, boxes2 = pair_of_sets("odd", 40, 50, torch.float64, seed)
        wanted = PEERS[measure](boxes1, boxes2)
        there = wanted.isfinite()
        assert bool(there.any())
        found = FUNCTIONS[measure](boxes1, boxes2)
        assert_same(found[there], wanted[there].numpy(), measure)


@every_measure
@pytest.mark.parametrize("seed", range(3))
def test_roles(measure: str, seed: int) -> None:
    """Swapping the sets changes no bit."""
    for kind in BOXES:
        boxes1, boxes2 = pair_of_sets(kind, 40, 23, torch.float32, seed)
        found = FUNCTIONS[measure](boxes1, boxes2)
        other = FUNCTIONS[measure](boxes2, boxes1).mT
        assert torch.equal(found.nan_to_num(7), other.nan_to_num(7))


@pytest.mark.parametrize("eps", [0.0, 1e-3, 0.5])
@pytest.mark.parametrize("measure", ["distance", "complete"])
def test_eps(measure: str, eps: float) -> None:
    boxes1, boxes2 = pair_of_sets("clusters", 9, 20, torch.float32)
    boxes1, boxes2 = boxes1 / 1000, boxes2 / 1000
    wanted = expected(boxes1, boxes2, measure, eps)
    assert_same(FUNCTIONS[measure](boxes1, boxes2, eps), wanted, measure)
    assert not np.array_equal(wanted, expected(boxes1, boxes2, measure))


FLAT = [[0.0, 0, 0, 0], [0, 0, 4, 0], [0, 0, 0, 4], [1, 0, 5, 0], [9, 9, 9, 9]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=str)
def test_boxes_without_area(dtype: torch.dtype) -> None:
    """0 / 0 gives 0."""
    boxes = torch.tensor(FLAT, dtype=torch.float64).to(dtype)
    one = torch.tensor([[0.0, 0, 2, 2]], dtype=torch.float64).to(dtype)
    for eps in (0.0, 1e-7):
        assert visops.box_iou(boxes, boxes).abs().max() == 0
        assert visops.box_iou(boxes, one).abs().max() == 0
        generalized = visops.generalized_box_iou(boxes, boxes)
        assert generalized[1, 2] == -1  # the box around both has an area
        assert generalized[0, :4].tolist() == [0, 0, 0, 0]
        distance = visops.distance_box_iou(boxes, boxes, eps)
        assert distance.diagonal().tolist() == [0.0] * 5
        assert distance[0, 4].item() == pytest.approx(-1.0)
        for measure, function in FUNCTIONS.items():
            options = [eps] if measure in ("distance", "complete") else []
            wanted = expected(boxes, boxes, measure, eps)
            assert_same(function(boxes, boxes, *options), wanted, measure)


def test_angles_of_flat_boxes() -> None:
    """Level and upright boxes are a quarter turn apart; points have the angle of upright ones."""
    level, upright, point = [0.0, 0, 4, 0], [0.0, 0, 0, 4], [0.0, 0, 0, 0]
    boxes = torch.tensor([level, upright, point], dtype=torch.float64)
    v = visops.distance_box_iou(boxes, boxes) - visops.complete_box_iou(boxes, boxes)
    half = 1 / (2 + 1e-7)  # v is 1, alpha v / (1 + v + eps)
    np.testing.assert_allclose(v, [[0, half, half], [half, 0, 0], [half, 0, 0]], atol=1e-15)


@pytest.mark.matrix
@every_measure
@pytest.mark.parametrize("coordinate", range(4))
def test_nan(measure: str, coordinate: int) -> None:
    boxes1, boxes2 = pair_of_sets("clusters", 6, 40, torch.float32)
    boxes1[2, coordinate] = NAN
    for found in (FUNCTIONS[measure](boxes1, boxes2), FUNCTIONS[measure](boxes2, boxes1).mT):
        assert bool(found[2].isnan().all())
        assert not bool(found[[0, 1, 3, 4, 5]].isnan().any())


def test_by_hand() -> None:
    a = torch.tensor([[0.0, 0, 2, 2]])
    b = torch.tensor([[1.0, 0, 3, 2], [0, 0, 2, 2], [4, 0, 6, 2], [0, 0, 4, 2]])
    assert visops.box_iou(a, b)[0].tolist() == pytest.approx([1 / 3, 1, 0, 1 / 2])
    assert visops.generalized_box_iou(a, b)[0].tolist() == pytest.approx([1 / 3, 1, -1 / 3, 1 / 2])
    wanted = [1 / 3 - 1 / 13, 1, -16 / 40, 1 / 2 - 1 / 20]
    assert visops.distance_box_iou(a, b)[0].tolist() == pytest.approx(wanted)
    v = (2 / np.pi * (np.arctan(2) - np.arctan(1))) ** 2
    wanted[3] -= v * v / (1 - 1 / 2 + v)
    assert visops.complete_box_iou(a, b)[0].tolist() == pytest.approx(wanted)


@every_measure
def test_expanded_boxes(measure: str) -> None:
    one = torch.tensor([[1.0, 2, 5, 9]])
    boxes1, _ = pair_of_sets("clusters", 40, 1, torch.float32)
    wanted = FUNCTIONS[measure](boxes1, one.repeat(37, 1))
    assert torch.equal(FUNCTIONS[measure](boxes1, one.expand(37, 4)), wanted)
