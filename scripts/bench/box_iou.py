"""Pairwise overlaps against torchvision: values, and values with both gradients.

Boxes are float32, sides of 5 to 65 in 1000 × 1000. torchvision computes in several passes, each
with a number or more for every pair. Rotated boxes are as dense, or all within 100 × 100; there
torchvision's float32 geometry is wrong for some pairs, so that not all of its values are compared.
"""

import math

import torch
import visops
from bench.harness import EXACT, Case, Contender, Tolerance, pair, pair_of_gradients, rows
from bench.suppression.boxes import uniform
from boxes.iou_cases import FUNCTIONS, PEERS
from torch import Tensor

ARCTANGENT = Tolerance(max_abs=1e-6, why="an arctangent of torch's")
GRADIENT = Tolerance(max_abs=1e-3, mean_abs=1e-5, why="sums in another order")
GEOMETRY = Tolerance(mean_abs=1e-3, why="clipped in float32")
SIZES = ((100, 100), (1_000, 1_000), (100_000, 20))


def rotated(count: int, width: float) -> Tensor:
    """Boxes [N, 5] at any angle."""
    numbers = torch.rand(count, 2) * width, torch.rand(count, 2) * 60 + 5, torch.rand(count, 1) * 6
    return torch.cat(numbers, 1)


def values(measure: str, count1: int, count2: int) -> list[Contender]:
    """Forward only."""
    torch.manual_seed(count1)
    tolerance = ARCTANGENT if measure == "complete" else EXACT
    boxes = uniform(count1), uniform(count2)
    return pair("torchvision", FUNCTIONS[measure], PEERS[measure], boxes, tolerance)


def with_gradients(measure: str, count1: int, count2: int) -> list[Contender]:
    """Forward and the gradients of both sets."""
    torch.manual_seed(count1)
    boxes = uniform(count1), uniform(count2)
    both = FUNCTIONS[measure], PEERS[measure]
    return pair_of_gradients("torchvision", *both, boxes, GRADIENT)


def turned(count1: int, count2: int, width: float) -> list[Contender]:
    """Rotated boxes; torchvision's angles are in degrees with the opposite sign."""
    torch.manual_seed(count1)
    a, b = rotated(count1, width), rotated(count2, width)
    degrees = torch.tensor([1, 1, 1, 1, -180 / math.pi])
    c, d = a * degrees, b * degrees
    peer = torch.ops.torchvision.box_iou_rotated
    return [
        Contender("visops", lambda: visops.box_iou_rotated(a, b)),
        Contender("torchvision", lambda: peer(c, d), GEOMETRY),
    ]


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    table = {f"{m}, {a:,} × {b:,}": (m, a, b) for a, b in SIZES for m in FUNCTIONS}
    cases = [
        *rows("values", values, table, "1,000 × 1,000", on_cuda=True),
        *rows("values and gradients", with_gradients, table, "1,000 × 1,000", on_cuda=True),
    ]
    if hasattr(torch.ops.torchvision, "box_iou_rotated"):
        given = ((1_000, 1_000, 1000.0), (1_000, 1_000, 100.0), (5_000, 100, 1000.0))
        of_rotated = {f"{a:,} × {b:,} in {width:.0f}²": (a, b, width) for a, b, width in given}
        cases += rows("rotated", turned, of_rotated, "1,000 × 1,000", on_cuda=True)
    return cases
