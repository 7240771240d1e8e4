"""Borders of masks: OpenCV's vertices, regions and holes."""

from typing import Any

import cv2
import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st

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


def ours(mask: Any, approximation: str) -> list[Any]:
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
