"""Operators on masks against torchvision, pycocotools, SciPy, OpenCV and scikit-image.

Overlaps and boxes: masks of a disc each, as bool, so that ours packs them in every call; "packed
before" doesn't. The matrix product is of float32 masks.

Components: random noise at the density where components are largest, and discs as segmentation
networks draw them, of 512 × 512 and 3840 × 2160 pixels, and a hundred masks of 800 × 1333. OpenCV
numbers components in another order: its labels are renumbered for the comparison, outside of the
timing. Clean-up of small regions is Segment Anything's function, restated, mask by mask. Distance
transforms: the discs, and the outside of a few of them, where distances are long. SciPy's are
float64. Run lengths: one disc a mask, and twelve (bench/coding/rle.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import scipy.ndimage
import skimage.measure
from torchvision.ops import masks_to_boxes

try:
    from pycocotools import mask as coco
except ImportError:
    coco = None

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `bench` is a package

import torch
import visops
from bench.coding import rle
from bench.harness import Case, Contender, Tolerance, case, main

EIGHT = np.ones((3, 3), bool)
ROUNDING = Tolerance(max_abs=1e-3, why="float32 throughout")
SIZES = {"512 × 512": (512, 512), "4k": (2160, 3840)}


def noise(count: int, height: int, width: int) -> np.ndarray:
    """As many pixels inside as outside."""
    return np.random.default_rng(0).random((count, height, width)) < 0.5


def discs(count: int, height: int, width: int, each: int = 12) -> np.ndarray:
    """Discs of all sizes."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:height, :width]
    masks = np.zeros((count, height, width), bool)
    for mask in masks:
        for _ in range(each):
            cy, cx = rng.uniform(0, height), rng.uniform(0, width)
            mask |= (y - cy) ** 2 + (x - cx) ** 2 < rng.uniform(2, height / 6) ** 2
    return masks


def outside(count: int, height: int, width: int) -> np.ndarray:
    """All but a few small discs."""
    return ~discs(count, height, width, 3)


PICTURES: dict[str, Callable[..., np.ndarray]] = {
    "noise": noise,
    "discs": discs,
    "outside of discs": outside,
}


def in_raster_order(labels: np.ndarray) -> np.ndarray:
    """Labels renumbered in the raster order of their first pixels; 0 stays."""
    flat = labels.reshape(len(labels), -1)
    renumbered = np.empty_like(flat)
    for row, out in zip(flat, renumbered, strict=True):
        values, first, inverse = np.unique(row, return_index=True, return_inverse=True)
        order = np.argsort(np.where(values == 0, -1, first))
        ranks = np.empty(len(values), np.int32)
        ranks[order] = np.arange(len(values)) + (0 if 0 in values else 1)
        out[:] = ranks[inverse]
    return renumbered.reshape(labels.shape)


def each(call: Callable[[np.ndarray], Any], masks: np.ndarray) -> Callable[[], Any]:
    """A function of one mask, for all of them."""
    return lambda: [np.asarray(call(mask)) for mask in masks]


def stacked(results: list[np.ndarray]) -> np.ndarray:
    """Results of each mask as one array."""
    return np.stack(results)


def components(picture: str, count: int, height: int, width: int) -> list[Contender]:
    """Label the components of each mask."""
    masks = PICTURES[picture](count, height, width)
    tensor, bytes_ = torch.from_numpy(masks), masks.view(np.uint8)

    def as_int32(results: list[np.ndarray]) -> np.ndarray:
        return np.stack(results).astype(np.int32)

    return [
        Contender("visops", lambda: visops.connected_components(tensor)),
        Contender(
            "OpenCV",
            each(lambda m: cv2.connectedComponents(m, connectivity=8)[1], bytes_),
            floor=1.5,
            comparable=lambda results: in_raster_order(np.stack(results)),
        ),
        Contender(
            "SciPy",
            each(lambda m: scipy.ndimage.label(m, EIGHT)[0], masks),
            floor=5.0,
            comparable=as_int32,
        ),
        Contender(
            "scikit-image", each(lambda m: skimage.measure.label(m), masks), comparable=as_int32
        ),
    ]


def statistics(picture: str, count: int, height: int, width: int) -> list[Contender]:
    """Label and measure the components of each mask."""
    masks = PICTURES[picture](count, height, width)
    tensor, bytes_ = torch.from_numpy(masks), masks.view(np.uint8)

    def opencv() -> list[np.ndarray]:
        found = [cv2.connectedComponentsWithStats(m, connectivity=8)[2] for m in bytes_]
        return [areas[1:, cv2.CC_STAT_AREA] for areas in found]

    def areas(result: Any) -> list[np.ndarray]:
        return [np.sort(row[row > 0]) for row in result[1].areas.numpy()]

    return [
        Contender(
            "visops",
            lambda: visops.connected_components(tensor, return_stats=True),
            comparable=areas,
        ),
        Contender(
            "OpenCV",
            opencv,
            floor=1.5,
            comparable=lambda found: [np.sort(row).astype(np.int64) for row in found],
        ),
    ]


def clean_up(mode: str, count: int, height: int, width: int) -> list[Contender]:
    """Remove regions of fewer than 100 pixels."""
    masks = discs(count, height, width) ^ (noise(count, height, width) & noise(1, height, width))
    tensor, holes = torch.from_numpy(masks), mode == "holes"

    def segment_anything(mask: np.ndarray) -> np.ndarray:
        _, regions, stats, _ = cv2.connectedComponentsWithStats(
            (holes ^ mask).astype(np.uint8), connectivity=8
        )
        small = stats[:, cv2.CC_STAT_AREA] < 100
        small[0] = holes
        return np.asarray((small if holes else ~small & (stats[:, 4] > 0))[regions])

    def cleaned(mask: np.ndarray) -> np.ndarray:
        found = segment_anything(mask)
        if not holes:
            found &= mask
        return found

    return [
        Contender(
            "visops",
            lambda: visops.remove_small_regions(tensor, 100, mode),
            comparable=lambda result: result[0],
        ),
        Contender("OpenCV, as SAM", each(cleaned, masks), floor=1.5, comparable=stacked),
    ]


def distances(picture: str, count: int, height: int, width: int) -> list[Contender]:
    """Measure exact Euclidean distances."""
    masks = PICTURES[picture](count, height, width)
    tensor, bytes_ = torch.from_numpy(masks), masks.view(np.uint8)

    def opencv(mask: np.ndarray) -> np.ndarray:
        return np.asarray(cv2.distanceTransform(mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE))

    return [
        Contender("visops", lambda: visops.distance_transform(tensor)),
        Contender("OpenCV", each(opencv, bytes_), ROUNDING, floor=1.0, comparable=stacked),
        Contender(
            "SciPy",
            each(scipy.ndimage.distance_transform_edt, masks),
            ROUNDING,
            floor=3.0,
            comparable=lambda results: np.stack(results).astype(np.float32),
        ),
    ]


def single_discs(count: int, height: int, width: int) -> np.ndarray:
    """One disc a mask, as a detector's masks are."""
    return discs(count, height, width, 1)


def overlaps(count: int, height: int, width: int) -> list[Contender]:
    """Overlaps of all pairs."""
    masks = torch.from_numpy(single_discs(count, height, width))
    packed = visops.pack_masks(masks)

    def product() -> torch.Tensor:
        flat = masks.flatten(1).float()
        common, area = flat @ flat.T, flat.sum(1)
        return common / (area[:, None] + area[None] - common)

    def cocos() -> np.ndarray:
        encoded = coco.encode(np.asfortranarray(masks.numpy().view(np.uint8).transpose(1, 2, 0)))
        return np.asarray(coco.iou(encoded, encoded, [0] * count))

    contenders = [
        Contender("visops", lambda: visops.mask_iou(masks, masks)),
        Contender("packed before", lambda: visops.mask_iou(packed, packed), bound=True),
        Contender("matrix product", product, ROUNDING, floor=50.0),
    ]
    if coco is not None:
        contenders.append(
            Contender(
                "pycocotools",
                cocos,
                ROUNDING,
                comparable=lambda found: np.nan_to_num(found).astype(np.float32),
            )
        )
    return contenders


def boxes(count: int, height: int, width: int) -> list[Contender]:
    """The box of each mask."""
    masks = torch.from_numpy(single_discs(count, height, width))
    return [
        Contender("visops", lambda: visops.masks_to_boxes(masks)),
        Contender("torchvision", lambda: masks_to_boxes(masks), floor=20.0),
    ]


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    cases = []
    jobs: tuple[tuple[str, Callable[..., list[Contender]], tuple[str, ...]], ...] = (
        ("components", components, ("noise", "discs")),
        ("components and statistics", statistics, ("noise", "discs")),
        ("small regions", clean_up, ("holes", "islands")),
        ("distances", distances, ("noise", "discs", "outside of discs")),
    )
    for group, build, pictures in jobs:
        shapes = [(name, 1, *size) for name, size in SIZES.items()]
        shapes.append(("100 × 800 × 1333", 100, 800, 1333))
        cases += [
            case(
                group,
                f"{label}, {picture}",
                build,
                *(picture, count, height, width),
                quick=label.startswith("512"),
                job=group,
                picture=picture,
                shape=[count, height, width],
            )
            for label, count, height, width in shapes
            for picture in pictures
        ]
    cases += [
        case(group, f"{count} × 800 × 1333", build, count, 800, 1333, quick=count < 50, job=group)
        for group, build in (("overlaps", overlaps), ("boxes", boxes))
        for count in (10, 100)
    ]
    return cases + rle.cases({"one disc": single_discs, "discs": discs})


if __name__ == "__main__":
    sys.exit(main("masks", __doc__ or "", all_cases()))
