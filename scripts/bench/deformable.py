"""Sampling at places that a network computes.

Multi-scale deformable attention is compared with its form by grid_sample, which runs everywhere;
deformable convolution with torchvision's.

Levels are those of an 800 x 1333 image at strides 8 to 64; 8 heads of 32 channels and 4 samples per
level. In an encoder every pixel of every level is a query, which samples around its own place; in a
decoder 300 queries lie anywhere.
"""

from collections.abc import Callable

import torch
import torchvision
import visops
from bench.harness import Case, Contender, Tolerance, pair, pair_of_gradients, rows
from deformable.attention_cases import by_grid_sample
from torch import Tensor

SHAPES = ((100, 167), (50, 84), (25, 42), (13, 21))
POSITIONS = sum(h * w for h, w in SHAPES)
HEADS, CHANNELS, POINTS = 8, 32, 4
REACH = 3.0  # pixels of a level, the deviation of samples from their query

GRID = Tolerance(max_abs=1e-2, mean_abs=1e-4, why="coordinates rounded once more")
GRADIENT = Tolerance(mean_abs=1e-3, why="slopes jump where rounding puts a sample across a pixel")
ORDER = Tolerance(max_abs=1e-3, mean_abs=1e-5, why="products summed in another order")
ORDER_OF_GRADIENTS = Tolerance(
    max_abs=5e-2, mean_abs=1e-4, why="sums over all pixels in another order"
)

Problem = tuple[Tensor, Tensor, Tensor]


def centres() -> Tensor:
    """[positions, 2] pixel centres of all levels, in units of the map."""
    grids = [
        torch.meshgrid((torch.arange(w) + 0.5) / w, (torch.arange(h) + 0.5) / h, indexing="xy")
        for h, w in SHAPES
    ]
    return torch.cat([torch.stack(grid, -1).flatten(0, 1) for grid in grids])


def problem(queries: int) -> Problem:
    """value, locations and weights."""
    torch.manual_seed(0)
    value = torch.randn(1, POSITIONS, HEADS, CHANNELS)
    positions = centres() if queries == POSITIONS else torch.rand(queries, 2)
    sizes = torch.tensor([[w, h] for h, w in SHAPES])
    offsets = torch.randn(1, queries, HEADS, len(SHAPES), POINTS, 2) * REACH / sizes[:, None]
    weights = torch.randn(1, queries, HEADS, len(SHAPES) * POINTS).softmax(-1)
    locations = positions[:, None, None, None] + offsets
    return value, locations, weights.unflatten(-1, (len(SHAPES), POINTS))


def ours(value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
    found: Tensor = visops.multi_scale_deformable_attention(value, SHAPES, locations, weights)
    return found


def grid_sample(value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
    """All samples of all levels in memory, then their weighted sum."""
    return by_grid_sample(value, SHAPES, locations, weights)


def attention(queries: int) -> list[Contender]:
    return pair("grid_sample", ours, grid_sample, problem(queries), GRID)


def trained_attention(queries: int) -> list[Contender]:
    """Forward, and the gradients of value, locations and weights."""
    return pair_of_gradients("grid_sample", ours, grid_sample, problem(queries), GRADIENT)


def leaves(channels: int, side: int, batch: int) -> list[Tensor]:
    """Input, offset, weight, bias and mask of a 3 x 3 kernel; offsets of a pixel or so."""
    torch.manual_seed(0)
    x, offset = torch.randn(batch, channels, side, side), torch.randn(batch, 18, side, side)
    weight = torch.randn(channels, channels, 3, 3) / (3 * channels**0.5)
    return [x, offset, weight, torch.randn(channels), torch.rand(batch, 9, side, side)]


def convolved(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """One library's function of these, with a stride, padding and dilation of 1."""

    def call(x: Tensor, offset: Tensor, weight: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
        return function(x, offset, weight, bias, 1, 1, 1, mask)

    return call


BOTH = convolved(visops.deform_conv2d), convolved(torchvision.ops.deform_conv2d)


def convolution(channels: int, side: int, batch: int) -> list[Contender]:
    return pair("torchvision", *BOTH, leaves(channels, side, batch), ORDER)


def trained_convolution(channels: int, side: int, batch: int) -> list[Contender]:
    """Forward, and the gradients of all five tensors."""
    given = leaves(channels, side, batch)
    return pair_of_gradients("torchvision", *BOTH, given, ORDER_OF_GRADIENTS)


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    encoder = f"encoder, {POSITIONS} queries"
    queries = {encoder: (POSITIONS,), "decoder, 300 queries": (300,)}
    # On small maps of many channels, most of the time goes into products: MKL's, there.
    convolved = {
        f"{batch} x {channels} x {side} x {side}, 3 x 3": (channels, side, batch)
        for channels, side, batch in ((64, 128, 2), (256, 32, 2), (512, 14, 1))
    }
    return [
        *rows("attention", attention, queries, "decoder", on_cuda=True),
        *rows("gradients", trained_attention, queries, on_cuda=True),
        *rows("convolution", convolution, convolved, "14 x 14", on_cuda=True),
        *rows("convolution, gradients", trained_convolution, convolved, on_cuda=True),
    ]
