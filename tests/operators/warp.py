"""Warps: affine and perspective ones, augmentation in one pass, maps of positions."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .case import FLOATS, Arguments, Draw, OneOf, OpCase, with_options

PADDINGS = ("reflect", "constant", "replicate", "symmetric", "circular")
MODES = ("bilinear", "nearest", "bicubic")


def images(draw: Draw, channels: int | None = None) -> Tensor:
    channels = draw.sizes.channels if channels is None else channels
    shape = (draw.sizes.batch, channels, draw.sizes.height, draw.sizes.width)
    values = draw.rng.random(shape)
    return draw.tensor(values * 255 if draw.dtype == torch.uint8 else values)


def matrices(draw: Draw, rows: int = 2) -> Tensor:
    """Return maps near the identity, in float64: one for each image."""
    batch = draw.sizes.batch
    matrix = np.eye(3) + draw.rng.uniform(-0.15, 0.15, (batch, 3, 3))
    matrix[:, :2, 2] *= 10
    matrix[:, :2, :2] *= draw.choose(1.0, 0.25, 4.0, -1.0)
    matrix[:, 2] = [0.01, -0.02, 1.0] if rows == 3 else [0.0, 0.0, 1.0]
    return torch.from_numpy(matrix[:, :rows].copy())


def warped(draw: Draw) -> Arguments:
    size = (draw.sizes.height, draw.sizes.width + 3)
    return {"image": images(draw), "matrix": matrices(draw), "size": size}


def perspective(draw: Draw) -> Arguments:
    return {**warped(draw), "matrix": matrices(draw, 3)}


def augmented(draw: Draw) -> Arguments:
    """Return every step of an augmentation, with a colour matrix of its own for each image."""
    batch = draw.sizes.batch
    channels = min(draw.sizes.channels, 4)  # a pass has no colours of more
    noise = draw.rng.uniform(-0.1, 0.1, (batch, channels, channels + 1))
    color = np.tile(np.eye(channels, channels + 1), (batch, 1, 1)) + noise
    return {
        "images": images(draw, channels),
        "matrix": matrices(draw, 3),
        "size": (draw.sizes.height + 1, draw.sizes.width),
        "color": torch.from_numpy(color),
        "mean": [0.4],
        "std": [0.2, 0.3, 0.4, 0.5][:channels],
        "layout": "CHW",
        **({"out_dtype": torch.float64} if draw.dtype == torch.float64 else {}),
    }


def everything(draw: Draw) -> Arguments:
    """Return further steps: a window, rectangles to erase, and several clamped colour matrices."""
    arguments = augmented(draw)
    batch, (height, width) = draw.sizes.batch, (draw.sizes.height, draw.sizes.width)
    low = draw.rng.uniform(-2, [0.4 * width, 0.4 * height], (batch, 2))
    window = np.concatenate([low, np.add(low, [0.7 * width + 1, 0.7 * height + 1])], 1)
    corner = draw.rng.integers(-2, max(height, width) + 1, (batch, 2, 2))
    erase = np.concatenate([corner, corner + draw.rng.integers(0, 4, (batch, 2, 2))], -1)
    return {
        **arguments,
        "color": torch.stack([arguments["color"]] * draw.choose(2, 1, 8), 1),
        "window": torch.from_numpy(window),
        "erase": torch.from_numpy(erase),
        "erase_value": 3.0,
        "clamp": draw.choose(True, False),
        "memory_format": draw.choose(torch.contiguous_format, torch.channels_last),
    }


def listed(draw: Draw) -> Arguments:
    """Return images of two sizes in a list."""
    whole = draw.sizes
    made = draw.rng.random((2, 3, whole.height + 2, whole.width + 1))
    values = draw.tensor(made * 255 if draw.dtype == torch.uint8 else made)
    matrix = matrices(draw)[:1].expand(2, 2, 3) if whole.batch else torch.eye(2, 3).double()
    return {
        "images": [values[0].clone(), values[1, :, 2:, 1:].clone()],
        "matrix": matrix.contiguous(),
        "color": torch.eye(3, 4).double()
        + torch.from_numpy(draw.rng.uniform(-0.1, 0.1, (2, 3, 4))),
        "size": (5, 6),
        "layout": "CHW",
        **({"out_dtype": torch.float64} if draw.dtype == torch.float64 else {}),
    }


def remapped(draw: Draw) -> Arguments:
    """Return displacements of a grid of points, and a matrix after them."""
    batch = draw.sizes.batch
    dtype = torch.float64 if draw.dtype == torch.float64 else torch.float32
    return {
        "images": images(draw, 2),
        "map_x": draw.tensor(draw.rng.normal(0, 1, (batch, 3, 4)), dtype),
        "map_y": draw.tensor(draw.rng.normal(0, 1, (batch, 3, 4)), dtype),
        "size": [draw.sizes.height + 1, draw.sizes.width],
        "matrix": matrices(draw, 3),
        "grid": draw.choose("bilinear", "spline"),
        "relative": True,
        "interpolation": "bilinear",
        "padding_mode": draw.choose(*PADDINGS),
        "fill": [0.0],
    }


LAYOUTS = ("strided", "transposed", "channels_last", "part_of_channels_last")
WARP: dict[str, Any] = {
    "mapped": ("image", "matrix"),
    "rows": ("image", "matrix"),
    "layouts": LAYOUTS,
    "dtypes": (*FLOATS, torch.uint8),
    "arrays": False,
}
AUGMENT: dict[str, Any] = {
    "differentiable": ("images", "matrix", "color"),
    "linear_in": ("images",),
    "mapped": ("images", "matrix", "color"),
    "rows": ("images", "matrix", "color"),
    "layouts": LAYOUTS,
    "dtypes": (*FLOATS, torch.uint8),
    "twice": False,
    "half": False,  # the gradient of a matrix is a sum in another order
    "arrays": False,
}

CASES = [
    OpCase(
        "warp_affine",
        with_options(
            warped,
            mode=OneOf("bilinear", "bicubic"),
            padding_mode=OneOf(*PADDINGS),
            fill=0.5,
            inverse_map=OneOf(False, True),
            convention=OneOf("integer", "half_pixel", "half_pixel"),
        ),
        differentiable=("image", "matrix"),
        twice=False,  # by the image alone
        **WARP,
    ),
    OpCase(
        "warp_affine bicubic",
        with_options(
            warped, mode=OneOf("bicubic", "nearest"), padding_mode=OneOf("constant", *PADDINGS)
        ),
        differentiable=("image",),
        linear_in=("image",),
        **WARP,
    ),
    OpCase(
        "warp_perspective",
        perspective,
        differentiable=("image",),
        finite_differences=False,
        twice=False,
        **WARP,
    ),
    OpCase(
        "augment",
        with_options(
            augmented,
            mode=OneOf("bilinear", "bicubic", "nearest"),
            padding_mode=OneOf("constant", *PADDINGS),
            inverse_map=OneOf(False, True),
            convention=OneOf("integer", "half_pixel", "half_pixel"),
        ),
        **AUGMENT,
    ),
    OpCase(
        "augment everything",
        with_options(
            everything,
            mode=OneOf("bilinear", "bicubic", "nearest"),
            antialias=OneOf(False, True, False),
            padding_mode=OneOf("constant", *PADDINGS),
        ),
        # Its matrix's gradient takes the width of a window's edge for a constant.
        **{
            **AUGMENT,
            **{
                "differentiable": ("images", "color"),
                "linear_in": (),
                "mapped": ("images", "matrix", "color", "window"),
                "rows": ("images", "matrix", "color", "window", "erase"),
            },
        },
    ),
    OpCase(
        "augment antialias",
        with_options(
            augmented,
            antialias=True,
            mode=OneOf("bilinear", "bicubic", "lanczos"),
            padding_mode=OneOf("constant", *PADDINGS),
        ),
        # Its matrix's gradient takes the widths of the filters for constants.
        **{**AUGMENT, "differentiable": ("images", "color")},
    ),
    OpCase(
        "augment list",
        listed,
        **{
            **AUGMENT,
            **{"mapped": ("matrix",), "rows": ()},
        },
    ),
    OpCase(
        "remap",
        remapped,
        call=torch.ops.visops.remap,
        differentiable=("images", "map_x", "map_y", "matrix"),
        mapped=("images", "map_x", "map_y", "matrix"),
        rows=("images", "map_x", "map_y", "matrix"),
        layouts=LAYOUTS,
        exact=False,  # torch's operators differentiate it
        skip=frozenset({"wide"}),  # and add more numbers in float32 than tolerances allow for
        compiled=False,  # a map of one sample and of several are two programs
    ),
]
