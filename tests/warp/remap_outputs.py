"""What the kernels of maps compute: run once per backend and compared."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from visops.warp.remap_autograd import remap

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("constant", "replicate", "reflect", "symmetric", "circular")
SAMPLED = (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)
COPIED = (torch.bool, torch.int16, torch.int32, torch.int64)
# Batch, channels, the image's size and the result's.
SHAPES = (
    (2, 3, (40, 51), (33, 70)),
    (1, 1, (7, 5), (1, 200)),
    (3, 4, (1, 9), (20, 3)),
    (2, 70, (6, 6), (9, 65)),
    (1, 2, (64, 64), (64, 64)),
)


def bytes_of(tensor: Tensor) -> np.ndarray:
    """A tensor's bytes, with one NaN for all: arithmetic gives another on a GPU."""
    if tensor.is_floating_point():
        tensor = torch.where(tensor.isnan(), torch.nan, tensor)
    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy()


def picture(
    generator: np.random.Generator, dtype: torch.dtype, shape: tuple[int, ...], last: bool
) -> Tensor:
    """Pixels of a dtype, some of whose floats are no numbers."""
    if dtype.is_floating_point:
        values = torch.from_numpy(generator.normal(0, 1, shape)).to(dtype)
        if dtype == torch.float32:
            values.flatten()[:: max(values.numel() // 3, 1)] = float("nan")
    else:
        numbers = torch.from_numpy(generator.integers(0, 250, shape))
        values = numbers > 125 if dtype == torch.bool else numbers.to(dtype)
    return values.contiguous(memory_format=torch.channels_last) if last else values


def positions(
    generator: np.random.Generator, grid: str, batch: int, image: tuple[int, int], size: Tensor
) -> Tensor:
    """A map of a grid, with some numbers that are none or far away."""
    rows, columns = (int(s) for s in size) if grid == "dense" else (4, 6)
    scale = generator.uniform(2, 30)
    values = torch.from_numpy(generator.normal(0, scale, (batch, 2, rows, columns)))
    if grid == "dense" and values.numel() > 20:
        values.flatten()[::17] *= 40
        values.flatten()[3] = float("nan")
        values.flatten()[7] = float("inf")
        values.flatten()[11] = -1e30
    return values


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and bytes for every dtype, mode and grid; the rest rotates."""
    shapes, paddings = itertools.cycle(SHAPES), itertools.cycle(PADDINGS)
    cases = [
        *itertools.product(SAMPLED, MODES, ("dense", "bilinear", "spline")),
        *((dtype, "nearest", grid) for dtype in COPIED for grid in ("dense", "spline")),
    ]
    for seed, (dtype, mode, grid) in enumerate(cases):
        generator = np.random.default_rng(seed + 300)
        batch, channels, size, out = next(shapes)
        padding = next(paddings)
        images = picture(generator, dtype, (batch, channels, *size), seed % 3 == 1).to(device)
        maps = positions(generator, grid, 1 if seed % 4 == 1 else batch, size, torch.tensor(out))
        maps = maps.to(device, torch.float64 if seed % 2 else torch.float32)
        matrix = None
        if seed % 3 != 2:
            matrix = torch.from_numpy(generator.normal(0, 0.3, (1 if seed % 5 else batch, 3, 3)))
            matrix[:, 0, 0] += 0.8
            matrix[:, 1, 1] += 0.8
            matrix[:, 2] = torch.tensor([0.003 * (seed % 2), -0.002 * (seed % 2), 1.0])
            matrix = matrix.double().to(device)
        fill = [float(c % 5) for c in range(channels)] if seed % 2 else [1.0]
        if dtype == torch.bool:
            fill = [1.0]
        to_float = seed % 4 == 3 and dtype in SAMPLED[:4]
        options = (grid, seed % 7 != 0, mode, padding, fill, to_float)
        found = remap(images, *maps.unbind(1), out, matrix, *options)
        yield f"{seed}-{dtype}-{mode}-{padding}-{grid}", bytes_of(found)


def check(found: dict[str, np.ndarray]) -> None:
    """Check that there are many cases, none of them blank."""
    assert len(found) == 5 * 9 + 4 * 2
    assert all(len(np.unique(v)) > 1 for v in found.values())
