"""Values of packed masks: against loops over pixels, torchvision, matrices and COCO's API."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import visops
from references import packed as reference
from torchvision.ops import masks_to_boxes

from masks.mask_cases import LAYOUTS, SIZES, every_kind

EMULATED = visops.build_info()["cpu"] == "cuda_emulated"


@pytest.mark.matrix
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bits_areas_and_boxes(layout: str) -> None:
    rng = np.random.default_rng(1)
    for i, (height, width) in enumerate(SIZES):
        masks = every_kind(height, width, i)
        values = torch.from_numpy(masks)
        if i % 2:  # pixels that are not 0 are inside, whichever bit is set
            values = values * torch.from_numpy(2 ** rng.integers(0, 8, masks.shape)).byte()
        given = LAYOUTS[layout](values)
        packed = visops.pack_masks(given)
        assert packed.size == (height, width)
        assert packed.bits.dtype == torch.int64
        expected = np.stack([reference.pack(mask) for mask in masks])
        np.testing.assert_array_equal(packed.bits.numpy(), expected)
        np.testing.assert_array_equal(packed.unpack().numpy(), masks)
        for form in (given, packed):
            assert visops.mask_area(form).tolist() == [int(mask.sum()) for mask in masks]
            boxes, empty = visops.masks_to_boxes(form, return_empty=True)
            assert boxes.dtype == torch.float32
            assert boxes.tolist() == [reference.box(mask) for mask in masks]
            assert empty.tolist() == [not mask.any() for mask in masks]
            assert torch.equal(visops.masks_to_boxes(form), boxes)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["iou", "ioa"])
def test_overlaps(kind: str) -> None:
    for i, (height, width) in enumerate(SIZES[:-1]):
        first, second = (
            every_kind(height, width, i),
            every_kind(height, width, i + 20)[::-1][:7].copy(),
        )
        expected = [[reference.overlap(a, b, kind) for b in second] for a in first]
        found = visops.mask_iou(first, second, kind=kind)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.array(expected))
        forms: list[list[Any]] = [[m, visops.pack_masks(m)] for m in (first, second)]
        for one, other in itertools.product(*forms):
            np.testing.assert_array_equal(visops.mask_iou(one, other, kind=kind), found)


@pytest.mark.matrix
def test_crowds() -> None:
    masks = every_kind(9, 70)
    crowd = np.arange(len(masks)) % 3 == 0
    found = visops.mask_iou(masks, masks, iscrowd=crowd)
    iou, ioa = (visops.mask_iou(masks, masks, kind=kind) for kind in ("iou", "ioa"))
    np.testing.assert_array_equal(found, np.where(crowd, ioa, iou))
    assert (ioa != iou).any()
    np.testing.assert_array_equal(
        visops.mask_iou(masks, masks, iscrowd=crowd.view(np.uint8)), found
    )


def test_large_masks_are_counted_exactly() -> None:
    """Areas that float32 would round, and rows of many words: all steps of the counting."""
    rng = np.random.default_rng(2)
    height = 50 if EMULATED else 4200
    masks = torch.zeros(5, height, 4100, dtype=torch.bool)
    for mask in masks[1:]:
        begin, end = np.sort(rng.integers(0, height * 4100, 2))
        mask.view(-1)[begin:end] = True
    masks[0] = True
    masks[4] &= torch.from_numpy(rng.random((height, 4100)) < 0.5)
    flat = masks.flatten(1)
    areas = flat.sum(1)
    assert torch.equal(visops.mask_area(masks), areas)
    common = torch.stack([(mask & flat).sum(1) for mask in flat])
    union = areas[:, None] + areas - common
    expected = (common.double() / union.clamp(min=1)).float()
    assert torch.equal(visops.mask_iou(masks, masks), expected)


def test_narrow_masks_in_wide_images() -> None:
    """Few words of each row: they are counted row by row."""
    rng = np.random.default_rng(3)
    masks = np.zeros((12, 40, 1000), bool)
    for mask in masks:
        y, x = rng.integers(0, 20), rng.integers(0, 300)
        mask[y : y + 20, x : x + 90] = rng.random((20, 90)) < 0.7
    flat = masks.reshape(12, -1).astype(np.int64)
    common = flat @ flat.T
    area = flat.sum(1)
    expected = (common / (area[:, None] + area - common)).astype(np.float32)
    np.testing.assert_array_equal(visops.mask_iou(masks, masks), expected)


def test_torchvision() -> None:
    masks = torch.from_numpy(every_kind(60, 90))
    assert torch.equal(visops.masks_to_boxes(masks), masks_to_boxes(masks))


def test_coco() -> None:
    """The overlaps of COCO's evaluation, crowds among them."""
    coco = pytest.importorskip("pycocotools.mask")
    masks = every_kind(60, 90)[:8]
    encoded = coco.encode(np.asfortranarray(masks.transpose(1, 2, 0).astype(np.uint8)))
    crowd = [0, 1, 0, 0, 1, 0, 1, 0]
    theirs = coco.iou(encoded, encoded, crowd)
    ours = visops.mask_iou(masks, masks, iscrowd=np.array(crowd, np.uint8))
    np.testing.assert_array_equal(ours, np.nan_to_num(theirs).astype(np.float32))
    assert visops.mask_area(masks).tolist() == coco.area(encoded).tolist()


@pytest.mark.parametrize("shape", [(0, 4, 5), (2, 0, 5), (2, 4, 0), (0, 0), (3, 0, 2, 2)])
def test_nothing(shape: tuple[int, ...]) -> None:
    masks = torch.ones(shape, dtype=torch.bool)
    packed = visops.pack_masks(masks)
    assert packed.bits.shape == (*shape[:-1], (shape[-1] + 63) // 64)
    assert packed.unpack().shape == shape
    assert visops.mask_area(masks).shape == shape[:-2]
    assert visops.masks_to_boxes(masks).shape == (*shape[:-2], 4)
    if len(shape) == 3:
        overlaps = visops.mask_iou(masks, masks)
        assert overlaps.shape == (shape[0], shape[0])
        assert not overlaps.any()
