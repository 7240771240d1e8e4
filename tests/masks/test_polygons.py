"""Values of polygons as masks: against loops over the points of their sides, and pycocotools."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from references import rle as reference

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
