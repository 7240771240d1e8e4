"""The kernel: one affine map, one colour matrix, against the same steps written by hand."""

import importlib

import cv2
import numpy as np
import torch
import torch.nn.functional as F
import visops
from bench.affine import rotation, theta_of
from bench.augmentation.pictures import MEAN, STD, Photo, Size, smooth_batch
from bench.harness import Case, Contender, Tolerance, rows

SOURCE: Size = (512, 512)
TARGET: Size = (224, 224)

_MEAN, _STD = np.array(MEAN), np.array(STD)
_LEVELS = np.arange(256) / 255.0
_TABLES = [((_LEVELS - m) / s).astype(np.float32) for m, s in zip(_MEAN, _STD, strict=True)]
_LUMA = np.array([0.299, 0.587, 0.114])
# Saturation 0.7, brightness 1.2, and 5 % darker: [3, 4], for values in [0, 1].
COLOR = np.column_stack([1.2 * (0.7 * np.eye(3) + 0.3 * _LUMA), np.full(3, -0.05)])

_LINEAR = torch.from_numpy(COLOR[:, :3]).float()[:, :, None, None].contiguous()
_OFFSET = torch.from_numpy(COLOR[:, 3]).float()
_MEANS, _STDS = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))

# OpenCV rounds to whole levels after the warp, and again after colour when done by hand; a level
# is 1.3 / 255 / 0.224 = 0.023 here.
ROUNDED = Tolerance(max_abs=0.06, mean_abs=0.012, why="OpenCV rounds to whole levels in between")
FLOAT = Tolerance(max_abs=5e-2, mean_abs=1e-4, why="peers' coordinates are float32 in [-1, 1]")


def finish_levels(warped: list[np.ndarray]) -> torch.Tensor:
    """Colour and normalisation of warped uint8 [B, H, W, 3], in float64 -> float32 NCHW."""
    values = np.stack(warped) / 255.0 @ COLOR[:, :3].T + COLOR[:, 3]
    normal = (values.clip(0.0, 1.0) - _MEAN) / _STD
    return torch.from_numpy(normal.astype(np.float32)).permute(0, 3, 1, 2)


def by_opencv(photos: Photo, matrix: np.ndarray, size: Size) -> torch.Tensor:
    """OpenCV's fastest way: uint8 up to the last step, which is a table lookup."""
    color = COLOR.copy()
    color[:, 3] *= 255.0
    batch = np.empty((len(photos), 3, *size), np.float32)
    for photo, planes in zip(photos, batch, strict=True):
        warped = cv2.warpAffine(photo, matrix, (size[1], size[0]))
        for channel, table, plane in zip(
            cv2.split(cv2.transform(warped, color)), _TABLES, planes, strict=True
        ):
            cv2.LUT(channel, table, dst=plane)
    return torch.from_numpy(batch)


def coloured(warped: torch.Tensor) -> torch.Tensor:
    """Colour and normalisation by torch, of float32 [B, 3, H, W] in [0, 1]."""
    mixed = F.conv2d(warped, _LINEAR, _OFFSET)
    return mixed.clamp_(0.0, 1.0).sub_(_MEANS).div_(_STDS)


def by_grid_sample(pixels: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    """The warp by torch, and what follows."""
    grid = F.affine_grid(theta, [len(pixels), 3, *TARGET], align_corners=True)
    return coloured(F.grid_sample(pixels, grid, align_corners=True))


def chain_contenders(batch: int) -> list[Contender]:
    """Pictures [B, 512, 512, 3] to a normalised batch [B, 3, 224, 224]."""
    photos = smooth_batch(batch, SOURCE)
    pixels = torch.from_numpy(photos).permute(0, 3, 1, 2)
    matrix = rotation(SOURCE, TARGET)
    array, height, width = matrix.numpy(), *TARGET
    matrices = matrix.repeat(batch, 1, 1)
    matrices32 = matrices.float()
    theta = theta_of(visops.invert_affine(matrix), SOURCE, TARGET).repeat(batch, 1, 1)
    kornia = importlib.import_module("kornia")  # here: GPU rows use other parts of this file

    def ours() -> torch.Tensor:
        return visops.augment(photos, matrices, TARGET, color=COLOR, clamp=True, mean=MEAN, std=STD)

    def warp_alone() -> list[np.ndarray]:
        return [cv2.warpAffine(photo, array, (width, height)) for photo in photos]

    def as_floats() -> torch.Tensor:
        return pixels.to(torch.float32, memory_format=torch.contiguous_format).div_(255.0)

    def kornia_warp() -> torch.Tensor:
        return coloured(kornia.geometry.warp_affine(as_floats(), matrices32, TARGET))

    return [
        Contender("visops", ours),
        Contender("OpenCV warp alone", warp_alone, ROUNDED, finish_levels),
        Contender("OpenCV", lambda: by_opencv(photos, array, TARGET), ROUNDED),
        Contender("affine_grid + grid_sample", lambda: by_grid_sample(as_floats(), theta), FLOAT),
        Contender("kornia", kornia_warp, FLOAT),
    ]


def cases() -> list[Case]:
    """One image and a batch."""
    group = "rotation and scale, colour matrix, clamp, normalise, by hand: "
    group += "512² uint8 HWC → 224² float32 CHW"
    found = []
    for label, batch in {"1 image": 1, "16 images": 16}.items():
        found += rows(group, chain_contenders, {label: (batch,)}, "^1 ", images=batch)
    return found
