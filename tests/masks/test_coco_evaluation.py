"""COCO's evaluation of segmentation with our run lengths, and polygons as masks."""

import contextlib
import copy
import io
from typing import Any

import numpy as np
import pytest
import torch
import visops
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from references import rle as reference

coco_mask = pytest.importorskip("pycocotools.mask")
SIZE = (90, 120)


def blob(rng: np.random.Generator, center: np.ndarray, radius: float) -> np.ndarray:
    """A polygon around a point, [K, 2]."""
    angles = np.linspace(0, 2 * np.pi, 14, endpoint=False)
    radii = radius * rng.uniform(0.7, 1.2, (14, 1))
    corners: np.ndarray = center + radii * np.stack([np.cos(angles), np.sin(angles)], 1)
    return corners


def scene() -> tuple[dict[str, Any], list[tuple[dict[str, Any], np.ndarray]]]:
    """A dataset, some of whose objects are crowds, and detections with their masks."""
    rng = np.random.default_rng(0)
    dataset: dict[str, Any] = {
        "images": [{"id": i, "height": SIZE[0], "width": SIZE[1]} for i in range(12)],
        "categories": [{"id": 1, "name": "disc"}, {"id": 2, "name": "blob"}],
        "annotations": [],
    }
    detections = []
    for image in range(12):
        for _ in range(rng.integers(1, 7)):
            center, radius = rng.uniform(5, 85, 2), rng.uniform(5, 25)
            polygons = [blob(rng, center, radius).reshape(-1).tolist() for _ in range(2)]
            mask = visops.polygons_to_masks([polygons], SIZE)[0].numpy()
            category = int(rng.integers(1, 3))
            dataset["annotations"].append(
                {
                    "id": len(dataset["annotations"]) + 1,
                    "image_id": image,
                    "category_id": category,
                    "area": int(mask.sum()),
                    "bbox": [0, 0, 1, 1],
                    "iscrowd": int(rng.random() < 0.15),
                    "segmentation": polygons,
                }
            )
            for _ in range(rng.integers(0, 3)):
                moved = np.roll(mask, rng.integers(-4, 5, 2), (0, 1))
                moved &= rng.random(SIZE) < 0.98
                result = {"image_id": image, "category_id": category, "score": float(rng.random())}
                detections.append((result, moved))
    return dataset, detections


def evaluate(dataset: dict[str, Any], results: list[dict[str, Any]]) -> Any:
    """Run COCO's evaluation of masks."""
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = copy.deepcopy(dataset)
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(copy.deepcopy(results)), "segm")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_equal_ap() -> None:
    dataset, detections = scene()
    masks = np.stack([mask for _, mask in detections])
    theirs = coco_mask.encode(np.asfortranarray(masks.transpose(1, 2, 0).astype(np.uint8)))
    ours = visops.masks_to_rle(masks)
    polygons = [a["segmentation"] for a in dataset["annotations"]]
    drawn = visops.polygons_to_masks(polygons, SIZE, out="rle")
    encoded = {
        **dataset,
        "annotations": [
            {**a, "segmentation": rle} for a, rle in zip(dataset["annotations"], drawn, strict=True)
        ],
    }
    runs = []
    for truth, rles in ((dataset, theirs), (encoded, ours)):
        results = [{**r, "segmentation": rle} for (r, _), rle in zip(detections, rles, strict=True)]
        runs.append(evaluate(truth, results))
    np.testing.assert_array_equal(runs[0].stats, runs[1].stats)
    np.testing.assert_array_equal(runs[0].eval["precision"], runs[1].eval["precision"])
    assert 0.2 < runs[0].stats[0] < 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_evaluation_with_our_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """COCO's evaluation calls mask.iou with detections, ground truth and crowds."""
    dataset, detections = scene()
    masks = np.stack([mask for _, mask in detections])
    results = [
        {**r, "segmentation": rle}
        for (r, _), rle in zip(detections, visops.masks_to_rle(masks), strict=True)
    ]
    expected = evaluate(dataset, results).stats
    calls = []

    def iou(dt: Any, gt: Any, iscrowd: Any) -> Any:
        calls.append(len(dt))
        return visops.rle_iou(dt, gt, iscrowd).numpy() if dt and gt else []

    monkeypatch.setattr("pycocotools.cocoeval.maskUtils.iou", iou)
    np.testing.assert_array_equal(evaluate(dataset, results).stats, expected)
    assert sum(calls) == len(detections)


Polygon = list[float]


def drawn(rng: np.random.Generator, height: int, width: int, kind: int) -> Polygon:
    """A polygon: fractions, whole or half numbers, fifths, far away, or with equal corners."""
    corners = rng.uniform(-0.4, 1.4, (rng.integers(3, 12), 2)) * (width, height)
    if kind == 1:
        corners = np.round(corners)
    elif kind == 2:
        corners = np.round(corners * 2) / 2
    elif kind == 3:
        corners = np.round(corners * 5) / 5
    elif kind == 4:
        corners = corners * 40 - 20 * np.array([width, height])
    elif kind == 5:
        corners = corners[rng.integers(0, len(corners), 2 * len(corners))]
    return [float(c) for c in corners.reshape(-1)]


def coco_polygons(objects: list[list[Polygon]], size: tuple[int, int]) -> list[dict[str, Any]]:
    """What pycocotools makes of objects that have polygons."""
    coco = pytest.importorskip("pycocotools.mask")
    return [coco.merge(coco.frPyObjects(polygons, *size)) for polygons in objects]


@pytest.mark.parametrize("kind", range(6))
def test_pycocotools(kind: int) -> None:
    rng = np.random.default_rng(kind)
    for _ in range(150):
        height, width = (int(side) for side in rng.integers(1, 70, 2))
        objects = [
            [drawn(rng, height, width, kind) for _ in range(rng.integers(1, 4))] for _ in range(3)
        ]
        found = visops.polygons_to_masks(objects, (height, width), out="rle")
        assert found == coco_polygons(objects, (height, width))


@pytest.mark.parametrize("kind", range(4))
def test_every_point_of_the_sides(kind: int) -> None:
    rng = np.random.default_rng(10 + kind)
    for _ in range(25):
        height, width = (int(side) for side in rng.integers(1, 40, 2))
        polygons = [drawn(rng, height, width, kind) for _ in range(3)]
        masks = [reference.polygon(np.reshape(p, (-1, 2)), height, width) for p in polygons]
        found = visops.polygons_to_masks([polygons, polygons[:1], []], (height, width))
        assert found.dtype == torch.bool
        expected = np.stack([np.any(masks, 0), masks[0], np.zeros((height, width), bool)])
        np.testing.assert_array_equal(found.numpy(), expected)


def test_circles() -> None:
    """Many corners, and sides that are nearly upright."""
    rng = np.random.default_rng(0)
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    objects = []
    for _ in range(20):
        radius, x, y = rng.uniform(3, 200), *rng.uniform(-50, 400, 2)
        circle = np.stack([x + radius * np.cos(angles), y + radius * np.sin(angles)], 1)
        objects.append([circle.reshape(-1).tolist()])
    size = (300, 350)
    assert visops.polygons_to_masks(objects, size, out="rle") == coco_polygons(objects, size)


def test_kinds_of_input_and_output() -> None:
    rng = np.random.default_rng(1)
    flat = [drawn(rng, 30, 40, 0) for _ in range(2)]
    expected = visops.polygons_to_masks([flat], (30, 40))
    forms: list[Any] = [
        [[np.array(p) for p in flat]],
        [[np.reshape(p, (-1, 2)) for p in flat]],
        [[torch.tensor(p, dtype=torch.float64).reshape(-1, 2) for p in flat]],
        (tuple(np.reshape(p, (-1, 2)).tolist() for p in flat),),
    ]
    for form in forms:
        assert torch.equal(visops.polygons_to_masks(form, (30, 40)), expected)
    square = np.array([[1, 1], [5, 1], [5, 5], [1, 5]], np.float32)
    pair = np.stack([square, square + 6])
    assert torch.equal(
        visops.polygons_to_masks([pair], (12, 12)),
        visops.polygons_to_masks([[square.tolist(), (square + 6).tolist()]], (12, 12)),
    )
    assert torch.equal(
        visops.polygons_to_masks([flat], (30, 40), out="uint8"), expected.to(torch.uint8)
    )
    packed = visops.polygons_to_masks([flat], (30, 40), out="packed")
    assert torch.equal(packed.unpack(), expected)
    assert visops.polygons_to_masks([flat], (30, 40), out="rle") == visops.masks_to_rle(expected)


def test_sides_far_away() -> None:
    """They cost no more than others; corners round to fifths, which float64 has exactly."""
    far = 1e8
    whole = visops.polygons_to_masks([[[-far, -far, far, -far, far, far, -far, far]]], (50, 60))
    assert whole.all()
    half = visops.polygons_to_masks([[[-far, -far, far, far, -far, far]]], (50, 50), out="uint8")
    rows, columns = np.mgrid[:50, :50]
    np.testing.assert_array_equal(half[0].numpy(), rows >= columns)


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (0, 0)])
def test_no_pixels(size: tuple[int, int]) -> None:
    triangle = [0.0, 0, 4, 0, 0, 4]
    assert visops.polygons_to_masks([[triangle], []], size).shape == (2, *size)
    rles = visops.polygons_to_masks([[triangle], []], size, out="rle")
    assert rles == [{"size": list(size), "counts": b"0"}] * 2


def test_no_objects() -> None:
    assert visops.polygons_to_masks([], (4, 5)).shape == (0, 4, 5)
    assert visops.polygons_to_masks([], (4, 5), out="rle") == []
