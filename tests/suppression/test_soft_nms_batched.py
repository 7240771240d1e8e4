"""batched_soft_nms against loops over classes, and long lists on CUDA."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import take_tally, use_slot
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
    batch_boxes,
    distinct_scores,
    every_other,
    from_corners,
    tied_scores,
)
from suppression.rotated_cases import BOXES as ROTATED

# A call takes milliseconds under emulation.
EMULATED = visops.build_info()["cpu"] == "cuda_emulated"
METHODS: tuple[Any, ...] = ("linear", "gaussian", "hard")

# Called with lists of tensors and dicts, which the type checker can't follow.
batched: Any = visops.batched_soft_nms

OPTIONS: list[dict[str, Any]] = [
    {},
    {"max_output": 5},
    {"max_output": 0},
    {"min_score": 0.3},
    {"min_score": 0.0, "iou_threshold": 0.5},
    {"max_output": 3, "min_score": 0.25, "iou_threshold": 0.0},
    {"max_output": 10**9, "min_score": 2.0},
]


def assert_same(found: Any, expected: Any, method: str) -> None:
    assert (found[0].dtype, found[0].is_contiguous()) == (torch.int64, True)
    assert_same_scores(found, expected, method)


def problem(count: int, ids: int, kind: str = "clusters", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    boxes = torch.from_numpy(BOXES[kind](rng, count)).float()
    scores = torch.from_numpy(distinct_scores(rng, count)).float()
    return boxes, scores, torch.from_numpy(rng.integers(0, max(ids, 1), count))


def per_group(boxes: Tensor, scores: Tensor, groups: Tensor, **options: Any) -> Any:
    """soft_nms, group by group, merged by score, then index."""
    rows, values = [torch.zeros(0, dtype=torch.int64)], [scores[:0]]
    for group in groups.unique():
        members = (groups == group).nonzero()[:, 0]
        kept, new = visops.soft_nms(boxes[members], scores[members], **options)
        rows.append(members[kept])
        values.append(new)
    index, order = torch.cat(rows).sort()
    new, falling = torch.cat(values)[order].sort(descending=True, stable=True)
    return index[falling], new


@pytest.mark.parametrize("ids", [1, 2, 7, 80, 5000])
@pytest.mark.parametrize("kind", BOXES)
def test_groups(kind: str, ids: int) -> None:
    turn = ids + len(kind)
    large = (300, 1500)[turn % 2] if ids < 5000 else 300
    options: tuple[dict[str, Any], ...]
    options = ({}, {"method": "gaussian", "min_score": 0.25}, {"method": "hard"})
    for i, count in enumerate((0, 1, 2, 65, *(() if EMULATED else (large,)))):
        boxes, scores, idxs = problem(count, ids, kind)
        for chosen in options if count == 65 else [options[(turn + i) % 3]]:
            found = batched(boxes, scores, idxs, **chosen)
            expected = per_group(boxes, scores, idxs, **chosen)
            for ours, wanted in zip(found, expected, strict=True):
                assert torch.equal(ours, wanted)


@pytest.mark.matrix
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("score", SCORES)
def test_groups_against_the_reference(score: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    for i, threshold in enumerate(THRESHOLDS):
        method = METHODS[(i + [*SCORES].index(score)) % 3]
        boxes, idxs = BOXES["clusters"](rng, 25), rng.integers(0, 3, 25)
        scores = SCORES[score](rng, 25)
        chosen = {"iou_threshold": threshold, **options, "method": method}
        expected = reference.soft_nms_of_groups(boxes, scores, idxs.tolist(), **chosen)
        tensors = [torch.from_numpy(a) for a in (boxes, scores, idxs)]
        assert_same(batched(*tensors, **chosen), expected, method)


IDS = torch.tensor([0, -1, 2**63 - 1, -(2**63), 2**62, 5, -7, 2**31, -(2**31), 2**53, 2**53 + 1])


def test_any_ids() -> None:
    """Ids need not be small, dense or positive."""
    boxes, scores, idxs = problem(400, len(IDS))
    expected = batched(boxes, scores, idxs)
    for names in (IDS, IDS.flip(0)):
        found = batched(boxes, scores, names[idxs])
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    kept, values = batched(boxes[:1].expand(11, 4), scores[:11], IDS, min_score=0.0)
    assert torch.equal(values, scores[:11].sort(descending=True)[0])
    assert len(kept) == 11


@pytest.mark.parametrize("dtype", INTEGER, ids=str)
def test_dtypes_of_ids(dtype: torch.dtype) -> None:
    boxes, scores, idxs = problem(200, 5)
    expected = batched(boxes, scores, idxs)
    found = batched(boxes, scores, every_other(idxs.to(dtype)))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("dtype", FLOATING + INTEGER, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_dtypes_of_boxes(layout: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(2)
    plain = torch.from_numpy(np.stack([BOXES["clusters"](rng, 90) for _ in range(3)])).abs() / 12
    boxes = plain.to(dtype)
    scores = torch.from_numpy(distinct_scores(rng, (3, 90, 2))).float()
    wide = boxes.float() if dtype.is_floating_point and dtype != torch.float64 else boxes.double()
    options: dict[str, Any] = {"method": "linear", "min_score": 0.3}
    expected = batched(wide, scores, None, **options)
    assert 40 < len(expected[0]) < 400
    laid = LAYOUTS[layout](boxes)
    for values in (scores, scores.mT.contiguous().mT, every_other(scores)):
        found = batched(laid, values, None, **options)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    flat, own = LAYOUTS[layout](boxes[1]), scores[1, :, 0]
    first = batched(flat, own, torch.zeros(90, dtype=torch.int64), **options)
    alone = visops.soft_nms(wide[1], own, min_score=0.3)
    assert all(torch.equal(a, b) for a, b in zip(first, alone, strict=True))


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_dtypes_of_scores(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(3)
    boxes = torch.from_numpy(batch_boxes(rng, 7, 20)).to(dtype)
    scores = torch.from_numpy(distinct_scores(rng, (7, 20, 3))).to(dtype)
    for method in METHODS:
        rows, values = batched(boxes, scores, None, method=method)
        assert values.dtype == dtype
        for image in range(7):
            for c in range(3):
                own = visops.soft_nms(boxes[image], scores[image, :, c], method=method)
                chosen = (rows[:, 0] == image) & (rows[:, 1] == c)
                assert torch.equal(rows[chosen, 2], own[0])
                assert torch.equal(values[chosen], own[1])
            falling = values[rows[:, 0] == image]
            assert torch.equal(falling, falling.sort(descending=True)[0])


@pytest.mark.matrix
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("score", SCORES)
def test_images(score: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    methods = itertools.cycle(METHODS)
    for batch, count in ((7, 12), (1, 30), (3, 8), (2, 0), (0, 5), (3, 1)):
        method = next(methods)
        boxes = batch_boxes(rng, batch, count)
        scores, idxs = SCORES[score](rng, (batch, count)), rng.integers(-2, 1, (batch, count))
        tensors = [torch.from_numpy(a) for a in (boxes, scores)]
        for groups in (None, idxs):
            ids = None if groups is None else torch.from_numpy(groups)
            found = batched(*tensors, ids, method=method, **options)
            assert found[0].shape == (len(found[1]), 2)
            expected = reference.soft_nms_of_images(boxes, scores, groups, method=method, **options)
            assert_same(found, expected, method)


@pytest.mark.matrix
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("score", SCORES)
def test_classes(score: str, options: dict[str, Any]) -> None:
    """Ties within an image go to the lower class, then to the lower box."""
    rng = np.random.default_rng(5)
    methods = itertools.cycle(METHODS)
    sizes = ((7, 8, 3), (2, 9, 2), (2, 15, 1), (2, 0, 3), (2, 3, 0), (1, 1, 5))
    for batch, count, classes in sizes:
        method = next(methods)
        boxes = batch_boxes(rng, batch, count)
        scores = SCORES[score](rng, (batch, count, classes))
        expected = reference.soft_nms_of_classes(boxes, scores, method=method, **options)
        tensors = [torch.from_numpy(a) for a in (boxes, scores)]
        found = batched(*tensors, None, method=method, **options)
        assert found[0].shape == (len(found[1]), 3)
        assert_same(found, expected, method)


def test_ties_by_class_then_box() -> None:
    """Scores that were equal from the start, and scores that become equal."""
    one, half, far = [0.0, 0, 1, 1], [0.0, 0, 1, 0.5], [9.0, 9, 10, 10]
    boxes = torch.tensor([[far, half, one]])
    scores = torch.tensor([[[0.25, 0.5], [0.5, 0.25], [1.0, 1.0]]])
    rows, values = batched(boxes, scores, None, iou_threshold=0.25)
    assert rows.tolist() == [[0, 0, 2], [0, 1, 2], [0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 1, 1]]
    assert values.tolist() == [1.0, 1.0, 0.5, 0.25, 0.25, 0.125]
    rows, values = batched(boxes, scores, None, iou_threshold=0.25, max_output=4)
    assert rows.tolist() == [[0, 0, 2], [0, 1, 2], [0, 1, 0], [0, 0, 0]]


def test_right_where_the_coordinate_trick_is_wrong() -> None:
    """mmcv adds the class times the largest coordinate."""
    rng = np.random.default_rng(6)
    corner = rng.uniform(8000, 8050, (600, 2))
    boxes = torch.from_numpy(np.concatenate([corner, corner + rng.uniform(1, 4, (600, 2))], 1))
    boxes = boxes.float()
    scores = torch.from_numpy(distinct_scores(rng, 600)).float()
    idxs = torch.from_numpy(rng.integers(0, 4, 600)) * 400
    expected = per_group(boxes, scores, idxs)
    found = batched(boxes, scores, idxs)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    offset = boxes + (idxs * (boxes.max() + 1))[:, None]
    trick = visops.soft_nms(offset, scores)
    assert len(trick[0]) != len(found[0]) or not torch.equal(trick[1], found[1])


def test_many_images_and_classes() -> None:
    rng = np.random.default_rng(7)
    count, classes = (60, 4) if EMULATED else (200, 20)
    boxes = torch.from_numpy(batch_boxes(rng, 4, count)).float()
    scores = torch.from_numpy(distinct_scores(rng, (4, count, classes))).float()
    most = count // 2
    rows, values = batched(boxes, scores, None, max_output=most, min_score=0.2)
    for image in range(4):
        own = rows[:, 0] == image
        assert own.sum() == most
        least = float(values[own][-1])
        for c in range(classes):
            kept, new = visops.soft_nms(boxes[image], scores[image, :, c], min_score=0.2)
            chosen = own & (rows[:, 1] == c)
            # Among the image's best half, this class has those above the last one.
            its = int(chosen.sum())
            assert torch.equal(rows[chosen][:, 2], kept[:its])
            assert torch.equal(values[chosen], new[:its])
            assert (new[its:] <= least).all()


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
