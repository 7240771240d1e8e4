"""Cropping and pasting boxes against today's practice: a loop over slices, or grid_sample.

Boxes have whole numbers, for slices; sides of 40 to 400 pixels in images of 720 x 1280. Slices end
where the box does, so that a loop's samples near a box's border differ: means are compared.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as transforms

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `bench` is a package

import visops
from bench.harness import Case, Contender, Tolerance, case, main

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
        for k, (i, rows, columns) in enumerate(parts):
            cv2.resize(arrays[i, rows, columns], (size, size), dst=result[k])
        return torch.from_numpy(result).permute(0, 3, 1, 2)

    return run


def box_of(rows: slice, columns: slice) -> tuple[int, int, int, int]:
    """Top, left, height and width."""
    return rows.start, columns.start, rows.stop - rows.start, columns.stop - columns.start


def with_torchvision(images: Tensor, boxes: Tensor, size: int) -> Callable[[], Tensor]:
    parts, bilinear = slices(boxes), InterpolationMode.BILINEAR

    def run() -> Tensor:
        return torch.stack(
            [
                transforms.resized_crop(
                    images[i], *box_of(r, c), [size, size], bilinear, antialias=False
                )
                for i, r, c in parts
            ]
        )

    return run


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
    images, boxes = (images / 255).requires_grad_(), boxes.requires_grad_()
    grad = torch.rand(count, 3, size, size)

    def of(function: Callable[..., Tensor]) -> Callable[[], tuple[Tensor, ...]]:
        return lambda: torch.autograd.grad(function(images, boxes, size), (images, boxes), grad)

    return [
        Contender("visops", of(visops.crop_rois), comparable=lambda g: g[0]),
        Contender("grid_sample", of(grid_sample), GRADIENT, comparable=lambda g: g[0]),
    ]


def pasting(dtype: torch.dtype, layout: str, count: int, size: int, blend: Any) -> list[Contender]:
    images, boxes = problem(count, dtype, layout)
    patches = visops.crop_rois(images, boxes, size)
    parts = slices(boxes)
    ours = Contender("visops", lambda: visops.paste_rois(images, patches, boxes, blend=blend))
    if blend != "replace":
        return [ours]

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

    contenders = [ours, Contender("torchvision", with_torch, ROUNDING)]
    if layout == "channels_last":
        contenders.append(Contender("cv2", with_arrays, ROUNDING, on_host=True))
    return contenders


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    kinds = [
        (torch.uint8, "channels_last"),
        (torch.uint8, "contiguous"),
        (torch.float32, "channels_last"),
        (torch.float32, "contiguous"),
    ]
    cases = [
        case(
            "crops",
            f"{str(d)[6:]} {layout}, {count} boxes, {size} × {size}",
            crops,
            *(d, layout, count, size),
            quick=layout == "channels_last" and count == 64,
            on_cuda=True,
        )
        for d, layout in kinds
        for count, size in ((64, 224), (256, 64))
    ]
    cases.append(
        case(
            "gradients", "float32 contiguous, 64 boxes, 112 × 112", gradients, 64, 112, on_cuda=True
        )
    )
    cases += [
        case(
            "pasting",
            f"{str(d)[6:]} {layout}, {blend}, 64 boxes",
            pasting,
            *(d, layout, 64, 224, blend),
            quick=blend == "replace",
            on_cuda=True,
        )
        for d, layout in kinds
        for blend in ("replace", "feather")
    ]
    return cases


if __name__ == "__main__":
    sys.exit(main("roi_crops", __doc__ or "", all_cases()))
