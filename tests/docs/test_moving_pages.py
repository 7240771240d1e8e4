"""Tables on other libraries in masks.md, nms.md, roi_crops.md, moving: both sides of each row.

A row's call is found by the first cell. What detectron2 and segment_anything compute is written
with OpenCV's, pycocotools' and torchvision's functions; test_peers.py runs segment_anything itself.
TensorFlow isn't installed: its crops are taken where its documentation says.
"""

import re
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
from torchvision.transforms.v2.functional import resized_crop
from visops import compat

from docs.mask_rows import MASK_ROWS, Pair, Row
from docs.names import DOCS, lines_of

RNG = np.random.default_rng(0)

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


def between_centres(size: tuple[int, int]) -> torch.Tensor:
    """WHOLE as the box whose outermost samples are its corners, as in kornia and TensorFlow."""
    index, x1, y1, x2, y2 = WHOLE[0].tolist()
    height, width = size
    step_x, step_y = (x2 - x1) / (width - 1), (y2 - y1) / (height - 1)
    left, top = x1 + (1 - step_x) / 2, y1 + (1 - step_y) / 2
    return torch.tensor([[index, left, top, left + width * step_x, top + height * step_y]])


def of_kornia() -> Pair:
    crop = pytest.importorskip("kornia.geometry.transform").crop_and_resize
    _, x1, y1, x2, y2 = WHOLE[0].tolist()
    theirs = crop(BATCH, torch.tensor([[[x1, y1], [x2, y1], [x2, y2], [x1, y2]]]), (9, 7))
    assert (visops.crop_rois(BATCH, WHOLE, (9, 7)) - theirs).abs().max() > 0.01
    return visops.crop_rois(BATCH, between_centres((9, 7)), (9, 7)), theirs


def of_tensorflow() -> Pair:
    """By its documentation, sample i is at row (y1 + i (y2 - y1) / (size - 1)) (height - 1)."""
    _, x1, y1, x2, y2 = WHOLE[0].tolist()
    ys = np.linspace(y1 / 89, y2 / 89, 9) * 89  # normalised, and back
    xs = np.linspace(x1 / 119, x2 / 119, 7) * 119
    grid = np.stack(np.meshgrid(ys, xs, indexing="ij"))
    theirs = [scipy.ndimage.map_coordinates(channel, grid, order=1) for channel in BATCH[0].numpy()]
    return visops.crop_rois(BATCH, between_centres((9, 7)), (9, 7))[0], np.stack(theirs)


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
    "kornia.geometry.transform.crop_and_resize": (of_kornia, 1e-4),
    "tf.image.crop_and_resize": (of_tensorflow, 1e-5),
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
            compat.get_compiling_cuda_version()
            == (visops.build_info()["cuda_built"] or "not available"),
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
        (),
    ),
    "crops": (
        "roi_crops.md",
        "| elsewhere | here |\n|-|-|\n",
        CROP_ROWS,
        (),
    ),
    "nms": ("nms.md", "| torchvision | visops | what differs |\n|-|-|-|\n", NMS_ROWS, ()),
    "extension": ("moving", "| python_cpp_extension | visops |\n|-|-|\n", EXTENSION_ROWS, ()),
}
CALLS = [(table, name) for table, (_, _, rows, _) in TABLES.items() for name in rows]


@pytest.mark.parametrize("table", TABLES)
def test_every_row_is_run(table: str) -> None:
    page, heading, rows, others = TABLES[table]
    lines = lines_of(DOCS / page, heading)
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
