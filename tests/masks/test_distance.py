"""Distance transforms: against a search of all pixels, SciPy, OpenCV, and at random."""

import itertools
from typing import Any

import cv2
import numpy as np
import pytest
import scipy.ndimage
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references import masks as reference

from masks.cases import KINDS, LAYOUTS, SIZES

EMULATED = visops.build_info()["cpu"] == "cuda_emulated"
METRICS = ("euclidean", "taxicab", "chessboard")


@pytest.mark.matrix
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_masks(kind: str, metric: Any) -> None:
    """Distances to the last bit, and the first in raster order of the nearest pixels."""
    rng = np.random.default_rng(0)
    layouts = itertools.cycle(LAYOUTS.values())
    for height, width in SIZES:
        mask = KINDS[kind](rng, height, width)
        values = torch.from_numpy(mask)
        if rng.random() < 0.5:  # pixels that are not 0 are inside, whichever bit is set
            values = values * torch.from_numpy(2 ** rng.integers(0, 8, mask.shape)).byte()
        given = next(layouts)(values)
        distances, positions = reference.distance_transform(mask, metric)
        found, indices = visops.distance_transform(given, metric=metric, return_indices=True)
        assert (found.dtype, indices.dtype) == (torch.float32, torch.int32)
        np.testing.assert_array_equal(found.numpy(), distances.astype(np.float32))
        np.testing.assert_array_equal(indices.numpy(), positions)
        alone = visops.distance_transform(given, metric=metric)
        assert torch.equal(alone, found)
        assert alone.is_contiguous()


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_spacing(kind: str) -> None:
    """Within a few roundings; the index is of a pixel as near."""
    rng = np.random.default_rng(1)
    for (height, width), spacing in zip(
        SIZES, itertools.cycle([(0.7, 1.9), (3.0, 3.0), (1e-3, 1e3)]), strict=False
    ):
        mask = KINDS[kind](rng, height, width)
        distances, _ = reference.distance_transform(mask, spacing=spacing)
        found, indices = visops.distance_transform(mask, spacing=spacing, return_indices=True)
        np.testing.assert_allclose(found, distances, rtol=3e-7)
        at = reference.distance_at("euclidean", spacing, indices)
        np.testing.assert_allclose(at, distances, rtol=3e-7)
        np.testing.assert_array_equal(found, visops.distance_transform(mask, spacing=spacing))
        if len(set(spacing)) == 1:
            one = visops.distance_transform(mask, spacing=spacing[0])
            np.testing.assert_array_equal(one, found)


@pytest.mark.matrix
@pytest.mark.parametrize("metric", METRICS)
def test_volumes(metric: Any) -> None:
    rng = np.random.default_rng(2)
    for shape, density in (
        ((4, 5, 6), 0.9),
        ((3, 1, 66), 0.97),
        ((1, 7, 9), 0.7),
        ((5, 4, 1), 0.9),
    ):
        mask = rng.random(shape) < density
        distances, positions = reference.distance_transform(mask, metric)
        found, indices = visops.distance_transform(mask, metric=metric, dims=3, return_indices=True)
        np.testing.assert_array_equal(found, distances.astype(np.float32))
        np.testing.assert_array_equal(indices, positions)
        if metric == "euclidean":
            spacing = (2.5, 0.5, 1.25)
            distances, _ = reference.distance_transform(mask, spacing=spacing)
            found = visops.distance_transform(mask, dims=3, spacing=spacing)
            np.testing.assert_allclose(found, distances, rtol=3e-7)


def scipys(mask: np.ndarray, metric: Any) -> np.ndarray:
    if metric == "euclidean":
        return np.asarray(scipy.ndimage.distance_transform_edt(mask))
    return np.asarray(scipy.ndimage.distance_transform_cdt(mask, metric))


@pytest.mark.parametrize("metric", METRICS)
def test_scipy(metric: Any) -> None:
    """On larger masks, volumes too: near and far from the outside."""
    rng = np.random.default_rng(3)
    shape = (40, 90) if EMULATED else (211, 517)
    masks = [KINDS[kind](rng, *shape) for kind in ("noise", "discs", "spiral", "all but one")]
    for mask in (*masks, rng.random((9, 20, 70)) < 0.98, rng.random(shape) < 0.9999):
        if mask.all():
            continue  # not defined in SciPy
        found, indices = visops.distance_transform(
            mask, metric=metric, dims=mask.ndim, return_indices=True
        )
        expected = scipys(mask, metric)
        np.testing.assert_array_equal(found, expected.astype(np.float32))
        steps = np.indices(mask.shape) - indices
        assert not mask[tuple(indices)].any()
        if metric == "euclidean":
            np.testing.assert_array_equal((steps**2).sum(0), np.rint(expected**2))
        else:
            lengths = np.abs(steps)
            length = lengths.sum(0) if metric == "taxicab" else lengths.max(0)
            np.testing.assert_array_equal(length, expected)


def test_opencv() -> None:
    rng = np.random.default_rng(4)
    for kind in ("noise", "discs", "spiral", "all but one"):
        mask = KINDS[kind](rng, 60, 130)
        theirs = cv2.distanceTransform(mask.astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        np.testing.assert_allclose(visops.distance_transform(mask), theirs, rtol=1e-6)


@pytest.mark.matrix
@pytest.mark.parametrize("columns", [1, 2, 40])
def test_long_rows(columns: int) -> None:
    """Where most pixels are far from any outside, rows are done by their lower envelope."""
    rng = np.random.default_rng(columns)
    mask = np.ones((4, 2500), bool)
    mask[rng.integers(0, 4, columns), rng.integers(0, 2500, columns)] = False
    mask[3, 1000:1003] = columns == 1  # several columns of one row, near each other
    found, indices = visops.distance_transform(mask, return_indices=True)
    rows, positions = np.nonzero(~mask)
    squares = (np.arange(4)[:, None, None] - rows) ** 2 + (
        np.arange(2500)[None, :, None] - positions
    ) ** 2
    np.testing.assert_array_equal(found, np.sqrt(squares.min(-1)).astype(np.float32))
    first = squares.argmin(-1)  # np.nonzero is in raster order
    np.testing.assert_array_equal(indices, np.stack([rows[first], positions[first]]))
    np.testing.assert_array_equal(visops.distance_transform(mask), found)


def few_sites(shape: tuple[int, ...], count: int, seed: int = 0) -> np.ndarray:
    """A mask with so many pixels outside: most are far from them."""
    mask = np.ones(shape, bool)
    rng = np.random.default_rng(seed)
    mask[tuple(rng.integers(0, size, count) for size in shape)] = False
    return mask


@pytest.mark.matrix
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("shape", [(60, 300), (300, 60), (1, 500), (9, 50, 70), (90, 6, 5)])
def test_few_sites(shape: tuple[int, ...], metric: Any) -> None:
    """Where distances are long, lines are solved; the nearest pixel and ties stay exact."""
    for count in (1, 2, 30):
        mask = few_sites(shape, count)
        distances, positions = reference.distance_transform(mask, metric)
        options: dict[str, Any] = {"metric": metric, "dims": len(shape)}
        found, indices = visops.distance_transform(mask, return_indices=True, **options)
        np.testing.assert_array_equal(found, distances.astype(np.float32))
        np.testing.assert_array_equal(indices, positions)
        np.testing.assert_array_equal(visops.distance_transform(mask, **options), found)


@pytest.mark.matrix
@pytest.mark.parametrize("shape", [(40, 90), (9, 20, 30)])
def test_spacings_with_ties(shape: tuple[int, ...]) -> None:
    """Whole spacings are exact in float64, equal ones whatever they are."""
    for count in (2, 40, 400):
        mask = few_sites(shape, count)
        for spacing in ((3.0, 1.0, 2.0)[: len(shape)], (0.1,) * len(shape)):
            distances, positions = reference.distance_transform(
                mask, spacing=spacing if spacing[0] == 3 else None
            )
            found, indices = visops.distance_transform(
                mask, dims=len(shape), spacing=spacing, return_indices=True
            )
            wanted = distances if spacing[0] == 3 else distances * 0.1
            np.testing.assert_array_equal(found, wanted.astype(np.float32))
            np.testing.assert_array_equal(indices, positions)


@pytest.mark.matrix
def test_squares_beyond_int32() -> None:
    """Sides whose squares need 64 bits are as exact."""
    mask = np.ones((2, 40_000), bool)
    mask[0, 0] = mask[1, 10_000] = False
    found, indices = visops.distance_transform(mask, return_indices=True)
    assert indices[:, 1, 5000].tolist() == [1, 10_000]  # 5000, and the square root of 5000² + 1
    for width in (40_000, 32_768, 32_766):
        mask = few_sites((2, width), 5)
        for spacing in (None, 0.25):
            found, indices = visops.distance_transform(mask, spacing=spacing, return_indices=True)
            distances, positions = reference.distance_transform(mask)
            wanted = distances * (spacing or 1)
            np.testing.assert_array_equal(found, wanted.astype(np.float32))
            np.testing.assert_array_equal(indices, positions)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("options", [*({"metric": m} for m in METRICS), {"spacing": (1, 2, 3)}])
def test_time_does_not_grow_with_distances(options: dict[str, Any], axis: int) -> None:
    """Trying all candidates of such a line would take hours."""
    size = 100_000 if EMULATED else 1_000_000
    mask = np.ones(size, bool)
    mask[[7, size // 3]] = False
    line = np.arange(size)
    at = np.where(line - 7 <= size // 3 - line, 7, size // 3)
    shape = [1, 1, 1]
    shape[axis] = size
    found, indices = visops.distance_transform(
        mask.reshape(shape), dims=3, return_indices=True, **options
    )
    scale = options.get("spacing", (1, 1, 1))[axis]
    wanted = np.abs(line - at) * scale
    np.testing.assert_array_equal(found.ravel(), wanted.astype(np.float32))
    np.testing.assert_array_equal(indices[axis].ravel(), at)


@pytest.mark.parametrize("shape", [(0, 4, 5), (2, 0, 5), (2, 4, 0), (0, 0)])
def test_nothing(shape: tuple[int, ...]) -> None:
    masks = torch.ones(shape, dtype=torch.bool)
    found, indices = visops.distance_transform(masks, return_indices=True)
    assert found.shape == shape
    assert indices.shape == (*shape[:-2], 2, *shape[-2:])


@pytest.mark.parametrize("metric", METRICS)
def test_a_mask_without_outside(metric: Any) -> None:
    masks = torch.ones(2, 5, 70, dtype=torch.bool)
    masks[1, 4, 69] = False
    found, indices = visops.distance_transform(masks, metric=metric, return_indices=True)
    assert found[0].isinf().all()
    assert (indices[0] == -1).all()
    assert found[1].isfinite().all()
    assert (visops.distance_transform(masks[0], spacing=2.0).isinf()).all()


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
@given(seed=seeds, height=sides, width=sides, metric=st.sampled_from(["taxicab", "chessboard"]))
def test_the_index_is_the_first_as_near(seed: int, height: int, width: int, metric: Any) -> None:
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


def test_size_of_a_plane_without_depth() -> None:
    masks = torch.zeros(1, 1, dtype=torch.bool).expand(2**16, 2**16)
    with pytest.raises(RuntimeError, match=r"masks are 65536 x 65536, must have fewer than 2\^31"):
        visops.distance_transform(masks)
