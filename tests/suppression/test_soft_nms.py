"""Values of soft suppression: against a reference, and by hand."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import visops
from references import soft_nms as reference
from torch import Tensor

from suppression.nms_cases import (
    BOXES,
    FLOATING,
    INTEGER,
    LAYOUTS,
    SCORES,
    THRESHOLDS,
    assert_same_scores,
    distinct_scores,
    every_other,
)

NAN, INF = float("nan"), float("inf")
METHODS = ("linear", "gaussian", "hard")
UNIT = [0.0, 0.0, 1.0, 1.0]
HALF = [0.0, 0.0, 1.0, 0.5]  # overlaps UNIT by 1 / 2


def array(tensor: Tensor) -> np.ndarray:
    """An array of the same numbers; NumPy has no bfloat16."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def check(boxes: Tensor, scores: Tensor, **options: Any) -> int:
    """Compare with the reference; return how many boxes are kept."""
    kept, values = visops.soft_nms(boxes, scores, **options)
    assert (kept.dtype, kept.dim(), kept.is_contiguous()) == (torch.int64, 1, True)
    assert (values.dtype, values.shape) == (scores.dtype, kept.shape)
    expected = reference.soft_nms(array(boxes), array(scores), **options)
    assert_same_scores((kept, values), expected, options.get("method", "linear"))
    return len(kept)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", FLOATING + INTEGER, ids=str)
def test_dtypes_and_layouts(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    layouts = itertools.cycle(LAYOUTS.values())
    some = 0
    for count in (0, 1, 2, 9, 63, 64, 65, 200):
        for method in METHODS:
            plain = torch.from_numpy(BOXES["clusters"](rng, count)).abs()
            boxes = next(layouts)((plain / 12).to(dtype))
            scores = every_other(torch.from_numpy(distinct_scores(rng, count)).float())
            before = boxes.clone(), scores.clone()
            kept = check(boxes, scores, method=method, min_score=0.1)
            assert torch.equal(boxes, before[0])
            assert torch.equal(scores, before[1])
            some += 1 < kept < count
    assert some >= 10


@pytest.mark.matrix
@pytest.mark.parametrize("score", FLOATING, ids=str)
@pytest.mark.parametrize("dtype", [*FLOATING, torch.int32], ids=str)
def test_every_pair_of_dtypes(dtype: torch.dtype, score: torch.dtype) -> None:
    rng = np.random.default_rng(1)
    for i, threshold in enumerate(THRESHOLDS):
        method = METHODS[(i + i // 3) % 3]
        boxes = torch.from_numpy(BOXES["clusters"](rng, 40)).to(dtype)
        scores = torch.from_numpy(distinct_scores(rng, 40)).to(score)
        options: dict[str, Any] = {"method": method, "iou_threshold": threshold}
        check(boxes, scores, **options, min_score=0.125)


@pytest.mark.matrix
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", BOXES)
def test_kinds_of_boxes_and_scores(kind: str, score: str, method: str) -> None:
    rng = np.random.default_rng(2)
    turn = [*SCORES].index(score) + METHODS.index(method)
    for i, threshold in enumerate(THRESHOLDS[turn % 3 :: 3] + THRESHOLDS[(turn + 1) % 3 :: 3]):
        dtype = (torch.float32, torch.float64)[i % 2]
        boxes = torch.from_numpy(BOXES[kind](rng, 50)).to(dtype)
        scores = torch.from_numpy(SCORES[score](rng, 50)).to(dtype)
        least = float(rng.choice([0.0, 0.001, 0.25]))
        most = (None, 7, 30)[rng.integers(0, 3)]
        check(
            boxes, scores, method=method, iou_threshold=threshold, min_score=least, max_output=most
        )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", BOXES)
def test_larger(kind: str, method: str) -> None:
    """Around 384 candidates, the most that a CPU kernel has on its stack."""
    rng = np.random.default_rng(3)
    last = (1000, 0.25) if METHODS.index(method) == len(kind) % 3 else (257, 0.5)
    for count, least in ((384, 0.0), (385, 0.01), last):
        boxes = torch.from_numpy(BOXES[kind](rng, count)).float()
        scores = torch.from_numpy(distinct_scores(rng, count)).float()
        check(boxes, scores, method=method, min_score=least, sigma=0.3)


@pytest.mark.parametrize("sigma", [1e-300, 1e-3, 0.1, 0.5, 2.0, 1e300])
def test_sigma(sigma: float) -> None:
    rng = np.random.default_rng(4)
    boxes = torch.from_numpy(BOXES["clusters"](rng, 80)).float()
    scores = torch.from_numpy(distinct_scores(rng, 80)).float()
    for dtype in (torch.float32, torch.float64):
        check(boxes.to(dtype), scores.to(dtype), method="gaussian", sigma=sigma)


@pytest.mark.matrix
@pytest.mark.parametrize("exponent", [-140, -70, -62, -40, 40, 62, 70, 120])
def test_very_small_and_very_large_boxes(exponent: int) -> None:
    rng = np.random.default_rng(5)
    kinds, dtypes = itertools.cycle(("clusters", "mixed")), (torch.float32, torch.float64)
    for dtype, method in itertools.product(dtypes, METHODS):
        boxes = torch.from_numpy(BOXES[next(kinds)](rng, 90) * 2.0**exponent)
        scores = torch.from_numpy(distinct_scores(rng, 90))
        check(boxes.to(dtype), scores.to(dtype), method=method)


@pytest.mark.parametrize("exponent", [-145, -130, -20, 20, 120])
def test_very_small_and_very_large_scores(exponent: int) -> None:
    """Also subnormal ones, which vanish when they are lowered."""
    rng = np.random.default_rng(6)
    boxes = torch.from_numpy(BOXES["clusters"](rng, 90)).float()
    scores = torch.from_numpy(distinct_scores(rng, 90) * 2.0**exponent).float()
    for method, least in itertools.product(METHODS, (0.0, 2.0 ** (exponent - 2))):
        check(boxes, scores, method=method, min_score=least)


def result(
    boxes: Any, scores: Any, dtype: torch.dtype = torch.float32, **options: Any
) -> list[tuple[int, float]]:
    tensors = torch.tensor(boxes, dtype=dtype), torch.tensor(scores, dtype=dtype)
    kept, values = visops.soft_nms(*tensors, **options)
    return list(zip(kept.tolist(), values.tolist(), strict=True))


def test_by_hand() -> None:
    boxes, scores = [UNIT, HALF, UNIT], [0.5, 0.75, 0.25]
    half: dict[str, Any] = {"iou_threshold": 0.25}
    # The second goes first, and halves the others; then the copies meet.
    assert result(boxes, scores, **half) == [(1, 0.75), (0, 0.25)]
    assert result(boxes, scores, **half, min_score=0.0) == [(1, 0.75), (0, 0.25), (2, 0.0)]
    assert result(boxes, scores, method="hard", **half) == [(1, 0.75)]
    found = result(boxes, scores, method="gaussian", sigma=0.25, min_score=0.0)
    lowered = np.exp([-1.0, -5.0]) * [0.5, 0.25]
    assert [i for i, _ in found] == [1, 0, 2]
    np.testing.assert_allclose([v for _, v in found], [0.75, *lowered], rtol=1e-6)


def test_lowered_scores_change_the_order() -> None:
    """Greedy by the current score, not by the original one."""
    apart = [5.0, 0.0, 6.0, 1.0]
    found = result([UNIT, HALF, apart], [1.0, 0.9, 0.5], iou_threshold=0.25)
    assert found == [(0, 1.0), (2, 0.5), (1, pytest.approx(0.45))]


def test_an_overlap_must_exceed_the_threshold() -> None:
    """mmcv also lowers where it is equal."""
    for method in ("linear", "hard"):
        scores = [1.0, 0.5]
        assert result([UNIT, HALF], scores, method=method, iou_threshold=0.5) == [
            (0, 1.0),
            (1, 0.5),
        ]
        below = float(np.nextafter(0.5, 0))
        lowered = [(0, 1.0), (1, 0.25)] if method == "linear" else [(0, 1.0)]
        assert result([UNIT, HALF], scores, method=method, iou_threshold=below) == lowered
        kept = result([UNIT, UNIT], scores, method=method, iou_threshold=1.0)
        assert kept == [(0, 1.0), (1, 0.5)]


def test_thresholds_are_doubles() -> None:
    """The float32 nearest to 0.1 is above 0.1."""
    tenth = [0.0, 0.0, 10.0, 1.0]
    options: dict[str, Any] = {"method": "hard", "iou_threshold": 0.1}
    assert result([UNIT, tenth], [1.0, 0.5], **options) == [(0, 1.0)]
    assert len(result([UNIT, tenth], [1.0, 0.5], torch.float64, **options)) == 2
    options["iou_threshold"] = float(np.float32(0.1))
    assert len(result([UNIT, tenth], [1.0, 0.5], **options)) == 2


def test_gaussian_has_no_threshold() -> None:
    rng = np.random.default_rng(7)
    boxes = torch.from_numpy(BOXES["clusters"](rng, 60))
    scores = torch.from_numpy(distinct_scores(rng, 60))
    first = visops.soft_nms(boxes, scores, method="gaussian", iou_threshold=0.0)
    second = visops.soft_nms(boxes, scores, method="gaussian", iou_threshold=1.0)
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])


@pytest.mark.parametrize("box", [
    [1.0, 0.0, 0.0, 1.0],  # inverted in x
    [0.0, 1.0, 1.0, 0.0],  # in y
    [1.0, 1.0, 0.0, 0.0],  # in both: a positive area
    [0.0, 0.0, 0.0, 1.0],  # flat
    [0.5, 0.5, 0.5, 0.5],  # a point
    [NAN, 0.0, 1.0, 1.0],
    [NAN, NAN, NAN, NAN],
    [-INF, 0.0, 1.0, 1.0],
    [-INF, -INF, INF, INF],
    [INF, 0.0, -INF, 1.0],
    [0.0, 0.0, 3e38, 3e38],  # an infinite area
    [0.0, 0.0, 1e-30, 1e-30],  # an area of 0 in float32
], ids=str)  # fmt: skip
def test_boxes_that_overlap_nothing(box: list[float]) -> None:
    """They lower nothing and are not lowered, not even by copies of themselves."""
    boxes = [box, UNIT, box, HALF, box]
    for method in METHODS:
        found = result(boxes, [1.0, 0.9, 0.8, 0.7, 0.6], method=method, min_score=0.0)
        kept = dict(found)
        for i, score in ((0, 1.0), (2, 0.8), (4, 0.6)):
            assert kept[i] == np.float32(score)
        assert kept[1] == np.float32(0.9)
        assert kept.get(3, 0.0) < 0.5


def test_ties_go_to_the_lower_index() -> None:
    boxes = torch.arange(3000.0)[:, None] * 2 + torch.tensor(UNIT)
    kept, values = visops.soft_nms(boxes, torch.full((3000,), 0.5))
    assert torch.equal(kept, torch.arange(3000))
    assert (values == 0.5).all()
    scores = torch.tensor([0.0, -0.0, 1.0, -0.0, 0.0])
    assert visops.soft_nms(boxes[:5], scores, min_score=0.0)[0].tolist() == [2, 0, 1, 3, 4]
    # Scores that become equal.
    far = [9.0, 9.0, 10.0, 10.0]
    found = result([far, HALF, UNIT], [0.25, 0.5, 1.0], iou_threshold=0.25)
    assert found == [(2, 1.0), (0, 0.25), (1, 0.25)]
    found = result([HALF, far, UNIT], [0.5, 0.25, 1.0], iou_threshold=0.25)
    assert found == [(2, 1.0), (0, 0.25), (1, 0.25)]


def test_scores_that_take_no_part() -> None:
    """NaN and scores below min_score; they don't lower others either."""
    boxes = [UNIT] * 6
    scores = [NAN, -1.0, 0.2, -INF, 0.5, -NAN]
    assert result(boxes, scores, min_score=0.3) == [(4, 0.5)]
    assert result(boxes, scores, min_score=0.2, iou_threshold=1.0) == [
        (4, 0.5),
        (2, np.float32(0.2)),
    ]
    assert result(boxes, scores, min_score=0.6) == []
    assert result([UNIT], [NAN], min_score=0.0) == []
    assert result([UNIT], [-0.0], min_score=0.0) == [(0, 0.0)]
    assert result([UNIT], [0.5], min_score=0.5) == [(0, 0.5)]


def test_infinite_scores() -> None:
    found = result([UNIT, UNIT, HALF], [INF, 1.0, INF], iou_threshold=0.25, min_score=0.0)
    assert found == [(0, INF), (2, INF), (1, 0.0)]
    # Infinity times 0 is NaN, which takes no part.
    assert result([UNIT, UNIT], [INF, INF], min_score=0.0) == [(0, INF)]
    for method in METHODS:
        kept = dict(result([UNIT, HALF], [INF, INF], method=method, min_score=0.0))
        assert set(kept.values()) == {INF}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_is_computed_in_float32(dtype: torch.dtype) -> None:
    """Scores are rounded once, for the result."""
    third = [0.0, 0.0, 3.0, 1.0]
    found = result([UNIT, third, third], [1.0, 1.0, 1.0], dtype, iou_threshold=0.3)
    one, ratio = np.float32(1), np.float32(1) / np.float32(3)
    assert [i for i, _ in found] == [0, 1]
    rounded = torch.tensor(one - ratio).to(dtype)
    assert found[1][1] == float(rounded)
    huge = [[0.0, 0.0, 4096.0, 4096.0], [0.0, 0.0, 4096.0, 2048.0]]
    assert result(huge, [1.0, 1.0], dtype, iou_threshold=0.3) == [(0, 1.0), (1, 0.5)]
    # Lowered three times: 0.9 ** 3, where each rounding to half would show.
    tenth = [[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 2.0, 1.0], [2.0, 0.0, 3.0, 1.0], [0.0, 0.0, 3.0, 1.0]]
    expected = reference.soft_nms(
        np.array(tenth, np.float32), np.array([1, 1, 1, 0.9], np.float32), iou_threshold=0.1
    )[1]
    scores = torch.tensor([1.0, 1.0, 1.0, 0.9])
    boxes = torch.tensor(tenth, dtype=dtype)
    assert torch.equal(
        visops.soft_nms(boxes, scores, iou_threshold=0.1)[1], torch.from_numpy(expected)
    )


def some_boxes(count: int = 200, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(8)
    boxes = torch.from_numpy(BOXES["clusters"](rng, count)).to(dtype)
    return boxes, torch.from_numpy(distinct_scores(rng, count)).to(dtype)


@pytest.mark.parametrize("method", METHODS)
def test_max_output(method: Any) -> None:
    boxes, scores = some_boxes(90)
    everything = visops.soft_nms(boxes, scores, method=method, min_score=0.1)
    assert 5 < len(everything[0]) < 90
    for most in [*range(len(everything[0]) + 3), 10**6, 2**40]:
        found = visops.soft_nms(boxes, scores, method=method, min_score=0.1, max_output=most)
        assert all(torch.equal(a, b[:most]) for a, b in zip(found, everything, strict=True))


def test_one_box_in_memory() -> None:
    """Strides of 0: an expanded box is as many copies."""
    boxes = torch.tensor(UNIT).expand(100, 4)
    kept, values = visops.soft_nms(boxes, torch.ones(()).expand(100))
    assert (kept.tolist(), values.tolist()) == ([0], [1.0])
