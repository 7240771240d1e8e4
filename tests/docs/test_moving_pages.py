"""Tables on other libraries in masks.md, nms.md, roi_crops.md, moving.md: both sides of each row.

A row's call is found by the first cell. detectron2, mmcv, ultralytics and segment_anything are not
run here: their packages need a compiler, a GPU or weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import scipy.ndimage
import skimage.data
import skimage.measure
import torch
import torch.nn.functional as F
import torchvision
import visops
from references.pasted_masks import by_grid_sample
from torchvision.transforms.v2.functional import resized_crop
from visops import compat

pycocotools = pytest.importorskip("pycocotools.mask")

DOCS = Path(__file__).resolve().parents[2] / "docs"
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

PHOTO = torch.from_numpy(skimage.data.astronaut()).permute(2, 0, 1)[:, :90, :120].float() / 255
BATCH = PHOTO[None]
WHOLE = torch.tensor([[0, 20.0, 10, 60, 50]])  # image, x1, y1, x2, y2


def by_grid() -> Pair:
    x1, y1, x2, y2 = WHOLE[0, 1:].tolist()
    scale = torch.tensor([[[x2 - x1, 0, x1 + x2 - 120], [0, y2 - y1, y1 + y2 - 90]]])
    theta = scale / torch.tensor([[120.0], [90.0]])
    grid = F.affine_grid(theta, [1, 3, 9, 7], align_corners=False)
    theirs = F.grid_sample(BATCH, grid, align_corners=False, padding_mode="border")
    return visops.crop_rois(BATCH, WHOLE, (9, 7)), theirs


CROP_ROWS: dict[str, Row] = {
    "image[:, y1:y2, x1:x2]": (
        lambda: (
            visops.crop_rois(BATCH, WHOLE, (20, 16))[..., 1:-1, 1:-1],
            cv2.resize(PHOTO.permute(1, 2, 0).numpy()[10:50, 20:60], (16, 20))[
                None, 1:-1, 1:-1
            ].transpose(0, 3, 1, 2),
        ),
        1e-5,
    ),
    "torchvision.transforms.functional.resized_crop": (
        lambda: (
            visops.crop_rois(BATCH, WHOLE, (20, 16))[..., 1:-1, 1:-1],
            resized_crop(BATCH, 10, 20, 40, 40, [20, 16], antialias=False)[..., 1:-1, 1:-1],
        ),
        1e-5,
    ),
    "torch.nn.functional.grid_sample": (by_grid, 1e-5),
    "roi_align(..., aligned=True, sampling_ratio=1)": (
        lambda: (
            visops.crop_rois(BATCH, WHOLE, (9, 7)),
            torchvision.ops.roi_align(BATCH, WHOLE, (9, 7), 1.0, 1, True),
        ),
        1e-5,
    ),
}

CORNER = torch.from_numpy(RNG.random((60, 2)) * 40)
BOXES = torch.cat([CORNER, CORNER + 4 + torch.from_numpy(RNG.random((60, 2))) * 30], 1)
SCORES = torch.from_numpy(RNG.permutation(60) / 60)
IDS = torch.arange(60) % 3
DETS = torch.cat([BOXES, SCORES[:, None]], 1)


def above(threshold: float) -> torch.Tensor:
    index = (threshold < SCORES).nonzero()[:, 0]
    return index[torchvision.ops.nms(BOXES[index], SCORES[index], 0.4)]


def image_by_image() -> Pair:
    boxes, scores = BOXES.reshape(3, 20, 4), SCORES.reshape(3, 20)
    rows = []
    for i in range(3):
        kept = torchvision.ops.batched_nms(boxes[i], scores[i], IDS[:20], 0.4)
        rows.append(torch.stack([torch.full_like(kept, i), kept], 1))
    ids = IDS[:20].expand(3, 20)
    return visops.batched_nms(boxes, scores, ids, 0.4), torch.cat(rows)


NMS_ROWS: dict[str, Row] = {
    "nms(boxes, scores, t)": (
        lambda: (visops.nms(BOXES, SCORES, 0.4), torchvision.ops.nms(BOXES, SCORES, 0.4)),
        0,
    ),
    "batched_nms(boxes, scores, idxs, t)": (
        lambda: (
            visops.batched_nms(BOXES, SCORES, IDS, 0.4),
            torchvision.ops.batched_nms(BOXES, SCORES, IDS, 0.4),
        ),
        0,
    ),
    "nms(...)[:n]": (
        lambda: (
            visops.nms(BOXES, SCORES, 0.4, max_output=5),
            torchvision.ops.nms(BOXES, SCORES, 0.4)[:5],
        ),
        0,
    ),
    "keep = scores > s": (
        lambda: (visops.nms(BOXES, SCORES, 0.4, score_threshold=0.3), above(0.3)),
        0,
    ),
    "a loop over images": (image_by_image, 0),
}

MATRIX = torch.tensor([[[0.9, 0.2, 3.0], [-0.1, 1.1, 2.0]]])
SMALL = skimage.data.astronaut()[:40, :50]
MOVED = [[0, 0], [511, 0], [0, 511]], [[599, 0], [599, 799], [0, 0]]
MAPS = torch.from_numpy(RNG.random((2, 4, 30, 30))).float()
ROIS = torch.tensor([[0, 3.0, 4, 40, 50], [1, 10.0, 2, 30, 20]])


def soft() -> Pair:
    dets, kept = compat.soft_nms(DETS, 0.3, "gaussian", 0.4, 0.05)
    options: dict[str, Any] = {
        "method": "gaussian",
        "iou_threshold": 0.3,
        "sigma": 0.4,
        "min_score": 0.05,
    }
    ours, scores = visops.soft_nms(DETS[:, :4], DETS[:, 4], **options)
    np.testing.assert_array_equal(dets[:, 4], scores)
    return ours, kept


EXTENSION_ROWS: dict[str, Row] = {
    "affine_torch(x, m, h, w)": (
        lambda: (
            visops.warp_affine(BATCH, MATRIX, (30, 40), inverse_map=True),
            compat.affine_torch(BATCH, MATRIX, 30, 40),
        ),
        0,
    ),
    "affine_opencv(a, src, dst)": (
        lambda: (
            visops.warp_affine(SMALL, visops.affine_from_points(*MOVED), (800, 600)),
            compat.affine_opencv(SMALL, *MOVED),
        ),
        0,
    ),
    "nms(dets, t)": (
        lambda: (visops.nms(DETS[:, :4], DETS[:, 4], 0.4), compat.nms(DETS, 0.4)[1]),
        0,
    ),
    "soft_nms(dets, t, method, sigma, min_score)": (soft, 0),
    'batched_nms(boxes, scores, inds, {"type": "nms", "iou_thr": t})': (
        lambda: (
            visops.batched_nms(BOXES, SCORES, IDS, 0.4),
            compat.batched_nms(BOXES, SCORES, IDS, {"type": "nms", "iou_thr": 0.4})[1],
        ),
        0,
    ),
    "RoIAlign(out_size, spatial_scale, sample_num, use_torchvision, aligned)": (
        lambda: (
            visops.RoIAlign(5, 0.5, 2, aligned=True)(MAPS, ROIS),
            compat.RoIAlign(5, 0.5, 2, False, True)(MAPS, ROIS),
        ),
        0,
    ),
    "roi_align(features, rois, out_size, spatial_scale, sample_num, aligned)": (
        lambda: (
            visops.roi_align(MAPS, ROIS, 5, 0.5, 2, True),
            compat.roi_align(MAPS, ROIS, 5, 0.5, 2, True),
        ),
        0,
    ),
    "get_compiler_version()": (
        lambda: (
            compat.get_compiler_version() == visops.build_info()["compiler"],
            True,
        ),
        0,
    ),
    "get_compiling_cuda_version()": (
        lambda: (
            str(compat.get_compiling_cuda_version()) == str(visops.build_info()["cuda_built"]),
            True,
        ),
        0,
    ),
}

# What a table's rows are run by, and the rows that can't be: page, heading, rows, others.
TABLES: dict[str, tuple[str, str, dict[str, Row], tuple[str, ...]]] = {
    "masks": (
        "masks.md",
        "| theirs | here |\n|-|-|\n",
        MASK_ROWS,
        (
            "segment_anything.utils.amg.remove_small_regions(mask, area, mode)",
            "segment_anything.utils.amg.mask_to_rle_pytorch(masks)",
            "detectron2.structures.polygons_to_bitmask(polygons, h, w)",
        ),
    ),
    "crops": (
        "roi_crops.md",
        "| elsewhere | here |\n|-|-|\n",
        CROP_ROWS,
        # By an example of the page; TensorFlow.
        ("kornia.geometry.transform.crop_and_resize", "tf.image.crop_and_resize"),
    ),
    "nms": ("nms.md", "| torchvision | visops | what differs |\n|-|-|-|\n", NMS_ROWS, ()),
    "extension": ("moving.md", "| previous extension | visops |\n|-|-|\n", EXTENSION_ROWS, ()),
}
CALLS = [(table, name) for table, (_, _, rows, _) in TABLES.items() for name in rows]


@pytest.mark.parametrize("table", TABLES)
def test_every_row_is_run(table: str) -> None:
    page, heading, rows, others = TABLES[table]
    _, _, rest = (DOCS / page).read_text(encoding="utf-8").partition(heading)
    lines = rest.split("\n\n")[0].splitlines()
    found = [re.match(r"\| `?([^`|,]+(?:,[^`|]+)?)", line) for line in lines]
    first = [match[1].strip() for match in found if match]
    assert len(first) == len(lines) > 2
    unknown = [
        n for n in first if not any(n.startswith(k) or k.startswith(n) for k in (*rows, *others))
    ]
    assert not unknown
    assert len(rows) + len(others) == len(lines)


@pytest.mark.parametrize(("table", "row"), CALLS)
def test_both_agree(table: str, row: str) -> None:
    call, tolerance = TABLES[table][2][row]
    ours, theirs = (np.asarray(a, np.float64) for a in call())
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)
