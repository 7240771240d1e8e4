"""Connected components, small regions, and the borders of regions as polygons."""

import itertools
from typing import Any

import cv2
import numpy as np
import pytest
import scipy.ndimage
import skimage.measure
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references import masks as reference

from masks.cases import KINDS, LAYOUTS, SIZES, label_map

EMULATED = visops.build_info()["cpu"] == "cuda_emulated"
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.int64)


def structure(connectivity: int) -> np.ndarray:
    return scipy.ndimage.generate_binary_structure(2, 1 if connectivity == 4 else 2)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_unsigned_label_maps(dtype: Any) -> None:
    """As signed ones, also beyond their largest number."""
    rng = np.random.default_rng(0)
    most = np.iinfo(dtype).max
    maps = rng.choice(np.array([0, 1, most, most // 2 + 1], dtype), (3, 12, 40))
    signed = maps.astype(np.int64)
    for form in (maps, torch.from_numpy(maps)):
        np.testing.assert_array_equal(
            visops.connected_components(form), visops.connected_components(signed)
        )


@pytest.mark.matrix
@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_masks(kind: str, connectivity: int) -> None:
    rng = np.random.default_rng(0)
    layouts = itertools.cycle(LAYOUTS.values())
    for height, width in SIZES:
        mask = KINDS[kind](rng, height, width)
        given = next(layouts)(torch.from_numpy(mask))
        labels, stats = visops.connected_components(
            given, connectivity=connectivity, return_stats=True
        )
        expected, count = reference.connected_components(mask, connectivity)
        assert labels.dtype == torch.int32
        assert labels.is_contiguous()
        np.testing.assert_array_equal(labels.numpy(), expected)
        assert int(stats.counts) == count
        wanted = reference.statistics(expected, count)
        for found, values, shape in zip(stats[1:], wanted, ((), (4,), (2,)), strict=True):
            assert found.shape == (count, *shape)
            assert found.tolist() == values
        theirs, number = scipy.ndimage.label(mask, structure(connectivity))
        assert number == count
        np.testing.assert_array_equal(labels.numpy(), theirs)


@pytest.mark.matrix
@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_label_maps(dtype: torch.dtype, connectivity: int) -> None:
    rng = np.random.default_rng(1)
    layouts = itertools.cycle(LAYOUTS.values())
    for height, width in SIZES:
        given = label_map(rng, height, width, dtype)
        labels = visops.connected_components(next(layouts)(given), connectivity=connectivity)
        expected, _ = reference.connected_components(given.numpy(), connectivity)
        np.testing.assert_array_equal(labels.numpy(), expected)
        theirs = skimage.measure.label(
            given.numpy().astype(np.int64), connectivity=1 if connectivity == 4 else 2
        )
        np.testing.assert_array_equal(labels.numpy(), theirs)


@pytest.mark.parametrize("connectivity", [4, 8])
def test_opencv_and_scipy(connectivity: int) -> None:
    """On larger masks; OpenCV numbers components otherwise, and counts the background."""
    rng = np.random.default_rng(2)
    shape = (60, 90) if EMULATED else (300, 517)
    for kind in ("noise", "discs", "spiral", "comb"):
        mask = KINDS[kind](rng, *shape)
        labels, stats = visops.connected_components(
            mask, connectivity=connectivity, return_stats=True
        )
        theirs, number = scipy.ndimage.label(mask, structure(connectivity))
        np.testing.assert_array_equal(labels, theirs)
        count, image, measured, centroids = cv2.connectedComponentsWithStats(
            mask.astype(np.uint8), connectivity=connectivity
        )
        assert count - 1 == number == stats.counts
        for label in range(1, count):
            ours = labels[image == label]
            assert ours.min() == ours.max()
            x, y, width, height, area = measured[label]
            row = ours[0] - 1
            assert stats.areas[row] == area
            assert stats.boxes[row].tolist() == [x, y, x + width, y + height]
            np.testing.assert_allclose(stats.centroids[row], centroids[label], rtol=1e-12)


def test_batches() -> None:
    """Each mask as if it were alone; rows past its count are zeros."""
    rng = np.random.default_rng(3)
    masks = np.stack([make(rng, 9, 70) for make in KINDS.values()]).reshape(2, -1, 9, 70)
    labels, stats = visops.connected_components(masks, return_stats=True)
    most = int(stats.counts.max())
    assert [a.shape for a in stats] == [(2, 5), (2, 5, most), (2, 5, most, 4), (2, 5, most, 2)]
    for at in np.ndindex(2, 5):
        alone, own = visops.connected_components(masks[at], return_stats=True)
        np.testing.assert_array_equal(labels[at], alone)
        count = int(own.counts)
        assert stats.counts[at] == count
        for batched, single in zip(stats[1:], own[1:], strict=True):
            np.testing.assert_array_equal(batched[at][:count], single)
            assert not batched[at][count:].any()


@pytest.mark.parametrize("limit", [0, 1, 3, 50])
def test_max_components(limit: int) -> None:
    mask = KINDS["columns"](np.random.default_rng(4), 5, 20)
    labels, stats = visops.connected_components(mask, return_stats=True, max_components=limit)
    every, all_stats = visops.connected_components(mask, return_stats=True)
    np.testing.assert_array_equal(labels, every)
    assert stats.counts == all_stats.counts == 7
    for limited, whole in zip(stats[1:], all_stats[1:], strict=True):
        assert len(limited) == limit
        np.testing.assert_array_equal(limited[:7], whole[:limit])
        assert not limited[7:].any()


def test_statistics_ignore_other_labels() -> None:
    labels = torch.tensor([[-5, 1, 1, 2**31 - 1], [0, 3, 4, 1]], dtype=torch.int32)
    areas, boxes, centroids = torch.ops.visops.component_stats(labels, 3)
    assert areas.tolist() == [3, 0, 1]
    assert boxes.tolist() == [[1, 0, 4, 2], [0, 0, 0, 0], [1, 1, 2, 2]]
    assert centroids.tolist() == [[2.0, 1 / 3], [0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize("shape", [(0, 4, 5), (2, 0, 5), (2, 4, 0), (0, 0), (3, 0, 2, 2)])
def test_nothing(shape: tuple[int, ...]) -> None:
    masks = torch.ones(shape, dtype=torch.bool)
    labels, stats = visops.connected_components(masks, return_stats=True)
    assert labels.shape == shape
    assert stats.counts.shape == shape[:-2]
    assert stats.areas.shape == (*shape[:-2], 0)
    assert not stats.counts.any()
    cleaned, changed = visops.remove_small_regions(masks, 3)
    assert (cleaned.shape, changed.shape) == (shape, shape[:-2])
    assert not changed.any()


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ["holes", "islands"])
@pytest.mark.parametrize("kind", KINDS)
def test_small_regions(kind: str, mode: Any) -> None:
    rng = np.random.default_rng(5)
    layouts = itertools.cycle(LAYOUTS.values())
    for (height, width), connectivity in itertools.product(SIZES, (4, 8)):
        mask = KINDS[kind](rng, height, width)
        values = torch.from_numpy(mask)
        if connectivity == 4:  # pixels that are not 0 are inside, whichever bit is set
            values = values * torch.from_numpy(2 ** rng.integers(0, 8, mask.shape)).byte()
        for min_area in (0, 1, 2, 5, 40):
            given = next(layouts)(values)
            cleaned, changed = visops.remove_small_regions(
                given, min_area, mode, connectivity=connectivity
            )
            expected = reference.remove_small_regions(mask, min_area, mode, connectivity)
            assert cleaned.dtype == torch.bool
            np.testing.assert_array_equal(cleaned.numpy(), expected)
            assert bool(changed) == bool((expected != mask).any())


def segment_anything(mask: np.ndarray, area_thresh: int, mode: str) -> np.ndarray:
    """What SAM's clean-up does, restated."""
    holes = mode == "holes"
    count, regions, stats, _ = cv2.connectedComponentsWithStats(
        (holes ^ mask).astype(np.uint8), connectivity=8
    )
    sizes = stats[1:, cv2.CC_STAT_AREA]
    small = np.flatnonzero(sizes < area_thresh) + 1
    if len(small) == 0:
        return mask
    if holes:
        return np.isin(regions, [0, *small])
    large = [label for label in range(1, count) if label not in small]
    return np.isin(regions, large or [int(np.argmax(sizes)) + 1])


@pytest.mark.parametrize("mode", ["holes", "islands"])
def test_segment_anything(mode: Any) -> None:
    rng = np.random.default_rng(6)
    for kind, min_area in itertools.product(("noise", "discs", "columns"), (1, 7, 100)):
        masks = np.stack([KINDS[kind](rng, 40, 60) for _ in range(3)])
        cleaned, changed = visops.remove_small_regions(masks, min_area, mode)
        for mask, ours, flag in zip(masks, cleaned, changed, strict=True):
            expected = segment_anything(mask, min_area, mode)
            if mode == "islands" and expected.sum() < min_area:
                assert ours.sum() == expected.sum()  # of equal islands, OpenCV's first may differ
            else:
                np.testing.assert_array_equal(ours, expected)
            assert flag == (ours != mask).any()


def test_the_first_of_equal_islands_stays() -> None:
    mask = np.array([[0, 1, 0, 1], [0, 1, 0, 1]], bool)
    cleaned, changed = visops.remove_small_regions(mask, 3, "islands")
    assert cleaned.tolist() == [[False, True, False, False]] * 2
    assert changed


few = settings(max_examples=15)
seeds = st.integers(0, 2**32 - 1)
sides = st.integers(1, 150)


@few
@given(seed=seeds, height=sides, width=sides, connectivity=st.sampled_from([4, 8]))
def test_labels_are_scipys(seed: int, height: int, width: int, connectivity: int) -> None:
    rng = np.random.default_rng(seed)
    masks = np.stack([make(rng, height, width) for make in KINDS.values()])
    labels = visops.connected_components(masks, connectivity=connectivity)
    structure = scipy.ndimage.generate_binary_structure(2, 1 if connectivity == 4 else 2)
    for mask, ours in zip(masks, labels, strict=True):
        np.testing.assert_array_equal(ours, scipy.ndimage.label(mask, structure)[0])


@few
@given(seed=seeds, height=st.integers(1, 40), width=st.integers(1, 40))
def test_statistics_describe_the_labels(seed: int, height: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 3, (height, width)).astype(np.int16)
    labels, stats = visops.connected_components(image, return_stats=True)
    areas, boxes, centroids = reference.statistics(labels, int(stats.counts))
    assert stats.areas.tolist() == areas
    assert stats.boxes.tolist() == boxes
    assert stats.centroids.tolist() == centroids
    # Labels of labels are the labels: each is one component.
    np.testing.assert_array_equal(visops.connected_components(labels), labels)


METHODS = {"simple": cv2.CHAIN_APPROX_SIMPLE, "none": cv2.CHAIN_APPROX_NONE}


def opencvs(mask: np.ndarray, approximation: str) -> list[Any]:
    """Return each region's border, then those of its holes in any order."""
    found, tree = cv2.findContours(
        np.ascontiguousarray(mask, np.uint8), cv2.RETR_CCOMP, METHODS[approximation]
    )
    parents = [] if tree is None else tree.reshape(-1, 4)[:, 3].tolist()
    polygons = [border[:, 0].tolist() for border in found]
    return sorted(
        [polygon, sorted(p for p, above in zip(polygons, parents, strict=True) if above == index)]
        for index, (polygon, parent) in enumerate(zip(polygons, parents, strict=True))
        if parent < 0
    )


def ours(mask: Any, approximation: Any) -> list[Any]:
    regions = visops.masks_to_polygons(mask, holes=True, approximation=approximation)
    return sorted(
        [border.tolist(), sorted(hole.tolist() for hole in holes)] for border, *holes in regions
    )


@pytest.mark.parametrize("approximation", METHODS)
@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    height=st.integers(1, 24),
    width=st.integers(1, 40),
    share=st.sampled_from([0.1, 0.4, 0.6, 0.8, 0.95, 1.0]),
    factor=st.integers(1, 3),
)
def test_vertices_are_opencvs(
    approximation: str, seed: int, height: int, width: int, share: float, factor: int
) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < share
    mask = mask.repeat(factor, 0).repeat(factor, 1)
    assert ours(mask, approximation) == opencvs(mask, approximation)


def test_regions_in_holes() -> None:
    """Rings within rings: each is a region with one hole, in the order of first pixels."""
    mask = np.zeros((40, 41), bool)
    for margin in range(0, 20, 4):
        mask[margin : 40 - margin, margin : 41 - margin] = True
        mask[margin + 2 : 38 - margin, margin + 2 : 39 - margin] = False
    mask[19, 20] = True
    regions = visops.masks_to_polygons(mask, holes=True)
    assert [len(region) for region in regions] == [2, 2, 2, 2, 2, 1]
    assert [region[0][0].tolist() for region in regions][:3] == [[0, 0], [4, 4], [8, 8]]
    assert regions[-1][0].tolist() == [[20, 19]]
    assert ours(mask, "simple") == opencvs(mask, "simple")
    alone = visops.masks_to_polygons(mask)
    assert all(np.array_equal(a, region[0]) for a, region in zip(alone, regions, strict=True))


def test_forms_of_masks() -> None:
    rng = np.random.default_rng(2)
    masks = rng.random((5, 30, 70)) < 0.6
    masks[1] = False
    expected = [opencvs(mask, "simple") for mask in masks]
    for given_masks in (
        masks,
        masks.astype(np.uint8) * 255,
        torch.from_numpy(masks),
        torch.from_numpy(masks.transpose(2, 0, 1).copy()).permute(1, 2, 0),
        visops.pack_masks(masks),
        visops.pack_masks(torch.from_numpy(masks)),
    ):
        found = visops.masks_to_polygons(given_masks, holes=True)
        own = [
            sorted([b.tolist(), sorted(h.tolist() for h in holes)] for b, *holes in regions)
            for regions in found
        ]
        assert own == expected
    assert visops.masks_to_polygons(masks[:, ::2, ::-1])[0][0].dtype == np.int32
    assert visops.masks_to_polygons(np.zeros((0, 4, 5), bool)) == []
    for empty in (np.zeros((2, 0, 5), bool), np.zeros((2, 4, 0), bool), np.zeros((2, 4, 5), bool)):
        assert visops.masks_to_polygons(empty) == [[], []]


def test_coco_s_segmentation_and_back() -> None:
    """By cv2.fillPoly, whose polygons have their vertices at the centres of pixels, too."""
    rng = np.random.default_rng(3)
    mask = (cv2.GaussianBlur(rng.random((90, 120)), (0, 0), 4) > 0.5).astype(np.uint8)
    back = np.zeros_like(mask)
    for border, *holes in visops.masks_to_polygons(mask, holes=True):
        cv2.fillPoly(back, [border.reshape(-1, 1, 2)], 1)
        for hole in holes:
            inner = np.zeros_like(mask)
            cv2.fillPoly(inner, [hole.reshape(-1, 1, 2)], 1)
            back[(inner == 1) & (mask == 0)] = 0
    assert np.array_equal(back, mask)
