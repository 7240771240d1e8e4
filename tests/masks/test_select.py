"""Suppression and merging of masks, stability, boundaries: against loops, and their peers."""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
import torch
import visops
from references import masks as reference
from references.masks import boundary
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from masks.cases import KINDS, NAN, SIZES, crowded, every_kind, scores_of

OPS = torch.ops.visops


@pytest.mark.matrix
@pytest.mark.parametrize("size", [(5, 9), (8, 70), (12, 150)])
def test_suppression(size: tuple[int, int]) -> None:
    dtypes = (torch.float32, torch.float16, torch.float64, torch.bfloat16)
    dropped = 0
    for i, threshold in enumerate((0.0, 0.3, 0.5, 0.95, 1.0)):
        count = (3, 20, 70, 33, 40)[i]
        masks, scores = crowded(count, *size, i), scores_of(count, i, dtypes[i % 4])
        groups = np.random.default_rng(i).integers(-2, 2, count)
        for ids in (None, groups):
            expected = reference.suppress(masks, scores.tolist(), threshold, ids)
            given = None if ids is None else torch.from_numpy(ids)
            found = visops.mask_nms(torch.from_numpy(masks), scores, threshold, idxs=given)
            assert found.dtype == torch.int64
            assert found.tolist() == expected
            packed = visops.pack_masks(torch.from_numpy(masks))
            few = visops.mask_nms(packed, scores, threshold, idxs=given, max_output=4)
            assert few.tolist() == expected[:4]
            dropped += count - len(expected)
    assert dropped > 50


@pytest.mark.matrix
def test_ratios_that_equal_the_threshold() -> None:
    """They are counts, so they are compared exactly: only more than the threshold is dropped.

    Ratios are those that a product with the threshold would misjudge, and a few others.
    """
    pairs = [(whole, common) for whole in range(1, 60) for common in range(1, whole + 1)]
    misjudged = [
        (whole, common)
        for whole, common in pairs
        if common > common / whole * whole or common <= np.nextafter(common / whole, 0) * whole
    ]
    assert 50 < len(misjudged) < 500
    scores = torch.tensor([0.9, 0.8])
    for whole, common in {*misjudged[::3], *pairs[::20]}:
        masks = torch.zeros(2, 1, 64, dtype=torch.bool)
        masks[0, 0, :whole], masks[1, 0, :common] = True, True
        share = common / whole
        for threshold, count in ((share, 2), (np.nextafter(share, 0), 1)):
            assert len(visops.mask_nms(masks, scores, threshold)) == count
            if common < whole:  # the first is drawn whole, so all of the second is covered
                _, ids = visops.merge_masks(masks.flip(0), scores, overlap_threshold=threshold)
                assert int((ids > 0).sum()) == count


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_unsigned_groups(dtype: torch.dtype) -> None:
    masks, scores = torch.from_numpy(crowded(30, 9, 70)), scores_of(30)
    groups = torch.arange(30) % 3
    found = visops.mask_nms(masks, scores, 0.3, idxs=groups.to(dtype))
    assert torch.equal(found, visops.mask_nms(masks, scores, 0.3, idxs=groups))


def test_suppression_is_that_of_boxes() -> None:
    """Masks of whole rectangles: as visops.nms of the boxes."""
    rng = np.random.default_rng(0)
    starts = rng.integers(0, 40, (90, 2))
    boxes = np.concatenate([starts, starts + rng.integers(1, 24, (90, 2))], 1)
    masks = np.zeros((90, 70, 70), bool)
    for mask, (x1, y1, x2, y2) in zip(masks, boxes, strict=True):
        mask[y1:y2, x1:x2] = True
    scores, ids = scores_of(90).numpy(), np.arange(90) % 3
    for threshold in (0.1, 0.5, 0.7):
        for limit in (None, 0.4):
            np.testing.assert_array_equal(
                visops.mask_nms(masks, scores, threshold, score_threshold=limit),
                visops.nms(boxes, scores, threshold, score_threshold=limit),
            )
        np.testing.assert_array_equal(
            visops.mask_nms(masks, scores, threshold, idxs=ids),
            visops.batched_nms(boxes, scores, ids, threshold),
        )


@pytest.mark.matrix
@pytest.mark.parametrize("size", [(5, 9), (8, 70), (12, 150)])
def test_merging(size: tuple[int, int]) -> None:
    for i, threshold in enumerate((0.0, 0.3, 0.5, 1.0)):
        count = (4, 20, 50, 33)[i]
        masks, scores = crowded(count, *size, i), scores_of(count, i)
        labels, ids = reference.merge(masks, scores.tolist(), threshold)
        found, found_ids = visops.merge_masks(
            torch.from_numpy(masks), scores, overlap_threshold=threshold
        )
        assert (found.dtype, found_ids.dtype) == (torch.int32, torch.int32)
        np.testing.assert_array_equal(found, labels)
        assert found_ids.tolist() == ids
        assert max(ids) > 1 or threshold == 0.0
        arrays = visops.merge_masks(masks, scores.numpy(), overlap_threshold=threshold)
        np.testing.assert_array_equal(arrays[0], labels)


def test_merging_as_detectron2() -> None:
    """The loop of its panoptic head, on instances alone."""
    masks, scores = torch.from_numpy(crowded(40, 30, 90)), torch.rand(40)
    panoptic = torch.zeros(30, 90, dtype=torch.int32)
    drawn = 0
    for i in torch.argsort(-scores).tolist():
        if scores[i] < 0.25:
            break
        mask = masks[i]
        area, covered = int(mask.sum()), int((mask & (panoptic > 0)).sum())
        if area == 0 or covered / area > 0.4:
            continue
        drawn += 1
        panoptic[mask & (panoptic == 0)] = drawn
    labels, ids = visops.merge_masks(masks, scores, overlap_threshold=0.4, score_threshold=0.25)
    assert torch.equal(labels, panoptic)
    assert int(ids.max()) == drawn > 2
    assert not ids[scores < 0.25].any()


def by_two_masks(logits: Tensor, threshold: float, offset: float) -> Tensor:
    """Segment Anything's score, by way of both masks."""
    above, below = (logits > threshold + offset).sum((-2, -1)), (logits > threshold - offset)
    return above.int() / below.sum((-2, -1)).int()


@pytest.mark.matrix
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str
)
def test_stability(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    for shape in ((3, 9, 70), (64, 64), (2, 3, 5, 4100), (2, 1, 1)):
        logits = (3 * torch.randn(shape, generator=generator)).to(dtype)
        for threshold, offset in ((0.0, 1.0), (0.3, 0.1), (-1.0, 0.0), (0.1, 2.0)):
            found = visops.stability_score(logits, threshold, offset)
            expected = by_two_masks(logits, threshold, offset)
            assert found.dtype == torch.float32
            assert torch.equal(found, expected.nan_to_num(0.0))
    special = torch.tensor([[[NAN, torch.inf, -torch.inf, 2.0, 0.5]]], dtype=dtype)
    assert visops.stability_score(special).tolist() == [np.float32(2 / 3)]
    assert visops.stability_score(torch.full((2, 2), -9.0, dtype=dtype)) == 0
    assert visops.stability_score(special.mT.contiguous().mT[..., 1::2]).tolist() == [1.0]


@pytest.mark.matrix
def test_bits_beyond_the_width_are_not_drawn() -> None:
    """Sizes that a trace has kept: every bit is set, also those that are no pixels."""
    bits = torch.full((2, 5, 2), -1)
    labels, ids = OPS.merge_masks(bits, 70, torch.tensor([1, 0]), None, 0.5)
    assert torch.equal(labels, torch.ones(5, 70, dtype=torch.int32))
    assert ids.tolist() == [0, 1]


def test_nothing() -> None:
    for shape in ((0, 4, 5), (3, 0, 5), (3, 4, 0)):
        masks = torch.ones(shape, dtype=torch.bool)
        scores = torch.arange(shape[0]).float()
        assert visops.mask_nms(masks, scores, 0.5).tolist() == list(range(shape[0]))[::-1]
        labels, ids = visops.merge_masks(masks, scores)
        assert labels.shape == shape[1:]
        assert ids.tolist() == [0] * shape[0]
        assert visops.stability_score(masks.float()).tolist() == [0.0] * shape[0]
    assert (
        visops.mask_nms(
            torch.ones(2, 2, 2, dtype=torch.bool), torch.ones(2), 0.5, max_output=0
        ).tolist()
        == []
    )


MASKS = torch.from_numpy(np.stack([KINDS["full"](np.random.default_rng(0), 3, 70)] * 2))
SCORES = torch.tensor([0.5, 0.25])


def suppress(masks: Any = MASKS, scores: Any = SCORES, level: Any = 0.5, **o: Any) -> Callable:
    return lambda: visops.mask_nms(masks, scores, level, **o)


def merge(masks: Any = MASKS, scores: Any = SCORES, **options: Any) -> Callable[[], Any]:
    return lambda: visops.merge_masks(masks, scores, **options)


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


def test_repeated_masks_are_not_copied() -> None:
    logits = torch.rand(4, 1, 100, 100)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        scores = visops.stability_score(logits.expand(-1, 50, -1, -1), 0.5, 0.1)
    assert max(event.cpu_memory_usage for event in recorded.key_averages()) < logits.nbytes
    expected = visops.stability_score(logits, 0.5, 0.1).expand(-1, 50)
    assert torch.equal(scores, expected)
    assert np.array_equal(visops.stability_score(logits.numpy(), 0.5, 0.1), expected[:, :1])
