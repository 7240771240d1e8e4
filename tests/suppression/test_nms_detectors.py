"""torchvision's detectors with visops' suppression in place of their own."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import visops
from detectors import SMALL, photos, untrained
from torch import Tensor

detection = pytest.importorskip("torchvision.models.detection")
backbones = pytest.importorskip("torchvision.models.detection.backbone_utils")
box_ops = pytest.importorskip("torchvision.ops.boxes")


def faster_rcnn() -> torch.nn.Module:
    backbone = backbones.resnet_fpn_backbone(backbone_name="resnet18", weights=None)
    limits = {
        "rpn_post_nms_top_n_test": 300,
        "box_score_thresh": 0.05,
        "box_detections_per_img": 300,
    }
    model: torch.nn.Module = detection.FasterRCNN(backbone, **SMALL, **limits)
    return model


def retinanet() -> torch.nn.Module:
    backbone = backbones.resnet_fpn_backbone(
        backbone_name="resnet18", weights=None, returned_layers=[2, 3, 4]
    )
    limits = {"score_thresh": 0.05, "detections_per_img": 300}
    # The default anchors of the four finest levels.
    sizes = tuple((s, int(s * 2 ** (1 / 3)), int(s * 2 ** (2 / 3))) for s in (32, 64, 128, 256))
    anchors = detection.anchor_utils.AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * len(sizes))
    model: torch.nn.Module = detection.RetinaNet(
        backbone, anchor_generator=anchors, **SMALL, **limits
    )
    return model


def table(found: dict[str, Tensor]) -> np.ndarray:
    """Sorted rows of score, label and box: torchvision's order is not stable."""
    columns = [found["scores"][:, None], found["labels"][:, None], found["boxes"]]
    rows = torch.cat([c.double() for c in columns], 1).numpy()
    return rows[np.lexsort(rows.T[::-1])]


@pytest.mark.parametrize("make", [faster_rcnn, retinanet])
def test_the_same_detections(
    make: Callable[[], torch.nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = untrained(make)
    expected = model(photos())
    sizes = []

    def counted(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
        kept = visops.batched_nms(boxes, scores, idxs, iou_threshold)
        sizes.append((len(boxes), len(kept)))
        return kept

    monkeypatch.setattr(box_ops, "batched_nms", counted)
    found = model(photos())
    # There are many boxes; many are kept and many are dropped.
    assert len(sizes) == (4 if make is faster_rcnn else 2)
    assert all(before > 500 and 100 < after < 0.8 * before for before, after in sizes)
    for ours, theirs in zip(found, expected, strict=True):
        assert len(ours["boxes"]) == 300
        assert len(ours["labels"].unique()) > 3
        np.testing.assert_array_equal(table(ours), table(theirs))


def test_nms_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """visops.nms below torchvision's own batched_nms, with its loops and offsets."""
    model = untrained(faster_rcnn)
    expected = model(photos()[:1])[0]
    calls = []

    def counted(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
        calls.append(len(boxes))
        return visops.nms(boxes, scores, iou_threshold)

    monkeypatch.setattr(box_ops, "nms", counted)
    np.testing.assert_array_equal(table(model(photos()[:1])[0]), table(expected))
    assert sum(calls) > 1000
