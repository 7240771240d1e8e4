"""Crops: against a reference in float64 and other libraries, exactly, and at random."""

import itertools
from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data
import torch
import torchvision
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references import roi_crops as reference
from torch import Tensor
from warp.affine_cases import (
    COPIED,
    INTERPOLATED,
    LAYOUTS,
    MODES,
    PADDINGS,
    modes_of,
    random_image,
)

from roi.crops_cases import (
    BLENDS,
    SHAPE,
    all_boxes,
    assert_near,
    images_of,
    paste_options,
    random_boxes,
    to_numpy,
)

SIZES = ((7, 9), (1, 1), (30, 140))


@pytest.fixture(scope="module")
def photo() -> Tensor:
    """uint8 [1, 3, 512, 512]"""
    return torch.from_numpy(skimage.data.astronaut()).permute(2, 0, 1)[None].contiguous()


@pytest.mark.matrix
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("dtype", INTERPOLATED + COPIED, ids=str)
def test_reference(dtype: torch.dtype, padding_mode: str) -> None:
    layouts = itertools.cycle(LAYOUTS.values())
    images, boxes = images_of(dtype), all_boxes()
    fill: Any = (1, 0, 1)
    for mode, size in itertools.product(modes_of(dtype), SIZES):
        found = visops.crop_rois(
            next(layouts)(images), boxes, size, interpolation=mode, padding_mode=padding_mode,
            fill=fill,
        )  # fmt: skip
        assert found.dtype == dtype
        wanted = reference.crops(
            to_numpy(images), boxes.numpy(), size, mode=mode, padding_mode=padding_mode, fill=fill
        )
        assert_near(found, wanted, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_warp_affine(mode: str, padding_mode: str) -> None:
    """A crop is a warp of its image."""
    images, boxes, size = images_of(torch.float32), all_boxes(torch.float64), (17, 19)
    found = visops.crop_rois(images, boxes, size, interpolation=mode, padding_mode=padding_mode)
    for patch, (image, x1, y1, x2, y2) in zip(found, boxes.tolist(), strict=True):
        matrix = [[(x2 - x1) / size[1], 0, x1], [0, (y2 - y1) / size[0], y1]]
        warped = visops.warp_affine(
            images[int(image)], matrix, size, mode=mode, padding_mode=padding_mode,
            inverse_map=True, convention="half_pixel",
        )  # fmt: skip
        if mode == "nearest":
            assert float((patch != warped).double().mean()) < 0.01
        else:
            torch.testing.assert_close(patch, warped, rtol=0, atol=2e-4)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", INTERPOLATED + COPIED, ids=str)
def test_whole_pixels_are_copies(dtype: torch.dtype) -> None:
    images = images_of(dtype)
    box = torch.tensor([[1, 5, 6, 13, 17]])
    if dtype.is_floating_point:
        images[1, 0, 9, 9] = float("inf")
        images[1, 1, 9, 9] = float("nan")
    for mode in modes_of(dtype):
        for layout in LAYOUTS.values():
            found = visops.crop_rois(layout(images), box, (11, 8), interpolation=mode)
            slices = images[1:, :, 6:17, 5:13]
            assert torch.equal(found.nan_to_num(7), slices.nan_to_num(7))


def test_every_other_pixel_is_a_copy() -> None:
    images = images_of(torch.float32)
    images[0, 0, 1, 1] = float("nan")
    found = visops.crop_rois(images, torch.tensor([[0, -0.5, -0.5, 29.5, 21.5]]), (11, 15))
    assert torch.equal(found[0].isnan(), torch.zeros(3, 11, 15, dtype=torch.bool))
    assert torch.equal(found[0], images[0, :, ::2, ::2][:, :11, :15])


@pytest.mark.parametrize("size", [(224, 200), (512, 512), (700, 900)], ids=str)
def test_resizing_the_image(photo: Tensor, size: tuple[int, int]) -> None:
    """With the whole image as a box, a crop resizes as torch and OpenCV do."""
    whole = torch.tensor([[0, 0, 0, 512, 512]])
    images = photo.float()
    for mode in ("bilinear", "bicubic"):
        found = visops.crop_rois(images, whole, size, interpolation=mode, padding_mode="replicate")
        wanted = torch.nn.functional.interpolate(images, size, mode=mode)
        torch.testing.assert_close(found, wanted, rtol=0, atol=2e-2)
    found = visops.crop_rois(photo, whole, size, padding_mode="replicate")
    array = photo[0].permute(1, 2, 0).numpy()
    opencv = cv2.resize(array, size[::-1], interpolation=cv2.INTER_LINEAR)
    difference = np.abs(found[0].permute(1, 2, 0).numpy().astype(int) - opencv.astype(int))
    assert difference.max() <= 1


def test_slices_and_cv2(photo: Tensor) -> None:
    """Away from the border a crop is cv2.resize of a slice."""
    array = photo[0].permute(1, 2, 0).numpy()
    box, size = (120, 40, 260, 230), (96, 80)
    cut = array[box[1] : box[3], box[0] : box[2]]
    opencv = cv2.resize(cut, size[::-1], interpolation=cv2.INTER_LINEAR)
    found = visops.crop_rois(photo, torch.tensor([[0, *box]]), size)[0].permute(1, 2, 0).numpy()
    difference = np.abs(found.astype(int) - opencv.astype(int))[1:-1, 1:-1]
    assert difference.max() <= 1


def test_grid_sample() -> None:
    images = images_of(torch.float64)
    boxes = all_boxes(torch.float64)
    size = (12, 14)
    found = visops.crop_rois(images, boxes, size)
    height, width = images.shape[2:]
    for patch, (image, x1, y1, x2, y2) in zip(found, boxes.tolist(), strict=True):
        x = (reference.positions_in(x1, x2, size[1]) + 0.5) * 2 / width - 1
        y = (reference.positions_in(y1, y2, size[0]) + 0.5) * 2 / height - 1
        grid = torch.from_numpy(np.stack(np.meshgrid(x, y), -1))[None]
        one = images[int(image)][None]
        wanted = torch.nn.functional.grid_sample(one, grid, align_corners=False)[0]
        torch.testing.assert_close(patch, wanted, rtol=0, atol=1e-12)


def test_roi_align_with_one_sample() -> None:
    """The same coordinates as RoIAlign's: aligned, one sample a bin."""
    images, rng = images_of(torch.float32), np.random.default_rng(3)
    boxes = torch.from_numpy(random_boxes(rng, 20, SHAPE, out=0.0)).float()
    boxes[:, 1::2] = boxes[:, 1::2].clamp(1, 30)
    boxes[:, 2::2] = boxes[:, 2::2].clamp(1, 22)
    found = visops.crop_rois(images, boxes, (7, 7))
    wanted = torchvision.ops.roi_align(images, boxes, (7, 7), sampling_ratio=1, aligned=True)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8], ids=str
)
def test_dtypes_and_strides_of_boxes(dtype: torch.dtype) -> None:
    images = images_of(torch.float32)
    boxes = torch.tensor([[1, 4, 5, 20, 9], [0, 2, 3, 30, 22]], dtype=torch.float32)
    wanted = visops.crop_rois(images, boxes, (5, 6))
    assert torch.equal(visops.crop_rois(images, boxes.to(dtype), (5, 6)), wanted)
    strided = boxes.to(dtype).mT.contiguous().mT
    assert torch.equal(visops.crop_rois(images, strided, (5, 6)), wanted)


def test_a_list_of_boxes() -> None:
    images, boxes = images_of(torch.float32), all_boxes()
    boxes = boxes[boxes[:, 0].argsort(stable=True)]
    parts = [boxes[boxes[:, 0] == i, 1:] for i in range(2)]
    wanted = visops.crop_rois(images, boxes, 8)
    assert torch.equal(visops.crop_rois(images, parts, 8), wanted)
    arrays = [part.numpy() for part in parts]
    found = visops.crop_rois(images.numpy(), arrays, (8, 8))
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, wanted.numpy())
    found = visops.crop_rois(images.numpy(), boxes.numpy(), 8, device="cpu")
    assert np.array_equal(found, wanted.numpy())


@pytest.mark.parametrize("shape", [(0, 3, 5, 6), (2, 0, 5, 6), (2, 3, 5, 6)], ids=str)
def test_no_boxes(shape: tuple[int, ...]) -> None:
    found = visops.crop_rois(torch.zeros(shape), torch.zeros(0, 5), (4, 7))
    assert found.shape == (0, shape[1], 4, 7)


def test_images_without_pixels() -> None:
    found = visops.crop_rois(torch.zeros(1, 2, 0, 5), torch.tensor([[0, 0, 0, 2, 2]]), 3, fill=4)
    assert torch.equal(found, torch.full((1, 2, 3, 3), 4.0))
    assert (
        visops.crop_rois(torch.zeros(1, 0, 4, 5), torch.tensor([[0, 0, 0, 2, 2]]), 3).numel() == 0
    )


@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64], ids=str)
def test_boxes_far_away_and_huge(dtype: torch.dtype, padding_mode: str) -> None:
    images = images_of(dtype)
    boxes = torch.tensor(
        [
            [0, 1e30, 1e30, 1.5e30, 2e30],
            [1, -3e38, -3e38, 3e38, 3e38],
            [0, -1e12, 3.0, 1e12, 4.0],
            [1, 16777216.0, 0, 16777220.0, 20],
        ],
        dtype=torch.float64,
    )
    for mode in MODES:
        found = visops.crop_rois(
            images, boxes, (6, 130), interpolation=mode, padding_mode=padding_mode, fill=5
        )
        values = images if padding_mode != "constant" else torch.tensor([5.0])
        assert bool(found.double().isfinite().all())
        if padding_mode == "constant":
            assert torch.equal(found[0], torch.full_like(found[0], 5))
        elif mode == "nearest":
            assert bool(torch.isin(found, values).all())


def test_shrinking_by_far() -> None:
    """When a row's buffer is too short, pixels are sampled one by one."""
    rng = np.random.default_rng(0)
    images = random_image(rng, (1, 3, 12, 9000), torch.float32)
    boxes = torch.tensor([[0, 3.3, 1.0, 8990.0, 10.5], [0, -500.0, 1.0, 9700.0, 10.5]])
    for mode in ("bilinear", "bicubic"):
        found = visops.crop_rois(images, boxes, (4, 20), interpolation=mode)
        wanted = reference.crops(images.numpy(), boxes.numpy(), (4, 20), mode=mode)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


def test_infinite_fill_stays_outside() -> None:
    images = torch.ones(1, 1, 4, 4)
    box = torch.tensor([[0, -6.0, 0.25, 3.0, 3.25]])
    found = visops.crop_rois(images, box, (3, 18), fill=float("inf"))[0, 0]
    assert bool((found[:, :10] == float("inf")).all())
    assert bool((found[:, -4:] == 1).all())


def test_more_than_32_bits_of_elements() -> None:
    side = 46400
    images = torch.zeros(1, 1, side, side, dtype=torch.uint8)  # pages that nothing has touched
    images[0, 0, -8:, -8:] = torch.arange(64, dtype=torch.uint8).view(8, 8)
    box = torch.tensor([[0, side - 8, side - 8, side, side]])
    assert torch.equal(visops.crop_rois(images, box, 8)[0, 0], images[0, 0, -8:, -8:])
    half = visops.crop_rois(images, box.double() - torch.tensor([0, 0.5, 0.5, 0.5, 0.5]), 8)
    assert half[0, 0, -1, -1] == 58  # between 54, 55, 62 and 63: rounded half to even


SMALL_SHAPE = (2, 2, 21, 27)
SEEDS = st.integers(0, 2**32 - 1)
DRAWN_SIZES = st.tuples(st.integers(1, 12), st.integers(1, 140))
few = settings(max_examples=25)


def problem(seed: int, size: tuple[int, int], count: int = 5) -> tuple[Any, Any, Any]:
    """Images, boxes at multiples of 1/8, and patches, float64."""
    boxes = np.round(random_boxes(np.random.default_rng(seed), count, SMALL_SHAPE) * 8) / 8
    boxes[:, 0] = np.floor(boxes[:, 0])
    patches = images_of(torch.float64, seed % 997, (count, 2, *size))
    return images_of(torch.float64, seed % 991, SMALL_SHAPE), torch.from_numpy(boxes), patches


@few
@given(SEEDS, DRAWN_SIZES, st.sampled_from(MODES), st.integers(-7, 7), st.integers(-7, 7))
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
@given(SEEDS, DRAWN_SIZES, st.sampled_from(MODES), st.sampled_from(BLENDS))
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
@given(SEEDS, DRAWN_SIZES, st.sampled_from(BLENDS))
def test_constants_stay(seed: int, size: tuple[int, int], blend: str) -> None:
    """Crops of a constant image are constant, and pasting them back changes nothing."""
    _, boxes, patches = problem(seed, size)
    images = torch.full(SMALL_SHAPE, 0.375, dtype=torch.float64)
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
