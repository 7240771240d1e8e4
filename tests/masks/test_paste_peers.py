"""Pasted masks against detectron2's method, and torchvision's function and Mask R-CNN."""

import numpy as np
import pytest
import torch
import visops
from references.pasted_masks import by_grid_sample
from torchvision.models.detection import maskrcnn_resnet50_fpn, roi_heads
from torchvision.models.detection.roi_heads import paste_masks_in_image

from masks.paste_cases import probabilities, random_boxes

SIZES = ((60, 90), (97, 131), (33, 64))


def equal_but_for_ties(ours: torch.Tensor, theirs: torch.Tensor, numbers: torch.Tensor) -> None:
    """Masks are equal where numbers are not within rounding of the threshold."""
    different = ours != theirs
    assert (numbers[different] - 0.5).abs().max() < 1e-5 if different.any() else True
    assert different.float().mean() < 1e-4
    assert ours.any()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("side", [7, 14, 28])
def test_detectron2(size: tuple[int, int], side: int) -> None:
    rng = np.random.default_rng(side)
    masks = probabilities(20, (side, side), side).float()
    boxes = random_boxes(rng, 20, size)
    theirs = by_grid_sample(masks, boxes, size)
    ours = visops.paste_masks(masks, boxes, size, out="float")
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    inside = visops.paste_masks(masks, boxes, size)
    equal_but_for_ties(inside, theirs >= 0.5, theirs)


@pytest.mark.matrix
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mask", [(28, 28), (14, 28), (40, 10)])
def test_torchvision(size: tuple[int, int], padding: int, mask: tuple[int, int]) -> None:
    """Boxes grow by the masks' width along both axes."""
    rng = np.random.default_rng(padding)
    masks = probabilities(20, mask, seed=padding).float()[:, None]
    boxes = random_boxes(rng, 20, size)
    # Theirs fails for boxes that lie beyond the image.
    boxes = torch.stack(
        [boxes[:, 0::2].clamp(0, size[1]), boxes[:, 1::2].clamp(0, size[0])], 2
    ).flatten(1)
    theirs = paste_masks_in_image(masks, boxes, size, padding)[:, 0]
    ours = visops.paste_masks(
        masks, boxes, size, out="float", convention="torchvision", padding=padding
    )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    inside = visops.paste_masks(masks, boxes, size, convention="torchvision", padding=padding)
    equal_but_for_ties(inside, theirs > 0.5, theirs)


def test_mask_rcnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision's model with our pasting in its place finds the same masks."""
    torch.manual_seed(0)
    model = maskrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=3, min_size=96, max_size=128
    )
    model.eval()
    model.roi_heads.score_thresh = 0.0
    model.roi_heads.detections_per_img = 12
    image = torch.rand(3, 96, 120)
    given: list[tuple[torch.Tensor, torch.Tensor]] = []

    def paste(masks: torch.Tensor, boxes: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        given.append((masks, boxes))
        return visops.paste_masks(masks, boxes, size, out="float", convention="torchvision")[
            :, None
        ]

    with torch.inference_mode():
        theirs = model([image])[0]["masks"]
        for module in (roi_heads, __import__("torchvision").models.detection.transform):
            monkeypatch.setattr(module, "paste_masks_in_image", paste)
        ours = model([image])[0]["masks"]
    assert len(given) == 1
    assert len(theirs) > 3
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    masks, boxes = given[0]
    level = float(masks.median())
    inside = visops.paste_masks(masks, boxes, (96, 120), threshold=level, convention="torchvision")
    close = (theirs[:, 0] - level).abs() < 1e-6
    assert torch.equal(inside & ~close, (theirs[:, 0] > level) & ~close)
    assert inside.any()
    assert (~inside & (theirs[:, 0] > 0)).any()
    assert close.float().mean() < 1e-3
