"""Properties of connected components, over random masks of odd sizes."""

import numpy as np
import scipy.ndimage
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references import components as reference

from masks.mask_cases import KINDS

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


@few
@given(seed=seeds, height=sides, width=sides, min_area=st.integers(0, 60))
def test_what_stays_is_large(seed: int, height: int, width: int, min_area: int) -> None:
    rng = np.random.default_rng(seed)
    mask = KINDS["noise"](rng, height, width)
    filled, _ = visops.remove_small_regions(mask, min_area, "holes")
    assert (filled | ~mask).all()
    holes = visops.connected_components(~filled, return_stats=True)[1]
    assert (holes.areas >= min_area).all()
    kept, changed = visops.remove_small_regions(mask, min_area, "islands")
    assert (mask | ~kept).all()
    islands = visops.connected_components(kept, return_stats=True)[1]
    assert (islands.areas >= min_area).all() or islands.counts == 1
    assert changed == (kept != mask).any()
    assert not visops.remove_small_regions(kept, min_area, "islands")[1]
