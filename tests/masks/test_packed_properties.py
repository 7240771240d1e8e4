"""Properties of packed masks, over random masks of odd sizes."""

import numpy as np
import visops
from hypothesis import given, settings
from hypothesis import strategies as st

few = settings(max_examples=15)
seeds = st.integers(0, 2**32 - 1)
sides = st.integers(1, 400)


@few
@given(seed=seeds, height=st.integers(1, 60), width=sides, count=st.integers(0, 5))
def test_packing_loses_nothing(seed: int, height: int, width: int, count: int) -> None:
    masks = np.random.default_rng(seed).random((count, height, width)) < 0.3
    packed = visops.pack_masks(masks)
    np.testing.assert_array_equal(packed.unpack(), masks)
    bits = np.unpackbits(packed.bits.view(np.uint8), axis=-1, bitorder="little")
    np.testing.assert_array_equal(bits[..., :width], masks)
    assert not bits[..., width:].any()
    np.testing.assert_array_equal(visops.mask_area(packed), masks.sum((1, 2)))


@few
@given(seed=seeds, height=st.integers(1, 60), width=sides)
def test_overlaps_are_ratios_of_counts(seed: int, height: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    masks = np.zeros((7, height, width), bool)
    for mask in masks[1:]:
        y, x = np.sort(rng.integers(0, height + 1, 2)), np.sort(rng.integers(0, width + 1, 2))
        mask[slice(*y), slice(*x)] = (
            rng.random() < 0.5 or rng.random((y[1] - y[0], x[1] - x[0])) < 0.5
        )
    flat = masks.reshape(7, -1).astype(np.int64)
    common, area = flat @ flat.T, flat.sum(1)
    union = area[:, None] + area - common
    iou = visops.mask_iou(masks, masks)
    np.testing.assert_array_equal(iou, (common / np.maximum(union, 1)).astype(np.float32))
    np.testing.assert_array_equal(iou, iou.T)
    ioa = visops.mask_iou(masks, masks, kind="ioa")
    np.testing.assert_array_equal(ioa, (common / np.maximum(area, 1)[:, None]).astype(np.float32))
