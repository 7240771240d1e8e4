"""Maps against cv2.remap and grid_sample, and displacements inside a pass.

`remap` reads photos where a smooth map leads: peers get maps in the form they like best, OpenCV
float32 planes and adjacent channels, grid_sample positions in [-1, 1]. `gradients` are those of the
photos. `elastic` bends, rotates and shrinks a photo of 512² by a grid of 5 x 5 splines and
normalises it, 224² float32: in one interpolation here, and by cv2.remap with a dense map that it
has to make of the same grid there.
"""

from typing import Any

import cv2
import numpy as np
import torch
import visops
from bench.augmentation.pictures import MEAN, STD
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


def read(batch: int, dtype: torch.dtype, mode: Any, floor: float) -> list[Contender]:
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

    contenders = pair("OpenCV", ours, opencv, (), tolerance, floor, comparable=stacked)
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


def elastic(batch: int, floor: float) -> list[Contender]:
    images = photos(batch, torch.uint8)
    generator = np.random.default_rng(1)
    shifts = generator.normal(0, 4, (batch, 5, 5, 2))
    size = (224, 224)
    centre = ((SIDE - 1) / 2, (SIDE - 1) / 2)
    rotation = visops.get_affine_matrix(centre, 20.0, (-144.0, -144.0), 224 / SIDE).numpy()
    inverse = visops.invert_affine(rotation)
    arrays = images.permute(0, 2, 3, 1).contiguous().numpy()
    columns, rows = np.meshgrid(np.arange(224, dtype=np.float64), np.arange(224, dtype=np.float64))
    scale, shift = 1 / (255 * np.array(STD)), np.array(MEAN) / np.array(STD)

    def opencv() -> np.ndarray:
        out = np.empty((batch, 224, 224, 3), np.float32)
        for i in range(batch):
            dx, dy = visops.displacement_field(shifts[i], size, spline=True)
            x, y = columns + dx.numpy(), rows + dy.numpy()
            map_x = inverse[0, 0] * x + inverse[0, 1] * y + inverse[0, 2]
            map_y = inverse[1, 0] * x + inverse[1, 1] * y + inverse[1, 2]
            maps = map_x.astype(np.float32), map_y.astype(np.float32)
            bent = cv2.remap(arrays[i], maps[0], maps[1], cv2.INTER_LINEAR)
            out[i] = bent * scale.astype(np.float32) - shift.astype(np.float32)
        return out.transpose(0, 3, 1, 2)

    options: dict[str, Any] = {"displacement_grid": "spline", "mean": MEAN, "std": STD}

    def ours() -> Tensor:
        return visops.augment(images, rotation, size, displacement=shifts, **options)

    close = Tolerance(max_abs=0.5, mean_abs=0.03, why="OpenCV rounds positions and levels")
    return pair("OpenCV", ours, opencv, (), close, floor, comparable=torch.from_numpy)


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    dtypes = {"uint8": torch.uint8, "float32": torch.float32}
    table = {
        f"{name}, {mode}, {batch} x {SIDE}²": (batch, dtype, mode, 1.0)
        for name, dtype in dtypes.items()
        for mode in FLAGS
        for batch in (1, 16)
    }
    bent = {f"elastic, rotated, normalised: {n} x {SIDE}² → 224²": (n, 1.5) for n in (1, 16)}
    return [
        *rows("remap", read, table, " 1 x"),
        *rows("gradients", with_gradients, {f"float32, bilinear, 4 x {SIDE}²": (4,)}),
        *rows("elastic", elastic, bent, " 1 x"),
    ]
