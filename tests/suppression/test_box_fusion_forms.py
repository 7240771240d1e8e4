"""Fusion of segments, of boxes in volumes, and around the best box: against references in loops."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import visops
from references import box_fusion as reference
from torch import Tensor

from suppression.box_fusion_cases import (
    COLUMNS,
    CONF_TYPES,
    NAN,
    Ensemble,
    as_arrays,
    bodies,
    every_form,
    function,
)
from suppression.nms_cases import FLOATING, LAYOUTS, every_other


def check(name: str, models: Ensemble, **options: Any) -> int:
    """Compare with the reference; return the number of clusters."""
    found = function(name)(*models, **options)
    for ours, given in zip(found, models, strict=True):
        assert ours.dtype == given[0].dtype
        assert ours.is_contiguous()
    dtype = found[0].dtype
    if name == "non_maximum_weighted":
        options |= {"around_best": True, "conf_type": "max"}
    options["rounded"] = lambda score: torch.tensor(score, dtype=dtype).item()
    boxes, scores, labels = (as_arrays(part) for part in models)
    expected = reference.weighted_boxes_fusion(boxes, scores, labels, **options)
    unit = float(torch.finfo(dtype).eps)
    for ours, wanted in zip(found, expected, strict=True):
        actual = ours.double().numpy()
        np.testing.assert_allclose(actual, wanted, rtol=max(unit, 1e-13), atol=1e-12)
    return len(found[1])


def confidences(name: str) -> list[dict[str, Any]]:
    if name == "non_maximum_weighted":
        return [{}]
    return [
        {"conf_type": conf_type, "allows_overflow": overflow}
        for conf_type, overflow in itertools.product(CONF_TYPES, (False, True))
    ]


@pytest.mark.matrix
@every_form
@pytest.mark.parametrize("weighted", [False, True])
def test_reference(name: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    fused = count = 0
    weights = [2.0, 0.5, 0.0, 1.25] if weighted else None
    for threshold, least in itertools.product((0.0, 0.3, 0.55, 0.9), (0, 0.4)):
        for options in confidences(name):
            models = bodies(rng, name)
            options = {"weights": weights, "iou_threshold": threshold, **options}
            fused += check(name, models, min_score=least, **options)
            count += 36
    assert count / 4 < fused < 0.9 * count


@pytest.mark.matrix
@every_form
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_dtypes_and_layouts(name: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(1)
    layouts = itertools.cycle(LAYOUTS.values())
    for sizes in ((0,), (1,), (1, 1), (0, 0), (7, 30), (60, 50, 1)):
        for _ in range(2):
            layout = next(layouts)
            boxes, scores, labels = bodies(rng, name, sizes, dtype)
            boxes = [layout(b) for b in boxes]
            check(name, (boxes, [every_other(s) for s in scores], labels), iou_threshold=0.4)


@pytest.mark.matrix
@every_form
def test_many_labels_and_one(name: str) -> None:
    """Also a label of more than 256 boxes, the most that a CPU kernel has on its stack."""
    rng = np.random.default_rng(2)
    check(name, bodies(rng, name, (200, 150), labels=120), iou_threshold=0.1)
    for sizes in ((140, 116), (140, 117), (200, 170)):
        check(name, bodies(rng, name, sizes, labels=1), iou_threshold=0.6)


@every_form
def test_more_than_64_models(name: str) -> None:
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.5, 2, 70).tolist()
    for options in confidences(name)[::2]:
        models = bodies(rng, name, (2,) * 70, labels=2)
        check(name, models, weights=weights, iou_threshold=0.2, **options)


@every_form
def test_no_boxes_and_floating_labels(name: str) -> None:
    none = torch.zeros(0)
    found = function(name)([none], [none], [none])
    assert [part.shape for part in found] == [(0, COLUMNS[name]), (0,), (0,)]
    boxes, scores, labels = bodies(np.random.default_rng(5), name)
    floating = function(name)(boxes, scores, [ids.float() for ids in labels])
    whole = function(name)(boxes, scores, labels)
    assert floating[2].dtype == torch.float32
    assert torch.equal(floating[2].long(), whole[2])


def one_each(boxes: Any, scores: Any) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Boxes of one label, each from a model of its own."""
    return (
        [torch.tensor([b], dtype=torch.float64) for b in boxes],
        [torch.tensor([s], dtype=torch.float64) for s in scores],
        [torch.zeros(1, dtype=torch.int64) for _ in boxes],
    )


def test_the_best_box_stays() -> None:
    """A third box overlaps the fused box enough, but not the best one."""
    steps = [[0.0, 0.0, 10.0, 10.0], [2.0, 0.0, 12.0, 10.0], [3.5, 0.0, 13.5, 10.0]]
    models = one_each(steps, [0.9, 0.9, 0.1])
    assert len(visops.weighted_boxes_fusion(*models)[0]) == 1
    boxes, scores, _ = visops.non_maximum_weighted(*models)
    near = 8 / 12  # the first two overlap by
    mean = [pytest.approx(2 * near / (1 + near)), 0, pytest.approx(10 + 2 * near / (1 + near)), 10]
    assert boxes.tolist() == [mean, steps[2]]
    assert scores.tolist() == [0.9, 0.1]


def test_scores_of_zero_count_alike() -> None:
    models = one_each([[0.0, 0, 10, 10], [0.0, 0, 10, 8]], [0.0, 0.0])
    boxes, scores, _ = visops.non_maximum_weighted(*models)
    assert boxes.tolist() == [[0, 0, 10, pytest.approx((10 + 0.8 * 8) / 1.8)]]
    assert scores.tolist() == [0.0]


def test_segments_are_boxes_of_one_height() -> None:
    models = bodies(np.random.default_rng(6), "weighted_boxes_fusion_1d")
    flat = [torch.stack([s[:, 0], s[:, 0] * 0, s[:, 1], s[:, 0] * 0 + 5], 1) for s in models[0]]
    flat = [torch.where(b.isnan(), torch.tensor(NAN), b) for b in flat]
    ours = visops.weighted_boxes_fusion_1d(*models, iou_threshold=0.4)
    boxes = visops.weighted_boxes_fusion(flat, *models[1:], iou_threshold=0.4)
    torch.testing.assert_close(ours[0], boxes[0][:, ::2], rtol=1e-14, atol=0, equal_nan=True)
    torch.testing.assert_close(ours[1], boxes[1], rtol=1e-14, atol=0)


def lists(models: Ensemble) -> tuple[list[Any], list[Any], list[Any]]:
    boxes, scores, labels = ([part.tolist() for part in parts] for parts in models)
    return boxes, scores, labels


def unit_bodies(rng: np.random.Generator, name: str, sizes: tuple[int, ...]) -> Ensemble:
    """Regular boxes within [0, 1], and scores of which no two are equal."""
    half, count = COLUMNS[name] // 2, sum(sizes)
    low = rng.uniform(0.05, 0.6, (max(1, count // 4), half))
    objects = np.concatenate([low, low + rng.uniform(0.1, 0.3, low.shape)], 1)
    boxes = objects[rng.integers(0, len(objects), count)] + rng.normal(0, 0.01, (count, 2 * half))
    parts = [
        torch.from_numpy(t).split(sizes)
        for t in (boxes.clip(0, 1), rng.uniform(0.05, 1, count), rng.integers(0, 2, count))
    ]
    return list(parts[0]), list(parts[1]), list(parts[2])


PEER_CASES: list[tuple[str, dict[str, Any]]] = [
    *(
        ("weighted_boxes_fusion_1d", {"conf_type": conf_type, "weights": weights})
        for conf_type in CONF_TYPES
        for weights in (None, [2.0, 0.5, 1.25])
    ),
    ("weighted_boxes_fusion_1d", {"allows_overflow": True, "weights": [2.0, 0.5, 1.25]}),
    ("weighted_boxes_fusion_3d", {}),
    ("weighted_boxes_fusion_3d", {"allows_overflow": True, "weights": [2.0, 0.5, 1.25]}),
    ("non_maximum_weighted", {}),
    ("non_maximum_weighted", {"weights": [2.0, 0.5, 1.25]}),
]


@pytest.mark.parametrize("case", range(len(PEER_CASES)))
def test_ensemble_boxes(case: int) -> None:
    """The package computes fused boxes in float32."""
    peers = pytest.importorskip("ensemble_boxes")
    name, options = PEER_CASES[case]
    rng = np.random.default_rng(case)
    for threshold, least in ((0.3, 0.0), (0.55, 0.2), (0.7, 0.0)):
        models = unit_bodies(rng, name, (12, 9, 15))
        found = function(name)(*models, iou_threshold=threshold, min_score=least, **options)
        theirs = dict(options, iou_thr=threshold, skip_box_thr=least)
        expected = getattr(peers, name)(*lists(models), **theirs)
        assert 3 < len(found[0]) < 30
        for ours, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours.double().numpy(), wanted, rtol=2e-6, atol=2e-6)


def test_ensemble_boxes_scales_maxima_of_volumes() -> None:
    """What the table of docs/box_fusion.md says about conf_type "max" and about weights."""
    peers = pytest.importorskip("ensemble_boxes")
    box = [0.1, 0.1, 0.1, 0.5, 0.5, 0.5]
    alone = [[box], []], [[0.8], []], [[1], []]
    tensors = [torch.tensor(box)[None], torch.zeros(0, 6)]
    ours = [
        visops.weighted_boxes_fusion_3d(
            *(tensors, [torch.tensor([0.8]), torch.zeros(0)]),
            [torch.tensor([1]), torch.zeros(0, dtype=torch.int64)],
            conf_type=conf_type,
            weights=weights,
        )[1].item()
        for conf_type, weights in (("max", [1, 1]), ("avg", [0.25, 0.25]))
    ]
    theirs = [
        float(peers.weighted_boxes_fusion_3d(*alone, conf_type=conf_type, weights=weights)[1][0])
        for conf_type, weights in (("max", [1, 1]), ("avg", [0.25, 0.25]))
    ]
    assert ours == pytest.approx([0.8, 0.4])
    assert theirs == pytest.approx([0.4, 0.2])


@pytest.mark.parametrize("score", [0.95, 0.85, 0.5])
@pytest.mark.parametrize("name", ["weighted_boxes_fusion", *COLUMNS])
def test_ensemble_boxes_and_nan(name: str, score: float) -> None:
    """Ours never touch a regular box; in the package they may, so the two are not compared there.

    The package tests scores by ``score < skip_box_thr`` and overlaps by ``argmax``, both of which
    NaN passes.
    """
    peer = getattr(pytest.importorskip("ensemble_boxes"), name)
    half = COLUMNS.get(name, 4) // 2
    corners = [[(0.1, 0.5), (0.6, 0.9)], [(0.11, 0.5), (0.12, 0.52)]]
    boxes = [[[low] * half + [high] * half for low, high in model] for model in corners]
    odd = [boxes[0], [boxes[1][0], [NAN, *boxes[1][1][1:]]]]
    labels, scores = [[1, 1], [1, 1]], [[0.9, 0.7], [0.8, score]]

    def fused(boxes: Any, scores: Any) -> tuple[Tensor, ...]:
        ids = [torch.ones(len(s), dtype=torch.int64) for s in scores]
        parts = ([torch.tensor(p, dtype=torch.float64) for p in m] for m in (boxes, scores))
        return function(name)(*parts, ids, iou_threshold=0.55)  # type: ignore[no-any-return]

    regular = fused([boxes[0], boxes[1][:1]], [scores[0], scores[1][:1]])
    unscored = [scores[0], [scores[1][0], NAN]]
    for ours, wanted in zip(fused(boxes, unscored), regular, strict=True):
        assert torch.equal(ours, wanted)
    positions, values, _ = fused(odd, scores)
    alone = positions.isnan().any(1)
    assert torch.equal(positions[~alone], regular[0])
    assert torch.equal(values[~alone], regular[1])
    own = score if name == "non_maximum_weighted" else score / 2  # one of two models
    assert values[alone].tolist() == [own]

    assert np.isnan(peer(boxes, unscored, labels, iou_thr=0.55)[1]).any()
    theirs = peer(odd, scores, labels, iou_thr=0.55)
    if name in ("weighted_boxes_fusion_3d", "non_maximum_weighted"):  # alone there, too
        np.testing.assert_allclose(theirs[1], values, rtol=2e-6)
        assert np.isnan(theirs[0]).any(1).tolist() == alone.tolist()
    else:  # whatever comes after it joins it
        assert len(theirs[1]) < len(values)
