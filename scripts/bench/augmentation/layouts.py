"""The operator by itself: masks, float16, filters against aliasing."""

from typing import Any

import cv2
import torch
import torch.nn.functional as F
import visops
from bench.affine import noise, rotation, theta_of
from bench.augmentation.one_warp import COLOR, FLOAT, by_grid_sample
from bench.augmentation.pictures import MEAN, STD, Size
from bench.harness import Case, Contender, Tolerance, pair, rows

SOURCE: Size = (512, 512)
TARGET: Size = (224, 224)
FORMATS = {"NCHW": torch.contiguous_format, "channels_last": torch.channels_last}
TIES = Tolerance(fraction=0.01, why="nearest at ties, and float32 coordinates")


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
