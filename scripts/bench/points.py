"""Point samples against grid_sample, and matching costs against the usual three matrices.

Mask2Former's matcher samples all predictions and targets at the same points, and its loss those
of every mask at points of its own; PointRend samples features of 256 channels. Matching costs are
those of 300 or 900 queries with the targets of a batch.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `bench` is a package

import visops
from bench.harness import Case, Contender, Tolerance, case, main
from torchvision.ops import box_convert, generalized_box_iou

GRID = Tolerance(max_abs=1e-3, mean_abs=1e-5, why="coordinates rounded once more")
GRADIENT = Tolerance(mean_abs=1e-3, why="slopes jump where rounding puts a point across a pixel")
COSTS = Tolerance(max_abs=2.0, mean_abs=1e-4, why="1 - p has no digits left where p is near 1")
WEIGHTS = (2.0, 5.0, 2.0)
FLOOR = 5.0


def grid_sample(maps: Tensor, points: Tensor) -> Tensor:
    """PointRend's function."""
    grid = 2.0 * points.unsqueeze(2) - 1.0
    return functional.grid_sample(maps, grid, align_corners=False).squeeze(3)


def samples(batch: int, channels: int, count: int, floor: float) -> list[Contender]:
    torch.manual_seed(0)
    maps, points = torch.randn(batch, channels, 200, 334), torch.rand(batch, count, 2)
    return [
        Contender("visops", lambda: visops.point_sample(maps, points)),
        Contender("grid_sample", lambda: grid_sample(maps, points), GRID, floor),
    ]


def shared(floor: float) -> list[Contender]:
    """100 masks at the same points, which grid_sample needs repeated."""
    torch.manual_seed(0)
    maps, points = torch.randn(100, 1, 200, 334), torch.rand(1, 12544, 2)
    return [
        Contender("visops", lambda: visops.point_sample(maps, points)),
        Contender("grid_sample", lambda: grid_sample(maps, points.repeat(100, 1, 1)), GRID, floor),
    ]


def masks(floor: float) -> list[Contender]:
    """Targets, which grid_sample needs in float32."""
    torch.manual_seed(0)
    maps, points = torch.rand(100, 1, 800, 1333) > 0.5, torch.rand(1, 12544, 2)
    return [
        Contender("visops", lambda: visops.point_sample(maps, points)),
        Contender(
            "grid_sample", lambda: grid_sample(maps.float(), points.repeat(100, 1, 1)), GRID, floor
        ),
    ]


def gradients(batch: int, channels: int, count: int) -> list[Contender]:
    """Forward, and the gradient of the maps."""
    torch.manual_seed(0)
    maps = torch.randn(batch, channels, 200, 334, requires_grad=True)
    points, grad = torch.rand(batch, count, 2), torch.rand(batch, channels, count)

    def of(function: Callable[..., Tensor]) -> Callable[[], tuple[Tensor, ...]]:
        return lambda: torch.autograd.grad(function(maps, points), maps, grad)

    return [
        Contender("visops", of(visops.point_sample)),
        Contender("grid_sample", of(grid_sample), GRADIENT),
    ]


def three_matrices(
    logits: Tensor, boxes: Tensor, labels: Tensor, targets: Tensor, counts: Sequence[int], kind: str
) -> Tensor:
    """The matchers of DETR and Deformable DETR: all queries with all targets, then the blocks."""
    rows, predicted = logits.flatten(0, 1), boxes.flatten(0, 1)
    if kind == "focal":
        p = rows.sigmoid()
        absent = 0.75 * p**2 * -(1 - p + 1e-8).log()
        present = 0.25 * (1 - p) ** 2 * -(p + 1e-8).log()
        of_class = present[:, labels] - absent[:, labels]
    else:
        of_class = -rows.softmax(-1)[:, labels]
    of_box = torch.cdist(predicted, targets, p=1)
    overlap = generalized_box_iou(
        box_convert(predicted, "cxcywh", "xyxy"), box_convert(targets, "cxcywh", "xyxy")
    )
    costs = WEIGHTS[1] * of_box + WEIGHTS[0] * of_class - WEIGHTS[2] * overlap
    blocks = costs.view(*logits.shape[:2], -1).split(list(counts), -1)
    return torch.cat([block[i].flatten() for i, block in enumerate(blocks)])


def costs(kind: Any, batch: int, queries: int, targets: int, floor: float) -> list[Contender]:
    torch.manual_seed(0)
    logits, boxes = torch.randn(batch, queries, 91) * 3 - 3, torch.rand(batch, queries, 4)
    labels, target_boxes = torch.randint(0, 91, (batch * targets,)), torch.rand(batch * targets, 4)
    counts = [targets] * batch
    arguments = (logits, boxes, labels, target_boxes)
    return [
        Contender(
            "visops",
            lambda: visops.match_cost(*arguments, weights=WEIGHTS, kind=kind, counts=counts),
            comparable=lambda found: torch.cat([part.flatten() for part in found]),
        ),
        Contender("three matrices", lambda: three_matrices(*arguments, counts, kind), COSTS, floor),
    ]


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    cases = [
        case("samples", "100 masks, 12544 shared points", shared, FLOOR, on_cuda=True),
        case("samples", "100 bool masks, 12544 shared points", masks, FLOOR, on_cuda=True),
        case(
            "samples", "100 masks, 37632 points each", samples, 100, 1, 37632, FLOOR, on_cuda=True
        ),
        case(
            "samples", "2 x 256 channels, 8096 points", samples, 2, 256, 8096, FLOOR, on_cuda=True
        ),
        case("samples", "2 x 256 channels, 784 points", samples, 2, 256, 784, FLOOR, on_cuda=True),
        case("gradients", "100 masks, 12544 points each", gradients, 100, 1, 12544, on_cuda=True),
        case("gradients", "2 x 256 channels, 784 points", gradients, 2, 256, 784, on_cuda=True),
    ]
    for batch, queries, targets in ((2, 300, 20), (2, 900, 50), (16, 300, 20), (16, 900, 100)):
        for kind in ("focal", "softmax"):
            label = f"{kind}, {batch} x {queries} queries, {targets} targets each"
            arguments = (kind, batch, queries, targets, FLOOR)
            cases.append(case("costs", label, costs, *arguments, quick=batch == 2, on_cuda=True))
    return cases


if __name__ == "__main__":
    sys.exit(main("points", __doc__ or "", all_cases()))
