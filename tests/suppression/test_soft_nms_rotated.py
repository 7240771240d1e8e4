"""Soft suppression of rotated boxes: against exact polygons, upright boxes, and by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import every_slot, use_slot
from references import rotated
from references.soft_nms import soft_nms_by

from suppression.nms_cases import FLOATING, distinct_scores, every_other, transposed
from suppression.rotated_cases import BOXES, thresholds

METHODS = ("linear", "gaussian", "hard")


def exact(
    overlaps: np.ndarray, scores: np.ndarray, ids: np.ndarray | None, **options: Any
) -> dict[int, float]:
    """The kept boxes' new scores, from all overlaps; boxes with different ids never meet."""
    if ids is not None:
        overlaps = np.where(ids[:, None] == ids, overlaps, 0.0)
    kept, values = soft_nms_by(lambda i, others: overlaps[i, others], scores.copy(), **options)
    return dict(zip(kept, values.tolist(), strict=True))


@pytest.mark.matrix
@pytest.mark.parametrize("kind", BOXES)
def test_reference(kind: str) -> None:
    rng = np.random.default_rng(list(BOXES).index(kind))
    lowered = 0
    for count in (1, 2, 30, 70):
        boxes, scores = BOXES[kind](rng, count), distinct_scores(rng, count)
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
        boxes = torch.from_numpy(BOXES["clusters"](rng, count)).to(dtype)
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
