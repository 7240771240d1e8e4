"""Values of non-maximum suppression, and of its groups: against loops and against torchvision."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references import nms as reference
from torch import Tensor

from suppression.nms_cases import (
    BOXES,
    FLOATING,
    INTEGER,
    LAYOUTS,
    SCORES,
    THRESHOLDS,
    distinct_scores,
    every_other,
    transposed,
)

torchvision = pytest.importorskip("torchvision")

NAN, INF = float("nan"), float("inf")
UNIT = [0.0, 0.0, 1.0, 1.0]


def computed_dtype(boxes: Tensor) -> torch.dtype:
    narrow = boxes.dtype in (torch.float16, torch.bfloat16, torch.float32)
    return torch.float32 if narrow else torch.float64


def by_torchvision(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """torchvision's answer for any dtypes: it gets sorted boxes, and their ranks as scores."""
    order = scores.double().sort(descending=True, stable=True)[1]
    falling = torch.arange(len(order), 0, -1, dtype=computed_dtype(boxes))
    ordered = boxes.to(computed_dtype(boxes))[order]
    found: Tensor = order[torchvision.ops.nms(ordered, falling, iou_threshold)]
    return found


def check(boxes: Tensor, scores: Tensor, iou_threshold: float) -> int:
    """Compare with torchvision; return how many boxes are kept."""
    kept = visops.nms(boxes, scores, iou_threshold)
    assert (kept.dtype, kept.dim(), kept.is_contiguous()) == (torch.int64, 1, True)
    assert torch.equal(kept, by_torchvision(boxes, scores, iou_threshold))
    return len(kept)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", FLOATING + INTEGER, ids=str)
def test_dtypes_and_layouts(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    layouts = itertools.cycle([*LAYOUTS.values(), transposed])  # five, over four thresholds
    some = 0
    for count in (0, 1, 2, 9, 63, 64, 65, 257):
        for threshold in (0.0, 0.3, 0.5, 0.8):
            plain = torch.from_numpy(BOXES["clusters"](rng, count)).abs()
            boxes = next(layouts)((plain / 12).to(dtype))
            scores = every_other(torch.from_numpy(SCORES["tied"](rng, count)).to(torch.float32))
            before = boxes.clone(), scores.clone()
            kept = check(boxes, scores, threshold)
            assert torch.equal(boxes, before[0])
            assert torch.equal(scores, before[1])
            some += 1 < kept < count
    assert some >= 10


@pytest.mark.matrix
@pytest.mark.parametrize("score", FLOATING, ids=str)
@pytest.mark.parametrize("dtype", [*FLOATING, torch.int32], ids=str)
def test_reference(dtype: torch.dtype, score: torch.dtype) -> None:
    """Every pair of dtypes; NumPy has no bfloat16, so the reference gets float32."""
    rng = np.random.default_rng(1)
    for count in (0, 1, 2, 30):
        for threshold in THRESHOLDS if count == 30 else (0.5,):
            boxes = torch.from_numpy(BOXES["clusters"](rng, count)).to(dtype)
            scores = torch.from_numpy(SCORES["wild"](rng, count)).to(score)
            arrays = [
                (t.float() if t.dtype == torch.bfloat16 else t).numpy() for t in (boxes, scores)
            ]
            expected = reference.nms(arrays[0], arrays[1], threshold)
            assert visops.nms(boxes, scores, threshold).tolist() == expected


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", BOXES)
def test_larger(kind: str, dtype: torch.dtype) -> None:
    """Sizes around those at which kernels change their ways."""
    rng = np.random.default_rng(2)
    scores_of = itertools.cycle([*SCORES.values(), distinct_scores])
    for count in (64, 384, 385, 1000):
        boxes = torch.from_numpy(BOXES[kind](rng, count)).to(dtype)
        for threshold in THRESHOLDS[:: 1 if count == 385 else 3]:
            check(boxes, torch.from_numpy(next(scores_of)(rng, count)).to(dtype), threshold)


@pytest.mark.parametrize("kind", BOXES)
def test_three_thousand(kind: str) -> None:
    rng = np.random.default_rng(3)
    boxes = torch.from_numpy(BOXES[kind](rng, 3000)).float()
    for layout, threshold in (("contiguous", 0.0), ("transposed", 0.3), ("sliced", 0.7)):
        scores = torch.from_numpy(SCORES["distinct"](rng, 3000)).float()
        check(LAYOUTS[layout](boxes), scores, threshold)


@pytest.mark.parametrize("kind", ["uniform", "mixed", "odd"])
def test_twenty_thousand(kind: str) -> None:
    """Far more than fit a cache, of several kinds at once."""
    rng = np.random.default_rng(3)
    boxes = np.concatenate([BOXES[kind](rng, 14_000), BOXES["uniform"](rng, 6_000)])
    for threshold in (0.02, 0.5):  # 0.02: boxes of many sizes, in many rows of cells
        scores = torch.from_numpy(distinct_scores(rng, len(boxes)))
        check(torch.from_numpy(boxes).float(), scores, threshold)


def test_a_box_in_the_last_of_many_rows_of_cells() -> None:
    """Large boxes that overlap only small ones, at their lower edge."""
    down, right = torch.meshgrid(
        torch.arange(400.0, 656, 2), torch.arange(0.0, 256, 2), indexing="ij"
    )
    small = torch.stack([right, down, right + 1, down + 1], -1).reshape(-1, 4)
    far = torch.tensor([[0.0, 0.0, 1.0, 1.0]]).repeat(16, 1) + 2 * torch.arange(16.0)[:, None]
    large = torch.tensor([[0.0, 280.5, 120.0, 400.5]]).repeat(16, 1)
    large[:, 0::2] += 8 * torch.arange(16.0)[:, None]
    boxes = torch.cat([small, far, large])
    assert check(boxes, torch.arange(len(boxes), 0, -1.0), 1e-5) == len(boxes) - len(large)


@pytest.mark.matrix
@pytest.mark.parametrize("exponent", [-140, -70, -62, -40, 40, 62, 70, 120])
def test_very_small_and_very_large_boxes(exponent: int) -> None:
    """Areas that are subnormal, vanish or are infinite in float32."""
    rng = np.random.default_rng(4)
    for kind in ("clusters", "mixed"):
        boxes = torch.from_numpy(BOXES[kind](rng, 200) * 2.0**exponent)
        scores = torch.from_numpy(distinct_scores(rng, 200))
        for threshold in (0.0, 0.5):
            for dtype in (torch.float32, torch.float64):
                check(boxes.to(dtype), scores.to(dtype), threshold)
    # And among those of usual size.
    both = torch.cat([boxes, torch.from_numpy(BOXES["clusters"](rng, 200))]).float()
    check(both, torch.from_numpy(distinct_scores(rng, 400)).float(), 0.4)


def test_far_from_the_origin() -> None:
    """Where float32 has no fractions left; also negative coordinates."""
    rng = np.random.default_rng(5)
    for shift in (-1e3, -1e7, 1e7, 3e8, -1e30, 1e30):
        boxes = (torch.from_numpy(BOXES["clusters"](rng, 300)) + shift).float()
        check(boxes, torch.from_numpy(distinct_scores(rng, 300)).float(), 0.5)


def kept(boxes: Any, threshold: float = 0.5, dtype: torch.dtype = torch.float32) -> list[int]:
    """The kept boxes; scores fall from box to box."""
    scores = torch.arange(len(boxes), 0, -1.0)
    found: list[int] = visops.nms(torch.tensor(boxes, dtype=dtype), scores, threshold).tolist()
    return found


def test_a_ratio_must_exceed_the_threshold() -> None:
    half = [0.0, 0.0, 1.0, 0.5]
    assert kept([UNIT, half], 0.5) == [0, 1]
    assert kept([UNIT, half], np.nextafter(0.5, 0)) == [0]
    assert kept([UNIT, UNIT], 1.0) == [0, 1]
    assert kept([UNIT, UNIT], np.nextafter(1.0, 0)) == [0]
    touching, apart = [1.0, 0.0, 2.0, 1.0], [5.0, 0.0, 6.0, 1.0]
    assert kept([UNIT, touching, apart], 0.0) == [0, 1, 2]
    sliver = [0.999, 0.999, 2.0, 2.0]
    assert kept([UNIT, sliver], 0.0) == [0]


def test_thresholds_are_doubles() -> None:
    """The float32 nearest to 0.1 is above 0.1, the one nearest to 0.7 below 0.7."""
    tenth, seven = [0.0, 0.0, 10.0, 1.0], [0.0, 0.0, 0.7, 1.0]
    assert kept([UNIT, tenth], 0.1) == [0]
    assert kept([UNIT, tenth], 0.1, torch.float64) == [0, 1]
    assert kept([UNIT, tenth], float(np.float32(0.1))) == [0, 1]
    assert kept([UNIT, seven], 0.7) == [0, 1]
    assert kept([UNIT, seven], float(np.nextafter(np.float32(0.7), np.float32(0)))) == [0]
    # An integer's ratio is float64.
    assert kept([[0, 0, 1, 1], [0, 0, 10, 1]], 0.1, torch.int32) == [0, 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_is_computed_in_float32(dtype: torch.dtype) -> None:
    """Areas of 65,600 and more don't overflow, and ratios are not rounded to half."""
    huge = [[0.0, 0.0, 4096.0, 4096.0], [0.0, 0.0, 4096.0, 3968.0]]
    assert kept(huge, 0.9, dtype) == [0]
    third = [[0.0, 0.0, 3.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
    assert kept(third, 0.33333, dtype) == [0]
    assert kept(third, 0.33334, dtype) == [0, 1]


def test_integers_are_computed_in_float64() -> None:
    side = 2**26 + 1  # in float32 they would be equal
    assert kept([[0, 0, side, 1], [0, 0, side - 1, 1]], 1 - 1e-8, torch.int64) == [0, 1]
    assert kept([[0, 0, side, 1], [0, 0, side - 1, 1]], 1 - 2e-8, torch.int64) == [0]
    # uint8 neither wraps nor saturates.
    assert kept([[200, 0, 255, 255], [201, 0, 255, 255]], 0.9, torch.uint8) == [0]
    assert kept([[-128, -128, 127, 127], [-128, -128, 126, 127]], 0.9, torch.int8) == [0]
    beyond = [[0, 0, 2**62, 2**62], [0, 0, 2**62, 2**61]]
    assert kept(beyond, 0.4, torch.int64) == [0]
    assert kept(beyond, 0.5, torch.int64) == [0, 1]


@pytest.mark.matrix
@pytest.mark.parametrize("box", [
    [1.0, 0.0, 0.0, 1.0],  # inverted in x
    [0.0, 1.0, 1.0, 0.0],  # in y
    [1.0, 1.0, 0.0, 0.0],  # in both: a positive area
    [0.0, 0.0, 0.0, 1.0],  # flat
    [0.0, 0.5, 1.0, 0.5],
    [0.5, 0.5, 0.5, 0.5],  # a point
    [NAN, 0.0, 1.0, 1.0],
    [0.0, 0.0, 1.0, NAN],
    [NAN, NAN, NAN, NAN],
    [-INF, 0.0, 1.0, 1.0],
    [0.0, 0.0, INF, INF],
    [-INF, -INF, INF, INF],
    [INF, INF, INF, INF],
    [INF, 0.0, -INF, 1.0],
    [0.0, 0.0, 3e38, 3e38],  # an infinite area
    [0.0, 0.0, 1e-30, 1e-30],  # an area of 0 in float32
], ids=str)  # fmt: skip
def test_boxes_that_overlap_nothing(box: list[float]) -> None:
    """Not even copies of themselves; other boxes are kept as if they weren't there."""
    boxes = [box, UNIT, box, UNIT, [0.0, 0.0, 1.0, 0.9], box]
    for threshold in (0.0, 0.5, 1.0):
        expected = [0, 1, 2, 5] if threshold < 1 else [0, 1, 2, 3, 4, 5]
        assert kept(boxes, threshold) == expected
        assert by_torchvision(torch.tensor(boxes), -torch.arange(6.0), threshold).tolist() == (
            expected
        )


def test_ties_go_to_the_lower_index() -> None:
    boxes = torch.tensor([UNIT]).repeat(5000, 1)
    assert visops.nms(boxes, torch.zeros(5000), 0.5).tolist() == [0]
    assert visops.nms(boxes, torch.zeros(5000), 1.0).tolist() == list(range(5000))
    scores = torch.tensor([0.0, -0.0, 1.0, -0.0, 0.0])
    assert visops.nms(boxes[:5], scores, 1.0).tolist() == [2, 0, 1, 3, 4]


def test_nan_scores_come_first() -> None:
    boxes = torch.tensor([UNIT]).repeat(7, 1)
    scores = torch.tensor([INF, NAN, 1.0, -NAN, -INF, NAN, INF])
    for dtype in FLOATING:
        assert visops.nms(boxes, scores.to(dtype), 1.0).tolist() == [1, 3, 5, 0, 6, 2, 4]
        assert visops.nms(boxes, scores.to(dtype), 0.5).tolist() == [1]
        found = visops.nms(boxes, scores.to(dtype), 1.0, score_threshold=-INF)
        assert found.tolist() == [0, 6, 2]


def some_boxes(count: int = 200, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(6)
    boxes = torch.from_numpy(BOXES["clusters"](rng, count)).to(dtype)
    return boxes, torch.from_numpy(distinct_scores(rng, count)).to(dtype)


@pytest.mark.matrix
def test_max_output() -> None:
    boxes, scores = some_boxes()
    everything = visops.nms(boxes, scores, 0.5)
    assert 20 < len(everything) < 150
    for most in [*range(len(everything) + 3), 10**6, 2**40]:
        found = visops.nms(boxes, scores, 0.5, max_output=most)
        assert torch.equal(found, everything[:most])
    assert torch.equal(visops.nms(boxes, scores, 0.5, max_output=None), everything)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_score_threshold(dtype: torch.dtype) -> None:
    boxes, scores = some_boxes()
    scores = scores.to(dtype)
    scores[::17] = NAN
    for threshold in (-INF, -1.0, 0.0, 0.3, float(scores[5]), 0.999, 2.0, INF):
        candidates = (scores > threshold).nonzero()[:, 0]
        kept = visops.nms(boxes, scores, 0.5, score_threshold=threshold)
        expected = candidates[by_torchvision(boxes[candidates], scores[candidates], 0.5)]
        assert torch.equal(kept, expected)
        few = visops.nms(boxes, scores, 0.5, score_threshold=threshold, max_output=7)
        assert torch.equal(few, expected[:7])


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("threshold", [0.1, 0.7])
def test_score_threshold_is_of_the_scores_dtype(threshold: float, dtype: torch.dtype) -> None:
    """A score of 0.1 is not more than 0.1, though its float32 is."""
    scores = torch.tensor([threshold], dtype=dtype)
    assert visops.nms(torch.zeros(1, 4), scores, 0.5, score_threshold=threshold).tolist() == []
    above = torch.nextafter(scores, torch.ones_like(scores))
    assert visops.nms(torch.zeros(1, 4), above, 0.5, score_threshold=threshold).tolist() == [0]


def test_one_box_in_memory() -> None:
    """Strides of 0: an expanded box is as many copies."""
    boxes = torch.tensor(UNIT).expand(100, 4)
    assert visops.nms(boxes, torch.zeros(()).expand(100), 0.5).tolist() == [0]
    assert visops.nms(torch.zeros(1, 1).expand(70, 4), torch.rand(70), 0.5).numel() == 70


EMULATED = visops.build_info()["cpu"] == "cuda_emulated"
NAN, INF = float("nan"), float("inf")


def check_groups(boxes: Tensor, scores: Tensor, threshold: float) -> int:
    """How many groups there are."""
    groups = visops.nms_match(boxes, scores, threshold)
    assert isinstance(groups, list)
    assert all(g.dtype == torch.int64 and g.dim() == 1 for g in groups)
    arrays = [(t.float() if t.dtype == torch.bfloat16 else t).numpy() for t in (boxes, scores)]
    assert [g.tolist() for g in groups] == reference.nms_match(arrays[0], arrays[1], threshold)
    matched = torch.ops.visops.nms_match(boxes, scores, threshold)
    assert (matched.dtype, matched.shape) == (torch.int64, scores.shape)
    for group in groups:
        assert (matched[group] == group[0]).all()
    return len(groups)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", FLOATING + INTEGER, ids=str)
def test_groups_of_any_dtype_and_layout(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    layouts = itertools.cycle(LAYOUTS.values())
    some = 0
    for count in (0, 1, 2, 9, 63, 64, 65, 130):
        for threshold in (0.0, 0.3, 0.7):
            plain = torch.from_numpy(BOXES["clusters"](rng, count)).abs()
            boxes = next(layouts)((plain / 12).to(dtype))
            scores = every_other(torch.from_numpy(distinct_scores(rng, count)).float())
            some += 1 < check_groups(boxes, scores, threshold) < count
    assert some >= 7


@pytest.mark.matrix
@pytest.mark.parametrize("score", FLOATING, ids=str)
@pytest.mark.parametrize("kind", BOXES)
def test_kinds_of_boxes_and_scores(kind: str, score: torch.dtype) -> None:
    rng = np.random.default_rng(1)
    dtypes, scores = itertools.cycle((torch.float32, torch.float64)), itertools.cycle(SCORES)
    for threshold in THRESHOLDS * 2:
        boxes = torch.from_numpy(BOXES[kind](rng, 30)).to(next(dtypes))
        check_groups(boxes, torch.from_numpy(SCORES[next(scores)](rng, 30)).to(score), threshold)


def test_by_hand() -> None:
    """A box goes to the first kept box that drops it, not to the one it overlaps most."""
    boxes = torch.tensor(
        [
            [0.0, 0.0, 10.0, 10.0],
            [3.0, 0.0, 13.0, 10.0],  # 7 / 13 of the first, and 9 / 11 of the next
            [4.0, 0.0, 14.0, 10.0],  # 6 / 14 of the first
            [50.0, 0.0, 60.0, 10.0],
        ]
    )
    scores = torch.tensor([0.9, 0.2, 0.8, 0.85])
    groups = visops.nms_match(boxes, scores, 0.5)
    assert [g.tolist() for g in groups] == [[0, 1], [3], [2]]
    assert torch.ops.visops.nms_match(boxes, scores, 0.5).tolist() == [0, 0, 2, 3]
    groups = visops.nms_match(boxes, scores, 0.4)
    assert [g.tolist() for g in groups] == [[0, 2, 1], [3]]


@pytest.mark.parametrize("box", [
    [1.0, 0.0, 0.0, 1.0],
    [0.0, 0.0, 0.0, 1.0],
    [NAN, 0.0, 1.0, 1.0],
    [-INF, -INF, INF, INF],
    [0.0, 0.0, 3e38, 3e38],
], ids=str)  # fmt: skip
def test_boxes_that_overlap_nothing_are_groups(box: list[float]) -> None:
    """Each is a group of its own."""
    boxes = torch.tensor([box, UNIT, box, UNIT, [0.0, 0.0, 1.0, 0.9], box])
    groups = visops.nms_match(boxes, -torch.arange(6.0), 0.5)
    assert [g.tolist() for g in groups] == [[0], [1, 3, 4], [2], [5]]


def test_ties_and_nan_scores() -> None:
    boxes = torch.tensor([UNIT]).repeat(7, 1)
    scores = torch.tensor([INF, NAN, 1.0, -NAN, -INF, NAN, INF])
    groups = visops.nms_match(boxes, scores, 0.5)
    assert [g.tolist() for g in groups] == [[1, 3, 5, 0, 6, 2, 4]]
    groups = visops.nms_match(boxes, scores, 1.0)
    assert [g.tolist() for g in groups] == [[1], [3], [5], [0], [6], [2], [4]]


def test_mmcv() -> None:
    """The examples of mmcv's tests, which compare with >=."""
    dets = np.array(
        [
            [49.1, 32.4, 51.0, 35.9, 0.9],
            [49.3, 32.9, 51.0, 35.3, 0.9],
            [35.3, 11.5, 39.9, 14.5, 0.4],
            [35.2, 11.7, 39.7, 15.7, 0.3],
        ],
        np.float32,
    )
    groups = visops.nms_match(dets[:, :4], dets[:, 4], 0.6)
    assert [g.tolist() for g in groups] == [[0, 1], [2, 3]]
    assert visops.nms_match(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), 0.6) == []


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_groups_agree_with_nms(seed: int) -> None:
    """nms keeps the first of each group; every box is in one group, by falling score."""
    for i in range(5 if EMULATED else 40):
        rng = np.random.default_rng([seed, i])
        count = int(rng.integers(0, 120))
        boxes = torch.from_numpy(list(BOXES.values())[i % len(BOXES)](rng, count)).float()
        scores = torch.from_numpy(list(SCORES.values())[i % len(SCORES)](rng, count)).float()
        threshold = THRESHOLDS[rng.integers(0, len(THRESHOLDS))]
        groups = visops.nms_match(boxes, scores, threshold)
        kept = visops.nms(boxes, scores, threshold)
        assert [int(g[0]) for g in groups] == kept.tolist()
        assert sorted(int(i) for g in groups for i in g) == list(range(count))
        position = torch.empty(count, dtype=torch.int64)
        position[scores.sort(descending=True, stable=True)[1]] = torch.arange(count)
        assert all((position[g].diff() > 0).all() for g in groups)


def test_larger_groups() -> None:
    """Each box goes to the first kept box that overlaps it in torchvision's matrix."""
    torchvision = pytest.importorskip("torchvision")
    rng = np.random.default_rng(3)
    for kind in ("uniform", "clusters", "pile", "mixed"):
        boxes = torch.from_numpy(BOXES[kind](rng, 2000))
        scores = torch.from_numpy(distinct_scores(rng, 2000))
        kept = visops.nms(boxes, scores, 0.35)
        over = torchvision.ops.box_iou(boxes[kept], boxes) > 0.35
        expected = kept[over.int().argmax(0)]
        assert torch.equal(torch.ops.visops.nms_match(boxes, scores, 0.35), expected)


def test_float64_is_compared_in_float64() -> None:
    """An overlap that lies above the threshold by less than float32 can tell."""
    boxes = torch.tensor([[0, 0, 1, 1], [0, 0, 1, 0.5 + 1e-12]], dtype=torch.float64)
    scores = torch.tensor([0.9, 0.8], dtype=torch.float64)
    classes = torch.zeros(2, dtype=torch.int64)
    for exact, kept in ((boxes, [0]), (boxes.float(), [0, 1])):
        own = scores.to(exact.dtype)
        assert visops.nms(exact, own, 0.5).tolist() == kept
        assert visops.batched_nms(exact, own, classes, 0.5).tolist() == kept
        assert visops.nms_padded(exact[None], own[None], 0.5, 2)[1].tolist() == [len(kept)]
        assert len(visops.nms_match(exact, own, 0.5)) == len(kept)
        matched = torch.ops.visops.nms_match(exact, own, 0.5)
        assert matched.tolist() == [0, 0] if kept == [0] else [0, 1]
        soft = visops.soft_nms(exact, own, 0.5, method="hard")[0]
        assert soft.tolist() == kept
