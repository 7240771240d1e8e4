"""No kernel reads memory that is not its tensor's, not even a byte.

Images begin or end where readable memory does: a read beyond ends the process.
"""

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import visops
from guarded import guarded_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mprotect() of glibc")

HEIGHT = 53
WIDTHS = (43, 190)  # 43 pixels of three bytes end just beyond a cache line
ANGLES = (0.0, 17.3, 90.0, 200.0)


def image_at(memory: np.ndarray, width: int, layout: str, end: bool) -> torch.Tensor:
    """uint8 [1, C, HEIGHT, width] at the end, or the begin, of the memory."""
    channels, pixel = {
        "planes": (3, 3),
        "pixels": (3, 3),
        "last of 3": (1, 3),
        "rgb of rgba": (3, 4),
    }[layout]
    size = HEIGHT * width * pixel
    buffer = memory[-size:] if end else memory[:size]
    if layout == "planes":
        return torch.from_numpy(buffer.reshape(1, 3, HEIGHT, width))
    pixels = buffer.reshape(1, HEIGHT, width, pixel)
    part = pixels[..., -channels:] if end else pixels[..., :channels]
    return torch.from_numpy(part).permute(0, 3, 1, 2)


def maps(width: int) -> Iterator[np.ndarray]:
    """Output to image, about the middle: turns, and shrinking that passes all edges."""
    for angle in ANGLES:
        for scale in (1.0, 2.5):
            c, s = scale * math.cos(math.radians(angle)), scale * math.sin(math.radians(angle))
            x, y = (width - 1) / 2, (HEIGHT - 1) / 2
            yield np.array([[c, -s, x - c * x + s * y], [s, c, y - s * x - c * y]])


@pytest.mark.parametrize("end", [False, True], ids=["begin", "end"])
@pytest.mark.parametrize("layout", ["planes", "pixels", "last of 3", "rgb of rgba"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("width", WIDTHS)
def test_reads_stay_inside(width: int, layout: str, mode: str, end: bool) -> None:
    with guarded_memory() as memory:
        memory[:] = np.arange(memory.size, dtype=np.uint64) % 251
        image = image_at(memory, width, layout, end)
        copy = image.clone()
        for matrix in maps(width):
            for padding in ("constant", "reflect"):
                for antialias in (False, True):
                    options: dict[str, Any] = {
                        "mode": mode,
                        "padding_mode": padding,
                        "inverse_map": True,
                    }
                    more = {**options, "antialias": antialias and mode != "nearest"}
                    got = visops.augment(image, matrix, (HEIGHT, width), **more)
                    assert torch.equal(got, visops.augment(copy, matrix, (HEIGHT, width), **more))
                    if not antialias:
                        got = visops.warp_affine(image, matrix, (HEIGHT, width), **options)
                        assert torch.equal(
                            got, visops.warp_affine(copy, matrix, (HEIGHT, width), **options)
                        )
        del image


def placed(memory: np.ndarray, values: torch.Tensor, end: bool) -> torch.Tensor:
    """A copy at the end, or the begin, of the memory; boxes with nothing between coordinates."""
    size = values.numel() * values.element_size()
    buffer = memory[-size:] if end else memory[:size]
    copy = torch.from_numpy(buffer).view(values.dtype).view(values.shape)
    return copy.copy_(values)


def suppressed(boxes: torch.Tensor, scores: torch.Tensor, ids: torch.Tensor) -> list[torch.Tensor]:
    if boxes.shape[1] == 5:
        return [
            visops.nms_rotated(boxes, scores, 0.3),
            visops.nms_rotated(boxes, scores, 0.3, idxs=ids, max_output=9),
        ]
    return [
        visops.nms(boxes, scores, 0.3),
        visops.batched_nms(boxes, scores, ids, 0.3, score_threshold=0.2),
        *visops.soft_nms(boxes, scores),
        *visops.batched_soft_nms(boxes, scores, ids, method="gaussian", min_score=0.1),
        torch.ops.visops.nms_match(boxes, scores, 0.3),
    ]


@pytest.mark.parametrize("end", [False, True], ids=["begin", "end"])
@pytest.mark.parametrize("columns", [4, 5], ids=["corners", "rotated"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
def test_reads_of_boxes_stay_inside(dtype: torch.dtype, columns: int, end: bool) -> None:
    rng = np.random.default_rng(0)
    with guarded_memory() as memory, guarded_memory() as more, guarded_memory() as most:
        for count in (1, 3, 16, 17, 100, 500):
            corner, extent = rng.uniform(0, 60, (count, 2)), rng.uniform(1, 30, (count, 3))
            numbers = np.concatenate([corner, extent], 1)
            if columns == 4:
                numbers = np.concatenate([corner, corner + extent[:, :2]], 1)
            boxes = torch.from_numpy(numbers).to(dtype)
            scores = torch.from_numpy(rng.permutation(count) / count)
            scores = scores.to(dtype if dtype.is_floating_point else torch.float32)
            ids = torch.from_numpy(rng.integers(0, 4, count))
            laid = placed(memory, boxes, end), placed(more, scores, end), placed(most, ids, end)
            for ours, wanted in zip(suppressed(*laid), suppressed(boxes, scores, ids), strict=True):
                assert torch.equal(ours, wanted)
            del laid


def test_images_without_channels_are_not_read() -> None:
    """Read ahead used to load from the null pointer of such an image, and the process died."""
    matrix = torch.tensor([[1, 0.2, 0.3], [0.3, 1, 0]])
    empty = torch.empty(1, 64, 64, 0)
    assert visops.augment(empty, matrix, (32, 32), layout="HWC").numel() == 0
    image = empty.permute(0, 3, 1, 2).requires_grad_()
    visops.warp_affine(image, matrix, (32, 32)).sum().backward()
    assert image.grad is not None
    assert image.grad.shape == (1, 0, 64, 64)
    grad = torch.empty(1, 0, 32, 32)
    options = ("bilinear", "constant", [0.0], True, False)
    gradient = torch.ops.visops.affine_backward_matrix(grad, image.detach(), matrix, *options)
    assert not gradient.any()


@pytest.mark.parametrize("end", [False, True], ids=["begin", "end"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
def test_reads_of_small_maps_stay_inside(dtype: torch.dtype, end: bool) -> None:
    """Kernels that read pairs of pixels and of rows, on maps that have just one."""
    floating = dtype if dtype.is_floating_point else torch.float32
    with guarded_memory() as memory:
        for height, width in ((1, 1), (1, 2), (1, 33), (2, 1), (2, 2), (2, 3), (3, 2), (5, 9)):
            for channels in (1, 3, 20):
                shape = (1, channels, height, width)
                images = torch.arange(math.prod(shape)).view(shape).remainder(251).to(dtype)
                laid = placed(memory, images, end)
                points = torch.linspace(-0.3, 1.3, 80).view(1, 40, 2).to(floating)
                for mode in ("bilinear", "nearest"):
                    found, wanted = (
                        visops.point_sample(maps, points, mode=mode) for maps in (laid, images)
                    )
                    assert torch.equal(found, wanted)
                if dtype.is_floating_point:
                    offset = torch.linspace(-2, 2, 18 * height * width).to(dtype)
                    weight = torch.ones(2, channels, 3, 3, dtype=dtype)
                    options = offset.view(1, 18, height, width), weight, None, 1, 1
                    found, wanted = (
                        visops.deform_conv2d(maps, *options) for maps in (laid, images)
                    )
                    torch.testing.assert_close(found, wanted)
                del laid
