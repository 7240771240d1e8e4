"""Problems of point samples that their tests share."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import visops
from references import points as reference
from torch import Tensor
from torch.nn import functional

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MASKS = (torch.bool, torch.uint8)
MODES: tuple[Any, ...] = ("bilinear", "nearest")
PADDINGS: tuple[Any, ...] = ("zeros", "border", "reflection")
OPTIONS = list(itertools.product(MODES, PADDINGS, (False, True)))


class Problem(NamedTuple):
    maps: Tensor
    points: Tensor

    def expected(self, mode: str, padding: str, align_corners: bool) -> np.ndarray:
        maps, points = (tensor.detach().double().numpy() for tensor in self)
        return reference.sample(
            maps, points, mode=mode, padding=padding, align_corners=align_corners
        )


def points_on_grid(
    rng: np.random.Generator, batch: int, count: int, size: tuple[int, int], scale: int
) -> np.ndarray:
    """Multiples of 1 / scale pixel, so that float32 has no rounding to do where sizes allow it."""
    height, width = size
    pixels = rng.integers(-2 * scale, scale * (max(size) + 2), (batch, count, 2))
    made: np.ndarray = pixels / (scale * np.array([width, height]))
    return made


def problem(
    dtype: torch.dtype = torch.float32,
    *,
    batch: int = 2,
    channels: int = 3,
    size: tuple[int, int] = (7, 9),
    count: int = 50,
    points_dtype: torch.dtype | None = None,
    seed: int = 0,
    reach: float = 0.3,
) -> Problem:
    """Points in and around the maps; some far outside, and some on corners."""
    rng = np.random.default_rng(seed)
    maps = rng.uniform(-1, 1, (batch, channels, *size))
    points = rng.uniform(-reach, 1 + reach, (batch, count, 2))
    kind = rng.integers(0, 12, (batch, count, 1))
    points = np.where(kind == 0, points * 10 - 5, points)
    points = np.where(kind == 1, np.rint(points), points)
    if dtype in MASKS:
        made = torch.from_numpy(maps > 0).to(dtype) * (200 if dtype == torch.uint8 else True)
    else:
        made = torch.from_numpy(maps)
    other = torch.float32 if dtype in MASKS else dtype
    return Problem(made.to(dtype), torch.from_numpy(points).to(points_dtype or other))


def any_bytes(masks: Tensor) -> Tensor:
    """The same masks, whose true pixels are bytes from 1 to 255."""
    bits = np.random.default_rng(0).integers(1, 256, masks.shape, np.uint8)
    return (masks.to(torch.uint8) * torch.from_numpy(bits)).view(torch.bool)


def smooth_problem(seed: int = 0, **options: Any) -> Problem:
    """float64, with points that keep their distance from pixels and borders, where slopes jump."""
    made = problem(torch.float64, seed=seed, **options)
    height, width = made.maps.shape[2:]
    rng = np.random.default_rng(seed)
    whole = np.floor(rng.uniform(-1.5, 1.5 + np.array([width, height]), made.points.shape))
    inside = whole + rng.uniform(0.1, 0.4, whole.shape)
    return Problem(made.maps, torch.from_numpy((inside + 0.5) / [width, height]))


every_option = pytest.mark.parametrize(("mode", "padding", "align_corners"), OPTIONS)


def sample(given: Problem, mode: Any, padding: Any, align_corners: bool) -> Tensor:
    found: Tensor = visops.point_sample(
        given.maps, given.points, mode=mode, padding_mode=padding, align_corners=align_corners
    )
    return found


def by_grid_sample(given: Problem, mode: str, padding: str, align_corners: bool) -> Tensor:
    grid = 2 * given.points[:, :, None] - 1
    return functional.grid_sample(
        given.maps, grid, mode=mode, padding_mode=padding, align_corners=align_corners
    ).squeeze(3)
