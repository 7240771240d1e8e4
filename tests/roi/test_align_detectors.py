"""torchvision's own detectors, with their poolers replaced by ours."""

from typing import Any

import pytest
import torch
import visops
from detectors import SMALL, photos, untrained
from torch import Tensor

detection = pytest.importorskip("torchvision.models.detection")
backbones = pytest.importorskip("torchvision.models.detection.backbone_utils")

LEVELS = ["0", "1", "2", "3"]


def make(**poolers: Any) -> torch.nn.Module:
    """Return Mask R-CNN, which pools for boxes and for masks."""
    backbone = backbones.resnet_fpn_backbone(backbone_name="resnet18", weights=None)
    limits = {
        "rpn_pre_nms_top_n_train": 200,
        "rpn_post_nms_top_n_train": 100,
        "rpn_post_nms_top_n_test": 100,
        "box_score_thresh": 0.05,
        "box_detections_per_img": 40,
        "box_batch_size_per_image": 64,
    }
    model: torch.nn.Module = detection.MaskRCNN(backbone, **SMALL, **limits, **poolers)
    return model


def with_our_poolers() -> torch.nn.Module:
    return make(
        box_roi_pool=visops.MultiScaleRoIAlign(LEVELS, 7, 2),
        mask_roi_pool=visops.MultiScaleRoIAlign(LEVELS, 14, 2),
    )


@pytest.fixture(scope="module")
def pair() -> tuple[torch.nn.Module, torch.nn.Module]:
    """Two detectors with the same weights: torchvision's poolers, and ours."""
    theirs, ours = untrained(make), untrained(with_our_poolers)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def test_detections(pair: tuple[torch.nn.Module, torch.nn.Module]) -> None:
    theirs, ours = (model.eval() for model in pair)
    assert "MultiScaleRoIAlign" in repr(ours)
    with torch.no_grad():
        for found, wanted in zip(ours(photos()), theirs(photos()), strict=True):
            assert len(wanted["boxes"]) == 40
            assert torch.equal(found["labels"], wanted["labels"])
            torch.testing.assert_close(found["boxes"], wanted["boxes"], rtol=0, atol=1e-2)
            torch.testing.assert_close(found["scores"], wanted["scores"], rtol=0, atol=1e-4)
            assert found["masks"].shape == wanted["masks"].shape
            torch.testing.assert_close(found["masks"], wanted["masks"], rtol=0, atol=1e-3)
    pool: Any = ours.roi_heads
    assert pool.box_roi_pool.scales == [1 / 4, 1 / 8, 1 / 16, 1 / 32]


def test_two_maps_of_one_scale() -> None:
    """MobileNet's pyramid has two maps at 1/32."""

    def mobilenet() -> torch.nn.Module:
        model: torch.nn.Module = detection.fasterrcnn_mobilenet_v3_large_fpn(
            weights=None, weights_backbone=None, **SMALL, box_score_thresh=0.0
        )
        return model

    theirs = untrained(mobilenet).eval()
    pooler: Any = theirs.roi_heads
    before = pooler.box_roi_pool
    pooler.box_roi_pool = visops.MultiScaleRoIAlign(
        before.featmap_names, before.output_size, before.sampling_ratio
    )
    # The detections of random weights have equal scores, so they come in any order: compare what
    # the poolers return in the detector.
    calls = []
    pooler.box_roi_pool.register_forward_hook(lambda _, *call: calls.append(call))
    with torch.no_grad():
        for found in theirs(photos()):
            assert len(found["boxes"]) > 10
        for arguments, result in calls:
            torch.testing.assert_close(result, before(*arguments), rtol=0, atol=1e-4)
    assert len(calls) == 1
    assert pooler.box_roi_pool.scales == before.scales == [1 / 32, 1 / 32]


def targets(images: list[Tensor]) -> list[dict[str, Tensor]]:
    """Two objects in each image."""
    found = []
    for image in images:
        height, width = image.shape[1:]
        boxes = torch.tensor([[0.1, 0.2, 0.6, 0.9], [0.4, 0.1, 0.9, 0.5]])
        boxes = boxes * torch.tensor([width, height, width, height])
        masks = torch.zeros(2, height, width, dtype=torch.uint8)
        for mask, (x1, y1, x2, y2) in zip(masks, boxes.int().tolist(), strict=True):
            mask[y1:y2, x1:x2] = 1
        found.append({"boxes": boxes, "labels": torch.tensor([3, 7]), "masks": masks})
    return found


def training(model: torch.nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Losses, and the gradient of their sum by every parameter."""
    model.requires_grad_().train()
    torch.manual_seed(0)  # the detectors choose among proposals at random
    losses = model(photos(), targets(photos()))
    named = dict(model.named_parameters())
    total = torch.stack(list(losses.values())).sum()
    found = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    return losses, {n: g for n, g in zip(named, found, strict=True) if g is not None}


def test_training_step(pair: tuple[torch.nn.Module, torch.nn.Module]) -> None:
    losses, wanted = training(pair[0])
    our_losses, found = training(pair[1])
    assert found.keys() == wanted.keys()
    assert len(found) >= 50
    assert len(losses) == 5
    for name, loss in losses.items():
        torch.testing.assert_close(our_losses[name], loss, rtol=1e-4, atol=1e-5)
    # Norms, not elements: where features differ by 5e-6, a unit at the kink of its ReLU may turn on
    # or off, depending on how torch's own products round in this process. That changes its row by
    # 2.5e-3 of the row's largest element, but norms by less than 5e-4.
    for name, gradient in wanted.items():
        difference, size = (float(g.norm()) for g in (found[name] - gradient, gradient))
        assert difference <= max(1e-3 * size, 1e-7), name
    # The same bits again; torchvision's own backward promises that on a CPU only.
    again = training(pair[1])[1]
    assert all(torch.equal(found[name], again[name]) for name in found)
