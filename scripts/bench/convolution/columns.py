"""im2col against copying its own result, the limit that memory sets; and col2im."""

import math
from collections.abc import Sequence

import numpy as np
import torch
import visops
from bench.harness import Case, Contender, Tolerance, case
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor
from torch.nn import functional

HALF = Tolerance(max_abs=0.25, mean_abs=0.03, why="sums in bfloat16, ours in float32")
SUMS = Tolerance(max_abs=1e-4, why="sums in another order")


def numbers(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """White noise."""
    torch.manual_seed(0)
    if dtype.is_floating_point:
        return torch.rand(*shape).to(dtype)
    return torch.randint(0, 256, tuple(shape)).to(dtype)


def copy_of(result: Tensor) -> Contender:
    """A copy reads as much as it writes; im2col reads a fraction."""
    return Contender("clone() of the result", result.clone, floor=1.0)


def unfold(
    shape: Sequence[int], kernel_size: int, padding: int, dtype: torch.dtype
) -> list[Contender]:
    """``F.unfold``: columns of images [N, C, H, W]."""
    images = numbers(shape, dtype)
    result = visops.im2col(images, kernel_size, padding=padding)
    return [
        Contender("visops", lambda: visops.im2col(images, kernel_size, padding=padding)),
        copy_of(result),
        Contender("F.unfold", lambda: functional.unfold(images, kernel_size, padding=padding)),
    ]


def volumes(shape: Sequence[int], kernel_size: int) -> list[Contender]:
    """Three dimensions, which ``F.unfold`` lacks: nested views and a copy."""
    images = numbers(shape, torch.float32)
    result = visops.im2col(images, (kernel_size,) * 3)
    channels = shape[1] * kernel_size**3

    def views() -> Tensor:
        windows = images
        for dim in (2, 3, 4):
            windows = windows.unfold(dim, kernel_size, 1)
        return windows.permute(0, 1, 5, 6, 7, 2, 3, 4).reshape(shape[0], channels, -1)

    return [
        Contender("visops", lambda: visops.im2col(images, (kernel_size,) * 3)),
        copy_of(result),
        Contender("Tensor.unfold, copied", views),
    ]


def patches(shape: tuple[int, int], kernel_size: int) -> list[Contender]:
    """The neighbourhood of every pixel: [H, W, K, K]."""
    image = numbers(shape, torch.float32).numpy()
    window = (kernel_size, kernel_size)
    border = (kernel_size // 2, kernel_size - 1 - kernel_size // 2)

    def views() -> np.ndarray:
        return np.ascontiguousarray(sliding_window_view(np.pad(image, border), window))

    result = torch.from_numpy(visops.im2col(image, window, layout="patches"))
    return [
        Contender("visops", lambda: visops.im2col(image, window, layout="patches")),
        copy_of(result),
        Contender("np.pad, sliding_window_view, copied", views),
    ]


def fold(
    shape: Sequence[int], kernel_size: int, padding: int, dtype: torch.dtype
) -> list[Contender]:
    """The adjoint: every pixel becomes a sum."""
    size = tuple(shape[2:])
    positions = math.prod(length + 2 * padding - kernel_size + 1 for length in size)
    columns = numbers((shape[0], shape[1] * kernel_size**2, positions), dtype)

    def ours() -> Tensor:
        return visops.col2im(columns, size, kernel_size, padding=padding)

    return [
        Contender("visops", ours),
        Contender(
            "F.fold",
            lambda: functional.fold(columns, size, kernel_size, padding=padding),
            SUMS if dtype == torch.float32 else HALF,
            1.0,
        ),
    ]


def cases() -> list[Case]:
    """The cases, in the order of the tables."""
    network, photo = (8, 64, 56, 56), (1, 3, 1080, 1920)
    found = [
        case(
            "im2col, columns",
            f"{str(dtype)[6:]} {'×'.join(map(str, shape))}, {side} × {side}",
            unfold,
            *(shape, side, side // 2, dtype),
            quick=shape == network,
            on_cuda=True,
        )
        for shape, side, dtype in (
            (network, 3, torch.float32),
            (photo, 3, torch.float32),
            (network, 3, torch.bfloat16),
            (photo, 3, torch.bfloat16),
        )
    ]
    found += [
        case(
            "im2col, three dimensions",
            "float32 2×8×32×64×64, 3 × 3 × 3",
            volumes,
            *((2, 8, 32, 64, 64), 3),
        ),
        case("im2col, patches", "float32 1080 × 1920, 7 × 7", patches, (1080, 1920), 7),
    ]
    found += [
        case(
            "col2im",
            f"{str(dtype)[6:]} {'×'.join(map(str, shape))}, 3 × 3",
            fold,
            *(shape, 3, 1, dtype),
            quick=shape == network,
            on_cuda=True,
        )
        for shape in (network, photo)
        for dtype in (torch.float32, torch.bfloat16)
    ]
    return found
