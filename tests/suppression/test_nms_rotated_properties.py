"""Properties of the suppression of rotated boxes, over random problems."""

import math
from typing import Any

import numpy as np
import torch
import visops
from hypothesis import example, given, settings
from hypothesis import strategies as st
from references import rotated as reference
from torch import Tensor

from suppression.nms_cases import SCORES, THRESHOLDS, distinct_scores, from_corners

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


@few
@given(seeds)
def test_other_upright_boxes(seed: int) -> None:
    for i in range(FEW):
        boxes, scores, threshold, rng = problem(seed, i)
        middle, half = boxes[:, :2], boxes[:, 2:4] / 2
        corners = torch.cat([middle - half, middle + half], 1)
        expected = visops.nms(corners, scores, threshold)
        boxes[:, 4] = 0
        assert torch.equal(visops.nms_rotated(boxes, scores, threshold), expected)
        # Quarter turns, with the sides swapped if their number is odd.
        quarters = torch.from_numpy(rng.integers(-4, 5, len(boxes)))
        boxes[:, 4] = quarters * (math.pi / 2)
        odd = quarters % 2 == 1
        boxes[odd] = boxes[odd][:, [0, 1, 3, 2, 4]]
        assert torch.equal(visops.nms_rotated(boxes, scores, threshold), expected)


@settings(max_examples=4)
@given(seeds)
def test_exact_overlaps(seed: int) -> None:
    boxes, scores, threshold, _ = problem(seed, 0, largest=25)
    overlaps = reference.ious(boxes.numpy(), boxes.numpy())
    expected = reference.nms_rotated(overlaps, scores.numpy(), threshold)
    assert visops.nms_rotated(boxes, scores, threshold).tolist() == expected


@few
@given(seeds)
def test_moving_and_turning_everything(seed: int) -> None:
    for i in range(FEW):
        boxes, scores, threshold, rng = problem(seed, i)
        expected = visops.nms_rotated(boxes, scores, threshold)
        angle = float(rng.uniform(-3, 3))
        c, s = math.cos(angle), math.sin(angle)
        moved = boxes.clone()
        moved[:, :2] = boxes[:, :2] @ torch.tensor([[c, s], [-s, c]], dtype=torch.float64)
        moved[:, :2] += torch.from_numpy(rng.uniform(-100, 100, 2))
        moved[:, 4] += angle
        assert torch.equal(visops.nms_rotated(moved, scores, threshold), expected)
        mirrored = boxes * torch.tensor([-1.0, 1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
        assert torch.equal(visops.nms_rotated(mirrored, scores, threshold), expected)


@few
@given(seeds)
def test_equal_boxes_written_differently(seed: int) -> None:
    for i in range(FEW):
        boxes, scores, threshold, rng = problem(seed, i)
        expected = visops.nms_rotated(boxes, scores, threshold)
        turns = torch.from_numpy(rng.integers(-5, 6, len(boxes)))
        other = boxes.clone()
        other[:, 4] += turns * math.pi
        assert torch.equal(visops.nms_rotated(other, scores, threshold), expected)
        swapped = boxes[:, [0, 1, 3, 2, 4]]
        swapped[:, 4] -= math.pi / 2
        assert torch.equal(visops.nms_rotated(swapped, scores, threshold), expected)


@few
@given(seeds)
def test_order_does_not_matter_if_scores_differ(seed: int) -> None:
    for i in range(FEW):
        boxes, scores, threshold, rng = problem(seed, i)
        order = torch.from_numpy(rng.permutation(len(scores)))
        kept = visops.nms_rotated(boxes, scores, threshold)
        assert torch.equal(order[visops.nms_rotated(boxes[order], scores[order], threshold)], kept)
        again = visops.nms_rotated(boxes[kept], scores[kept], threshold)
        assert torch.equal(again, torch.arange(len(kept)))
        most = int(rng.integers(0, 9))
        found = visops.nms_rotated(boxes, scores, threshold, max_output=most)
        assert torch.equal(found, kept[:most])


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
