"""im2col against copying its own result, the limit that memory sets; and col2im."""

import math
from collections.abc import Sequence

import torch
import visops
from bench.harness import Case, Contender, Tolerance, pair, rows
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


def unfold(shape: Sequence[int], side: int, dtype: torch.dtype) -> list[Contender]:
    """``F.unfold``: columns of images [N, C, H, W]."""
    images = numbers(shape, dtype)

    def ours() -> Tensor:
        return visops.im2col(images, side, padding=side // 2)

    def theirs() -> Tensor:
        return functional.unfold(images, side, padding=side // 2)

    # A copy of the result as well: it reads as much as it writes, im2col a fraction.
    copy = Contender("clone() of the result", ours().clone)
    return [Contender("visops", ours), copy, Contender("F.unfold", theirs)]


def fold(shape: Sequence[int], side: int, dtype: torch.dtype) -> list[Contender]:
    """The adjoint: every pixel becomes a sum."""
    size, padding = tuple(shape[2:]), side // 2
    positions = math.prod(length + 2 * padding - side + 1 for length in size)
    columns = numbers((shape[0], shape[1] * side**2, positions), dtype)

    def ours() -> Tensor:
        return visops.col2im(columns, size, side, padding=padding)

    def theirs() -> Tensor:
        return functional.fold(columns, size, side, padding=padding)

    return pair("F.fold", ours, theirs, (), SUMS if dtype == torch.float32 else HALF)


def cases() -> list[Case]:
    """The cases, in the order of the tables."""
    network, photo = (8, 64, 56, 56), (1, 3, 1080, 1920)
    names = {shape: "×".join(map(str, shape)) for shape in (network, photo)}
    table = {
        f"{str(dtype)[6:]} {name}, 3 × 3": (shape, 3, dtype)
        for dtype in (torch.float32, torch.bfloat16)
        for shape, name in names.items()
    }
    return [
        *rows("im2col, columns", unfold, table, names[network], on_cuda=True),
        *rows("col2im", fold, table, names[network], on_cuda=True),
    ]
