"""Everything that the affine kernels compute, as bytes: runs on each backend, to be compared."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
import visops
from references.affine import random_matrix
from torch import Tensor

from warp.affine_cases import (
    COPIED,
    FLOATING,
    INTERPOLATED,
    LAYOUTS,
    PADDINGS,
    modes_of,
    random_image,
)

SIZE = (19, 150)
SCALES = (0.15, 0.8, 5.0)
# Seven, so that each of the five paddings meets all of them.
LAID_OUT = (
    (3, "contiguous"),
    (3, "channels_last"),
    (1, "contiguous"),
    (4, "channels_last"),
    (2, "every_other"),
    (4, "contiguous"),
    (3, "transposed"),
)


def bytes_of(tensor: Tensor) -> np.ndarray:
    return tensor.contiguous().view(torch.uint8).numpy()


def tall_problem(rng: np.random.Generator, device: str) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Images, matrices and size: a CUDA tile is as tall as it may be, and the output taller."""
    size = (150, 9)
    matrices = [random_matrix(rng, 20, 9, size, scale=(1, 5)) for _ in range(8)]
    images = random_image(rng, (8, 1, 20, 9), torch.uint8)
    return images.to(device), torch.from_numpy(np.stack(matrices)).to(device), size


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and bytes of forward, image gradient and matrix gradient.

    Every dtype, mode and padding; the layouts take turns.
    """
    rng = np.random.default_rng(0)
    combinations = [(d, m, p) for d in INTERPOLATED + COPIED for m in modes_of(d) for p in PADDINGS]
    for (dtype, mode, padding_mode), layout in zip(
        combinations, itertools.cycle(LAID_OUT), strict=False
    ):
        channels, strides = layout
        plain = random_image(rng, (3, channels, 40, 90), dtype)
        exact = [random_matrix(rng, 40, 90, SIZE, scale=(s, s * 1.3)) for s in SCALES]
        matrix = torch.from_numpy(np.stack(exact)).to(device).requires_grad_()
        image = LAYOUTS[strides](plain).to(device).requires_grad_(dtype in FLOATING)
        result = visops.warp_affine(
            image, matrix, SIZE, mode=mode, padding_mode=padding_mode, fill=1
        )
        name = f"{dtype}-{channels}-{strides}-{mode}-{padding_mode}"
        yield name, bytes_of(result.detach().cpu())
        if dtype in FLOATING:
            weights = torch.from_numpy(rng.standard_normal(tuple(result.shape)))
            incoming = weights.to(device=device, dtype=dtype)
            grads = torch.autograd.grad(result, (image, matrix), incoming)
            yield f"{name}-image", bytes_of(grads[0].cpu())
            yield f"{name}-matrix", bytes_of(grads[1].cpu())
    yield "tall", bytes_of(visops.warp_affine(*tall_problem(rng, device)).cpu())
    photo = rng.integers(0, 256, (61, 333, 3), dtype=np.uint8)
    for mode in ("nearest", "bilinear", "bicubic"):
        yield f"numpy-{mode}", visops.warp_affine(photo, exact[1], (30, 401), mode=mode)


def check(found: dict[str, np.ndarray]) -> None:
    """Enough cases, none of them empty or blank."""
    assert len(found) > 240
    assert all(len(np.unique(v)) > 1 for name, v in found.items() if "bool" not in name)
