"""Values of pasting: against a reference in float64, exact ones, and round trips on photographs."""

import itertools
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
import visops
from kernels import use_slot
from references import roi_crops as reference
from torch import Tensor
from warp.affine_cases import INTERPOLATED, LAYOUTS, MODES

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

every_blend = pytest.mark.parametrize("blend", BLENDS)


@pytest.fixture(scope="module")
def photos() -> Tensor:
    """uint8 [2, 3, 300, 400]"""
    parts = (skimage.data.astronaut()[:300, :400], skimage.data.coffee()[50:350, 100:500])
    return torch.from_numpy(np.stack(parts)).permute(0, 3, 1, 2).contiguous()


def numpy_options(options: dict[str, Any]) -> dict[str, Any]:
    return {k: to_numpy(v) if isinstance(v, Tensor) else v for k, v in options.items()}


@pytest.mark.matrix
@every_blend
@pytest.mark.parametrize("dtype", INTERPOLATED, ids=str)
def test_reference(dtype: torch.dtype, blend: str) -> None:
    layouts = itertools.cycle(itertools.permutations(LAYOUTS.values(), 2))
    images, boxes = images_of(dtype), all_boxes()
    double = torch.float64 if dtype == torch.float64 else torch.float32
    for mode, size in itertools.product(MODES, ((7, 9), (1, 1), (40, 33), (11, 8))):
        patches = images_of(dtype, 1, (len(boxes), 3, *size))
        options = paste_options(blend, patches, dtype=double)
        if mode == "bicubic" and blend == "alpha":
            options["alpha"] = options["alpha"] * 0.5 + 0.25  # overshoots no further than [0, 1]
        of_images, of_patches = next(layouts)
        found = visops.paste_rois(
            of_images(images), of_patches(patches), boxes, interpolation=mode, **options
        )
        assert (found.dtype, found.shape) == (dtype, images.shape)
        wanted = reference.paste(
            to_numpy(images), to_numpy(patches), boxes.numpy(), mode=mode, **numpy_options(options)
        )
        assert_near(found, wanted, mode if blend == "replace" else "blended")


@pytest.mark.matrix
def test_by_hand() -> None:
    image = torch.zeros(1, 1, 4, 8)
    patch = torch.full((1, 1, 2, 2), 8.0)
    box = torch.tensor([[0, 1.0, 0, 7.0, 4]])
    found = visops.paste_rois(image, patch, box, blend="feather", feather=2)[0, 0]
    assert found[1].tolist() == [0, 2, 6, 6, 6, 6, 2, 0]  # a row 1.5 pixels from the upper side
    assert found[0].tolist() == [0, 2, 2, 2, 2, 2, 2, 0]
    alpha = torch.tensor([[[0.25, 0.75]]])
    found = visops.paste_rois(image, patch, box, blend="alpha", alpha=alpha.expand(1, 2, 2))
    assert found[0, 0, 0].tolist() == pytest.approx([0, 2, 2, 10 / 3, 14 / 3, 6, 6, 0])


def test_centres_decide() -> None:
    """Boxes side by side share no pixel and leave none out."""
    image = torch.zeros(1, 1, 5, 12)
    edges = [0.0, 2.5, 4.3, 4.4, 7.5, 12.0]
    boxes = torch.tensor([[0, a, 0, b, 5] for a, b in itertools.pairwise(edges)])
    patches = torch.arange(1.0, 6.0).view(5, 1, 1, 1)
    found = visops.paste_rois(image, patches, boxes)[0, 0]
    assert found[0].tolist() == [1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 5, 5]
    assert torch.equal(found, found[:1].expand(5, 12))


@every_blend
def test_other_pixels_are_left_alone(blend: str) -> None:
    images = images_of(torch.float16)
    images[:, :, ::3] = float("nan")
    images[:, :, 1::3] = float("-inf")
    boxes = torch.tensor([[1, 4, 5, 9, 20], [0, 30, 22, 31, 23]])
    patches = torch.ones(2, 3, 4, 4, dtype=torch.float16)
    before = images.clone()
    found = visops.paste_rois(images, patches, boxes, **paste_options(blend, patches))
    covered = torch.zeros(SHAPE, dtype=torch.bool)
    covered[1, :, 5:20, 4:9] = True
    covered[0, :, 22:, 30:] = True
    assert torch.equal(found.nan_to_num(7)[~covered], images.nan_to_num(7)[~covered])
    assert torch.equal(images.nan_to_num(7), before.nan_to_num(7))
    if blend == "replace":
        assert bool((found[covered] == 1).all())


@every_blend
def test_later_boxes_lie_over_earlier_ones(blend: str) -> None:
    """As if pasted one after another, exactly in float64."""
    images = images_of(torch.float64)
    rng = np.random.default_rng(5)
    boxes = torch.from_numpy(random_boxes(rng, 40, SHAPE))
    patches = images_of(torch.float64, 1, (40, 3, 6, 5))
    options = paste_options(blend, patches, dtype=torch.float64)
    found = visops.paste_rois(images, patches, boxes, **options)
    one_by_one = images
    for k in range(40):
        own: dict[str, Any] = {
            n: v[k : k + 1] if isinstance(v, Tensor) else v for n, v in options.items()
        }
        one_by_one = visops.paste_rois(one_by_one, patches[k : k + 1], boxes[k : k + 1], **own)
    assert torch.equal(found, one_by_one)


@pytest.mark.matrix
def test_many_boxes_over_each_other() -> None:
    """More than the kernels list at a time."""
    count = 1300
    images = torch.zeros(1, 1, 4, 4, dtype=torch.float64)
    boxes = torch.tensor([[0.0, 1, 1, 3, 3]], dtype=torch.float64).expand(count, 5)
    patches = torch.arange(1.0, count + 1, dtype=torch.float64).view(count, 1, 1, 1)
    patches.requires_grad_()
    alpha = torch.full((count, 1, 1), 0.125, dtype=torch.float64, requires_grad=True)
    found = visops.paste_rois(images, patches, boxes, blend="alpha", alpha=alpha)
    value = 0.0
    for k in range(count):
        value = 0.125 * (k + 1) + 0.875 * value
    torch.testing.assert_close(found[0, 0, 2, 2].item(), value)
    grads = torch.autograd.grad(found[0, 0, 2, 2], (patches, alpha))
    powers = 0.875 ** torch.arange(count - 1, -1, -1, dtype=torch.float64)
    torch.testing.assert_close(grads[0].flatten(), 0.125 * powers)
    assert float(grads[1].flatten()[-1]) == pytest.approx(count - (value - 0.125 * count) / 0.875)


def test_rounded_once() -> None:
    """Four blends of 0.2 round to 1 only if the sum is rounded, not each blend."""
    image = torch.zeros(1, 1, 2, 2, dtype=torch.uint8)
    patches = torch.full((4, 1, 1, 1), 1, dtype=torch.uint8)
    boxes = torch.tensor([[0, 0, 0, 2, 2]]).expand(4, 5)
    alpha = torch.full((4, 1, 1), 0.2)
    found = visops.paste_rois(image, patches, boxes, blend="alpha", alpha=alpha)
    assert bool((found == 1).all())  # 1 - 0.8^4 = 0.59


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64], ids=str)
def test_there_and_back_exactly(photos: Tensor, dtype: torch.dtype) -> None:
    """Boxes of whole pixels at their own size lose nothing."""
    images = photos.to(dtype)
    boxes = torch.tensor([[0, 50, 60, 150, 140], [1, -10, 200, 90, 280], [0, 320, 250, 420, 330]])
    patches = visops.crop_rois(images, boxes, (80, 100))
    assert torch.equal(visops.paste_rois(images, patches, boxes), images)
    blank = torch.zeros_like(images)
    found = visops.paste_rois(blank, patches, boxes)
    assert torch.equal(found[0, :, 60:140, 50:150], images[0, :, 60:140, 50:150])
    assert torch.equal(found[1, :, 200:280, :90], images[1, :, 200:280, :90])
    assert torch.equal(found[0, :, 250:, 320:], images[0, :, 250:, 320:])
    assert int((found[1] != 0).any(0).sum()) <= 80 * 90


def test_alpha_of_other_dtypes() -> None:
    images, boxes = images_of(torch.uint8), all_boxes()
    patches = images_of(torch.uint8, 1, (len(boxes), 3, 6, 7))
    mask = torch.rand(len(boxes), 6, 7) > 0.5
    wanted = visops.paste_rois(images, patches, boxes, blend="alpha", alpha=mask.float())
    for alpha in (mask, mask.half(), mask.double(), mask[:, None], mask.mT.contiguous().mT):
        found = visops.paste_rois(images, patches, boxes, blend="alpha", alpha=alpha)
        assert torch.equal(found, wanted)
    arrays = [t.numpy() for t in (images, patches, boxes, mask)]
    array = visops.paste_rois(*arrays[:3], blend="alpha", alpha=arrays[3])
    assert isinstance(array, np.ndarray)
    assert np.array_equal(array, wanted.numpy())


@every_blend
def test_nothing_to_paste(blend: str) -> None:
    for shape in ((2, 3, 5, 6), (0, 3, 5, 6), (2, 0, 5, 6), (1, 3, 0, 6)):
        images = torch.rand(shape)
        patches = torch.zeros(0, shape[1], 0, 4)
        found = visops.paste_rois(
            images, patches, torch.zeros(0, 5), **paste_options(blend, patches)
        )
        assert torch.equal(found, images)
        assert found.data_ptr() != images.data_ptr() or images.numel() == 0


def test_boxes_that_cover_nothing() -> None:
    images = images_of(torch.float32)
    boxes = torch.tensor(
        [
            [0, 5.0, 5, 5, 9],
            [0, 40.0, 5, 50, 9],
            [1, 3.6, 4.6, 4.4, 5.4],
            [1, 1e30, 1, 2e30, 9],
            [0, -3e38, -9, 0.4, 30],
        ]
    )
    patches = torch.full((5, 3, 2, 2), 7.0)
    assert torch.equal(visops.paste_rois(images, patches, boxes), images)


def test_a_box_far_larger_than_the_image() -> None:
    images = images_of(torch.float32)
    boxes = torch.tensor([[0, -3e38, -3e38, 3e38, 3e38]])
    found = visops.paste_rois(images, torch.full((1, 3, 2, 2), 7.0), boxes)
    assert bool((found[0] == 7).all())
    assert torch.equal(found[1], images[1])


TILES_SHAPE = (2, 3, 60, 330)

# Boxes in an image of SHAPE, and the size of their patches. Tiles have up to 224 x 32 pixels.
PLACES: dict[str, tuple[tuple[float, ...], tuple[int, int]]] = {
    "all inside": ((20.3, 5.2, 300.7, 50.4), (40, 230)),
    "first taps on the border": ((0.5, 0.5, 230.5, 40.5), (47, 233)),
    "first taps just beyond": ((0.49, 0.5, 230.5, 40.5), (47, 233)),
    "last taps on the border": ((7.25, 3.3, 329.4, 59.4), (70, 301)),
    "last taps just beyond": ((7.25, 3.3, 330.3, 60.3), (70, 301)),
    "half outside to the left": ((-100.2, 4.4, 120.7, 40.9), (35, 240)),
    "half outside to the right": ((200.2, 4.4, 450.7, 40.9), (35, 240)),
    "half outside above": ((20.2, -20.4, 250.7, 40.9), (80, 20)),
    "half outside below": ((20.2, 10.4, 250.7, 90.9), (80, 20)),
    "beyond the image": ((400.2, 10.4, 650.7, 50.9), (33, 20)),
    "no extent": ((40.2, 10.4, 40.2, 10.4), (33, 20)),
    "magnified": ((40.2, 10.4, 42.9, 12.7), (64, 224)),
    "one pixel": ((40.2, 10.4, 55.9, 22.7), (1, 1)),
    "a column": ((40.2, 10.4, 55.9, 22.7), (70, 1)),
    "a row of three": ((40.2, 10.4, 55.9, 22.7), (1, 3)),
    "a row of 225": ((40.2, 10.4, 155.9, 22.7), (1, 225)),
}

STORED = {
    "contiguous": lambda images: images,
    "odd offset": lambda images: images[..., 1:, 1:],
    "odd strides": lambda images: images[..., :-3],
    "channels apart": lambda images: images[:, ::2],
    "rows apart": lambda images: images[:, :, ::2],
    "columns apart": lambda images: images[..., ::2],
}


def same_on_cuda(images: Tensor, boxes: Tensor, size: tuple[int, int], padding: Any) -> Tensor:
    found = []
    for slot in ("default", "cuda_emulated"):
        with use_slot(slot):
            found.append(visops.crop_rois(images, boxes, size, padding_mode=padding, fill=7))
    assert torch.equal(*(tensor.view(torch.uint8) for tensor in found))
    return found[0]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", INTERPOLATED, ids=str)
def test_places(dtype: torch.dtype, place: str) -> None:
    box, size = PLACES[place]
    images = images_of(dtype, 3, TILES_SHAPE)
    boxes = torch.tensor([(1, *box), (0, *box)], dtype=torch.float64)
    for padding in ("constant", "replicate", "reflect"):
        found = same_on_cuda(images, boxes, size, padding)
        assert place == "beyond the image" or len(found.double().unique()) > 1


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("width", [4, 6, 226, 230])
def test_strides_and_offsets(stored: str, width: int) -> None:
    for dtype in (torch.uint8, torch.float16, torch.float32):
        images = STORED[stored](images_of(dtype, 4, TILES_SHAPE))
        boxes = torch.tensor([(1, 3.3, 2.2, 150.9, 27.1), (0, -3.3, 2.2, 99.1, 20.1)])
        same_on_cuda(images, boxes, (37, width), "constant")


def test_images_of_a_pixel_or_two() -> None:
    boxes = torch.tensor([(0, -0.5, -0.5, 1.5, 1.5), (0, 0.5, 0.5, 0.5, 0.5), (0, 0.2, 0, 0.9, 2)])
    for height, width in ((1, 1), (1, 2), (2, 1), (2, 2)):
        images = torch.arange(100, 100 + 3 * height * width, dtype=torch.uint8)
        for padding in ("constant", "replicate", "circular"):
            same_on_cuda(images.view(1, 3, height, width), boxes, (9, 12), padding)


def test_no_boxes_and_no_channels() -> None:
    images = images_of(torch.uint8, 6, TILES_SHAPE)
    same_on_cuda(images, torch.zeros(0, 5), (9, 12), "constant")
    with use_slot("cuda_emulated"):
        assert visops.crop_rois(images[:, :0], torch.ones(1, 5), (9, 12)).numel() == 0


def test_blends_of_bytes_round_as_on_the_cpu() -> None:
    """All pairs of bytes beside and below each other, at a thousand fractions."""
    pairs = torch.arange(256, dtype=torch.uint8)
    rows = torch.stack([pairs.repeat_interleave(256), pairs.repeat(256)])  # all pairs, downwards
    shuffled = rows[:, torch.randperm(65536, generator=torch.Generator().manual_seed(0))]
    images = torch.cat([shuffled.view(1, 1, 2, 65536), shuffled.flip(0).view(1, 1, 2, 65536)], 1)
    for shift in (0.0, 1 / 3, 0.5, 0.999999):
        boxes = torch.tensor([(0, 0.5 + shift, 0.5 + i / 8, 65000.5, 1.4) for i in range(8)])
        same_on_cuda(images, boxes, (2, 64999), "constant")
