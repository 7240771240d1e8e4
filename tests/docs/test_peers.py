"""Functions of libraries that may be installed, against what our rows say they compute."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import visops

from docs import suppression_rows as rows
from docs.mask_rows import LOGITS, MASKS, TENSORS


@pytest.mark.parametrize(
    ("by", "options"),
    [
        ("ids", {"max_det": 20}),
        ("labels", {"multi_label": True}),
        ("none", {"agnostic": True}),
        ("ids", {"classes": [0, 2]}),
    ],
    ids=str,
)
def test_ultralytics(
    by: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("YOLO_OFFLINE", "true")
    package = pytest.importorskip("ultralytics.utils.nms")
    prediction = rows.PREDICTION.clone()
    found = package.non_max_suppression(
        prediction, rows.CONF, rows.IOU, **{"max_det": 300, **options}
    )
    steps = rows.by_steps(rows.PREDICTION, **options)
    for theirs, ours in zip(found, steps, strict=True):
        assert torch.equal(theirs, ours)
    ours, _ = rows.detected(by, **options)
    assert torch.equal(torch.cat(found), ours)


def test_oriented_boxes_of_ultralytics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their overlap is that of Gaussians, so other boxes are kept."""
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path))
    package = pytest.importorskip("ultralytics.utils.nms")
    boxes, scores = rows.RADIANS.float(), rows.SCORES.float()
    theirs = package.TorchNMS.fast_nms(boxes, scores, 0.3, iou_func=package.batch_probiou)
    assert visops.nms_rotated(boxes, scores, 0.3).tolist() != theirs.tolist()


def test_segment_anything() -> None:
    package = pytest.importorskip("segment_anything.utils.amg")
    assert visops.masks_to_rle(TENSORS, compressed=False) == package.mask_to_rle_pytorch(TENSORS)
    theirs = package.calculate_stability_score(LOGITS, 0.5, 0.3)
    torch.testing.assert_close(visops.stability_score(LOGITS, 0.5, 0.3), theirs)
    for mode in ("holes", "islands"):
        found, changed = visops.remove_small_regions(TENSORS, 40, mode)
        pairs = [package.remove_small_regions(mask, 40, mode) for mask in MASKS]
        np.testing.assert_array_equal(found, [mask for mask, _ in pairs])
        assert changed.tolist() == [different for _, different in pairs]
