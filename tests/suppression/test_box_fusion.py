"""Weighted boxes fusion: against a reference in loops, by hand, and at random."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references import box_fusion as reference

from suppression.box_fusion_cases import CONF_TYPES, INF, NAN, Ensemble, as_arrays, ensemble
from suppression.nms_cases import BOXES, FLOATING, INTEGER, LAYOUTS, every_other


def check(models: Ensemble, **options: Any) -> int:
    """Compare with the reference; return the number of clusters."""
    found = visops.weighted_boxes_fusion(*models, **options)
    for ours, theirs in zip(found, models, strict=True):
        assert ours.dtype == theirs[0].dtype
        assert ours.is_contiguous()
    dtype = found[0].dtype
    options["rounded"] = lambda score: torch.tensor(score, dtype=dtype).item()
    boxes, scores, labels = (as_arrays(part) for part in models)
    expected = reference.weighted_boxes_fusion(boxes, scores, labels, **options)
    unit = float(torch.finfo(dtype).eps)
    for ours, wanted in zip(found, expected, strict=True):
        actual = ours.double().numpy()
        np.testing.assert_allclose(actual, wanted, rtol=max(unit, 1e-13), atol=1e-12)
    return len(found[1])


@pytest.mark.matrix
@pytest.mark.parametrize("conf_type", CONF_TYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_reference(conf_type: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    fused = 0
    for threshold, least, overflow in itertools.product((0.0, 0.3, 0.55, 0.9), (0, 0.4), (0, 1)):
        models = ensemble(rng)
        fused += 36 - check(
            models,
            weights=[2.0, 0.5, 0.0, 1.25] if weighted else None,
            iou_threshold=threshold,
            min_score=least,
            conf_type=conf_type,
            allows_overflow=bool(overflow),
        )
    assert fused > 100


@pytest.mark.matrix
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_dtypes_and_layouts(dtype: torch.dtype, layout: str) -> None:
    rng = np.random.default_rng(1)
    for sizes in ((0,), (1,), (1, 1), (0, 0), (7, 30), (60, 50, 1)):
        boxes, scores, labels = ensemble(rng, sizes, dtype=dtype)
        boxes = [LAYOUTS[layout](b) for b in boxes]
        check((boxes, [every_other(s) for s in scores], labels), iou_threshold=0.4)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", BOXES)
def test_kinds_of_boxes(kind: str) -> None:
    rng = np.random.default_rng(2)
    for labels in (1, 4):
        models = ensemble(rng, (40, 25), kind, labels=labels)
        found = check(models, iou_threshold=0.3)
        assert 0 < found <= 65


@pytest.mark.parametrize("dtype", INTEGER, ids=str)
def test_labels_of_all_dtypes(dtype: torch.dtype) -> None:
    boxes, scores, labels = ensemble(np.random.default_rng(3))
    found = visops.weighted_boxes_fusion(boxes, scores, [(i + 5).to(dtype) for i in labels])
    expected = visops.weighted_boxes_fusion(boxes, scores, labels)
    assert found[2].dtype == dtype
    assert found[2].tolist() == (expected[2] + 5).tolist()
    assert torch.equal(found[0], expected[0])


def test_labels_far_apart() -> None:
    box = torch.tensor([[0.0, 0, 9, 9]])
    labels = torch.tensor([2**62, -(2**62), 2**62, 0])
    result = visops.weighted_boxes_fusion([box.repeat(4, 1)], [torch.ones(4)], [labels])
    assert result[2].tolist() == [-(2**62), 0, 2**62]


PUBLISHED_BOXES = [
    [0.1066667, 0.3166667, 0.7133333, 0.62],
    [0.0018182, 0.4754545, 0.8136364, 0.9136364],
    [0.03, 0.24, 0.12, 0.35],
    [0.02, 0.53, 0.11, 0.94],
    [0.38, 0.66, 0.79, 0.95],
    [0.04, 0.56, 0.84, 0.92],
    [0.08, 0.49, 0.21, 0.89],
]

PUBLISHED_LABELS = [1, 0, 1, 1, 1, 1, 0]

PUBLISHED_SCORES: dict[Any, Any] = {
    "avg": [0.8, 0.7333333, 0.4666667, 0.2666667, 0.2333333, 0.1666667, 0.1],
    "max": [0.9, 0.8, 0.7, 0.4, 0.35, 0.25, 0.15],
    "box_and_model_avg": [0.8, 0.4666667, 0.3666667, 0.2666667, 0.2333333, 0.1666667, 0.1],
    "absent_model_aware_avg": [0.8, 0.4666667, 0.44, 0.2666667, 0.2333333, 0.1666667, 0.1],
}


def test_the_published_package() -> None:
    """The results of ensemble-boxes 1.0.9 for the example in its README."""
    boxes = [
        [
            [0.00, 0.51, 0.81, 0.91],
            [0.10, 0.31, 0.71, 0.61],
            [0.01, 0.32, 0.83, 0.93],
            [0.02, 0.53, 0.11, 0.94],
            [0.03, 0.24, 0.12, 0.35],
        ],
        [
            [0.04, 0.56, 0.84, 0.92],
            [0.12, 0.33, 0.72, 0.64],
            [0.38, 0.66, 0.79, 0.95],
            [0.08, 0.49, 0.21, 0.89],
        ],
    ]
    scores = [[0.9, 0.8, 0.2, 0.4, 0.7], [0.5, 0.8, 0.7, 0.3]]
    labels = [[0, 1, 0, 1, 1], [1, 1, 1, 0]]
    tensors = [torch.tensor(b, dtype=torch.float64) for b in boxes]
    values = [torch.tensor(s, dtype=torch.float64) for s in scores]
    names = [torch.tensor(i) for i in labels]
    for conf_type, expected in PUBLISHED_SCORES.items():
        found = visops.weighted_boxes_fusion(
            tensors, values, names, weights=[2, 1], iou_threshold=0.5, conf_type=conf_type
        )
        np.testing.assert_allclose(found[1].numpy(), expected, atol=1e-6)
    fused = visops.weighted_boxes_fusion(tensors, values, names, weights=[2, 1], iou_threshold=0.5)
    np.testing.assert_allclose(fused[0].numpy(), PUBLISHED_BOXES, atol=1e-6)
    assert fused[2].tolist() == PUBLISHED_LABELS


def fuse(boxes: Any, scores: Any, **options: Any) -> tuple[Any, Any]:
    """Fuse boxes of one label, each from a model of its own."""
    entries = [torch.tensor([b], dtype=torch.float64) for b in boxes]
    values = [torch.tensor([s], dtype=torch.float64) for s in scores]
    labels = [torch.zeros(1, dtype=torch.int64) for _ in boxes]
    found = visops.weighted_boxes_fusion(entries, values, labels, **options)
    return found[0].tolist(), found[1].tolist()


UNIT = [0.0, 0.0, 10.0, 10.0]


def test_overlap_must_be_more_than_the_threshold() -> None:
    half = [0.0, 0.0, 10.0, 5.0]
    assert len(fuse([UNIT, half], [0.9, 0.8], iou_threshold=0.5)[0]) == 2
    assert len(fuse([UNIT, half], [0.9, 0.8], iou_threshold=0.499)[0]) == 1
    assert len(fuse([UNIT, UNIT], [0.9, 0.8], iou_threshold=1)[0]) == 2
    touching = [10.0, 0.0, 20.0, 10.0]
    assert len(fuse([UNIT, touching], [0.9, 0.8], iou_threshold=0)[0]) == 2


def test_the_best_cluster_and_the_first_of_equals() -> None:
    left, right = [0.0, 0.0, 10.0, 10.0], [6.0, 0.0, 16.0, 10.0]
    boxes, _ = fuse([left, right, [4.0, 0.0, 14.0, 10.0]], [0.9, 0.8, 0.4], iou_threshold=0.3)
    assert [b[0] for b in boxes] == [pytest.approx((0.8 * 6 + 0.4 * 4) / 1.2), 0.0]
    # In the middle: 7 / 13 with either.
    boxes, _ = fuse([left, right, [3.0, 0.0, 13.0, 10.0]], [0.9, 0.8, 0.3], iou_threshold=0.3)
    assert boxes[0][0] == pytest.approx(0.3 * 3 / 1.2)
    assert boxes[1] == right


def test_a_fused_box_moves_on() -> None:
    """The third overlaps the first too little, but the box fused from two enough."""
    steps = [[0.0, 0.0, 10.0, 10.0], [2.0, 0.0, 12.0, 10.0], [3.5, 0.0, 13.5, 10.0]]
    assert reference.iou(tuple(steps[0]), tuple(steps[2])) < 0.55  # type: ignore[arg-type]
    assert len(fuse(steps, [0.9, 0.9, 0.1])[0]) == 1
    assert len(fuse([steps[0], steps[2]], [0.9, 0.1])[0]) == 2


def test_scores_of_zero_count_alike() -> None:
    boxes, scores = fuse([UNIT, [0.0, 0.0, 10.0, 12.0]], [0.0, 0.0])
    assert (boxes, scores) == ([[0.0, 0.0, 10.0, 11.0]], [0.0])
    for conf_type in CONF_TYPES:
        boxes, scores = fuse([UNIT, UNIT], [0.5, 0.5], weights=[0, 1], conf_type=conf_type)
        assert boxes == [UNIT]
        assert scores == [0.5]
    boxes, scores = fuse([UNIT, [50.0, 0, 60, 10]], [0.5, 0.5], weights=[0, 1])
    assert scores == [0.5, 0.0]


def test_a_score_of_zero_does_not_move_a_box() -> None:
    boxes, scores = fuse([UNIT, [0.0, 0.0, 10.0, 12.0]], [0.5, 0.0])
    assert (boxes, scores) == ([UNIT], [0.25])


def test_who_takes_part() -> None:
    for score in (NAN, INF, -INF, -0.1, -1e-300):
        assert fuse([UNIT], [score]) == ([], [])
    assert fuse([UNIT], [0.0])[1] == [0.0]
    assert fuse([UNIT], [-0.0])[1] == [0.0]
    # Compared in the scores' dtype: float32's 0.7 is less than 0.7.
    for dtype in FLOATING:
        value = torch.tensor([0.7], dtype=dtype)
        found = visops.weighted_boxes_fusion(
            [torch.tensor([UNIT])], [value], [torch.tensor([0])], min_score=0.7
        )
        assert found[1].tolist() == value.tolist()
    # Beyond float16: no score is that high.
    value = torch.tensor([60000.0], dtype=torch.half)
    boxes, labels = [torch.tensor([UNIT])], [torch.tensor([0])]
    assert len(visops.weighted_boxes_fusion(boxes, [value], labels, min_score=1e6)[1]) == 0
    # ... and before weighting.
    assert fuse([UNIT, UNIT], [0.4, 0.1], weights=[1, 9], min_score=0.3)[1] == [pytest.approx(0.04)]


@pytest.mark.parametrize(
    "odd",
    [
        [10.0, 0.0, 0.0, 10.0],
        [10.0, 10.0, 0.0, 0.0],
        [0.0, 0.0, 10.0, 0.0],
        [0.0, 0.0, 10.0, INF],
        [-INF, -INF, INF, INF],
        [NAN, 0.0, 10.0, 10.0],
        [0.0, 0.0, 1e200, 1e200],
    ],
    ids=str,
)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_odd_boxes_stay_alone(odd: list[float], position: int) -> None:
    boxes = [UNIT, UNIT]
    boxes.insert(position, odd)
    found, scores = fuse(boxes, [0.9, 0.6, 0.3], iou_threshold=0)
    assert len(found) == 2
    alone = [np.array_equal(box, odd, equal_nan=True) for box in found]
    assert sum(alone) == 1
    assert found[alone.index(False)] == pytest.approx(UNIT)
    assert scores[alone.index(True)] == pytest.approx([0.9, 0.6, 0.3][position] / 3)


def test_more_than_64_models() -> None:
    """Models are bits of 64-bit words."""
    rng = np.random.default_rng(4)
    weights = rng.uniform(0.5, 2, 150).tolist()
    for conf_type in CONF_TYPES:
        models = ensemble(rng, (2,) * 150, labels=2)
        check(models, weights=weights, conf_type=conf_type, iou_threshold=0.2)


def test_many_labels_and_one() -> None:
    """Also a label of more than 256 boxes, the most that a CPU kernel has on its stack."""
    rng = np.random.default_rng(5)
    check(ensemble(rng, (400, 300), labels=250), iou_threshold=0.1)
    for sizes in ((140, 116), (140, 117), (250, 200)):
        check(ensemble(rng, sizes, labels=1), iou_threshold=0.6)


def test_ties_go_by_label_then_by_the_best_box() -> None:
    apart = torch.arange(6.0)[:, None] * 20 + torch.tensor([0.0, 0, 10, 10])
    labels = torch.tensor([5, 3, 5, 3, -1, 3])
    found = visops.weighted_boxes_fusion([apart], [torch.full((6,), 0.5)], [labels])
    assert found[2].tolist() == [-1, 3, 3, 3, 5, 5]
    assert (found[0][:, 0] / 20).tolist() == [4, 1, 3, 5, 0, 2]


def test_models_of_different_dtypes() -> None:
    """Boxes and scores are promoted; labels are those of the first."""
    boxes, scores, labels = ensemble(np.random.default_rng(8), (7, 9))
    boxes, scores = [boxes[0].half(), boxes[1].float()], [scores[0].float(), scores[1].bfloat16()]
    found = visops.weighted_boxes_fusion(boxes, scores, [labels[0].short(), labels[1]])
    assert [t.dtype for t in found] == [torch.float32, torch.float32, torch.int16]
    boxes, scores = ([t.float() for t in part] for part in (boxes, scores))
    expected = visops.weighted_boxes_fusion(boxes, scores, labels)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])


few = settings(max_examples=5)
seeds = st.integers(0, 2**32 - 1)
KINDS = [kind for kind in BOXES if kind != "odd"]


def problems(seed: int, count: int) -> Iterator[tuple[np.random.Generator, Ensemble, float]]:
    """Ensembles, each with a generator and a threshold."""
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        sizes = tuple(int(n) for n in rng.integers(0, 25, rng.integers(1, 5)))
        kind = ["detections", *KINDS][rng.integers(0, len(KINDS) + 1)]
        models = ensemble(rng, sizes, kind, labels=int(rng.integers(1, 4)))
        yield rng, models, float(rng.choice([0.0, 0.3, 0.55, 0.8]))


@few
@given(seeds, st.sampled_from(CONF_TYPES))
def test_fusion_is_the_reference(seed: int, conf_type: str) -> None:
    for rng, models, threshold in problems(seed, 10):
        weights = rng.uniform(0.1, 3, len(models[0])).tolist()
        options = {"weights": weights, "iou_threshold": threshold, "conf_type": conf_type}
        found = visops.weighted_boxes_fusion(*models, **options)  # type: ignore[arg-type]
        arrays = [[t.numpy() for t in part] for part in models]
        expected = reference.weighted_boxes_fusion(*arrays, **options)  # type: ignore[arg-type]
        assert found[2].tolist() == expected[2].tolist()
        np.testing.assert_allclose(found[0].numpy(), expected[0], rtol=1e-12)
        np.testing.assert_allclose(found[1].numpy(), expected[1], rtol=1e-12)
