"""Where the pieces of CUDA's kernels of masks begin and end: the results of the CPU's kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import use_slot
from torch import Tensor

from masks.cases import CONVENTIONS, probabilities, random_boxes

# Rows are taken 8 at a time, 16 bytes or 64 pixels of each.
SIZES = [(1, 1), (7, 15), (8, 16), (9, 17), (17, 63), (16, 64), (23, 65), (3, 130), (33, 47)]


def same_on_cuda(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result of both; tensors' bits must be equal."""
    found = []
    for slot in ("default", "cuda_emulated"):
        with use_slot(slot):
            result = function(*arguments, **options)
        result = getattr(result, "bits", result)
        found.append(result if isinstance(result, tuple) else (result,))
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
    return found[0][0]


def boxes_at_borders(size: tuple[int, int]) -> Tensor:
    height, width = size
    rows = [
        (0, 0, width, height),  # the image
        (width - 1, height - 1, width, height),  # its last pixel
        (-3, -3, 1, 1),  # its first
        (width / 2, 0, width / 2 + 0.5, height),  # thin
        (0, height / 2, width, height / 2 + 0.5),
        (-2 * width, -2 * height, 3 * width, 3 * height),
        (width + 9, 0, width + 20, height),  # beside
        (0, -30, width, -20),  # above
        (width / 3, height / 3, width / 3, height / 3),  # without extent
    ]
    return torch.tensor(rows, dtype=torch.float32)


@pytest.mark.parametrize("options", CONVENTIONS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_pasting(size: tuple[int, int], options: dict[str, Any]) -> None:
    boxes = torch.cat([boxes_at_borders(size), random_boxes(np.random.default_rng(1), 5, size)])
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        masks = probabilities(len(boxes), (7, 5)).to(dtype)
        for out in ("bool", "uint8", "float", "packed"):
            found = same_on_cuda(visops.paste_masks, masks, boxes, size, out=out, **options)
            assert found.any()


def test_pasting_at_one_place_or_nowhere() -> None:
    masks = probabilities(70, (28, 28)).float()
    one = torch.tensor([[3.5, 4.25, 30.0, 20.5]]).expand(70, 4)
    found = same_on_cuda(visops.paste_masks, masks, one, (33, 47))
    assert found.flatten(1).any(1).all()
    assert not same_on_cuda(visops.paste_masks, masks, one + 100, (33, 47)).any()
    empty = same_on_cuda(visops.paste_masks, masks[:0], one[:0], (33, 47))
    assert empty.shape == (0, 33, 47)
    nothing = same_on_cuda(visops.paste_masks, masks[:, :0], one, (33, 47))
    assert not nothing.any()


def few_pixels(size: tuple[int, int]) -> Tensor:
    """Masks of one pixel, of two that are far apart, of all, and of none."""
    height, width = size
    places = sorted({0, 1, width - 1, width // 2, height * width - 1, height * width // 2})
    masks = torch.zeros(2 * len(places) + 2, height * width, dtype=torch.uint8)
    for i, at in enumerate(places):
        masks[i, min(at, height * width - 1)] = 1
        masks[len(places) + i, [min(at, height * width - 1), -1]] = 255
    masks[-1] = 7
    return masks.view(-1, height, width)


@pytest.mark.parametrize("size", [*SIZES, (70, 300), (1, 5000)], ids=str)
def test_boxes_and_areas(size: tuple[int, int]) -> None:
    masks = few_pixels(size)
    random = torch.rand(5, *size, generator=torch.Generator().manual_seed(0)) < 0.3
    # At an odd address, and whole.
    shifted = torch.zeros(masks.numel() + 3, dtype=torch.uint8)[3:].view(masks.shape).copy_(masks)
    for given in (masks, shifted, masks != 0, random, masks[1:2], visops.pack_masks(masks)):
        same_on_cuda(visops.masks_to_boxes, given, return_empty=True)
        same_on_cuda(visops.mask_area, given)
    assert same_on_cuda(visops.masks_to_boxes, masks[:0]).shape == (0, 4)


@pytest.mark.parametrize("size", [(1, 1), (9, 17), (33, 47), (5, 2100), (40, 1024)], ids=str)
def test_overlaps(size: tuple[int, int]) -> None:
    """Wider than a warp has words, and of one set of masks, whose pairs are computed once."""
    masks = few_pixels(size)
    random = torch.rand(6, *size, generator=torch.Generator().manual_seed(0)) < 0.3
    masks = torch.cat([masks, random.to(torch.uint8)])
    crowd = torch.arange(len(masks)) % 3 == 0
    for options in ({}, {"kind": "ioa"}, {"iscrowd": crowd}):
        found = same_on_cuda(visops.mask_iou, masks, masks, **options)
        assert found.any()
        copied = same_on_cuda(visops.mask_iou, masks, masks.clone(), **options)
        assert torch.equal(found, copied)
    for count in (1, 2, 3, 9):
        same_on_cuda(visops.mask_iou, masks[-count:], masks[-count:])
    packed = visops.pack_masks(masks)
    same_on_cuda(visops.mask_iou, packed, packed)
    assert same_on_cuda(visops.mask_iou, masks[:0], masks).shape == (0, len(masks))
