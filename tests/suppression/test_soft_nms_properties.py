"""Properties of soft suppression over random problems, and of rotated boxes."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import every_slot, use_slot
from references import rotated
from references import soft_nms as reference
from references.soft_nms import soft_nms_by
from torch import Tensor

from suppression import rotated_cases
from suppression.nms_cases import (
    BOXES,
    FLOATING,
    SCORES,
    THRESHOLDS,
    assert_same_scores,
    distinct_scores,
    every_other,
    from_corners,
    transposed,
)
from suppression.rotated_cases import thresholds

# A call takes milliseconds under emulation.
EMULATED = visops.build_info()["cpu"] == "cuda_emulated"
METHODS: tuple[Any, ...] = ("linear", "gaussian", "hard")
few = settings(max_examples=6)
seeds = st.integers(0, 2**32 - 1)
Found = tuple[Tensor, Tensor]


@dataclass
class Problem:
    boxes: Tensor
    scores: Tensor
    options: dict[str, Any]
    rng: np.random.Generator

    def soft_nms(self, order: Any = slice(None), **options: Any) -> Found:
        chosen = {**self.options, **options}
        return visops.soft_nms(self.boxes[order], self.scores[order], **chosen)


def problems(
    seed: int, count: int, largest: int = 40, score: Callable[..., np.ndarray] | None = None
) -> Iterator[Problem]:
    """Every kind of boxes and scores, method and threshold, in both dtypes."""
    kinds, scores = list(BOXES.values()), list(SCORES.values())
    for i in range(max(1, count // 20) if EMULATED else count):
        rng = np.random.default_rng([seed, i])
        size = int(rng.integers(0, largest))
        dtype = (np.float32, np.float64)[rng.integers(0, 2)]
        values = score or scores[rng.integers(0, len(scores))]
        options = {
            "method": METHODS[rng.integers(0, 3)],
            "iou_threshold": THRESHOLDS[rng.integers(0, len(THRESHOLDS))],
            "sigma": float(rng.choice([0.05, 0.5, 3.0])),
            "min_score": float(rng.choice([0.0, 0.001, 0.3])),
        }
        yield Problem(
            torch.from_numpy(kinds[rng.integers(0, len(kinds))](rng, size).astype(dtype)),
            torch.from_numpy(values(rng, size).astype(dtype)),
            options,
            rng,
        )


@few
@given(seeds)
def test_reference(seed: int) -> None:
    for p in problems(seed, 50):
        expected = reference.soft_nms(p.boxes.numpy(), p.scores.numpy(), **p.options)
        assert_same_scores(p.soft_nms(), expected, p.options["method"])


@few
@given(seeds)
def test_hard_is_nms(seed: int) -> None:
    """Among the boxes whose score suffices."""
    for p in problems(seed, 200):
        kept, values = p.soft_nms(method="hard")
        candidates = (p.scores >= p.options["min_score"]).nonzero()[:, 0]
        threshold = p.options["iou_threshold"]
        among = visops.nms(p.boxes[candidates], p.scores[candidates], threshold)
        assert torch.equal(kept, candidates[among])
        assert torch.equal(values, p.scores[kept])


def separate(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and scores without ties, among scores or of an overlap with the threshold."""
    boxes = from_corners(rng.uniform(0, 12, (count, 2)), rng.uniform(1, 9, (count, 2)))
    return boxes, rng.uniform(0.01, 1, count)


@few
@given(seeds, st.sampled_from(METHODS))
def test_as_published(seed: int, method: str) -> None:
    """Without ties, mmcv's algorithm keeps the same boxes with the same scores."""
    for i in range(1 if EMULATED else 10):
        rng = np.random.default_rng([seed, i])
        boxes, scores = separate(rng, int(rng.integers(0, 30)))
        options: dict[str, Any] = {
            "method": method,
            "iou_threshold": float(rng.uniform(0.05, 0.95)),
            "sigma": float(rng.uniform(0.05, 2)),
            "min_score": float(rng.choice([0.0001, 0.01])),
        }
        kept, values = visops.soft_nms(torch.from_numpy(boxes), torch.from_numpy(scores), **options)
        expected = reference.as_published(boxes, scores, **options)
        assert set(kept.tolist()) == expected.keys()
        wanted = [expected[i] for i in kept.tolist()]
        np.testing.assert_allclose(values, wanted, rtol=1e-12, atol=0)


coordinates = st.one_of(
    st.floats(width=32),  # of every magnitude, infinite and NaN
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, 1e-38, -1e-45, 1e19, -3e38, float("inf")]),
)


@settings(max_examples=20 if EMULATED else 100)
@given(
    st.lists(st.tuples(*[coordinates] * 5), max_size=12),
    st.sampled_from(THRESHOLDS),
    st.sampled_from(["linear", "hard"]),
    st.sampled_from([0.0, 0.001, 1.0]),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_anything_goes(
    dets: Any, threshold: float, method: str, least: float, dtype: torch.dtype
) -> None:
    tensor = torch.tensor(dets, dtype=dtype).reshape(-1, 5)
    boxes, scores = tensor[:, :4], tensor[:, 4]
    options: dict[str, Any] = {"method": method, "iou_threshold": threshold, "min_score": least}
    kept, values = visops.soft_nms(boxes, scores, **options)
    expected, lowered = reference.soft_nms(boxes.numpy(), scores.numpy(), **options)
    assert kept.tolist() == expected
    np.testing.assert_array_equal(values, lowered)


def exact(
    overlaps: np.ndarray, scores: np.ndarray, ids: np.ndarray | None, **options: Any
) -> dict[int, float]:
    """The kept boxes' new scores, from all overlaps; boxes with different ids never meet."""
    if ids is not None:
        overlaps = np.where(ids[:, None] == ids, overlaps, 0.0)
    kept, values = soft_nms_by(lambda i, others: overlaps[i, others], scores.copy(), **options)
    return dict(zip(kept, values.tolist(), strict=True))


@pytest.mark.matrix
@pytest.mark.parametrize("kind", rotated_cases.BOXES)
def test_rotated_reference(kind: str) -> None:
    rng = np.random.default_rng(list(rotated_cases.BOXES).index(kind))
    lowered = 0
    for count in (1, 2, 30, 70):
        boxes, scores = rotated_cases.BOXES[kind](rng, count), distinct_scores(rng, count)
        overlaps = rotated.ious(boxes, boxes)
        ids = rng.integers(0, 3, count)
        for threshold in thresholds(rng, overlaps):
            method = METHODS[int(threshold * 1e6) % 3]
            options: dict[str, Any] = {"iou_threshold": threshold, "method": method}
            options |= {"sigma": 0.2, "min_score": 0.05}
            for groups in (None, ids):
                kept, values = visops.soft_nms_rotated(boxes, scores, idxs=groups, **options)
                expected = exact(overlaps, scores, groups, **options)
                assert set(kept.tolist()) == set(expected)
                wanted = [expected[i] for i in kept]
                np.testing.assert_allclose(values, wanted, rtol=1e-9)
                assert (np.diff(values) <= 0).all()
                lowered += int((values < scores[kept]).sum())
    assert lowered > 20


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_dtypes_and_layouts(dtype: torch.dtype) -> None:
    """Computed in float64 from what the dtypes hold, also on more than the 192 boxes of a stack."""
    rng = np.random.default_rng(9)
    for count in (0, 1, 65, 192, 193, 400):
        boxes = torch.from_numpy(rotated_cases.BOXES["clusters"](rng, count)).to(dtype)
        scores = torch.from_numpy(distinct_scores(rng, count)).to(dtype)
        kept, values = visops.soft_nms_rotated(transposed(boxes), every_other(scores), 0.4)
        wide, expected = visops.soft_nms_rotated(boxes.double(), scores.double(), 0.4)
        assert torch.equal(kept, wide)
        assert torch.equal(values, expected.to(dtype))


@every_slot
def test_upright_boxes(slot: str) -> None:
    """Without angles it is soft_nms; with "hard" it is nms_rotated."""
    rng = np.random.default_rng(10)
    corner, size = rng.integers(0, 60, (300, 2)), rng.integers(1, 30, (300, 2))
    corners = np.concatenate([corner, corner + size], 1).astype(np.float64)
    boxes = np.concatenate([corner + size / 2, size, np.zeros((300, 1))], 1)
    scores = distinct_scores(rng, 300)
    with use_slot(slot):
        compare_with_upright(boxes, corners, scores)


def compare_with_upright(boxes: np.ndarray, corners: np.ndarray, scores: np.ndarray) -> None:
    for method in METHODS:
        ours = visops.soft_nms_rotated(boxes, scores, 0.3, method=method)
        upright = visops.soft_nms(corners, scores, 0.3, method=method)
        np.testing.assert_array_equal(ours[0], upright[0])
        np.testing.assert_allclose(ours[1], upright[1], rtol=1e-9)
    hard = visops.soft_nms_rotated(boxes, scores, 0.3, min_score=0, method="hard")
    np.testing.assert_array_equal(hard[0], visops.nms_rotated(boxes, scores, 0.3))
    limited = visops.soft_nms_rotated(boxes, scores, 0.3, max_output=7)
    full = visops.soft_nms_rotated(boxes, scores, 0.3)
    np.testing.assert_array_equal(limited[0], full[0][:7])


@every_slot
def test_by_hand(slot: str) -> None:
    """A box turned by a quarter overlaps 4 x 4 of 48; inert boxes lower nothing."""
    quarter = math.pi / 2
    boxes = [[5, 5, 8, 4, 0], [5, 5, 8, 4, quarter], [5, 5, 0, 4, 0], [5, 5, math.nan, 4, 0]]
    tensor, scores = torch.tensor(boxes), torch.tensor([0.9, 0.8, 0.95, 0.5])
    with use_slot(slot):
        kept, values = visops.soft_nms_rotated(tensor, scores, 0.3)
        more = visops.soft_nms_rotated(tensor, scores, 0.34)
        gaussian = visops.soft_nms_rotated(tensor, scores, sigma=0.1, method="gaussian")[1]
    assert kept.tolist() == [2, 0, 1, 3]
    torch.testing.assert_close(values, torch.tensor([0.95, 0.9, 0.8 * 2 / 3, 0.5]))
    assert torch.equal(more[1], scores[more[0]])
    assert gaussian[-1].item() == pytest.approx(0.8 * math.exp(-1 / 0.9), rel=1e-6)
