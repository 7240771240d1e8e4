"""Arguments as other libraries take them: floating ids, [0] for no boxes, order of thresholds."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor

torch.manual_seed(0)
CORNER = torch.rand(40, 2) * 30
BOXES = torch.cat([CORNER, CORNER + 5 + torch.rand(40, 2) * 20], 1)
ROTATED = torch.cat([BOXES, torch.rand(40, 1)], 1)
SCORES = torch.rand(40)
IDS = torch.arange(40) % 3 - 1
CALLS: dict[str, Any] = {
    "batched_nms": lambda ids: visops.batched_nms(BOXES, SCORES, ids, 0.4),
    "nms_rotated": lambda ids: visops.nms_rotated(ROTATED, SCORES, 0.4, idxs=ids),
    "batched_soft_nms": lambda ids: visops.batched_soft_nms(BOXES, SCORES, ids),
    "soft_nms_rotated": lambda ids: visops.soft_nms_rotated(ROTATED, SCORES, idxs=ids),
    "matrix_nms": lambda ids: visops.matrix_nms(BOXES, SCORES, ids),
    "weighted_boxes_fusion": lambda ids: visops.weighted_boxes_fusion(
        *([part] for part in (BOXES, SCORES, ids))
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
    found, expected = CALLS[name](IDS.to(dtype)), CALLS[name](IDS)
    if isinstance(found, Tensor):
        assert torch.equal(found, expected)
    else:
        same(found, expected)
    if name == "weighted_boxes_fusion":
        assert found[2].dtype == dtype
    for bad in (0.5, float("nan"), float("inf")):
        ids = IDS.to(dtype)
        ids[7] = bad
        with pytest.raises(ValueError, match=rf"^visops\.{name}: \w+(\[0\])?\[7\] is not a whole"):
            CALLS[name](ids)


def test_floating_ids_of_arrays() -> None:
    boxes, scores = BOXES.numpy(), SCORES.numpy()
    ids = IDS.numpy().astype(np.float32)
    found = visops.batched_nms(boxes, scores, ids, 0.4)
    same(found, visops.batched_nms(boxes, scores, IDS.numpy(), 0.4))
    fused = visops.weighted_boxes_fusion([boxes], [scores], [ids])
    assert fused[2].dtype == np.float32
    for bad in (0.5, float("nan"), float("inf")):
        ids[7] = bad
        with pytest.raises(ValueError, match=r"^visops\.batched_nms: idxs\[7\] is not a whole"):
            visops.batched_nms(boxes, scores, ids, 0.4)


@pytest.mark.parametrize("array", [False, True])
def test_floating_ids_have_more_than_32_bits(array: bool) -> None:
    """Ids that differ by 2**32 are different groups."""
    wide = IDS + (torch.arange(len(IDS)) % 2 << 32)
    boxes, scores, whole, floating = (
        t.numpy() if array else t for t in (BOXES, SCORES, wide, wide.double())
    )
    found = visops.batched_nms(boxes, scores, floating, 0.4)  # type: ignore[type-var]
    assert found.tolist() == visops.batched_nms(boxes, scores, whole, 0.4).tolist()  # type: ignore[type-var]
    assert found.tolist() != visops.batched_nms(BOXES, SCORES, IDS, 0.4).tolist()


@pytest.mark.parametrize("name", CALLS)
def test_floating_ids_are_dense(name: str) -> None:
    with pytest.raises(
        TypeError, match=rf"^visops\.{name}: \w+(\[0\])? has layout sparse_coo, must"
    ):
        CALLS[name](IDS.double().to_sparse())


def test_soft_nms_by_position() -> None:
    """As in mmcv: the threshold, sigma, the least score, the method."""
    expected = visops.soft_nms(
        BOXES, SCORES, iou_threshold=0.5, sigma=0.3, min_score=0.1, method="gaussian"
    )
    same(visops.soft_nms(BOXES, SCORES, 0.5, 0.3, 0.1, "gaussian"), expected)
    same(visops.soft_nms(BOXES, SCORES, 0.5), visops.soft_nms(BOXES, SCORES, iou_threshold=0.5))
    by_position = visops.batched_soft_nms(BOXES, SCORES, IDS, 0.5)
    same(by_position, visops.batched_soft_nms(BOXES, SCORES, IDS, iou_threshold=0.5))


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
