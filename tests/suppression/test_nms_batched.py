"""batched_nms and nms_padded, against loops over classes; arguments in odd forms."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from references import nms as reference
from threads import torch_threads
from torch import Tensor

from suppression.nms_cases import (
    BOXES,
    FLOATING,
    INTEGER,
    LAYOUTS,
    SCORES,
    THRESHOLDS,
    batch_boxes,
    distinct_scores,
    every_other,
)

torchvision = pytest.importorskip("torchvision")

# Called with lists of tensors, which the type checker can't follow.
batched_nms: Any = visops.batched_nms
nms_padded: Any = visops.nms_padded

LIMITS: list[dict[str, Any]] = [
    {},
    {"max_output": 5},
    {"max_output": 0},
    {"score_threshold": 0.3},
    {"max_output": 3, "score_threshold": 0.5},
    {"max_output": 10**9, "score_threshold": 2.0},
]


def per_group(boxes: Tensor, scores: Tensor, groups: Tensor, iou_threshold: float) -> Tensor:
    """torchvision's suppression, group by group, merged by score."""
    keep = torch.zeros(len(scores), dtype=torch.bool)
    for group in groups.unique():
        members = (groups == group).nonzero()[:, 0]
        keep[members[torchvision.ops.nms(boxes[members], scores[members], iou_threshold)]] = True
    kept = keep.nonzero()[:, 0]
    return kept[scores[kept].sort(descending=True, stable=True)[1]]


def problem(count: int, ids: int, kind: str = "clusters", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    boxes = torch.from_numpy(BOXES[kind](rng, count)).float()
    scores = torch.from_numpy(distinct_scores(rng, count)).float()
    return boxes, scores, torch.from_numpy(rng.integers(0, max(ids, 1), count))


@pytest.mark.matrix
@pytest.mark.parametrize("ids", [1, 2, 7, 80, 5000])
@pytest.mark.parametrize("kind", BOXES)
def test_groups(kind: str, ids: int) -> None:
    large = (300, 1500)[(ids + len(kind)) % 2]
    for count in (0, 1, 2, 65, large):
        boxes, scores, idxs = problem(count, ids, kind)
        for threshold in (0.0, 0.5) if count == 65 else (0.5,):
            expected = per_group(boxes, scores, idxs, threshold)
            found = visops.batched_nms(boxes, scores, idxs, threshold)
            assert found.dtype == torch.int64
            assert torch.equal(found, expected)


@pytest.mark.matrix
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("score", SCORES)
def test_groups_against_the_reference(score: str, limits: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    for threshold in THRESHOLDS:
        boxes, idxs = BOXES["clusters"](rng, 25), rng.integers(0, 3, 25)
        scores = SCORES[score](rng, 25)
        expected = reference.nms_of_groups(boxes, scores, idxs.tolist(), threshold, **limits)
        tensors: Any = [torch.from_numpy(a) for a in (boxes, scores, idxs)]
        assert batched_nms(*tensors, threshold, **limits).tolist() == expected


IDS = torch.tensor([0, -1, 2**63 - 1, -(2**63), 2**62, 5, -7, 2**31, -(2**31), 2**53, 2**53 + 1])


def test_any_ids() -> None:
    """Ids need not be small, dense or positive."""
    boxes, scores, idxs = problem(400, len(IDS))
    expected = per_group(boxes, scores, idxs, 0.4)
    assert torch.equal(visops.batched_nms(boxes, scores, IDS[idxs], 0.4), expected)
    assert torch.equal(visops.batched_nms(boxes, scores, IDS.flip(0)[idxs], 0.4), expected)
    assert len(visops.batched_nms(boxes[:1].expand(11, 4), scores[:11], IDS, 0.4)) == 11


@pytest.mark.parametrize("dtype", INTEGER, ids=str)
def test_dtypes_of_ids(dtype: torch.dtype) -> None:
    boxes, scores, idxs = problem(200, 5)
    expected = per_group(boxes, scores, idxs, 0.4)
    ids = every_other(idxs.to(dtype))
    assert torch.equal(visops.batched_nms(boxes, scores, ids, 0.4), expected)


@pytest.mark.parametrize("dtype", FLOATING + INTEGER, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_dtypes_of_boxes(layout: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(2)
    plain = torch.from_numpy(np.stack([BOXES["clusters"](rng, 90) for _ in range(3)])).abs() / 12
    boxes = plain.to(dtype)
    scores = torch.from_numpy(distinct_scores(rng, (3, 90, 2))).float()
    wide = boxes.float() if dtype.is_floating_point and dtype != torch.float64 else boxes.double()
    expected = visops.batched_nms(wide, scores, None, 0.4)
    assert 40 < len(expected) < 200
    laid = LAYOUTS[layout](boxes)
    for values in (scores, scores.mT.contiguous().mT, every_other(scores)):
        assert torch.equal(visops.batched_nms(laid, values, None, 0.4), expected)
    flat = LAYOUTS[layout](boxes[1])
    first = visops.batched_nms(flat, scores[1, :, 0], torch.zeros(90, dtype=torch.int64), 0.4)
    assert torch.equal(first, visops.nms(wide[1], scores[1, :, 0], 0.4))


def test_right_where_the_coordinate_trick_is_wrong() -> None:
    """Offsets of class times largest coordinate leave small boxes far out no fractions."""
    rng = np.random.default_rng(3)
    corner = rng.uniform(8000, 8050, (900, 2))
    extent = rng.uniform(1, 4, (900, 2))
    boxes = torch.from_numpy(np.concatenate([corner, corner + extent], 1)).float()
    scores = torch.from_numpy(distinct_scores(rng, 900)).float()
    idxs = torch.from_numpy(rng.integers(0, 4, 900)) * 400
    for shift in (0.0, -16000.0):  # all negative: the trick moves classes onto each other
        moved = boxes + shift
        expected = per_group(moved, scores, idxs, 0.3)
        assert torch.equal(visops.batched_nms(moved, scores, idxs, 0.3), expected)
        offset = moved + (idxs * (moved.max() + 1))[:, None]
        assert not torch.equal(torchvision.ops.nms(offset, scores, 0.3), expected)


@pytest.mark.matrix
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("score", SCORES)
def test_images(score: str, limits: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    for batch, count, threshold in ((7, 20, 0.3), (1, 30, 0.5), (3, 1, 0.0), (2, 0, 0.5)):
        boxes = batch_boxes(rng, batch, count)
        scores, idxs = SCORES[score](rng, (batch, count)), rng.integers(-2, 1, (batch, count))
        tensors = [torch.from_numpy(a) for a in (boxes, scores)]
        for groups in (None, idxs):
            expected = reference.nms_of_images(boxes, scores, groups, threshold, **limits)
            ids = None if groups is None else torch.from_numpy(groups)
            found = visops.batched_nms(tensors[0], tensors[1], ids, threshold, **limits)
            assert (found.dtype, found.shape[1], found.is_contiguous()) == (torch.int64, 2, True)
            assert [tuple(row) for row in found.tolist()] == expected


@pytest.mark.matrix
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("score", SCORES)
def test_classes(score: str, limits: dict[str, Any]) -> None:
    """Ties within an image go to the lower class, then to the lower box."""
    rng = np.random.default_rng(5)
    sizes = ((7, 12, 3, 0.3), (1, 1, 5, 0.5), (2, 15, 1, 0.0), (2, 0, 3, 0.5), (2, 3, 0, 0.5))
    for batch, count, classes, threshold in sizes:
        boxes = batch_boxes(rng, batch, count)
        scores = SCORES[score](rng, (batch, count, classes))
        expected = reference.nms_of_classes(boxes, scores, threshold, **limits)
        found = visops.batched_nms(
            torch.from_numpy(boxes), torch.from_numpy(scores), None, threshold, **limits
        )
        assert (found.dtype, found.shape[1], found.is_contiguous()) == (torch.int64, 3, True)
        assert [tuple(row) for row in found.tolist()] == expected


def test_no_images() -> None:
    boxes = torch.zeros(0, 5, 4)
    assert visops.batched_nms(boxes, torch.zeros(0, 5), None, 0.5).shape == (0, 2)
    idxs = torch.zeros(0, 5, dtype=torch.int64)
    assert visops.batched_nms(boxes, torch.zeros(0, 5), idxs, 0.5).shape == (0, 2)
    assert visops.batched_nms(boxes, torch.zeros(0, 5, 3), None, 0.5).shape == (0, 3)
    indices, count = visops.nms_padded(boxes, torch.zeros(0, 5), 0.5, 7)
    assert (indices.shape, count.shape) == ((0, 7), (0,))


def test_many_images_and_classes() -> None:
    """As many groups as a detector has, each against its own call."""
    rng = np.random.default_rng(6)
    boxes = torch.from_numpy(batch_boxes(rng, 4, 200)).float()
    scores = torch.from_numpy(distinct_scores(rng, (4, 200, 20))).float()
    found = visops.batched_nms(boxes, scores, None, 0.5, max_output=150, score_threshold=0.2)
    for image in range(4):
        rows = found[found[:, 0] == image]
        values = scores[image][rows[:, 2], rows[:, 1]]
        assert len(rows) == 150
        assert torch.equal(values, values.sort(descending=True)[0])
        least = float(values[-1])
        for c in range(20):
            own = scores[image, :, c].contiguous()
            kept = torchvision.ops.nms(boxes[image], own, 0.5)
            # Among the image's best 150, this class has those above the last one.
            expected = kept[own[kept] >= least]
            assert torch.equal(rows[rows[:, 1] == c][:, 2], expected)


@pytest.mark.matrix
@pytest.mark.parametrize("score_threshold", [None, 0.4])
@pytest.mark.parametrize("score", SCORES)
def test_padded(score: str, score_threshold: float | None) -> None:
    rng = np.random.default_rng(7)
    for batch, count in ((7, 20), (1, 1), (2, 70), (2, 0)):
        boxes, scores = batch_boxes(rng, batch, count), SCORES[score](rng, (batch, count))
        for most in (0, 1, 5, count, count + 9):
            tensors: Any = [torch.from_numpy(a) for a in (boxes, scores)]
            indices, kept = nms_padded(*tensors, 0.4, most, score_threshold=score_threshold)
            assert indices.dtype == kept.dtype == torch.int64
            assert (indices.shape, kept.shape) == ((batch, most), (batch,))
            expected = reference.nms_padded(boxes, scores, 0.4, most, score_threshold)
            np.testing.assert_array_equal(indices, expected[0])
            np.testing.assert_array_equal(kept, expected[1])


def test_padded_agrees_with_batched() -> None:
    rng = np.random.default_rng(8)
    boxes = torch.from_numpy(batch_boxes(rng, 7, 300)).float()
    scores = torch.from_numpy(SCORES["wild"](rng, (7, 300))).float()
    for laid, most, least in (
        (LAYOUTS["transposed"](boxes), 300, None),
        (LAYOUTS["sliced"](boxes), 40, -0.5),
        (LAYOUTS["spaced"](boxes), 1000, 0.1),
    ):
        indices, count = visops.nms_padded(laid, scores, 0.5, most, score_threshold=least)
        rows = visops.batched_nms(laid, scores, None, 0.5, max_output=most, score_threshold=least)
        image, position = torch.where(torch.arange(most) < count[:, None])
        assert torch.equal(torch.stack([image, indices[image, position]], 1), rows)
        assert (indices[torch.arange(most) >= count[:, None]] == -1).all()


torch.manual_seed(0)
CORNER = torch.rand(40, 2) * 30
RANDOM_BOXES = torch.cat([CORNER, CORNER + 5 + torch.rand(40, 2) * 20], 1)
ROTATED = torch.cat([RANDOM_BOXES, torch.rand(40, 1)], 1)
RANDOM_SCORES = torch.rand(40)
RANDOM_IDS = torch.arange(40) % 3 - 1

CALLS: dict[str, Any] = {
    "batched_nms": lambda ids: visops.batched_nms(RANDOM_BOXES, RANDOM_SCORES, ids, 0.4),
    "nms_rotated": lambda ids: visops.nms_rotated(ROTATED, RANDOM_SCORES, 0.4, idxs=ids),
    "batched_soft_nms": lambda ids: visops.batched_soft_nms(RANDOM_BOXES, RANDOM_SCORES, ids),
    "soft_nms_rotated": lambda ids: visops.soft_nms_rotated(ROTATED, RANDOM_SCORES, idxs=ids),
    "matrix_nms": lambda ids: visops.matrix_nms(RANDOM_BOXES, RANDOM_SCORES, ids),
    "weighted_boxes_fusion": lambda ids: visops.weighted_boxes_fusion(
        *([part] for part in (RANDOM_BOXES, RANDOM_SCORES, ids))
    ),
}


def same(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        # NumPy has no bfloat16.
        a, b = (t.double() if isinstance(t, Tensor) else t for t in (a, b))
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
def test_floating_ids(name: str, dtype: torch.dtype) -> None:
    found, expected = CALLS[name](RANDOM_IDS.to(dtype)), CALLS[name](RANDOM_IDS)
    if isinstance(found, Tensor):
        assert torch.equal(found, expected)
    else:
        same(found, expected)
    if name == "weighted_boxes_fusion":
        assert found[2].dtype == dtype
    for bad in (0.5, float("nan"), float("inf")):
        ids = RANDOM_IDS.to(dtype)
        ids[7] = bad
        with pytest.raises(ValueError, match=rf"^visops\.{name}: \w+(\[0\])?\[7\] is not a whole"):
            CALLS[name](ids)


def test_floating_ids_of_arrays() -> None:
    boxes, scores = RANDOM_BOXES.numpy(), RANDOM_SCORES.numpy()
    ids = RANDOM_IDS.numpy().astype(np.float32)
    found = visops.batched_nms(boxes, scores, ids, 0.4)
    same(found, visops.batched_nms(boxes, scores, RANDOM_IDS.numpy(), 0.4))
    fused = visops.weighted_boxes_fusion([boxes], [scores], [ids])
    assert fused[2].dtype == np.float32
    for bad in (0.5, float("nan"), float("inf")):
        ids[7] = bad
        with pytest.raises(ValueError, match=r"^visops\.batched_nms: idxs\[7\] is not a whole"):
            visops.batched_nms(boxes, scores, ids, 0.4)


@pytest.mark.parametrize("array", [False, True])
def test_floating_ids_have_more_than_32_bits(array: bool) -> None:
    """Ids that differ by 2**32 are different groups."""
    wide = RANDOM_IDS + (torch.arange(len(RANDOM_IDS)) % 2 << 32)
    boxes, scores, whole, floating = (
        t.numpy() if array else t for t in (RANDOM_BOXES, RANDOM_SCORES, wide, wide.double())
    )
    found = visops.batched_nms(boxes, scores, floating, 0.4)  # type: ignore[type-var]
    assert found.tolist() == visops.batched_nms(boxes, scores, whole, 0.4).tolist()  # type: ignore[type-var]
    assert (
        found.tolist() != visops.batched_nms(RANDOM_BOXES, RANDOM_SCORES, RANDOM_IDS, 0.4).tolist()
    )


@pytest.mark.parametrize("name", CALLS)
def test_floating_ids_are_dense(name: str) -> None:
    with pytest.raises(
        TypeError, match=rf"^visops\.{name}: \w+(\[0\])? has layout sparse_coo, must"
    ):
        CALLS[name](RANDOM_IDS.double().to_sparse())


def test_soft_nms_by_position() -> None:
    """As in mmcv: the threshold, sigma, the least score, the method."""
    expected = visops.soft_nms(
        RANDOM_BOXES, RANDOM_SCORES, iou_threshold=0.5, sigma=0.3, min_score=0.1, method="gaussian"
    )
    same(visops.soft_nms(RANDOM_BOXES, RANDOM_SCORES, 0.5, 0.3, 0.1, "gaussian"), expected)
    same(
        visops.soft_nms(RANDOM_BOXES, RANDOM_SCORES, 0.5),
        visops.soft_nms(RANDOM_BOXES, RANDOM_SCORES, iou_threshold=0.5),
    )
    by_position = visops.batched_soft_nms(RANDOM_BOXES, RANDOM_SCORES, RANDOM_IDS, 0.5)
    same(
        by_position,
        visops.batched_soft_nms(RANDOM_BOXES, RANDOM_SCORES, RANDOM_IDS, iou_threshold=0.5),
    )


def test_no_boxes_without_columns() -> None:
    """What torch.tensor([]) and np.array([]) are."""
    kinds: list[Any] = [torch.tensor([]), np.array([])]
    for none in kinds:
        assert visops.nms(none, none, 0.5).shape == (0,)
        assert visops.batched_nms(none, none, none, 0.5).shape == (0,)
        assert visops.nms_rotated(none, none, 0.5).shape == (0,)
        assert visops.nms_match(none, none, 0.5) == []
        assert [part.shape for part in visops.soft_nms(none, none)] == [(0,), (0,)]
        assert [part.shape for part in visops.matrix_nms(none, none)] == [(0,), (0,)]
        fuse: Any = visops.weighted_boxes_fusion
        fused = fuse([none], [none], [none])
        assert [part.shape for part in fused] == [(0, 4), (0,), (0,)]


def test_batches_of_more_than_a_task() -> None:
    """Images are divided among threads, and each is padded like any other."""
    boxes, scores, _ = problem(1500 * 20, 1)
    boxes, scores = boxes.view(1500, 20, 4), scores.view(1500, 20)
    indices, count = nms_padded(boxes, scores, 0.4, 8)
    for image in range(0, 1500, 7):
        kept = visops.nms(boxes[image], scores[image], 0.4)[:8]
        assert count[image] == len(kept)
        assert torch.equal(indices[image, : len(kept)], kept)
        assert (indices[image, len(kept) :] == -1).all()
    with torch_threads(1):
        alone = nms_padded(boxes, scores, 0.4, 8)
    assert torch.equal(indices, alone[0])
    assert torch.equal(count, alone[1])
