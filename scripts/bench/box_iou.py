"""Pairwise overlaps against torchvision: values, and values with both gradients.

Boxes are float32, sides of 5 to 65 in 1000 × 1000. torchvision computes in several passes, each
with a number or more for every pair. Rotated boxes are as dense, or all within 100 × 100; there
torchvision's float32 geometry is wrong for some pairs, so that not all of its values are compared.
"""

import math
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torchvision
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `bench` is a package

import visops
from bench.harness import EXACT, Case, Contender, Tolerance, case, main

Function = Callable[[Tensor, Tensor], Tensor]

ARCTANGENT = Tolerance(max_abs=1e-6, why="an arctangent of torch's")
GRADIENT = Tolerance(max_abs=1e-3, mean_abs=1e-5, why="sums in another order")
GEOMETRY = Tolerance(mean_abs=1e-3, why="clipped in float32")

MEASURES: dict[str, tuple[Function, Function, Tolerance]] = {
    "iou": (visops.box_iou, torchvision.ops.box_iou, EXACT),
    "generalized": (visops.generalized_box_iou, torchvision.ops.generalized_box_iou, EXACT),
    "distance": (visops.distance_box_iou, torchvision.ops.distance_box_iou, EXACT),
    "complete": (visops.complete_box_iou, torchvision.ops.complete_box_iou, ARCTANGENT),
}
SIZES = ((100, 100), (1_000, 1_000), (5_000, 100), (100_000, 20))


def straight(count: int) -> Tensor:
    """Boxes [N, 4] anywhere."""
    centres, sides = torch.rand(count, 2) * 1000, torch.rand(count, 2) * 60 + 5
    return torch.cat([centres - sides / 2, centres + sides / 2], 1)


def rotated(count: int, width: float) -> Tensor:
    """Boxes [N, 5] at any angle."""
    numbers = torch.rand(count, 2) * width, torch.rand(count, 2) * 60 + 5, torch.rand(count, 1) * 6
    return torch.cat(numbers, 1)


def values(measure: str, count1: int, count2: int) -> list[Contender]:
    """Forward only."""
    torch.manual_seed(count1)
    a, b = straight(count1), straight(count2)
    ours, theirs, tolerance = MEASURES[measure]
    floor = 5.0 if (count1, count2) in ((1_000, 1_000), (5_000, 100)) else None
    return [
        Contender("visops", lambda: ours(a, b)),
        Contender("torchvision", lambda: theirs(a, b), tolerance, floor),
    ]


def gradients(measure: str, count1: int, count2: int) -> list[Contender]:
    """Forward and the gradients of both sets."""
    torch.manual_seed(count1)
    a, b = straight(count1).requires_grad_(), straight(count2).requires_grad_()
    grad = torch.rand(count1, count2)
    ours, theirs, _ = MEASURES[measure]

    def of(function: Function) -> Callable[[], tuple[Tensor, ...]]:
        return lambda: torch.autograd.grad(function(a, b), (a, b), grad)

    return [
        Contender("visops", of(ours)),
        Contender("torchvision", of(theirs), GRADIENT),
    ]


def turned(count1: int, count2: int, width: float) -> list[Contender]:
    """Rotated boxes; torchvision's angles are in degrees with the opposite sign."""
    torch.manual_seed(count1)
    a, b = rotated(count1, width), rotated(count2, width)
    degrees = torch.tensor([1, 1, 1, 1, -180 / math.pi])
    c, d = a * degrees, b * degrees
    peer = torch.ops.torchvision.box_iou_rotated
    return [
        Contender("visops", lambda: visops.box_iou_rotated(a, b)),
        Contender("torchvision", lambda: peer(c, d), GEOMETRY, floor=5.0),
    ]


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    cases = [
        case(
            group,
            f"{measure}, {count1:,} × {count2:,}",
            build,
            *(measure, count1, count2),
            quick=(count1, count2) == (1_000, 1_000),
            on_cuda=True,
        )
        for group, build in (("values", values), ("values and gradients", gradients))
        for count1, count2 in SIZES
        for measure in MEASURES
    ]
    if not hasattr(torch.ops.torchvision, "box_iou_rotated"):
        return cases
    cases += [
        case(
            "rotated",
            f"{count1:,} × {count2:,} in {width:.0f}²",
            turned,
            *(count1, count2, width),
            quick=count1 == 1_000,
            on_cuda=True,
        )
        for count1, count2, width in (
            (1_000, 1_000, 1000.0),
            (1_000, 1_000, 100.0),
            (5_000, 100, 1000.0),
        )
    ]
    return cases


if __name__ == "__main__":
    sys.exit(main("box_iou", __doc__ or "", all_cases()))
