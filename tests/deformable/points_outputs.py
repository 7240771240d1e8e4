"""What the kernels of point samples compute: run once per backend and compared."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
import visops
from torch import Tensor

from deformable.point_cases import FLOATING, MASKS, OPTIONS, problem

SHAPES = ((1, (7, 9)), (12, (5, 33)), (3, (1, 6)), (40, (6, 1)), (2, (40, 40)), (9, (3, 3)))


def bytes_of(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy()


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and bytes for every dtype and option; sizes and layouts rotate."""
    shapes = itertools.cycle(SHAPES)
    for seed, (dtype, options) in enumerate(itertools.product((*FLOATING, *MASKS), OPTIONS)):
        channels, size = next(shapes)
        batch = 1 + seed % 3
        half = torch.float16 if seed % 4 == 1 and dtype != torch.float64 else None
        given = problem(
            dtype,
            batch=batch,
            channels=channels,
            size=size,
            count=700 if seed % 5 == 0 else 45,
            points_dtype=half,
            seed=seed,
        )
        maps, points = (tensor.to(device) for tensor in given)
        points[:, ::13, seed % 2] = (float("nan"), float("inf"), 1e4)[seed % 3]
        points[:, 20:30] = points[:, :1]  # sums of one pixel, in order
        if seed % 3 == 1:
            maps = maps.contiguous(memory_format=torch.channels_last)
        leaves = [tensor.requires_grad_(tensor.is_floating_point()) for tensor in (maps, points)]
        mode, padding, align_corners = options
        found = visops.point_sample(
            maps, points, mode=mode, padding_mode=padding, align_corners=align_corners
        )
        name = f"{dtype}-{mode}-{padding}-{align_corners}-{channels}"
        yield name, bytes_of(found)
        if not found.requires_grad:
            continue
        rng = np.random.default_rng(seed)
        grad = torch.from_numpy(rng.uniform(-1, 1, tuple(found.shape))).to(device, found.dtype)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        for leaf, gradient in zip(
            wanted, torch.autograd.grad(found, wanted, grad, allow_unused=True), strict=True
        ):
            if gradient is not None:
                yield f"{name}-{leaf.dim()}", bytes_of(gradient)


def check(found: dict[str, np.ndarray]) -> None:
    """Check that there are many cases, none of them blank."""
    assert len(found) == 6 * 12 + 4 * 12 + 6 * 6
    assert all(len(np.unique(v)) > 1 for v in found.values())
