"""Maps against cv2.remap and grid_sample.

`remap` reads photos where a smooth map leads: peers get maps in the form they like best, OpenCV
float32 planes and adjacent channels, grid_sample positions in [-1, 1]. `gradients` are those of the
photos.
"""

from typing import Any

import cv2
import numpy as np
import torch
import visops
from bench.harness import Case, Contender, Tolerance, pair, pair_of_gradients, rows
from torch import Tensor
from torch.nn import functional

FLAGS = {"bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC, "nearest": cv2.INTER_NEAREST}
OPENCV = Tolerance(max_abs=40, mean_abs=2.0, why="OpenCV 4 rounds positions to 1/32 of a pixel")
COPIES = Tolerance(fraction=0.02, why="ties")
GRID = Tolerance(max_abs=0.1, mean_abs=1e-4, why="grid_sample's positions are in [-1, 1]")
SIDE = 512


def photos(batch: int, dtype: torch.dtype) -> Tensor:
    """Smooth noise ``[B, 3, 512, 512]``."""
    generator = np.random.default_rng(0)
    noise = generator.integers(0, 256, (batch, SIDE, SIDE, 3), np.uint8)
    blurred = np.stack([cv2.GaussianBlur(image, (0, 0), 2) for image in noise])
    found = torch.from_numpy(blurred).permute(0, 3, 1, 2).contiguous()
    return found if dtype == torch.uint8 else found.to(dtype) / 255


def smooth_map(batch: int) -> Tensor:
    """Positions ``[B, 2, 512, 512]``, up to some pixels from their own."""
    generator = np.random.default_rng(1)
    shifts = torch.from_numpy(generator.normal(0, 6, (batch, 9, 9, 2))).float()
    dx, dy = visops.displacement_field(shifts, (SIDE, SIDE), spline=True)
    own = torch.arange(SIDE, dtype=torch.float32)
    return torch.stack((dx + own, dy + own[:, None]), 1)


def as_grid(maps: Tensor) -> Tensor:
    return (2.0 * maps.permute(0, 2, 3, 1) + 1.0) / SIDE - 1.0


def read(batch: int, dtype: torch.dtype, mode: Any) -> list[Contender]:
    images, maps = photos(batch, dtype), smooth_map(batch)
    x, y = maps[:, 0], maps[:, 1]
    arrays = images.permute(0, 2, 3, 1).contiguous().numpy()
    planes = maps.numpy()
    tolerance = COPIES if mode == "nearest" else OPENCV

    def ours() -> Tensor:
        return visops.remap(images, x, y, mode=mode)

    def opencv() -> list[np.ndarray]:
        pairs = zip(arrays, planes, strict=True)
        return [cv2.remap(array, plane[0], plane[1], FLAGS[mode]) for array, plane in pairs]

    def stacked(found: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(found)).permute(0, 3, 1, 2)

    def gridded() -> Tensor:
        return functional.grid_sample(images, grid, mode, align_corners=False)

    contenders = pair("OpenCV", ours, opencv, (), tolerance, comparable=stacked)
    if dtype == torch.float32 and mode != "bicubic":
        grid = as_grid(maps)
        contenders.append(Contender("grid_sample", gridded, COPIES if mode == "nearest" else GRID))
    return contenders


def with_gradients(batch: int) -> list[Contender]:
    images, maps = photos(batch, torch.float32), smooth_map(batch)
    grid, (x, y) = as_grid(maps), (maps[:, 0], maps[:, 1])

    def ours(images: Tensor) -> Tensor:
        return visops.remap(images, x, y)

    def theirs(images: Tensor) -> Tensor:
        return functional.grid_sample(images, grid, align_corners=False)

    return pair_of_gradients("grid_sample", ours, theirs, [images], GRID)


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    dtypes = {"uint8": torch.uint8, "float32": torch.float32}
    table = {
        f"{name}, {mode}, {batch} x {SIDE}²": (batch, dtype, mode)
        for name, dtype in dtypes.items()
        for mode in FLAGS
        for batch in (1, 16)
    }
    return [
        *rows("remap", read, table, " 1 x"),
        *rows("gradients", with_gradients, {f"float32, bilinear, 4 x {SIDE}²": (4,)}),
    ]
