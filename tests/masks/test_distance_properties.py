"""Properties of distance transforms, over random masks of odd sizes."""

import numpy as np
import scipy.ndimage
import visops
from hypothesis import given, settings
from hypothesis import strategies as st

from masks.mask_cases import KINDS

few = settings(max_examples=15)
seeds = st.integers(0, 2**32 - 1)
sides = st.integers(1, 150)


@few
@given(seed=seeds, height=sides, width=sides)
def test_distances_are_scipys(seed: int, height: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    masks = np.stack([make(rng, height, width) for make in KINDS.values()])
    found = visops.distance_transform(masks)
    for mask, ours in zip(masks, found, strict=True):
        if mask.all():
            assert np.isinf(ours).all()
        else:
            theirs = scipy.ndimage.distance_transform_edt(mask)
            np.testing.assert_array_equal(ours, theirs.astype(np.float32))


@few
@given(seed=seeds, height=sides, width=sides)
def test_mirrored_masks_have_mirrored_distances(seed: int, height: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random((height, width)) < rng.choice([0.5, 0.95, 0.999])
    for metric in ("euclidean", "taxicab", "chessboard"):
        found = visops.distance_transform(mask, metric=metric)
        for axis in (0, 1):
            mirrored = visops.distance_transform(np.flip(mask, axis), metric=metric)
            np.testing.assert_array_equal(np.flip(mirrored, axis), found)
        turned = visops.distance_transform(mask.T, metric=metric)
        np.testing.assert_array_equal(turned.T, found)


@few
@given(seed=seeds, height=sides, width=sides, metric=st.sampled_from(["taxicab", "chessboard"]))
def test_the_index_is_the_first_as_near(seed: int, height: int, width: int, metric: str) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random((height, width)) < rng.choice([0.5, 0.95])
    found, (rows, columns) = visops.distance_transform(mask, metric=metric, return_indices=True)
    if mask.all():
        assert (rows == -1).all()
        return
    y, x = np.indices(mask.shape)
    reach = np.abs(y - rows), np.abs(x - columns)
    length = reach[0] + reach[1] if metric == "taxicab" else np.maximum(*reach)
    np.testing.assert_array_equal(length, found)
    at = rng.integers(0, height), rng.integers(0, width)
    down, right = np.abs(y - at[0]), np.abs(x - at[1])
    every = down + right if metric == "taxicab" else np.maximum(down, right)
    first = np.flatnonzero((every == every[~mask].min()) & ~mask)[0]
    assert divmod(int(first), width) == (rows[at], columns[at])
