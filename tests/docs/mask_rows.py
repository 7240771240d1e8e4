"""Rows of masks.md on other libraries: our call and theirs, and by how much they may differ."""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
import scipy.ndimage
import skimage.measure
import torch
import torchvision
import visops
from references.masks import by_grid_sample
from references.rle import counts_of

pycocotools = pytest.importorskip("pycocotools.mask")

RNG = np.random.default_rng(0)
Pair = tuple[Any, Any]
Row = tuple[Callable[[], Pair], float]

MASKS = scipy.ndimage.gaussian_filter(RNG.random((4, 60, 70)), (0, 3, 3)) > 0.5
MASK = MASKS[0]
LABELS = (MASKS[0].astype(np.int64) + 2 * MASKS[1])[:40]
TENSORS = torch.from_numpy(MASKS)
ENCODED = [pycocotools.encode(np.asfortranarray(mask.astype(np.uint8))) for mask in MASKS]
CROWD = [0, 1, 0, 1]


PLAIN = visops.masks_to_rle(TENSORS, compressed=False)
SEGMENTATION = [[5.5, 3, 60, 20.2, 30, 55], [40, 30, 69, 40, 50, 59, 41, 58.5]]


def bounds() -> Pair:
    """Corners, of which the last ones are inside, as x, y, width and height."""
    boxes = visops.rle_to_boxes(ENCODED)
    boxes[:, 2:] += 1 - boxes[:, :2]
    return boxes, pycocotools.toBbox(ENCODED)


def borders() -> Pair:
    found, _ = cv2.findContours(MASK.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    ours = [p for region in visops.masks_to_polygons(MASK, holes=True) for p in region]
    theirs = [border[:, 0] for border in found]
    ordered = (sorted(map(np.ndarray.tolist, own)) for own in (ours, theirs))
    first, second = (np.concatenate([np.ravel(p) for p in own]) for own in ordered)
    return first, second


def encoded() -> Pair:
    columns = np.asfortranarray(MASKS.transpose(1, 2, 0).astype(np.uint8))
    found = (visops.masks_to_rle(TENSORS), pycocotools.encode(columns))
    ours, theirs = (b" ".join(rle["counts"] for rle in rles) for rles in found)
    return np.frombuffer(ours, np.uint8), np.frombuffer(theirs, np.uint8)


def polygons() -> Pair:
    ours = visops.polygons_to_masks([SEGMENTATION], (60, 70), out="rle")[0]
    theirs = pycocotools.merge(pycocotools.frPyObjects(SEGMENTATION, 60, 70))
    assert ours == theirs
    return visops.rle_to_masks(ours), pycocotools.decode(theirs)


def same_components(ours: Any, theirs: Any) -> Pair:
    """Labels by the first pixel of each component: libraries number them otherwise."""
    found = []
    for labels in (np.asarray(ours), np.asarray(theirs)):
        values, first = np.unique(labels, return_index=True)
        found.append(np.where(labels == 0, -1, first[np.searchsorted(values, labels)]))
    return found[0], found[1]


def by_product() -> np.ndarray:
    flat = MASKS.reshape(4, -1).astype(np.float64)
    inter, area = flat @ flat.T, flat.sum(1)
    return inter / (area[:, None] + area - inter)


SMALL_MASKS = torch.from_numpy(RNG.random((4, 14, 14))).float()
MASK_BOXES = torch.tensor([[3.5, 4, 40, 50], [0, 0, 70, 60], [50.2, 3, 69, 58.5], [9, 9, 20, 13]])
LOGITS = torch.from_numpy(RNG.normal(size=(4, 60, 70))).float()


def boundaries() -> Pair:
    """Their distance on these masks is two pixels."""
    padded = [
        cv2.copyMakeBorder(m.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_CONSTANT) for m in MASKS
    ]
    square = np.ones((3, 3), np.uint8)
    eroded = np.stack([cv2.erode(mask, square, iterations=2)[1:-1, 1:-1] for mask in padded])
    theirs = torch.from_numpy(MASKS & ~eroded.astype(bool))
    return visops.mask_iou(TENSORS, TENSORS, kind="boundary"), visops.mask_iou(theirs, theirs)


def panoptic() -> Pair:
    scores = torch.tensor([0.4, 0.9, 0.1, 0.8])
    labels, drawn = torch.zeros(60, 70, dtype=torch.int32), 0
    for i in torch.argsort(-scores).tolist():
        mask = TENSORS[i]
        if scores[i] < 0.3 or (mask & (labels > 0)).sum() / mask.sum() > 0.55:
            continue
        drawn += 1
        labels[mask & (labels == 0)] = drawn
    ours, _ = visops.merge_masks(TENSORS, scores, overlap_threshold=0.55, score_threshold=0.3)
    return ours, labels


def statistics() -> Pair:
    labels, stats = visops.connected_components(TENSORS[0], return_stats=True)
    count, theirs, table, _ = cv2.connectedComponentsWithStats(MASK.astype(np.uint8))
    ours = np.sort(stats.areas[: count - 1].numpy())
    np.testing.assert_array_equal(*same_components(labels, theirs))
    return ours, np.sort(table[1:, cv2.CC_STAT_AREA])


def boxes_and_centroids() -> Pair:
    labels, count = scipy.ndimage.label(MASK)
    _, stats = visops.connected_components(TENSORS[0], connectivity=4, return_stats=True)
    slices = scipy.ndimage.find_objects(labels)
    boxes = [[s[1].start, s[0].start, s[1].stop, s[0].stop] for s in slices]
    centroids = scipy.ndimage.center_of_mass(MASK, labels, range(1, count + 1))
    theirs = np.concatenate([boxes, np.array(centroids)[:, ::-1]], 1)
    found = stats.boxes[:count].double(), stats.centroids[:count].double()
    ours = torch.cat(found, 1).numpy()
    exclusive = ours[0, 2] == theirs[0, 2]
    return ours if exclusive else ours + np.array([0, 0, 1, 1, 0, 0]), theirs


def without_regions() -> Pair:
    """segment_anything's way, by OpenCV's components."""
    ours, expected = [], []
    for mode in ("holes", "islands"):
        found, _ = visops.remove_small_regions(TENSORS, 40, mode)
        ours.append(found)
        for mask in MASKS:
            of_these = (~mask if mode == "holes" else mask).astype(np.uint8)
            _, labels, table, _ = cv2.connectedComponentsWithStats(of_these)
            areas = table[1:, cv2.CC_STAT_AREA]
            small = 1 + np.flatnonzero(areas < 40)
            if mode == "islands" and len(small) == len(areas):
                small = small[small != 1 + areas.argmax()]
            expected.append(np.where(np.isin(labels, small), mode == "holes", mask))
    return torch.cat(ours), np.stack(expected)


def run_lengths() -> Pair:
    ours = [rle["counts"] for rle in PLAIN]
    return ours == [counts_of(mask) for mask in MASKS], True


MASK_ROWS: dict[str, Row] = {
    "torchvision.ops.masks_to_boxes(masks)": (
        lambda: (visops.masks_to_boxes(TENSORS), torchvision.ops.masks_to_boxes(TENSORS)),
        0,
    ),
    "detectron2.layers.paste_masks_in_image(masks, boxes, size)": (
        lambda: (
            visops.paste_masks(SMALL_MASKS, MASK_BOXES, (60, 70)),
            by_grid_sample(SMALL_MASKS, MASK_BOXES, (60, 70)) >= 0.5,
        ),
        0,
    ),
    "torchvision.models.detection.roi_heads.paste_masks_in_image(masks, boxes, size)": (
        lambda: (
            visops.paste_masks(
                SMALL_MASKS, MASK_BOXES, (60, 70), out="float", convention="torchvision"
            ),
            torchvision.models.detection.roi_heads.paste_masks_in_image(
                SMALL_MASKS[:, None], MASK_BOXES, (60, 70)
            )[:, 0],
        ),
        1e-5,
    ),
    "boundary_iou.utils.boundary_utils.mask_to_boundary(mask)": (boundaries, 0),
    "segment_anything.utils.amg.calculate_stability_score(logits, t, o)": (
        lambda: (
            visops.stability_score(LOGITS, 0.5, 0.3),
            (LOGITS > 0.8).sum((1, 2)) / (LOGITS > 0.2).sum((1, 2)),
        ),
        0,
    ),
    "combine_semantic_and_instance_outputs": (panoptic, 0),
    "pycocotools.mask.iou(a, b, iscrowd)": (
        lambda: (
            visops.mask_iou(TENSORS, TENSORS, iscrowd=torch.tensor(CROWD, dtype=torch.bool)),
            pycocotools.iou(ENCODED, ENCODED, CROWD),
        ),
        1e-6,
    ),
    "pycocotools.mask.area(a)": (
        lambda: (visops.mask_area(TENSORS), pycocotools.area(ENCODED)),
        0,
    ),
    "pycocotools.mask.encode(np.asfortranarray(masks))": (encoded, 0),
    "pycocotools.mask.decode(rles)": (
        lambda: (
            visops.rle_to_masks(ENCODED, out="uint8"),
            pycocotools.decode(ENCODED).transpose(2, 0, 1),
        ),
        0,
    ),
    "pycocotools.mask.area(rles)": (
        lambda: (visops.rle_area(ENCODED), pycocotools.area(ENCODED)),
        0,
    ),
    "pycocotools.mask.toBbox(rles)": (bounds, 0),
    "cv2.findContours(mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)": (borders, 0),
    "pycocotools.mask.iou(rles1, rles2, iscrowd)": (
        lambda: (
            visops.rle_iou(ENCODED, ENCODED[:2], CROWD[:2]),
            pycocotools.iou(ENCODED, ENCODED[:2], CROWD[:2]),
        ),
        0,
    ),
    "pycocotools.mask.merge(pycocotools.mask.frPyObjects(segmentation, h, w))": (
        polygons,
        0,
    ),
    "pycocotools.mask.frPyObjects(uncompressed, h, w)": (
        lambda: (
            visops.rle_to_masks(PLAIN, out="uint8"),
            pycocotools.decode(pycocotools.frPyObjects(PLAIN, 60, 70)).transpose(2, 0, 1),
        ),
        0,
    ),
    "detectron2.structures.polygons_to_bitmask(polygons, h, w)": (
        lambda: (
            visops.polygons_to_masks([SEGMENTATION], (60, 70))[0],
            pycocotools.decode(
                pycocotools.merge(pycocotools.frPyObjects(SEGMENTATION, 60, 70))
            ).astype(bool),
        ),
        0,
    ),
    "segment_anything.utils.amg.mask_to_rle_pytorch(masks)": (run_lengths, 0),
    "segment_anything.utils.amg.remove_small_regions(mask, area, mode)": (without_regions, 0),
    "a.flatten(1).float() @ b.flatten(1).float().T": (
        lambda: (visops.mask_iou(TENSORS, TENSORS), by_product()),
        1e-6,
    ),
    "scipy.ndimage.label(mask)": (
        lambda: (
            visops.connected_components(TENSORS[0], connectivity=4),
            scipy.ndimage.label(MASK)[0],
        ),
        0,
    ),
    "scipy.ndimage.find_objects": (boxes_and_centroids, 1e-4),
    "cv2.connectedComponentsWithStats(mask)": (statistics, 0),
    "skimage.measure.label(labels)": (
        lambda: same_components(
            visops.connected_components(torch.from_numpy(LABELS)), skimage.measure.label(LABELS)
        ),
        0,
    ),
    "scipy.ndimage.distance_transform_edt(mask, sampling=s)": (
        lambda: (
            visops.distance_transform(TENSORS[0], spacing=(1.5, 0.5)),
            scipy.ndimage.distance_transform_edt(MASK, sampling=(1.5, 0.5)),
        ),
        1e-5,
    ),
    'scipy.ndimage.distance_transform_cdt(mask, "taxicab")': (
        lambda: (
            visops.distance_transform(TENSORS[0], metric="taxicab"),
            scipy.ndimage.distance_transform_cdt(MASK, "taxicab"),
        ),
        0,
    ),
    "cv2.distanceTransform(mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)": (
        lambda: (
            visops.distance_transform(TENSORS[0]),
            cv2.distanceTransform(MASK.astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE),
        ),
        1e-4,
    ),
}
