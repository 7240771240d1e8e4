"""The affine warp: a photo-like uint8 image [size, size, 3], rotated, bilinear."""

import cv2
import numpy as np
import references.affine as reference
import torch
import visops
from bench.harness import Tolerance
from torch.nn import functional

from .ladder import Ladder, Rung, gpu, on_threads

CLOSE = Tolerance(max_abs=1, fraction=0.02, why="values between two integers, by coordinates")
FIXED_POINT = Tolerance(max_abs=16, mean_abs=0.5, why="weights of 5 bits")


def picture(size: int) -> np.ndarray:
    """Waves and some noise."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:size, :size]
    waves = 127 + 90 * np.sin(x[..., None] / (5, 9, 14)) * np.cos(y[..., None] / (8, 6, 11))
    return np.clip(waves + rng.normal(0, 5, (size, size, 3)), 0, 255).astype(np.uint8)


def grid_sample(image: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    """Coordinates of every pixel in memory, and a float image."""
    grid = functional.affine_grid(theta, list(image.shape), align_corners=True)
    result = functional.grid_sample(image.float(), grid, align_corners=True)
    return result.round_().to(torch.uint8)[0].permute(1, 2, 0)


def ours(image: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """An image [1, 3, size, size] to [size, size, 3]."""
    return visops.warp_affine(image, matrix)[0].permute(1, 2, 0)


def build(size: int) -> list[Rung]:
    """Every rung that this machine can run."""
    image, middle = picture(size), (size - 1) / 2
    matrix = visops.get_affine_matrix(center=(middle, middle), angle=30.0, scale=0.9)
    array = matrix.numpy()
    shape = (size, size)

    def loops() -> np.ndarray:
        values = reference.warp_loops(image, array, shape, mode="bilinear", padding_mode="constant")
        return reference.to_dtype(values, np.uint8)

    def numpy() -> np.ndarray:
        values = reference.warp(image, array, shape, mode="bilinear", padding_mode="constant")
        return reference.to_dtype(values, np.uint8)

    # In grid_sample, -1 and 1 are the centres of the first and last pixel; its matrix follows.
    linear = np.linalg.inv(np.vstack([array, [0, 0, 1]]))
    to_pixels = np.array([[middle, 0, middle], [0, middle, middle], [0, 0, 1]])
    theta = (np.linalg.inv(to_pixels) @ linear @ to_pixels)[:2]
    last = torch.from_numpy(image).permute(2, 0, 1)[None]  # channels_last, as OpenCV's
    planes, theta_tensor = last.contiguous(), torch.from_numpy(theta).float()[None]

    rungs = [
        Rung("Python loop", loops, tolerance=CLOSE, profiled=True),
        Rung("NumPy", numpy, tolerance=CLOSE, profiled=True),
        Rung(
            "affine_grid + grid_sample",
            lambda: grid_sample(planes, theta_tensor),
            tolerance=CLOSE,
            peer=True,
        ),
        Rung(
            "OpenCV warpAffine",
            lambda: cv2.warpAffine(image, array, shape),
            tolerance=FIXED_POINT,
            peer=True,
        ),
        *on_threads("visops", lambda: ours(last, matrix), torch.get_num_threads()),
    ]
    device = gpu()
    if device is not None:
        there, matrix_there = last.to(device), matrix.to(device)
        rungs.append(Rung("visops, GPU", lambda: ours(there, matrix_there), device=device))
    return rungs


LADDER = Ladder(
    op="affine",
    job="a uint8 image of three channels, turned by 30°, bilinear",
    unit="side of the image",
    sizes=(8, 16, 32, 64, 128, 256, 512, 1024),
    work=lambda size: size**2,
    build=build,
)
