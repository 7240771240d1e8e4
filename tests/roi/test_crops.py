"""Crops: values, copies, forms of arguments, and gradients of crops and of pasting."""

import itertools
from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data
import torch
import torchvision
import visops
from references import roi_crops as reference
from torch import Tensor
from torch.autograd import forward_ad, gradcheck
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
    SHAPE,
    all_boxes,
    assert_near,
    images_of,
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
def test_reference(dtype: torch.dtype, padding_mode: Any) -> None:
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
def test_warp_affine(mode: Any, padding_mode: Any) -> None:
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
def test_boxes_far_away_and_huge(dtype: torch.dtype, padding_mode: Any) -> None:
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


GRADIENTS_SHAPE = (2, 2, 5, 6)
SIZE = (4, 3)


def crop_problem(seed: int = 0) -> tuple[Tensor, Tensor]:
    """float64 images, and boxes whose samples avoid the kinks at pixel centres."""
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.random(GRADIENTS_SHAPE))
    boxes: list[np.ndarray] = []
    while len(boxes) < 4:
        box = random_boxes(rng, 1, GRADIENTS_SHAPE, out=0.3)[0]
        positions = [
            low + (np.arange(n) + 0.5) * (high - low) / n - 0.5
            for low, high, n in ((box[1], box[3], SIZE[1]), (box[2], box[4], SIZE[0]))
        ]
        flat = np.concatenate(positions)
        if np.abs(flat - np.rint(flat)).min() > 1e-4:
            boxes.append(box)
    return images.requires_grad_(), torch.from_numpy(np.stack(boxes)).requires_grad_()


def test_gradient_of_flat_boxes_and_nearest() -> None:
    images, boxes = images_of(torch.float64).requires_grad_(), all_boxes(torch.float64)
    boxes.requires_grad_()
    found = visops.crop_rois(images, boxes, (5, 6))
    (gradient,) = torch.autograd.grad(found.square().sum(), boxes)
    assert bool(gradient.isfinite().all())
    assert bool((gradient[:, 0] == 0).all())
    assert float(gradient[7, 1:].abs().min()) > 0  # flat along x
    assert float(gradient[6].abs().max()) == 0  # beyond the image
    found = visops.crop_rois(images, boxes, (5, 6), interpolation="nearest")
    (gradient,) = torch.autograd.grad(found.square().sum(), boxes)
    assert torch.equal(gradient, torch.zeros_like(boxes))


def test_second_derivatives_by_alpha() -> None:
    """Derivatives of the images' and patches' gradients with respect to alpha."""
    rng = np.random.default_rng(1)
    boxes = torch.from_numpy(random_boxes(rng, 4, GRADIENTS_SHAPE))
    alpha = torch.from_numpy(rng.random((4, *SIZE))).requires_grad_()
    grad = torch.from_numpy(rng.random(GRADIENTS_SHAPE)).requires_grad_()

    def gradients(grad: Tensor, alpha: Tensor) -> tuple[Tensor, ...]:
        images = torch.zeros(GRADIENTS_SHAPE, dtype=torch.float64, requires_grad=True)
        patches = torch.zeros(4, 2, *SIZE, dtype=torch.float64, requires_grad=True)
        found = visops.paste_rois(images, patches, boxes, blend="alpha", alpha=alpha)
        result: tuple[Tensor, ...] = torch.autograd.grad(
            found, (images, patches), grad, create_graph=True
        )
        return result

    assert gradcheck(gradients, (grad, alpha), nondet_tol=0)


def test_many_positions_on_a_pixel() -> None:
    """More samples than kernels keep: patches far larger than boxes, and the reverse."""
    images = images_of(torch.float64, 0, (1, 1, 3, 700)).requires_grad_()
    boxes = torch.tensor([[0, 1.5, 0.25, 2.75, 2.5], [0, 0.3, 0.1, 699.8, 2.9]])
    found = visops.crop_rois(images, boxes, (2, 2600))
    grad = images_of(torch.float64, 1, tuple(found.shape))
    (gradient,) = torch.autograd.grad(found, images, grad)
    forward = float((found.detach() * grad).sum())
    assert float((images.detach() * gradient).sum()) == pytest.approx(forward)
    patches = images_of(torch.float64, 2, (1, 1, 2, 3)).requires_grad_()
    wide = torch.zeros(1, 1, 2, 2600, dtype=torch.float64)
    found = visops.paste_rois(wide, patches, torch.tensor([[0, 0, 0, 2600, 2]]))
    (gradient,) = torch.autograd.grad(found.sum(), patches)
    assert float(gradient.sum()) == pytest.approx(5200)


@pytest.mark.matrix
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(70, 30), (3, 600)], ids=["rows", "columns"])
def test_more_positions_than_are_held_at_once(size: tuple[int, int], mode: Any) -> None:
    """Every element of the gradient: CUDA kernels take such a grid in several pieces."""
    height, width = size
    grad = images_of(torch.float64, 1, (1, 1, height, width)) - 0.5

    basis = torch.eye(24, dtype=torch.float64).view(24, 1, 4, 6)
    boxes = torch.tensor([[i, 0.3, -0.2, 5.6, 4.1] for i in range(24)], dtype=torch.float64)
    found = visops.crop_rois(basis, boxes, size, interpolation=mode)
    image = torch.zeros_like(basis[:1], requires_grad=True)
    crop = visops.crop_rois(image, boxes[:1], size, interpolation=mode)
    (gradient,) = torch.autograd.grad(crop, image, grad)
    torch.testing.assert_close(gradient.flatten(), (found * grad).sum((1, 2, 3)))

    basis = torch.eye(6, dtype=torch.float64).view(6, 1, 2, 3)
    boxes = torch.tensor([[i, 0.3, 0.2, width - 0.6, height - 0.4] for i in range(6)]).double()
    blank = torch.zeros(6, 1, height, width, dtype=torch.float64)
    found = visops.paste_rois(blank, basis, boxes, interpolation=mode)
    patch = torch.zeros_like(basis[:1], requires_grad=True)
    pasted = visops.paste_rois(blank[:1], patch, boxes[:1], interpolation=mode)
    (gradient,) = torch.autograd.grad(pasted, patch, grad)
    torch.testing.assert_close(gradient.flatten(), (found * grad).sum((1, 2, 3)))


def test_only_what_is_needed_is_saved() -> None:
    images, boxes = crop_problem()
    saved: list[torch.Size] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        visops.crop_rois(images, boxes.detach(), SIZE)
        assert saved == [(4, 5)]
        saved.clear()
        visops.crop_rois(images, boxes, SIZE)
        assert saved == [(4, 5), GRADIENTS_SHAPE]
        saved.clear()
        patches = torch.rand(4, 2, *SIZE, dtype=torch.float64, requires_grad=True)
        visops.paste_rois(images, patches, boxes.detach(), blend="feather")
        assert saved == [(4, 5)]


def test_what_is_not_differentiable_says_so() -> None:
    images, boxes = crop_problem()
    found = visops.crop_rois(images, boxes, SIZE)
    (grad,) = torch.autograd.grad(found.square().sum(), boxes, create_graph=True)
    with pytest.raises(RuntimeError, match="boxes can't be differentiated again"):
        torch.autograd.grad(grad.square().sum(), images)
    alpha = torch.rand(4, *SIZE, dtype=torch.float64, requires_grad=True)
    found = visops.paste_rois(
        images, torch.rand(4, 2, *SIZE, dtype=torch.float64), boxes.detach(), blend="alpha",
        alpha=alpha,
    )  # fmt: skip
    (grad,) = torch.autograd.grad(found.square().sum(), alpha, create_graph=True)
    with pytest.raises(RuntimeError, match="alpha can't be differentiated again"):
        torch.autograd.grad(grad.square().sum(), images)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(images.detach(), torch.ones_like(images))
        with pytest.raises(NotImplementedError, match="jvp"):
            visops.crop_rois(dual, boxes.detach(), SIZE)


@pytest.mark.cuda
def test_cuda_takes_no_part_of_boxes_that_are_not_valid() -> None:
    nan = float("nan")
    bad = [[7, 1, 1, 4, 4], [-1, 1, 1, 4, 4], [0.5, 1, 1, 4, 4], [0, nan, 1, 4, 4], [1, 4, 1, 3, 4]]
    boxes = torch.tensor(bad, device="cuda", requires_grad=True)
    images = images_of(torch.float32).cuda().requires_grad_()
    patches = torch.rand(5, 3, 6, 7, device="cuda", requires_grad=True)
    crops = visops.crop_rois(images, boxes, 8, fill=3)
    assert bool((crops == 3).all())
    found = visops.paste_rois(images, patches, boxes.detach())
    assert torch.equal(found, images)
    grads = torch.autograd.grad(crops.sum() + found.sum(), (images, boxes, patches))
    assert torch.equal(grads[0], torch.ones_like(images))
    assert all(float(g.abs().max()) == 0 for g in grads[1:])
