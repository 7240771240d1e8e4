"""im2col against copying its own result, the limit that memory sets; and col2im."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import visops
from bench.harness import Case, Contender, Tolerance, pair, rows
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


def beside_copy(ours: Callable[[], Any], peer: str, theirs: Callable[[], Any]) -> list[Contender]:
    """A copy of the result as well: it reads as much as it writes, im2col a fraction."""
    result = torch.as_tensor(ours())
    copy = Contender("clone() of the result", result.clone, floor=1.0)
    return [Contender("visops", ours), copy, Contender(peer, theirs)]


def unfold(shape: Sequence[int], side: int, dtype: torch.dtype) -> list[Contender]:
    """``F.unfold``: columns of images [N, C, H, W]."""
    images = numbers(shape, dtype)

    def ours() -> Tensor:
        return visops.im2col(images, side, padding=side // 2)

    def theirs() -> Tensor:
        return functional.unfold(images, side, padding=side // 2)

    return beside_copy(ours, "F.unfold", theirs)


def volumes(shape: Sequence[int], side: int) -> list[Contender]:
    """Three dimensions, which ``F.unfold`` lacks: nested views and a copy."""
    images = numbers(shape, torch.float32)
    channels = shape[1] * side**3

    def views() -> Tensor:
        windows = images
        for dim in (2, 3, 4):
            windows = windows.unfold(dim, side, 1)
        return windows.permute(0, 1, 5, 6, 7, 2, 3, 4).reshape(shape[0], channels, -1)

    def ours() -> Tensor:
        return visops.im2col(images, (side,) * 3)

    return beside_copy(ours, "Tensor.unfold, copied", views)


def patches(shape: Sequence[int], side: int) -> list[Contender]:
    """The neighbourhood of every pixel: [H, W, K, K]."""
    image = numbers(shape, torch.float32).numpy()
    window = (side, side)
    border = (side // 2, side - 1 - side // 2)

    def views() -> np.ndarray:
        return np.ascontiguousarray(sliding_window_view(np.pad(image, border), window))

    def ours() -> np.ndarray:
        return visops.im2col(image, window, layout="patches")

    return beside_copy(ours, "np.pad, sliding_window_view, copied", views)


def fold(shape: Sequence[int], side: int, dtype: torch.dtype) -> list[Contender]:
    """The adjoint: every pixel becomes a sum."""
    size, padding = tuple(shape[2:]), side // 2
    positions = math.prod(length + 2 * padding - side + 1 for length in size)
    columns = numbers((shape[0], shape[1] * side**2, positions), dtype)

    def ours() -> Tensor:
        return visops.col2im(columns, size, side, padding=padding)

    def theirs() -> Tensor:
        return functional.fold(columns, size, side, padding=padding)

    return pair("F.fold", ours, theirs, (), SUMS if dtype == torch.float32 else HALF, 1.0)


def cases() -> list[Case]:
    """The cases, in the order of the tables."""
    network, photo = (8, 64, 56, 56), (1, 3, 1080, 1920)
    names = {shape: "×".join(map(str, shape)) for shape in (network, photo)}
    table = {
        f"{str(dtype)[6:]} {name}, 3 × 3": (shape, 3, dtype)
        for dtype in (torch.float32, torch.bfloat16)
        for shape, name in names.items()
    }
    volume = {"float32 2×8×32×64×64, 3 × 3 × 3": ((2, 8, 32, 64, 64), 3)}
    neighbours = {"float32 1080 × 1920, 7 × 7": ((1080, 1920), 7)}
    return [
        *rows("im2col, columns", unfold, table, names[network], on_cuda=True),
        *rows("im2col, three dimensions", volumes, volume),
        *rows("im2col, patches", patches, neighbours),
        *rows("col2im", fold, table, names[network], on_cuda=True),
    ]
