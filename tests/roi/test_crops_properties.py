"""Properties of crops and of pasting that hold for any boxes."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from warp.affine_cases import MODES

from roi.crops_cases import BLENDS, images_of, paste_options, random_boxes

SHAPE = (2, 2, 21, 27)
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.tuples(st.integers(1, 12), st.integers(1, 140))
few = settings(max_examples=25)


def problem(seed: int, size: tuple[int, int], count: int = 5) -> tuple[Any, Any, Any]:
    """Images, boxes at multiples of 1/8, and patches, float64."""
    boxes = np.round(random_boxes(np.random.default_rng(seed), count, SHAPE) * 8) / 8
    boxes[:, 0] = np.floor(boxes[:, 0])
    patches = images_of(torch.float64, seed % 997, (count, 2, *size))
    return images_of(torch.float64, seed % 991, SHAPE), torch.from_numpy(boxes), patches


@few
@given(SEEDS, SIZES, st.sampled_from(MODES), st.integers(-7, 7), st.integers(-7, 7))
def test_whole_pixels_move_nothing_else(
    seed: int, size: tuple[int, int], mode: str, dx: int, dy: int
) -> None:
    """Boxes moved with their image give the same patches, and paste the same pixels."""
    images, boxes, patches = problem(seed, size)
    wide = torch.nn.functional.pad(images, (10, 10, 10, 10))
    moved = torch.nn.functional.pad(images, (10 + dx, 10 - dx, 10 + dy, 10 - dy))
    shift = torch.tensor([0, 10, 10, 10, 10], dtype=torch.float64)
    by = torch.tensor([0, dx, dy, dx, dy], dtype=torch.float64)
    options: dict[str, Any] = {"interpolation": mode}
    found = visops.crop_rois(moved, boxes + shift + by, size, **options)
    wanted = visops.crop_rois(wide, boxes + shift, size, **options)
    if mode == "nearest":  # a tie may fall either way
        assert float((found != wanted).double().mean()) < 0.1
        return
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-11)
    back = visops.paste_rois(moved, patches, boxes + shift + by, **options)
    wanted = visops.paste_rois(wide, patches, boxes + shift, **options)
    rows, columns = slice(10, 31), slice(10, 37)
    torch.testing.assert_close(
        torch.roll(back, (-dy, -dx), (2, 3))[..., rows, columns], wanted[..., rows, columns],
        rtol=0, atol=1e-11,
    )  # fmt: skip


@few
@given(SEEDS, SIZES, st.sampled_from(MODES), st.sampled_from(BLENDS))
def test_boxes_of_other_images_change_nothing(
    seed: int, size: tuple[int, int], mode: str, blend: str
) -> None:
    images, boxes, patches = problem(seed, size)
    options = paste_options(blend, patches, dtype=torch.float64)
    found = visops.paste_rois(images, patches, boxes, interpolation=mode, **options)
    crops = visops.crop_rois(images, boxes, size, interpolation=mode)
    for i in range(2):
        own = boxes[:, 0] == i
        of_image = boxes[own].clone()
        of_image[:, 0] = 0
        part: dict[str, Any] = {
            k: v[own] if isinstance(v, torch.Tensor) else v for k, v in options.items()
        }
        alone = visops.paste_rois(
            images[i : i + 1], patches[own], of_image, interpolation=mode, **part
        )
        assert torch.equal(alone[0], found[i])
        alone = visops.crop_rois(images[i : i + 1], of_image, size, interpolation=mode)
        assert torch.equal(alone, crops[own])


@few
@given(SEEDS, SIZES, st.sampled_from(MODES), st.floats(-3, 3))
def test_linear_in_images_and_patches(
    seed: int, size: tuple[int, int], mode: str, factor: float
) -> None:
    images, boxes, patches = problem(seed, size)
    others, _, other_patches = problem(seed + 1, size)
    options: dict[str, Any] = {"interpolation": mode}
    found = visops.crop_rois(images + factor * others, boxes, size, **options)
    parts = [visops.crop_rois(i, boxes, size, **options) for i in (images, others)]
    torch.testing.assert_close(found, parts[0] + factor * parts[1], rtol=0, atol=1e-12)
    options["blend"] = "feather"
    found = visops.paste_rois(
        images + factor * others, patches + factor * other_patches, boxes, **options
    )
    parts = [
        visops.paste_rois(i, p, boxes, **options)
        for i, p in ((images, patches), (others, other_patches))
    ]
    torch.testing.assert_close(found, parts[0] + factor * parts[1], rtol=0, atol=1e-12)


@few
@given(SEEDS, SIZES, st.sampled_from(BLENDS))
def test_constants_stay(seed: int, size: tuple[int, int], blend: str) -> None:
    """Crops of a constant image are constant, and pasting them back changes nothing."""
    _, boxes, patches = problem(seed, size)
    images = torch.full(SHAPE, 0.375, dtype=torch.float64)
    crops = visops.crop_rois(images, boxes, size, padding_mode="replicate")
    torch.testing.assert_close(crops, torch.full_like(patches, 0.375), rtol=0, atol=1e-15)
    options = paste_options(blend, patches, dtype=torch.float64)
    found = visops.paste_rois(images, crops, boxes, **options)
    torch.testing.assert_close(found, images, rtol=0, atol=1e-14)


@few
@given(SEEDS, st.sampled_from(("bilinear", "nearest")), st.sampled_from(BLENDS))
def test_results_are_between_what_goes_in(seed: int, mode: str, blend: str) -> None:
    images, boxes, patches = problem(seed, (7, 9))
    options = paste_options(blend, patches, dtype=torch.float64)
    for found in (
        visops.crop_rois(images, boxes, (7, 9), interpolation=mode, fill=0.5),
        visops.paste_rois(images, patches, boxes, interpolation=mode, **options),
    ):
        assert float(found.min()) >= -1e-15
        assert float(found.max()) <= 1 + 1e-15


@pytest.mark.parametrize("blend", BLENDS)
def test_flips(blend: str) -> None:
    """Flipping image, boxes and patches flips the result."""
    images, boxes, patches = problem(11, (7, 9))
    options = paste_options(blend, patches, dtype=torch.float64)
    mirrored = boxes.clone()
    mirrored[:, 1], mirrored[:, 3] = 27 - boxes[:, 3], 27 - boxes[:, 1]
    crops = visops.crop_rois(images.flip(-1), mirrored, (7, 9)).flip(-1)
    torch.testing.assert_close(crops, visops.crop_rois(images, boxes, (7, 9)), rtol=0, atol=1e-12)
    flipped: dict[str, Any] = {
        k: v.flip(-1) if isinstance(v, torch.Tensor) else v for k, v in options.items()
    }
    # A centre on the side between two boxes belongs to one of them only.
    inside = torch.tensor([0, 1e-9, 1e-9, -1e-9, -1e-9], dtype=torch.float64)
    found = visops.paste_rois(images.flip(-1), patches.flip(-1), mirrored + inside, **flipped)
    wanted = visops.paste_rois(images, patches, boxes + inside, **options)
    torch.testing.assert_close(found.flip(-1), wanted, rtol=0, atol=1e-6)
