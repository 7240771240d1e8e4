"""What C++ works out of boxes and polygons has the bits of the same in torch or NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from visops import _native

from .cases import SIZE, random_affine, random_boxes, transformed

tv = pytest.importorskip("torchvision.tv_tensors")

_POLICIES: list[dict[str, Any]] = [
    {"boxes": "keep"},
    {"boxes": "clamp"},
    {"boxes": "sanitize", "min_size": 3.0},
    {"boxes": "sanitize", "min_area": 40.0, "min_visibility": 0.4},
]


def _sample(seed: int, form: str, dtype: torch.dtype, needs_grad: bool) -> dict[str, Any]:
    corners = random_boxes(np.random.default_rng(seed), 20)
    first, size = corners[:, :2], corners[:, 2:] - corners[:, :2]
    middle = first + size / 2
    rows = {"XYXY": corners, "XYWH": np.hstack((first, size)), "CXCYWH": np.hstack((middle, size))}
    boxes = torch.from_numpy(rows[form]).to(dtype)
    typed = tv.BoundingBoxes(boxes, format=form, canvas_size=SIZE)
    if needs_grad:
        typed.requires_grad_()
    area = torch.from_numpy(size.prod(1)).to(dtype)
    labels = torch.arange(20)
    return {"image": torch.zeros(3, *SIZE), "boxes": typed, "area": area, "labels": labels}


@pytest.mark.parametrize("options", _POLICIES, ids=str)
@pytest.mark.parametrize("form", ["XYXY", "XYWH", "CXCYWH"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_boxes(form: str, dtype: torch.dtype, options: dict[str, Any]) -> None:
    """Boxes that need a gradient are torch's to move."""
    kept = set()
    for seed in range(5):
        matrix = random_affine(np.random.default_rng(100 + seed))
        plain, by_torch = (
            transformed(_sample(seed, form, dtype, needs_grad), matrix, **options)
            for needs_grad in (False, True)
        )
        for key in ("boxes", "area", "labels"):
            expected = by_torch[key].detach()
            assert torch.equal(plain[key], expected), key
        kept.add(len(plain["labels"]))
    assert (kept == {20}) == (options["boxes"] != "sanitize")


def test_polygons_one_by_one() -> None:
    """A polygon's clipped points depend on it alone."""
    rng = np.random.default_rng(0)
    counts = rng.integers(3, 12, 30)
    points = rng.uniform(-5, 15, (counts.sum(), 2))
    window = (0.0, 0.0, 10.0, 8.0)
    clipped, left = _native.clip_polygons(points, counts, window)
    start = end = 0
    for count, own in zip(counts.tolist(), left.tolist(), strict=True):
        alone, size = _native.clip_polygons(
            points[start : start + count], np.array([count]), window
        )
        assert size.tolist() == [own]
        np.testing.assert_array_equal(alone, clipped[end : end + own])
        start, end = start + count, end + own
    assert end == len(clipped)


@pytest.mark.parametrize("counts", [[3], [5], [-1, 5], [2**62, 2**62], [[4]]])
def test_counts_that_do_not_fit(counts: Any) -> None:
    points = np.zeros((4, 2))
    for call in (
        lambda: _native.clip_polygons(points, np.array(counts), (0.0, 0.0, 1.0, 1.0)),
        lambda: _native.polygon_areas(points, np.array(counts)),
        lambda: _native.move_polygons(points, np.array(counts), np.eye(3), 1e-4),
    ):
        with pytest.raises(ValueError, match="counts"):
            call()


@pytest.mark.parametrize(
    "objects",
    [
        None,
        "abcdef",
        [[[0, 0, 1, 1, 2]]],
        [[[0, 0, 1, 1]]],
        [[[0, 0, 1, float("nan"), 2, 2]]],
        [[[0, 0, 1, 10**400, 2, 2]]],
        [[[0, 0, 1, True, 2, 2]]],
        [[0.0, 0, 1, 1, 2, 2]],
        [[np.zeros(6)]],
        [[[[0, 0], [1, 1], [2, 0]]]],
        [{0: [0, 0, 1, 1, 2, 2]}],
    ],
)
def test_what_is_not_read_as_flat_polygons(objects: Any) -> None:
    assert _native.read_flat_polygons(objects) is None


def test_flat_polygons() -> None:
    found = _native.read_flat_polygons(
        [[[0, 0.5, 1, 1, 2, 2]], [], ([0, 0, 1, 1, 2, 2, 3, 3], (9, 8, 7, 6, 5, 4))]
    )
    assert found is not None
    points, counts, sizes = found
    assert sizes == [1, 0, 2]
    assert counts.tolist() == [3, 4, 3]
    expected = [[0, 0.5], [1, 1], [2, 2], [0, 0], [1, 1], [2, 2], [3, 3], [9, 8], [7, 6], [5, 4]]
    assert points.tolist() == expected
