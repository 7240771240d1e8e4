"""The operator by itself, against the same steps written by hand: values, gradients, filters."""

import importlib
from typing import Any

import cv2
import numpy as np
import torch
import torch.nn.functional as F
import visops
from bench.affine import backward_pair, noise, rotation, theta_of
from bench.augmentation.pictures import MEAN, STD, Photo, Size, smooth_batch
from bench.harness import Case, Contender, Tolerance, pair, rows

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
FORMATS = {"NCHW": torch.contiguous_format, "channels_last": torch.channels_last}
TIES = Tolerance(fraction=0.01, why="nearest at ties, and float32 coordinates")


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


def gradient_contenders(batch: int, device: str) -> list[Contender]:
    """float32 [B, 3, 224, 224]; the matrix is destination -> source, one for each image."""
    image = noise(torch.float32, batch, TARGET, "NCHW", device).detach().requires_grad_()
    inverse = visops.invert_affine(rotation(TARGET))
    color = torch.from_numpy(COLOR).float().repeat(batch, 1, 1).to(device)
    mean, std = (torch.tensor(v, device=device).view(1, 3, 1) for v in (MEAN, STD))

    def ours(image: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        return visops.augment(
            image, matrix, TARGET, color=color, mean=MEAN, std=STD, inverse_map=True
        )

    def theirs(image: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        warped = F.grid_sample(image, grid, "bilinear", "zeros", align_corners=True)
        # Colour and normalisation as one matrix product for each image.
        weights, offsets = color[:, :, :3] / std, (color[:, :, 3:] - mean) / std
        return torch.baddbmm(offsets, weights, warped.flatten(2)).view(warped.shape)

    return backward_pair(ours, theirs, image, inverse, TARGET, amplitude=1 / min(STD))


def half_contenders() -> list[Contender]:
    """One picture [1, 3, 512, 512] of float16, channels_last, to a normalised [1, 3, 224, 224]."""
    image = noise(torch.float32, 1, SOURCE, "channels_last", "cpu").to(torch.float16)
    matrix = rotation(SOURCE, TARGET)
    theta = theta_of(visops.invert_affine(matrix), SOURCE, TARGET)[None]
    options: dict[str, Any] = {"color": COLOR, "clamp": True, "mean": MEAN, "std": STD}
    options["out_dtype"] = torch.float32

    def ours() -> torch.Tensor:
        return visops.augment(image, matrix, TARGET, **options)

    def theirs() -> torch.Tensor:
        return by_grid_sample(image.to(torch.float32), theta)

    return pair("affine_grid + grid_sample", ours, theirs, (), FLOAT)


def mask_contenders(target: Size) -> list[Contender]:
    """A mask [512, 512] of uint8 classes; 255, which losses ignore, outside."""
    mask = noise(torch.uint8, 1, SOURCE, "NCHW", "cpu")[:, :1] % 21
    matrix = rotation(SOURCE, target)
    array, plane = matrix.numpy(), mask[0, 0].numpy()
    border: dict[str, Any] = {"flags": cv2.INTER_NEAREST, "borderValue": 255}

    def opencv() -> torch.Tensor:
        return torch.from_numpy(cv2.warpAffine(plane, array, target[::-1], **border))[None, None]

    options: dict[str, Any] = {"fill": 255, "mode": "nearest", "out_dtype": torch.uint8}

    def ours() -> torch.Tensor:
        return visops.augment(mask, matrix, target, **options)

    return pair("OpenCV", ours, opencv, (), TIES)


def resize_contenders(dtype: torch.dtype, layout: str, batch: int) -> list[Contender]:
    """[B, 3, 480, 640] to [B, 3, 224, 224] of the same dtype and layout, filtered."""
    source, height, width = (480, 640), *TARGET
    image = noise(dtype, batch, source, layout, "cpu")
    matrix = torch.tensor([[width / 640, 0.0, 0.0], [0.0, height / 480, 0.0]], dtype=torch.float64)
    is_u8 = dtype == torch.uint8
    options: dict[str, Any] = {
        "antialias": True,
        "convention": "half_pixel",
        "out_dtype": dtype,
        "memory_format": FORMATS[layout],
    }
    rounded = Tolerance(max_abs=1, why="torch's weights are of 16 bits") if is_u8 else FLOAT

    def ours() -> torch.Tensor:
        return visops.augment(image, matrix, TARGET, **options)

    def interpolated() -> torch.Tensor:
        return F.interpolate(image, TARGET, mode="bilinear", antialias=True)

    return pair("interpolate", ours, interpolated, (), rounded)


def cases() -> list[Case]:
    """One image and a batch."""
    group = "rotation and scale, colour matrix, clamp, normalise, by hand: "
    group += "512² uint8 HWC → 224² float32 CHW"
    found = []
    for label, batch in {"1 image": 1, "16 images": 16}.items():
        found += rows(group, chain_contenders, {label: (batch,)}, "^1 ", images=batch)
    return found


def gradient_cases(device: str = "cpu") -> list[Case]:
    """One image and a batch."""
    group = "forward + backward f32: images and matrix, colour and normalisation in between"
    found = []
    for batch in (1, 16):
        table = {f"{batch}×224²": (batch, device)}
        found += rows(group, gradient_contenders, table, "^1×", device=device, images=batch)
    return found


def other_cases() -> list[Case]:
    """Half precision, masks, and resizing without rotation."""
    group = "dtypes and layouts: rotation, colour, clamp, normalise, 512² → 224²"
    found = rows(group, half_contenders, {"f16 channels_last → f32 NCHW": ()}, "")
    group = "mask, nearest with a fill of its own, uint8"
    masks = {f"512² → {size[0]}²": (size,) for size in (SOURCE, TARGET)}
    found += rows(group, mask_contenders, masks, "→ 512²")
    # What peers are made for.
    for batch in (1, 16):
        resized = {
            f"{batch}× u8 channels_last": (torch.uint8, "channels_last", batch),
            f"{batch}× f32 NCHW": (torch.float32, "NCHW", batch),
        }
        group = "antialias, without rotation: 640×480 → 224²"
        found += rows(group, resize_contenders, resized, "^1×", images=batch)
    return found
