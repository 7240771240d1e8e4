"""Sampling at places that a network computes.

Multi-scale deformable attention is compared with its form by grid_sample, which runs everywhere;
deformable convolution with torchvision's.

Levels are those of an 800 x 1333 image at strides 8 to 64; 8 heads of 32 channels and 4 samples per
level. In an encoder every pixel of every level is a query, which samples around its own place; in a
decoder 300 queries lie anywhere.
"""

import torch
import visops
from bench.harness import Case, Contender, Tolerance, pair, pair_of_gradients, rows
from bench.sampling.convolution import beside_float32, convolution_cases
from deformable.attention_cases import by_grid_sample
from torch import Tensor

SHAPES = ((100, 167), (50, 84), (25, 42), (13, 21))
POSITIONS = sum(h * w for h, w in SHAPES)
HEADS, CHANNELS, POINTS = 8, 32, 4
REACH = 3.0  # pixels of a level, the deviation of samples from their query

GRID = Tolerance(max_abs=1e-2, mean_abs=1e-4, why="coordinates rounded once more")
GRADIENT = Tolerance(mean_abs=1e-3, why="slopes jump where rounding puts a sample across a pixel")
HALF = Tolerance(max_abs=0.2, mean_abs=2e-2, why="samples and sums rounded to bfloat16")

Problem = tuple[Tensor, Tensor, Tensor]


def centres() -> Tensor:
    """[positions, 2] pixel centres of all levels, in units of the map."""
    grids = [
        torch.meshgrid((torch.arange(w) + 0.5) / w, (torch.arange(h) + 0.5) / h, indexing="xy")
        for h, w in SHAPES
    ]
    return torch.cat([torch.stack(grid, -1).flatten(0, 1) for grid in grids])


def problem(queries: int, dtype: torch.dtype) -> Problem:
    """value, locations and weights."""
    torch.manual_seed(0)
    value = torch.randn(1, POSITIONS, HEADS, CHANNELS).to(dtype)
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


def forward(queries: int, floor: float) -> list[Contender]:
    return pair("grid_sample", ours, grid_sample, problem(queries, torch.float32), GRID, floor)


def with_gradients(queries: int, floor: float) -> list[Contender]:
    """Forward, and the gradients of value, locations and weights."""
    given = problem(queries, torch.float32)
    return pair_of_gradients("grid_sample", ours, grid_sample, given, GRADIENT, floor)


def halves(queries: int) -> list[Contender]:
    """bfloat16 values beside float32 samples, as under autocast."""
    value, locations, weights = problem(queries, torch.bfloat16)
    return beside_float32(ours, [value, locations, weights], HALF)


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    encoder = f"encoder, {POSITIONS} queries"
    forwards = {encoder: (POSITIONS, 10.0), "decoder, 300 queries": (300, 4.0)}
    backwards = {encoder: (POSITIONS, 8.0), "decoder, 300 queries": (300, 6.0)}
    return [
        *rows("attention", forward, forwards, "decoder", on_cuda=True),
        *rows("gradients", with_gradients, backwards, on_cuda=True),
        *rows("bfloat16", halves, {"encoder": (POSITIONS,)}, on_cuda=True),
        *convolution_cases(),
    ]
