"""Point samples against grid_sample, and matching costs against the usual three matrices.

Mask2Former's matcher samples all predictions and targets at the same points, and its loss those
of every mask at points of its own; PointRend samples features of 256 channels. Matching costs are
those of 300 or 900 queries with the targets of a batch.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import visops
from bench.harness import Case, Contender, Tolerance, pair, pair_of_gradients, rows
from deformable.match_cases import Problem, usual_matcher
from torch import Tensor
from torch.nn import functional

GRID = Tolerance(max_abs=1e-3, mean_abs=1e-5, why="coordinates rounded once more")
GRADIENT = Tolerance(mean_abs=1e-3, why="slopes jump where rounding puts a point across a pixel")
COSTS = Tolerance(max_abs=2.0, mean_abs=1e-4, why="1 - p has no digits left where p is near 1")


def grid_sample(maps: Tensor, points: Tensor) -> Tensor:
    """PointRend's function."""
    grid = 2.0 * points.unsqueeze(2) - 1.0
    return functional.grid_sample(maps, grid, align_corners=False).squeeze(3)


def samples(batch: int, channels: int, count: int) -> list[Contender]:
    torch.manual_seed(0)
    given = torch.randn(batch, channels, 200, 334), torch.rand(batch, count, 2)
    return pair("grid_sample", visops.point_sample, grid_sample, given, GRID)


def shared(maps: Callable[[], Tensor]) -> list[Contender]:
    """100 masks at the same points; grid_sample needs points repeated, and masks in float32."""
    torch.manual_seed(0)
    given = maps(), torch.rand(1, 12544, 2)

    def theirs(maps: Tensor, points: Tensor) -> Tensor:
        return grid_sample(maps.float(), points.repeat(100, 1, 1))

    return pair("grid_sample", visops.point_sample, theirs, given, GRID)


def gradients(batch: int, channels: int, count: int) -> list[Contender]:
    """Forward, and the gradient of the maps."""
    torch.manual_seed(0)
    maps, points = torch.randn(batch, channels, 200, 334), torch.rand(batch, count, 2)

    def at_points(sample: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda maps: sample(maps, points)

    both = at_points(visops.point_sample), at_points(grid_sample)
    return pair_of_gradients("grid_sample", *both, [maps], GRADIENT)


def costs(kind: Any, batch: int, queries: int, targets: int) -> list[Contender]:
    """The matchers of DETR and Deformable DETR: all queries with all targets, then the blocks."""
    torch.manual_seed(0)
    given = Problem(
        torch.randn(batch, queries, 91) * 3 - 3,
        torch.rand(batch, queries, 4),
        [torch.randint(0, 91, (targets,)) for _ in range(batch)],
        [torch.rand(targets, 4) for _ in range(batch)],
    )
    return pair("three matrices", given.costs, partial(usual_matcher, given), [kind], COSTS)


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    sampled = {
        "100 masks, 12544 shared points": lambda: torch.randn(100, 1, 200, 334),
        "100 bool masks, 12544 shared points": lambda: torch.rand(100, 1, 800, 1333) > 0.5,
    }
    own = {
        "100 masks, 37632 points each": (100, 1, 37632),
        "2 x 256 channels, 8096 points": (2, 256, 8096),
        "2 x 256 channels, 784 points": (2, 256, 784),
    }
    trained = {
        "100 masks, 12544 points each": (100, 1, 12544),
        "2 x 256 channels, 784 points": (2, 256, 784),
    }
    matched = {
        f"{kind}, {size[0]} x {size[1]} queries, {size[2]} targets each": (kind, *size)
        for size in ((2, 300, 20), (2, 900, 50), (16, 300, 20), (16, 900, 100))
        for kind in ("focal", "softmax")
    }
    return [
        *rows("samples", shared, {label: (draw,) for label, draw in sampled.items()}, on_cuda=True),
        *rows("samples", samples, own, on_cuda=True),
        *rows("gradients", gradients, trained, on_cuda=True),
        *rows("costs", costs, matched, ", 2 x", on_cuda=True),
    ]
