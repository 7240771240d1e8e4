"""letterbox and unletterbox_boxes."""

from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
import visops
from torch import Tensor
from torch.autograd import gradcheck


def yolo(height: int, width: int, size: tuple[int, int], center: bool, scaleup: bool) -> Any:
    """Inner size and corner, by the formulas that YOLO's pre-processing is known for."""
    ratio = min(size[0] / height, size[1] / width)
    if not scaleup:
        ratio = min(ratio, 1.0)
    inner_width, inner_height = round(width * ratio), round(height * ratio)
    across, down = size[1] - inner_width, size[0] - inner_height
    if not center:
        return (inner_height, inner_width), (0, 0)
    return (inner_height, inner_width), (round(down / 2 - 0.1), round(across / 2 - 0.1))


@pytest.mark.parametrize("target", [(384, 640), (56, 56)])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scaleup", [True, False])
def test_geometry(center: bool, scaleup: bool, target: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    # 96 x 78 into 56 x 56 would have 45.5 columns: exactly, or 45.
    sizes = np.concatenate((rng.integers(20, 1500, (60, 2)), [[96, 78]]))
    options: dict[str, Any] = {"center": center, "scaleup": scaleup}
    matrices = visops.letterbox(sizes, target, **options)
    assert isinstance(matrices, np.ndarray)
    assert matrices.shape == (61, 2, 3)
    for (height, width), matrix in zip(sizes.tolist(), matrices, strict=True):
        (rows, columns), (top, left) = yolo(height, width, target, center, scaleup)
        expected = [[columns / width, 0, left], [0, rows / height, top]]
        np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-12)
        alone = visops.letterbox((height, width), target, **options)
        assert isinstance(alone, Tensor)
        np.testing.assert_array_equal(alone, matrix)


def test_pixels_are_those_of_resizing_and_padding() -> None:
    cv2 = pytest.importorskip("cv2")
    photo = skimage.data.astronaut()[:333, :500]
    (rows, columns), (top, left) = yolo(333, 500, (640, 640), True, True)
    resized = cv2.resize(photo, (columns, rows), interpolation=cv2.INTER_LINEAR)
    bars = (top, 640 - rows - top, left, 640 - columns - left)
    expected = cv2.copyMakeBorder(resized, *bars, cv2.BORDER_CONSTANT, value=(114,) * 3)
    matrix = visops.letterbox(photo.shape[:2], 640)
    result = visops.augment(
        [photo],
        matrix,
        (640, 640),
        convention="half_pixel",
        window=[0, 0, 500, 333],
        fill=114,
        out_dtype=torch.uint8,
    )
    difference = np.abs(result[0].permute(1, 2, 0).numpy().astype(int) - expected.astype(int))
    assert difference.max() <= 1


def test_conventions_are_the_same_warp() -> None:
    image = torch.rand(1, 30, 50)
    half = visops.letterbox((30, 50), 64)
    whole = visops.letterbox((30, 50), 64, convention="integer")
    torch.testing.assert_close(
        visops.warp_affine(image, half, (64, 64), convention="half_pixel"),
        visops.warp_affine(image, whole, (64, 64)),
    )
    assert not torch.equal(half, whole)


def test_tiny_images_keep_a_pixel() -> None:
    assert visops.letterbox((1, 10000), (64, 64))[1].tolist() == [0, 1, 31]


def test_boxes_return() -> None:
    torch.manual_seed(0)
    sizes = torch.tensor([[480, 640], [333, 500], [1000, 20]])
    corner = torch.rand(3, 7, 2) * sizes.flip(-1)[:, None] * 0.7
    boxes = torch.cat([corner, corner + torch.rand(3, 7, 2) * sizes.flip(-1)[:, None] * 0.3], -1)
    for center, scaleup in ((True, True), (False, False)):
        options: dict[str, Any] = {"center": center, "scaleup": scaleup}
        inside = visops.transform_boxes(boxes, visops.letterbox(sizes, (320, 416), **options))
        back = visops.unletterbox_boxes(inside, sizes, (320, 416), **options)
        assert back.dtype == torch.float32
        torch.testing.assert_close(back, boxes, rtol=1e-5, atol=1e-3)
        alone = visops.unletterbox_boxes(inside[1].numpy(), (333, 500), (320, 416), **options)
        assert isinstance(alone, np.ndarray)
        np.testing.assert_allclose(alone, back[1], rtol=1e-6)
    whole = visops.unletterbox_boxes(torch.tensor([[-5.0, -5, 999, 999]]), (480, 640), 320)
    assert whole.tolist() == [[0, 0, 640, 480]]
    free = visops.unletterbox_boxes(torch.tensor([[0.0, 0, 320, 320]]), (480, 640), 320, clip=False)
    assert free.tolist() == [[0, -80, 640, 560]]
    assert visops.unletterbox_boxes(torch.zeros(3, 0, 4), sizes, 64).shape == (3, 0, 4)
    leaf = inside.double().requires_grad_()
    assert gradcheck(lambda b: visops.unletterbox_boxes(b, sizes, (320, 416), clip=False), (leaf,))


def test_each_box_of_another_image() -> None:
    """Rows that batched_nms kept, with the size of each row's image."""
    boxes = torch.rand(5, 4, dtype=torch.float64) * 300
    sizes = torch.tensor([[480, 640], [100, 30], [5, 9], [700, 7], [1, 1]])
    found = visops.unletterbox_boxes(boxes, sizes, 320)
    for box, size, ours in zip(boxes, sizes.tolist(), found, strict=True):
        assert torch.equal(visops.unletterbox_boxes(box[None], size, 320)[0], ours)
    arrays = visops.unletterbox_boxes(boxes.numpy(), sizes.numpy(), 320)
    assert np.array_equal(arrays, found)
    with pytest.raises(ValueError, match=r"shape \[5, 4\], expected \[4, N, 4\] or \[4, 4\]"):
        visops.unletterbox_boxes(boxes, sizes[:4], 320)


def test_photos_are_another_function_s() -> None:
    with pytest.raises(ValueError, match=r"for a photo, call visops\.transforms\.Letterbox\(size"):
        visops.letterbox(torch.zeros(3, 40, 60), 320)
