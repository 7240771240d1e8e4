"""COCO's evaluation of segmentation, fed with our run lengths and with pycocotools' own."""

import contextlib
import copy
import io
from typing import Any

import numpy as np
import pytest
import visops

coco_mask = pytest.importorskip("pycocotools.mask")
from pycocotools.coco import COCO  # noqa: E402
from pycocotools.cocoeval import COCOeval  # noqa: E402

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
