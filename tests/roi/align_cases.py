"""Maps, boxes and layouts that the tests of RoIAlign and the other poolings share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import visops
from torch import Tensor

Rng = np.random.Generator
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SIZE = (2, 3, 9, 11)  # of the maps that the boxes below are for


def of_corners(rng: Rng, corners: np.ndarray) -> np.ndarray:
    """[K, 5] from corners [K, 4], on random images."""
    return np.concatenate([rng.integers(0, SIZE[0], (len(corners), 1)), corners], 1)


def ordered(corners: np.ndarray) -> np.ndarray:
    """[K, 4] corners from points [K, 2, 2]."""
    return np.sort(corners, 1).reshape(-1, 4)


def inside(rng: Rng, count: int) -> np.ndarray:
    points = rng.uniform(0, 1, (count, 2, 2)) * [SIZE[3], SIZE[2]]
    return of_corners(rng, ordered(points))


def overhanging(rng: Rng, count: int) -> np.ndarray:
    """Boxes that cross one border or several, or all of them."""
    return of_corners(rng, ordered(rng.uniform(-8, 18, (count, 2, 2))))


def outside(rng: Rng, count: int) -> np.ndarray:
    """Boxes beyond a border, touching it, or just across it."""
    boxes = ordered(rng.uniform(0, 6, (count, 2, 2)))
    away = np.zeros((count, 2))
    away[np.arange(count), rng.integers(0, 2, count)] = rng.choice([-7, -5, -1, 5, 9, 14], count)
    return of_corners(rng, boxes + np.concatenate([away, away], 1))


def flat(rng: Rng, count: int) -> np.ndarray:
    """Boxes without width, height or both; and tiny ones."""
    low = rng.uniform(-1, 9, (count, 2))
    extent = rng.choice([0.0, 0.0, 1e-3, 0.4, 3.0], (count, 2))
    return of_corners(rng, np.concatenate([low, low + extent], 1))


def grid(rng: Rng, count: int) -> np.ndarray:
    """Multiples of 1/2: samples and bins on pixels' centres and edges, and on the borders."""
    low = rng.integers(-4, 18, (count, 2)) / 2
    return of_corners(rng, np.concatenate([low, low + rng.integers(0, 17, (count, 2)) / 2], 1))


def large(rng: Rng, count: int) -> np.ndarray:
    """Boxes hundreds of times larger than the map."""
    return of_corners(rng, ordered(rng.uniform(-300, 300, (count, 2, 2))))


def torchvision_own(rng: Rng, count: int) -> np.ndarray:
    """The boxes of torchvision's tests, for maps of 10 x 10."""
    boxes = [[0, 0, 0, 9, 9], [0, 0, 5, 4, 9], [0, 5, 5, 9, 9], [1, 0, 0, 9, 9]]
    return np.asarray(boxes, np.float64)


BOXES: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "inside": inside,
    "overhanging": overhanging,
    "outside": outside,
    "flat": flat,
    "grid": grid,
    "large": large,
    "torchvision": torchvision_own,
}

# output_size, spatial_scale, sampling_ratio, aligned
Options = tuple[tuple[int, int], float, int, bool]

OPTIONS: tuple[Options, ...] = (
    ((3, 4), 1.0, -1, False),
    ((3, 4), 1.0, -1, True),
    ((2, 2), 0.5, 0, True),
    ((5, 5), 0.3, 2, False),
    ((1, 1), 1.0, 1, True),
    ((7, 2), 2.0, 3, True),
    ((4, 7), 2.0, 2, False),
    ((1, 6), 0.25, 5, True),
)


def boxes_of(kind: str, count: int = 10, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    """[K, 5] float64 boxes of a kind, for maps of this scale."""
    boxes = BOXES[kind](np.random.default_rng(seed), count)
    boxes[:, 1:] /= scale
    return boxes


def maps_of(size: Any = SIZE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(size)


def pyramid_of(
    levels: int, height: int, width: int, dtype: torch.dtype, channels: int = 3, seed: int = 0
) -> list[Tensor]:
    """Maps of two images, each level half the size of the one before."""
    rng = np.random.default_rng(seed)
    sizes = [(2, channels, height >> i, width >> i) for i in range(levels)]
    return [torch.from_numpy(rng.standard_normal(size)).to(dtype) for size in sizes]


def proposals(rng: Rng, count: int, height: int, width: int, images: int = 2) -> Tensor:
    """[K, 5] float32 boxes from 2 pixels to the whole image in size, some beyond its border."""
    extent = 2.0 ** rng.uniform(1, np.log2(min(height, width)), (count, 2))
    low = rng.uniform(-0.1, 1, (count, 2)) * ([width, height] - extent / 2)
    index = rng.integers(0, images, (count, 1))
    return torch.from_numpy(np.concatenate([index, low, low + extent], 1)).float()


def channels_last(maps: Tensor) -> Tensor:
    return maps.contiguous(memory_format=torch.channels_last)


def turned(maps: Tensor) -> Tensor:
    """Column-major: the non-contiguous maps of torchvision's tests."""
    return maps.mT.contiguous().mT


def sliced(maps: Tensor) -> Tensor:
    """A part of larger ones."""
    n, c, h, w = maps.shape
    wide = torch.full((n + 1, c + 2, h + 3, w + 5), 77, dtype=maps.dtype)
    view = wide[1:, 1:-1, 2:-1, 4:-1]
    view.copy_(maps)
    return view


def sliced_channels_last(maps: Tensor) -> Tensor:
    """Some channels of more, channels_last."""
    n, c, h, w = maps.shape
    wide = channels_last(torch.full((n, 2 * c + 3, h, w + 2), 77, dtype=maps.dtype))
    view = wide[:, 2 : 2 + c, :, 1:-1]
    view.copy_(maps)
    return view


def spaced(maps: Tensor) -> Tensor:
    """Neither pixels nor channels side by side."""
    return torch.stack([maps, maps.flip(3)], -1)[..., 0]


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": Tensor.contiguous,
    "channels_last": channels_last,
    "turned": turned,
    "sliced": sliced,
    "sliced_channels_last": sliced_channels_last,
    "spaced": spaced,
}


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether tensors are equal, dtype and signs of zeros included; all NaNs are equal."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    signs = torch.equal(a.signbit() & ~a.isnan(), b.signbit() & ~b.isnan())
    return (
        signs and torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())
    )


every_reduce = pytest.mark.parametrize("reduce", ["mean", "max"])


def random_like(values: Tensor, seed: int = 5) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal(values.shape)).to(values.dtype)


OPS = torch.ops.visops
PIXELS = (9, 11)  # of maps; there are two images


class Pooling(NamedTuple):
    """A function, and what its tests need to know."""

    function: Callable[..., Tensor]
    columns: int  # of a box
    bins: int  # channels for each of the result
    options: tuple[dict[str, Any], ...]  # spatial_scale and more


POOLINGS = {
    "roi_pool": Pooling(visops.roi_pool, 5, 1, ({}, {"spatial_scale": 0.3})),
    "ps_roi_align": Pooling(
        visops.ps_roi_align,
        5,
        6,
        ({}, {"spatial_scale": 0.3, "sampling_ratio": 2}, {"sampling_ratio": 1}),
    ),
    "roi_align_rotated": Pooling(
        visops.roi_align_rotated,
        6,
        1,
        (
            {},
            {"spatial_scale": 0.3, "sampling_ratio": 2, "clockwise": True},
            {"sampling_ratio": 1, "aligned": False},
        ),
    ),
}

OUTPUT_SIZE = (2, 3)  # six bins


def rotated_of(boxes: np.ndarray, seed: int = 0) -> np.ndarray:
    """[K, 6] with centres and sizes of boxes [K, 5]; angles are random, or eighths of a turn."""
    rng = np.random.default_rng(seed)
    centre, extent = (boxes[:, 1:3] + boxes[:, 3:]) / 2, boxes[:, 3:] - boxes[:, 1:3]
    angle = np.where(
        rng.random((len(boxes), 1)) < 0.5,
        rng.uniform(-7, 7, (len(boxes), 1)),
        rng.integers(-8, 9, (len(boxes), 1)) * (np.pi / 4),
    )
    return np.concatenate([boxes[:, :1], centre, extent, angle], 1)


def problem(
    name: str,
    kind: str = "overhanging",
    count: int = 10,
    dtype: torch.dtype = torch.float64,
    channels: int = 2,
    scale: float = 1.0,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return maps and boxes for one of POOLINGS; `channels` are those of the result."""
    pooling = POOLINGS[name]
    boxes = boxes_of(kind, count, scale, seed)
    if pooling.columns == 6:
        boxes = rotated_of(boxes, seed)
    maps = maps_of((2, channels * pooling.bins, *PIXELS), seed)
    return torch.from_numpy(maps).to(dtype), torch.from_numpy(boxes).to(dtype)
