"""Suppression of rotated boxes: against exact polygons, by hand, and at random."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import example, given, settings
from hypothesis import strategies as st
from references import rotated as reference
from torch import Tensor

from suppression.nms_cases import (
    FLOATING,
    SCORES,
    THRESHOLDS,
    distinct_scores,
    every_other,
    from_corners,
    transposed,
)
from suppression.rotated_cases import BOXES, INF, NAN, PI, clustered_boxes, grid_boxes, thresholds

SQUARE = [0.0, 0.0, 2.0, 2.0, 0.0]


@pytest.mark.matrix
@pytest.mark.parametrize("kind", BOXES)
def test_exact_overlaps(kind: str) -> None:
    rng = np.random.default_rng(0)
    some = 0
    for count in (1, 2, 9, 24):
        boxes = BOXES[kind](rng, count)
        overlaps = reference.ious(boxes, boxes)
        for score in SCORES.values():
            scores = score(rng, count)
            for threshold in thresholds(rng, overlaps):
                kept = visops.nms_rotated(
                    torch.from_numpy(boxes), torch.from_numpy(scores), threshold
                )
                assert (kept.dtype, kept.dim(), kept.is_contiguous()) == (torch.int64, 1, True)
                assert kept.tolist() == reference.nms_rotated(overlaps, scores, threshold)
                some += 1 < len(kept) < count
    assert some >= 15


@pytest.mark.matrix
@pytest.mark.parametrize("kind", BOXES)
def test_groups_and_limits(kind: str) -> None:
    rng = np.random.default_rng(1)
    boxes, idxs = BOXES[kind](rng, 24), rng.integers(-1, 2, 24)
    overlaps = reference.ious(boxes, boxes)
    for threshold in thresholds(rng, overlaps):
        scores = SCORES["wild"](rng, 24)
        tensors = torch.from_numpy(boxes), torch.from_numpy(scores)
        for limits in ({}, {"max_output": 7}, {"score_threshold": 0.5}):
            given: Any = limits
            expected = reference.nms_rotated(overlaps, scores, threshold, **given)
            assert visops.nms_rotated(*tensors, threshold, **given).tolist() == expected
            expected = reference.nms_rotated(overlaps, scores, threshold, idxs, **given)
            ids = torch.from_numpy(idxs)
            assert visops.nms_rotated(*tensors, threshold, idxs=ids, **given).tolist() == expected


def kept(boxes: Any, threshold: float = 0.5, dtype: torch.dtype = torch.float64) -> list[int]:
    """The kept boxes; scores fall from box to box."""
    scores = torch.arange(len(boxes), 0, -1.0)
    found: list[int] = visops.nms_rotated(
        torch.tensor(boxes, dtype=dtype), scores, threshold
    ).tolist()
    return found


def between(low: float, high: float, *boxes: list[float]) -> bool:
    """Whether the overlap of two boxes is in (low, high]."""
    return kept(boxes, low) == [0] and kept(boxes, high) == [0, 1]


def test_the_angle_is_counter_clockwise() -> None:
    """x' = x cos - y sin: in images, where y points down, it is seen clockwise."""
    long = [0.0, 0.0, 10.0, 1.0, 0.5]
    ahead = [4.0 * math.cos(0.5), 4.0 * math.sin(0.5), 1.0, 0.5, 0.5]
    behind = [4.0 * math.cos(0.5), -4.0 * math.sin(0.5), 1.0, 0.5, -0.5]
    assert between(0.0499, 0.0501, long, ahead)
    assert kept([long, behind], 0.0) == [0, 1]


def test_known_overlaps() -> None:
    near = 1e-12
    # A square and the same turned by 45 degrees: a regular octagon.
    octagon = 8 * (math.sqrt(2) - 1)
    ratio = octagon / (8 - octagon)
    assert between(ratio - near, ratio + near, SQUARE, [0, 0, 2, 2, PI / 4])
    # Half of the square is cut off.
    third = [1.0, 0.0, 2.0, 2.0, 0.0]
    assert between(1 / 3 - near, 1 / 3 + near, SQUARE, third)
    # A cross.
    cross = [0.0, 0.0, 6.0, 1.0, 0.3], [0.0, 0.0, 1.0, 6.0, 0.3]
    assert between(1 / 11 - near, 1 / 11 + near, *cross)
    # detectron2 #2167: float32 there, 0.585 for boxes that are nearly the same.
    almost = [[2563.7449, 436.7901, 2174.3008, 214.0924, 115.1145]] * 2
    almost[1] = [2563.7449, 436.7901, 2174.3006, 214.0924, 115.1140]
    boxes = [[*b[:4], math.radians(b[4])] for b in almost]
    assert kept(boxes, 0.99) == [0]
    assert kept(boxes, 0.99, torch.float32) == [0]


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_copies_overlap_by_one(dtype: torch.dtype) -> None:
    """mmcv #2621 gives 1 / 3 for some. All copies go; with a threshold of 1, none."""
    rng = np.random.default_rng(2)
    known = [
        [160.0, 153.0, 230.0, 23.0, -37.0],
        [190.0, 127.0, 80.0, 21.0, -46.0],
        [0.0, 0.0, 1e-3, 1e3, 1.0],
    ]
    boxes = torch.from_numpy(np.concatenate([known, clustered_boxes(rng, 60)])).to(dtype)
    for box in boxes:
        copies = box.expand(5, 5)
        almost = float(np.nextafter(1.0, 0))
        assert visops.nms_rotated(copies, torch.zeros(5), almost).tolist() == [0]
        assert visops.nms_rotated(copies, torch.zeros(5), 1.0).tolist() == [0, 1, 2, 3, 4]


def test_equal_boxes_written_differently() -> None:
    """Half a turn, or a quarter turn with the sides swapped, gives 1 up to the last digits."""
    rng = np.random.default_rng(3)
    for x, y, width, height, angle in clustered_boxes(rng, 60).tolist():
        box = [x, y, width, height, angle]
        for other in (
            [x, y, width, height, angle + PI],
            [x, y, width, height, angle - 20 * PI],
            [x, y, height, width, angle + PI / 2],
        ):
            assert kept([box, other], 1 - 1e-12) == [0]


def test_far_apart() -> None:
    far = [[0.0, 0.0, 3.0, 2.0, 0.3], [100.0, 0.0, 3.0, 2.0, 0.9], [1e300, 1e300, 3.0, 2.0, 0.9]]
    assert kept(far, 0.0) == [0, 1, 2]
    # The circles around them meet, the boxes do not.
    assert kept([[0, 0, 10, 1, 0.0], [0, 4, 10, 1, 0.0]], 0.0) == [0, 1]
    assert kept([[0, 0, 10, 1, PI / 4], [0, 4, 10, 1, PI / 4]], 0.0) == [0, 1]
    assert kept([SQUARE, [2.0, 0.0, 2.0, 2.0, 0.0]], 0.0) == [0, 1]  # touches
    assert kept([SQUARE, [1.999999, 0.0, 2.0, 2.0, 0.0]], 0.0) == [0]


def test_a_ratio_must_exceed_the_threshold() -> None:
    half = [0.0, 0.5, 2.0, 1.0, 0.0]
    assert kept([SQUARE, half], 0.5) == [0, 1]
    assert kept([SQUARE, half], float(np.nextafter(0.5, 0))) == [0]
    # Threshold and overlap are doubles, whatever the dtype.
    tenth = [0.0, 0.0, 10.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0, 0.0]
    assert kept(tenth, 0.1, torch.float32) == [0, 1]
    assert kept(tenth, float(np.nextafter(0.1, 0)), torch.float32) == [0]


@pytest.mark.parametrize("kind", ["turned", "clusters", "thin", "odd"])
def test_threshold_of_nothing(kind: str) -> None:
    """Boxes that lie apart overlap by exactly 0, however close: rounding adds nothing."""
    apart = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        boxes = BOXES[kind](rng, 24)
        overlaps = reference.ious(boxes, boxes)
        assert not ((overlaps > 0) & (overlaps < 1e-12)).any()
        apart += (overlaps == 0).sum()
        found = visops.nms_rotated(torch.from_numpy(boxes), -torch.arange(24.0), 0.0)
        assert found.tolist() == reference.nms_rotated(overlaps, -np.arange(24.0), 0.0)
    assert apart > 100


@pytest.mark.parametrize("angle", [1e-310, 5e-324, -5e-324, 1e-300, 1e-17])
def test_angles_next_to_none(angle: float) -> None:
    """Nearly upright edges, through each other's corners."""
    rng = np.random.default_rng(4)
    boxes = grid_boxes(rng, 36)
    boxes[:, 4] = rng.choice([0.0, angle], 36)
    overlaps = reference.ious(boxes, boxes)
    for threshold in (1e-9, 0.05, 0.28, 0.51):
        found = visops.nms_rotated(torch.from_numpy(boxes), -torch.arange(36.0), threshold)
        assert found.tolist() == reference.nms_rotated(overlaps, -np.arange(36.0), threshold)


@pytest.mark.parametrize("angle", [50.0, -1e4, 99999.0, 1e5, -1e9, 1e22, 1e308])
def test_many_turns(angle: float) -> None:
    """Right up to 100,000 radians; beyond, a turn is float64's 2 pi."""
    turn = angle if abs(angle) < 1e5 else math.fmod(angle, 2 * PI)
    for off in (0.0, 0.2, 1.5):
        few = reference.cosine_and_sine(Fraction(turn))
        box = [1.0, 2.0, 6.0, 2.0, angle]
        other = [1.0, 2.0, 6.0, 2.0, math.atan2(few[1], few[0]) + off]
        ratio = reference.iou(
            reference.rectangle([1.0, 2.0, 6.0, 2.0, 0.0]),
            reference.rectangle([1.0, 2.0, 6.0, 2.0, off]),
        )
        near = float(ratio)
        assert between(near - 1e-11, min(near + 1e-11, 1.0), box, other)


@pytest.mark.parametrize("exponent", [-480, -100, -40, 40, 100, 480])
def test_very_small_and_very_large_boxes(exponent: int) -> None:
    """Only the angle is not scaled."""
    rng = np.random.default_rng(5)
    boxes, scores = clustered_boxes(rng, 80), distinct_scores(rng, 80)
    scale = np.array([2.0**exponent] * 4 + [1.0])
    for dtype in (torch.float64, torch.float32)[: 2 if abs(exponent) <= 100 else 1]:
        plain = torch.from_numpy(boxes).to(dtype)
        expected = visops.nms_rotated(plain, torch.from_numpy(scores), 0.3)
        scaled = torch.from_numpy(plain.numpy() * scale).to(dtype)
        assert torch.equal(visops.nms_rotated(scaled, torch.from_numpy(scores), 0.3), expected)


def test_far_from_the_origin() -> None:
    """Only differences of centres count."""
    rng = np.random.default_rng(6)
    boxes = np.round(clustered_boxes(rng, 80) * 64) / 64
    scores = torch.from_numpy(distinct_scores(rng, 80))
    expected = visops.nms_rotated(torch.from_numpy(boxes), scores, 0.3)
    for shift in (2.0**20, -(2.0**30), 2.0**40):
        moved = torch.from_numpy(boxes + np.array([shift, -shift, 0, 0, 0]))
        assert torch.equal(visops.nms_rotated(moved, scores, 0.3), expected)


@pytest.mark.parametrize("box", [
    [0.0, 0.0, 0.0, 2.0, 0.0],  # a side that is not positive
    [0.0, 0.0, 2.0, 0.0, 0.5],
    [0.0, 0.0, -2.0, 2.0, 0.5],
    [0.0, 0.0, -2.0, -2.0, 0.5],
    [NAN, 0.0, 2.0, 2.0, 0.0],
    [0.0, NAN, 2.0, 2.0, 0.0],
    [0.0, 0.0, NAN, 2.0, 0.0],
    [0.0, 0.0, 2.0, NAN, 0.0],
    [0.0, 0.0, 2.0, 2.0, NAN],
    [0.0, 0.0, 2.0, 2.0, INF],
    [0.0, 0.0, 2.0, 2.0, -INF],
    [INF, 0.0, 2.0, 2.0, 0.0],
    [0.0, -INF, 2.0, 2.0, 0.0],
    [0.0, 0.0, INF, 2.0, 0.0],
    [0.0, 0.0, INF, INF, 0.0],
    [0.0, 0.0, 1e200, 1e200, 0.0],  # an infinite area
    [0.0, 0.0, 1e-200, 1e-200, 0.0],  # an area of 0
], ids=str)  # fmt: skip
def test_boxes_that_overlap_nothing(box: list[float]) -> None:
    boxes = [box, SQUARE, box, SQUARE, [0.0, 0.0, 2.0, 1.9, 0.0], box]
    for threshold in (0.0, 0.5, 1.0):
        expected = [0, 1, 2, 5] if threshold < 1 else [0, 1, 2, 3, 4, 5]
        assert kept(boxes, threshold) == expected


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_dtypes_and_layouts(dtype: torch.dtype) -> None:
    """All are computed in float64, from the stored numbers."""
    rng = np.random.default_rng(7)
    for count in (0, 1, 2, 63, 64, 65, 200):
        boxes = torch.from_numpy(clustered_boxes(rng, count)).to(dtype)
        values = torch.from_numpy(distinct_scores(rng, count))
        expected = visops.nms_rotated(boxes.double(), values, 0.3)
        wide = torch.full((2 * count, 9), 3.0, dtype=dtype)
        wide[::2, 2:7] = boxes
        for laid in (boxes, transposed(boxes), wide[::2, 2:7]):
            for scores in (values, values.float(), every_other(values)):
                assert torch.equal(visops.nms_rotated(laid, scores, 0.3), expected)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int64], ids=str)
def test_integers(dtype: torch.dtype) -> None:
    """Angles are whole radians."""
    rng = np.random.default_rng(8)
    boxes = torch.from_numpy(rng.integers(1, 20, (100, 5))).to(dtype)
    scores = torch.from_numpy(distinct_scores(rng, 100))
    expected = visops.nms_rotated(boxes.double(), scores, 0.3)
    assert 5 < len(expected) < 95
    assert torch.equal(visops.nms_rotated(boxes, scores, 0.3), expected)


@pytest.mark.parametrize("kind", BOXES)
def test_larger(kind: str) -> None:
    """Against a call for each group."""
    rng = np.random.default_rng(9)
    for count in (257, 1500):
        boxes = torch.from_numpy(BOXES[kind](rng, count))
        scores = torch.from_numpy(SCORES["tied"](rng, count))
        idxs = torch.from_numpy(rng.choice([-(2**63), -1, 5, 2**62], count))
        found = visops.nms_rotated(boxes, scores, 0.4, idxs=idxs)
        keep = torch.zeros(count, dtype=torch.bool)
        for group in idxs.unique():
            members = (idxs == group).nonzero()[:, 0]
            keep[members[visops.nms_rotated(boxes[members], scores[members], 0.4)]] = True
        index = keep.nonzero()[:, 0]
        assert torch.equal(found, index[scores[index].sort(descending=True, stable=True)[1]])
        few = visops.nms_rotated(boxes, scores, 0.4, idxs=idxs, max_output=20)
        assert torch.equal(few, found[:20])
        above = visops.nms_rotated(boxes, scores, 0.4, idxs=idxs, score_threshold=0.0)
        assert torch.equal(above, found[scores[found] > 0])
        # What is kept is kept again.
        assert torch.equal(
            visops.nms_rotated(boxes[found], scores[found], 0.4, idxs=idxs[found]),
            torch.arange(len(found)),
        )


@pytest.mark.parametrize("kind", BOXES)
def test_every_pair_counts(kind: str) -> None:
    """Kernels look only where boxes can be: the same as with the matrix of all overlaps."""
    rng = np.random.default_rng(10)
    boxes = torch.from_numpy(BOXES[kind](rng, 1500))
    scores = torch.from_numpy(distinct_scores(rng, 1500))
    overlaps = visops.box_iou_rotated(boxes, boxes).nan_to_num(0).numpy()
    for threshold in (0.013, 0.07, 0.31, 0.57, 0.83):
        found = visops.nms_rotated(boxes, scores, threshold)
        assert found.tolist() == reference.nms_rotated(overlaps, scores.numpy(), threshold)


# A call takes milliseconds under emulation.
EMULATED = visops.build_info()["cpu"] == "cuda_emulated"
FEW = 2 if EMULATED else 15
few = settings(max_examples=6)
seeds = st.integers(0, 2**32 - 1)


def random_boxes(rng: np.random.Generator, count: int) -> np.ndarray:
    position = rng.uniform(0, 3.0 * max(count, 1) ** 0.5, (count, 2))
    return np.c_[position, rng.uniform(1, 9, (count, 2)), rng.uniform(-7, 7, count)]


def problem(seed: int, i: int, largest: int = 60) -> tuple[Tensor, Tensor, float, Any]:
    """Boxes, distinct scores, and a threshold that no overlap equals."""
    rng = np.random.default_rng([seed, i])
    count = int(rng.integers(0, largest))
    boxes = torch.from_numpy(random_boxes(rng, count))
    return boxes, torch.from_numpy(distinct_scores(rng, count)), float(rng.uniform(0.02, 0.8)), rng


@few
@given(seeds)
def test_upright_boxes_agree_with_nms(seed: int) -> None:
    """Ties included, where nothing is rounded: on whole numbers times a power of two."""
    for i in range(FEW):
        rng = np.random.default_rng([seed, i])
        count = int(rng.integers(0, 80))
        corner = rng.integers(-6, 7, (count, 2)) * 1.0
        boxes = from_corners(corner, rng.integers(0, 7, (count, 2))) * 2.0 ** rng.integers(-9, 9)
        scores = torch.from_numpy(SCORES["wild"](rng, count))
        middle, size = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
        turned = torch.from_numpy(np.c_[middle, size, np.zeros(count)])
        for threshold in THRESHOLDS:
            expected = visops.nms(torch.from_numpy(boxes), scores, threshold)
            assert torch.equal(visops.nms_rotated(turned, scores, threshold), expected)
            # One angle for boxes that share a centre: no distance changes.
            some = turned[turned[:, :2].eq(turned[:1, :2]).all(1)]
            own = scores[: len(some)]
            expected = visops.nms_rotated(some, own, threshold)
            some[:, 4] = float(rng.uniform(-4, 4))
            assert torch.equal(visops.nms_rotated(some, own, threshold), expected)


@settings(max_examples=4)
@given(seeds)
def test_exact_overlaps_at_random(seed: int) -> None:
    boxes, scores, threshold, _ = problem(seed, 0, largest=25)
    overlaps = reference.ious(boxes.numpy(), boxes.numpy())
    expected = reference.nms_rotated(overlaps, scores.numpy(), threshold)
    assert visops.nms_rotated(boxes, scores, threshold).tolist() == expected


coordinates = st.one_of(
    st.floats(),  # of every magnitude, infinite and NaN
    st.sampled_from([0.0, -0.0, 1.0, 2.0, math.pi, math.pi / 2, 5e-324, 1e-310, 1e-289]),
    st.sampled_from([1e-200, 1e-145, 1e154, 1.3e154, 1e308]),
)


@settings(max_examples=20 if EMULATED else 150)
@example([(0.0, 0.0, 1.0, 5e-324, 0.0)], 0.0, torch.float64)  # half of its height is 0
@example([(0.0, 0.0, 1e150, 1.5e-323, 1.0)], 0.9, torch.float64)
@example([(0.0, 0.0, 1e-145, 1e-145, 1.0)], 0.9, torch.float64)
@example([(0.0, 0.0, 1e-200, 1e-120, 1.0)], 0.9, torch.float64)
@given(
    st.lists(st.tuples(*[coordinates] * 5), max_size=12),
    st.sampled_from(THRESHOLDS),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
)
def test_anything_goes(rows: Any, threshold: float, dtype: torch.dtype) -> None:
    """Whatever the numbers: copies of boxes go, unless nothing can overlap them."""
    boxes = torch.tensor(rows, dtype=torch.float64).reshape(-1, 5).to(dtype)
    scores = torch.arange(len(rows), 0, -1.0)
    kept = visops.nms_rotated(boxes, scores, threshold)
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert kept.tolist()[:1] == [0][: len(rows)]
    never = [i for i, box in enumerate(boxes) if reference.is_inert(box)]
    assert set(never) <= set(kept.tolist())
    twice = visops.nms_rotated(boxes.repeat(2, 1), torch.cat([scores, scores - 100]), threshold)
    assert torch.equal(twice[twice < len(rows)], kept)
    assert twice.tolist()[len(kept) :] == [
        i + len(rows) for i in range(len(rows)) if i in never or (threshold == 1 and i in kept)
    ]
