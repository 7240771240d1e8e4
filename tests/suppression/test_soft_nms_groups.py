"""Soft suppression of long lists on CUDA: groups of neighbours, and the order by place.

Emulated kernels have small constants: lists of 100 boxes and more (400 with ids) are sorted by
place, and segments of more than 192 boxes (64 in float64) have groups. Their results are those of
the CPU's kernels.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import take_tally, use_slot
from torch import Tensor

from suppression.nms_cases import BOXES, SCORES, distinct_scores, from_corners, tied_scores
from suppression.rotated_cases import BOXES as ROTATED

METHODS = ("linear", "gaussian", "hard")
NAN, INF = float("nan"), float("inf")


def check(function: Callable[..., tuple[Tensor, Tensor]], *tensors: Any, **options: Any) -> Tensor:
    """The same on the CPU and under emulation; returns what is kept."""
    with use_slot("default"):
        expected = function(*tensors, **options)
    with use_slot("cuda_emulated"):
        found = function(*tensors, **options)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])
    return found[0]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", BOXES)
def test_kinds_of_boxes_and_scores(kind: str, score: str) -> None:
    turn = [*BOXES].index(kind) + [*SCORES].index(score)
    for i, count in enumerate((90, 100, 192, 193, 255, 450)):
        rng = np.random.default_rng([turn, i])
        dtype = (torch.float32, torch.float64)[(turn + i) % 2 if count < 193 else 0]
        boxes = torch.from_numpy(BOXES[kind](rng, count)).to(dtype)
        scores = torch.from_numpy(SCORES[score](rng, count)).to(dtype)
        options: dict[str, Any] = {
            "method": METHODS[(turn + i) % 3],
            "iou_threshold": (0.0, 0.1, 0.3, 0.6)[(turn + i) % 4],
            "min_score": (0.0, 0.05)[i % 2],
            "max_output": (None, 70)[i // 2 % 2],
        }
        check(visops.soft_nms, boxes, scores, **options)


@pytest.mark.parametrize("kind", ROTATED)
def test_rotated(kind: str) -> None:
    for i, count in enumerate((64, 65, 100, 230)):
        rng = np.random.default_rng([[*ROTATED].index(kind), i])
        boxes = torch.from_numpy(ROTATED[kind](rng, count))
        scores = torch.from_numpy(distinct_scores(rng, count))
        options: dict[str, Any] = {"method": METHODS[i % 3], "iou_threshold": 0.0, "min_score": 0.0}
        check(visops.soft_nms_rotated, boxes, scores, **options)


def test_rotated_boxes_that_touch_with_their_corners() -> None:
    """Their bounds are far larger than their centres' spread, and end where the corners do."""
    rng = np.random.default_rng(0)
    centre = np.stack([np.arange(300) % 20, np.arange(300) // 20], 1) * 10.0
    side, angle = rng.uniform(13.5, 14.5, (300, 2)), np.full((300, 1), np.pi / 4)
    boxes = torch.from_numpy(np.concatenate([centre, side, angle], 1)[rng.permutation(300)])
    scores = torch.from_numpy(distinct_scores(rng, 300))
    for method in METHODS:
        check(visops.soft_nms_rotated, boxes, scores, method=method, iou_threshold=0.0)


@pytest.mark.parametrize("side", [3.0, 500.0])
def test_a_few_boxes_reach_far(side: float) -> None:
    """A group's bounds hold all of its boxes, not only most."""
    rng = np.random.default_rng(1)
    boxes = from_corners(rng.uniform(0, 400, (400, 2)), rng.uniform(1, 3, (400, 2)))
    far = rng.permutation(400)[:30]
    for i, box in enumerate(far):  # to one of the four sides each
        boxes[box, i % 4] += side if i % 4 > 1 else -side
    scores = torch.from_numpy(distinct_scores(rng, 400)).float()
    tensor = torch.from_numpy(boxes).float()
    kept = check(visops.soft_nms, tensor, scores, method="hard", iou_threshold=0.0)
    assert len(kept) < 395


def test_ties_go_to_the_lower_number() -> None:
    """Wherever the boxes lie, and also where scores fall alike and so tie again."""
    rng = np.random.default_rng(2)
    position = torch.from_numpy(rng.permutation(400))
    corner = torch.stack([position % 20, position // 20], 1) * 2.0
    boxes = torch.cat([corner, corner + 3], 1)  # each overlaps eight others
    for values in (torch.full((400,), 0.5), torch.from_numpy(tied_scores(rng, 400)).float()):
        for method in METHODS:
            options: dict[str, Any] = {"method": method, "min_score": 0.0, "iou_threshold": 0.1}
            kept = check(visops.soft_nms, boxes, values, **options)
            assert int(kept[0]) == int((values == values.max()).nonzero()[0])


@pytest.mark.parametrize("exponent", [-60, -8, 8, 60, 126])
def test_scales(exponent: int) -> None:
    """Sums of coordinates may be infinite; what is left decides nothing but the order."""
    rng = np.random.default_rng(3)
    boxes = torch.from_numpy(BOXES["grid"](rng, 300))
    boxes = (boxes / boxes.abs().max() * 2.0**exponent).float()
    if exponent == 126:
        boxes[:, 1::2] *= 2.0**-130  # areas are finite
        boxes[:, 0::2] *= 3.9
    scores = torch.from_numpy(distinct_scores(rng, 300)).float()
    assert len(check(visops.soft_nms, boxes, scores, iou_threshold=0.1, min_score=0.2)) < 250


@pytest.mark.parametrize("box", [
    [NAN, 0.0, 1.0, 1.0],
    [-INF, -INF, INF, INF],
    [5.0, 0.0, 1.0, 9.0],
    [2.0, 2.0, 2.0, 5.0],
], ids=str)  # fmt: skip
def test_inert_boxes_are_kept_in_turn(box: list[float]) -> None:
    """They have no place, and no bounds in which their group could look for them."""
    rng = np.random.default_rng(4)
    boxes = torch.from_numpy(BOXES["clusters"](rng, 300)).float()
    scores = torch.from_numpy(distinct_scores(rng, 300)).float()
    for inert in (torch.arange(0, 300, 3), torch.arange(300)):
        boxes[inert] = torch.tensor(box)
        for most in (None, 40):
            kept = check(visops.soft_nms, boxes, scores, max_output=most)
            assert len(set(kept.tolist()) & set(inert.tolist())) >= 10


@pytest.mark.parametrize(
    "sizes", [(200, 7, 203, 1, 230), (1,) * 40 + (300,), (199, 201), (31, 33, 65)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_segments_that_share_a_group(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    rng = np.random.default_rng(5)
    idxs = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    boxes = torch.from_numpy(BOXES["clusters"](rng, len(idxs))).to(dtype)
    scores = torch.from_numpy(tied_scores(rng, len(idxs))).to(dtype)
    for ids in (idxs, idxs[torch.from_numpy(rng.permutation(len(idxs)))]):
        for most in (None, 50):
            options: dict[str, Any] = {"max_output": most, "min_score": 0.01}
            check(visops.batched_soft_nms, boxes, scores, ids, **options)


def test_images_and_classes() -> None:
    rng = np.random.default_rng(6)
    boxes = torch.from_numpy(np.stack([BOXES["clusters"](rng, 410) for _ in range(2)])).float()
    scores = torch.from_numpy(distinct_scores(rng, (2, 410, 3))).float()
    ids = torch.from_numpy(rng.integers(0, 2, (2, 410)))
    for most in (None, 60):
        check(visops.batched_soft_nms, boxes, scores, None, max_output=most)
        check(visops.batched_soft_nms, boxes, scores[..., 0], None, max_output=most)
        check(visops.batched_soft_nms, boxes, scores[..., 0], ids, max_output=most)


def overlaps_of(boxes: Tensor, scores: Tensor) -> float:
    """The overlaps that a call computes, by the pairs of a kept box and a candidate."""
    with use_slot("cuda_emulated"):
        take_tally()
        kept, _ = visops.soft_nms(boxes, scores)
        return take_tally() / (len(kept) * len(boxes))


def test_most_overlaps_are_not_computed() -> None:
    """Without bounds or an order by place, half of the pairs are."""
    rng = np.random.default_rng(7)
    boxes = from_corners(rng.uniform(0, 1000, (1000, 2)), rng.uniform(5, 65, (1000, 2)))
    scores = torch.from_numpy(distinct_scores(rng, 1000)).float()
    for moved in (boxes, boxes - 500, boxes / 1000):  # the order is by bits of float32
        assert overlaps_of(torch.from_numpy(moved).float(), scores) < 0.1
