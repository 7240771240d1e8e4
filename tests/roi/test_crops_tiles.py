"""Inner tiles of CUDA's crops, where they begin and end: the bits of the CPU's kernels."""

import pytest
import torch
import visops
from kernels import use_slot
from torch import Tensor
from warp.affine_cases import INTERPOLATED

from roi.crops_cases import images_of

SHAPE = (2, 3, 60, 330)

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


def same_on_cuda(images: Tensor, boxes: Tensor, size: tuple[int, int], padding: str) -> Tensor:
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
    images = images_of(dtype, 3, SHAPE)
    boxes = torch.tensor([(1, *box), (0, *box)], dtype=torch.float64)
    for padding in ("constant", "replicate", "reflect"):
        found = same_on_cuda(images, boxes, size, padding)
        assert place == "beyond the image" or len(found.double().unique()) > 1


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("width", [4, 6, 226, 230])
def test_strides_and_offsets(stored: str, width: int) -> None:
    for dtype in (torch.uint8, torch.float16, torch.float32):
        images = STORED[stored](images_of(dtype, 4, SHAPE))
        boxes = torch.tensor([(1, 3.3, 2.2, 150.9, 27.1), (0, -3.3, 2.2, 99.1, 20.1)])
        same_on_cuda(images, boxes, (37, width), "constant")


def test_images_of_a_pixel_or_two() -> None:
    boxes = torch.tensor([(0, -0.5, -0.5, 1.5, 1.5), (0, 0.5, 0.5, 0.5, 0.5), (0, 0.2, 0, 0.9, 2)])
    for height, width in ((1, 1), (1, 2), (2, 1), (2, 2)):
        images = torch.arange(100, 100 + 3 * height * width, dtype=torch.uint8)
        for padding in ("constant", "replicate", "circular"):
            same_on_cuda(images.view(1, 3, height, width), boxes, (9, 12), padding)


def test_no_boxes_and_no_channels() -> None:
    images = images_of(torch.uint8, 6, SHAPE)
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
