"""Cropping and pasting boxes against today's practice: a loop over slices, or grid_sample.

Boxes have whole numbers, for slices; sides of 40 to 400 pixels in images of 720 x 1280. Slices end
where the box does, so that a loop's samples near a box's border differ: means are compared.
"""

from collections.abc import Callable
from dataclasses import replace

import cv2
import numpy as np
import torch
import visops
from bench.harness import Case, Contender, Tolerance, pair_of_gradients, rows
from torch import Tensor
from torch.nn import functional
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as transforms

BATCH, HEIGHT, WIDTH = 4, 720, 1280
BORDER = Tolerance(mean_abs=1.5, why="slices end at the box")
GRID = Tolerance(max_abs=0.5, mean_abs=1e-2, why="float32 coordinates of the whole image")
GRADIENT = Tolerance(max_abs=1.0, mean_abs=1e-2, why="sums in another order, coordinates")
ROUNDING = Tolerance(max_abs=1, mean_abs=0.1, why="fixed-point weights")


def problem(count: int, dtype: torch.dtype, layout: str) -> tuple[Tensor, Tensor]:
    """Smooth images, and boxes within them."""
    torch.manual_seed(0)
    small = torch.rand(BATCH, 3, HEIGHT // 8, WIDTH // 8) * 255
    images = functional.interpolate(small, (HEIGHT, WIDTH), mode="bicubic").clamp(0, 255)
    images = images.round().to(dtype) if dtype == torch.uint8 else images.to(dtype)
    if layout == "channels_last":
        images = images.contiguous(memory_format=torch.channels_last)
    sides = torch.exp(torch.empty(count, 2).uniform_(np.log(40), np.log(400))).round()
    corners = (torch.rand(count, 2) * (torch.tensor([WIDTH, HEIGHT]) - sides)).floor()
    index = torch.randint(0, BATCH, (count, 1)).float()
    return images, torch.cat([index, corners, corners + sides], 1)


def slices(boxes: Tensor) -> list[tuple[int, slice, slice]]:
    return [(i, slice(y1, y2), slice(x1, x2)) for i, x1, y1, x2, y2 in boxes.long().tolist()]


def with_cv2(images: Tensor, boxes: Tensor, size: int) -> Callable[[], Tensor]:
    """Loop over views of the same memory; returns [K, h, w, C]."""
    arrays, parts = images.permute(0, 2, 3, 1).numpy(), slices(boxes)

    def run() -> Tensor:
        result = np.empty((len(parts), size, size, 3), arrays.dtype)
        for k, (i, r, c) in enumerate(parts):
            cv2.resize(arrays[i, r, c], (size, size), dst=result[k])
        return torch.from_numpy(result).permute(0, 3, 1, 2)

    return run


def box_of(r: slice, c: slice) -> tuple[int, int, int, int]:
    """Top, left, height and width."""
    return r.start, c.start, r.stop - r.start, c.stop - c.start


def with_torchvision(images: Tensor, boxes: Tensor, size: int) -> Callable[[], Tensor]:
    parts, bilinear = slices(boxes), InterpolationMode.BILINEAR

    def crop(i: int, r: slice, c: slice) -> Tensor:
        box = box_of(r, c)
        return transforms.resized_crop(images[i], *box, [size, size], bilinear, antialias=False)

    return lambda: torch.stack([crop(*part) for part in parts])


def grid_sample(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """All boxes at once, with a copy of the image and a grid for each."""
    x1, y1, x2, y2 = (v[:, None] for v in boxes[:, 1:].unbind(1))
    steps = (torch.arange(size, device=boxes.device) + 0.5) / size
    x, y = (x1 + steps * (x2 - x1)) * 2 / WIDTH - 1, (y1 + steps * (y2 - y1)) * 2 / HEIGHT - 1
    count = len(boxes)
    grid = torch.stack(
        [x[:, None].expand(count, size, size), y[:, :, None].expand(count, size, size)], -1
    )
    return functional.grid_sample(images[boxes[:, 0].long()], grid, align_corners=False)


def crops(dtype: torch.dtype, layout: str, count: int, size: int) -> list[Contender]:
    images, boxes = problem(count, dtype, layout)
    contenders = [
        Contender("visops", lambda: visops.crop_rois(images, boxes, size)),
        Contender("torchvision", with_torchvision(images, boxes, size), BORDER),
    ]
    if layout == "channels_last" and images.device.type == "cpu":
        contenders.append(Contender("cv2", with_cv2(images, boxes, size), BORDER))
    if dtype == torch.float32:
        contenders.append(Contender("grid_sample", lambda: grid_sample(images, boxes, size), GRID))
    return contenders


def gradients(count: int, size: int) -> list[Contender]:
    """Forward and the gradients of images and boxes."""
    images, boxes = problem(count, torch.float32, "contiguous")

    def sized(crop: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda images, boxes: crop(images, boxes, size)

    ours, theirs = pair_of_gradients(
        "grid_sample",
        sized(visops.crop_rois),
        sized(grid_sample),
        (images / 255, boxes),
        GRADIENT,
        comparable=lambda grads: grads[0],
    )
    return [replace(ours, comparable=theirs.comparable), theirs]


def pasting(dtype: torch.dtype, layout: str) -> list[Contender]:
    images, boxes = problem(64, dtype, layout)
    patches = visops.crop_rois(images, boxes, 224)
    parts = slices(boxes)

    def with_torch() -> Tensor:
        result = images.clone()
        for k, (i, r, c) in enumerate(parts):
            shape = (r.stop - r.start, c.stop - c.start)
            patch = transforms.resize(patches[k], list(shape), antialias=False)
            result[i, :, r, c] = patch
        return result

    def with_arrays() -> Tensor:
        result = images.permute(0, 2, 3, 1).numpy().copy()
        arrays = patches.permute(0, 2, 3, 1).numpy()
        for k, (i, r, c) in enumerate(parts):
            result[i, r, c] = cv2.resize(arrays[k], (c.stop - c.start, r.stop - r.start))
        return torch.from_numpy(result).permute(0, 3, 1, 2)

    contenders = [
        Contender("visops", lambda: visops.paste_rois(images, patches, boxes, blend="replace")),
        Contender("torchvision", with_torch, ROUNDING),
    ]
    if layout == "channels_last":
        contenders.append(Contender("cv2", with_arrays, ROUNDING, on_host=True))
    return contenders


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    kinds = [
        (dtype, layout)
        for dtype in (torch.uint8, torch.float32)
        for layout in ("channels_last", "contiguous")
    ]
    cropped = {
        f"{str(dtype)[6:]} {layout}, {count} boxes, {size} × {size}": (dtype, layout, count, size)
        for dtype, layout in kinds
        for count, size in ((64, 224), (256, 64))
    }
    pasted = {
        f"{str(dtype)[6:]} {layout}, replace, 64 boxes": (dtype, layout) for dtype, layout in kinds
    }
    differentiated = {"float32 contiguous, 64 boxes, 112 × 112": (64, 112)}
    return [
        *rows("crops", crops, cropped, "last, 64 ", on_cuda=True),
        *rows("gradients", gradients, differentiated, on_cuda=True),
        *rows("pasting", pasting, pasted, "", on_cuda=True),
    ]
