"""Groups of suppressed boxes, against the reference, nms and mmcv's documented examples."""

import itertools
from collections.abc import Callable
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
)

EMULATED = visops.build_info()["cpu"] == "cuda_emulated"
NAN, INF = float("nan"), float("inf")
UNIT = [0.0, 0.0, 1.0, 1.0]


def check(boxes: Tensor, scores: Tensor, threshold: float) -> int:
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
def test_dtypes_and_layouts(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    layouts = itertools.cycle(LAYOUTS.values())
    some = 0
    for count in (0, 1, 2, 9, 63, 64, 65, 130):
        for threshold in (0.0, 0.3, 0.7):
            plain = torch.from_numpy(BOXES["clusters"](rng, count)).abs()
            boxes = next(layouts)((plain / 12).to(dtype))
            scores = every_other(torch.from_numpy(distinct_scores(rng, count)).float())
            some += 1 < check(boxes, scores, threshold) < count
    assert some >= 7


@pytest.mark.matrix
@pytest.mark.parametrize("score", FLOATING, ids=str)
@pytest.mark.parametrize("kind", BOXES)
def test_kinds_of_boxes_and_scores(kind: str, score: torch.dtype) -> None:
    rng = np.random.default_rng(1)
    dtypes, scores = itertools.cycle((torch.float32, torch.float64)), itertools.cycle(SCORES)
    for threshold in THRESHOLDS * 2:
        boxes = torch.from_numpy(BOXES[kind](rng, 30)).to(next(dtypes))
        check(boxes, torch.from_numpy(SCORES[next(scores)](rng, 30)).to(score), threshold)


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
def test_boxes_that_overlap_nothing(box: list[float]) -> None:
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


@pytest.mark.filterwarnings("error")  # torch's, of arrays that can't be written to
@pytest.mark.parametrize("reorder", [np.asarray, np.asfortranarray, lambda a: a[::-1][::-1, ::1]])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "i8"])
def test_arrays(dtype: str, reorder: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(2)
    boxes = reorder((np.abs(BOXES["clusters"](rng, 90)) / 9).astype(dtype))
    boxes.flags.writeable = False
    scores = np.repeat(distinct_scores(rng, 90), 2)[::2]
    groups = visops.nms_match(boxes, scores, 0.4)
    assert all(isinstance(g, np.ndarray) and g.dtype == np.int64 for g in groups)
    expected = visops.nms_match(
        torch.from_numpy(boxes.copy()), torch.from_numpy(scores.copy()), 0.4
    )
    assert [g.tolist() for g in groups] == [g.tolist() for g in expected]


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


def test_larger() -> None:
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
