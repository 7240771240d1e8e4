"""Boundary IoU: against loops over pixels, and the erosion of its authors."""

from typing import Any

import cv2
import numpy as np
import pytest
import torch
import visops
from references.masks_by_score import boundary

from masks.mask_cases import KINDS, SIZES, every_kind

OPS = torch.ops.visops


def outlines(masks: np.ndarray, ratio: float) -> np.ndarray:
    packed = visops.pack_masks(torch.from_numpy(masks))
    bits = OPS.mask_boundaries(packed.bits, masks.shape[-1], ratio)
    found: np.ndarray = visops.masks.PackedMasks(bits, packed.size).unpack().numpy()
    return found


@pytest.mark.matrix
@pytest.mark.parametrize("distance", [1, 2, 5, 40])
def test_boundaries(distance: int) -> None:
    for i, (height, width) in enumerate((*SIZES, (12, 200))):
        masks = every_kind(height, width, i)
        expected = [boundary(mask, min(distance, max(height, width))) for mask in masks]
        found = outlines(masks, distance / np.hypot(height, width))
        np.testing.assert_array_equal(found, np.stack(expected))


def their_boundary(mask: np.ndarray, ratio: float) -> np.ndarray:
    """What OpenCV erodes from a mask with a border of zeros."""
    height, width = mask.shape
    steps = max(1, round(ratio * np.sqrt(height**2 + width**2)))
    padded = cv2.copyMakeBorder(mask, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    eroded = cv2.erode(padded, np.ones((3, 3), np.uint8), iterations=steps)
    return np.asarray(mask - eroded[1:-1, 1:-1])


@pytest.mark.parametrize("size", [(60, 90), (210, 333), (64, 64), (300, 700)])
@pytest.mark.parametrize("ratio", [0.0, 0.004, 0.02, 0.2])
def test_boundary_iou_api(size: tuple[int, int], ratio: float) -> None:
    """The masks that bowenc0221/boundary-iou-api compares, and their overlaps."""
    rng = np.random.default_rng(size[1])
    kinds = ("discs", "noise", "full", "empty", "comb")
    masks = np.stack([KINDS[kind](rng, *size) for kind in kinds + kinds[:1] * 4])
    theirs = np.stack([their_boundary(mask.view(np.uint8), ratio) for mask in masks])
    np.testing.assert_array_equal(outlines(masks, ratio), theirs.view(bool))
    options: dict[str, Any] = {} if ratio == 0.02 else {"dilation_ratio": ratio}
    crowd = np.arange(len(masks)) % 3 == 1
    for given in (None, crowd[2:]):
        found = visops.mask_iou(masks, masks[2:], kind="boundary", iscrowd=given, **options)
        expected = visops.mask_iou(theirs, theirs[2:], iscrowd=given)
        np.testing.assert_array_equal(found, expected)
    packed = visops.pack_masks(masks)
    both = visops.mask_iou(packed, packed, kind="boundary", **options)
    np.testing.assert_array_equal(both[:, 2:], visops.mask_iou(theirs, theirs[2:]))
    assert ((both > 0) & (both < 1)).any()
