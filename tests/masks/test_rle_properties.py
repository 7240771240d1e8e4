"""Properties of run lengths, over random masks of odd sizes and random text."""

import numpy as np
import pytest
import visops
from hypothesis import example, given, settings
from hypothesis import strategies as st
from references import rle as reference

few = settings(max_examples=25)
seeds = st.integers(0, 2**32 - 1)
heights, widths = st.integers(0, 200), st.integers(0, 200)
densities = st.sampled_from([0.0, 0.01, 0.5, 0.99, 1.0])


@few
@given(seed=seeds, height=heights, width=widths, count=st.integers(0, 4), density=densities)
def test_coding_loses_nothing(
    seed: int, height: int, width: int, count: int, density: float
) -> None:
    masks = np.random.default_rng(seed).random((count, height, width)) < density
    rles = visops.masks_to_rle(masks)
    assert rles == visops.masks_to_rle(visops.pack_masks(masks))
    counts = [rle["counts"] for rle in visops.masks_to_rle(masks, compressed=False)]
    assert all(sum(c) == height * width and 0 not in c[1:] for c in counts)
    assert [rle["counts"] for rle in rles] == [reference.text_of(c) for c in counts]
    np.testing.assert_array_equal(visops.rle_to_masks(rles, size=(height, width)).numpy(), masks)
    np.testing.assert_array_equal(visops.rle_area(rles).numpy(), masks.sum((1, 2)))


@few
@given(seed=seeds, height=st.integers(1, 40), width=st.integers(1, 90))
def test_overlaps_are_those_of_masks(seed: int, height: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    masks = np.zeros((6, height, width), bool)
    for mask in masks[1:]:
        y, x = np.sort(rng.integers(0, height + 1, 2)), np.sort(rng.integers(0, width + 1, 2))
        mask[slice(*y), slice(*x)] = rng.random((y[1] - y[0], x[1] - x[0])) < rng.choice([0.5, 1])
    crowd = rng.random(6) < 0.3
    rles = visops.masks_to_rle(masks)
    found = visops.rle_iou(rles, rles, crowd).numpy().astype(np.float32)
    np.testing.assert_array_equal(found, visops.mask_iou(masks, masks, iscrowd=crowd))


@settings(max_examples=200)
@example(b"0")
@example(b"")
@example(b"P" * 40)
@given(text=st.binary(max_size=12) | st.text("0123456789:;OPQnop", max_size=9).map(str.encode))
def test_any_text_is_read_or_refused(text: bytes) -> None:
    rle = {"size": [5, 4], "counts": text}
    try:
        mask = visops.rle_to_masks(rle)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert message.startswith("visops.rle_to_masks: rles[0]['counts'] ")
        return
    assert mask.shape == (5, 4)
    assert visops.rle_area(rle).item() == mask.sum().item()


@settings(max_examples=60)
@given(counts=st.lists(st.integers(-2, 12), max_size=8))
def test_any_counts_are_read_or_refused(counts: list[int]) -> None:
    rle = {"size": [5, 4], "counts": counts}
    if min(counts, default=0) < 0 or sum(counts) != 20:
        with pytest.raises(ValueError, match=r"rles\[0\]\['counts'\] has the (count|sum) "):
            visops.rle_to_masks(rle)
        return
    np.testing.assert_array_equal(visops.rle_to_masks(rle).numpy(), reference.mask_of(counts, 5, 4))
