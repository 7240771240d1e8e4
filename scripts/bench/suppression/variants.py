"""Soft-NMS and rotated NMS against loops over all pairs."""

import math
from typing import Any

import torch
import visops
from bench.harness import Case, Contender, Tolerance, case
from torch import Tensor

from . import loops
from .boxes import clustered, uniform

SOFT: dict[str, Any] = {"iou_threshold": 0.3, "sigma": 0.5, "min_score": 0.001}
ROUNDING = Tolerance(
    max_abs=2e-3, mean_abs=1e-6, why="boxes at min_score, and exp, by the last place"
)
LAYOUTS = {"uniform": uniform, "clustered": clustered}


def by_box(count: int, result: tuple[Tensor, Tensor]) -> Tensor:
    """New scores [N]; 0 where a box was dropped."""
    return result[1].new_zeros(count).index_put((result[0],), result[1])


def soft(layout: str, count: int, method: Any, floor: float | None) -> list[Contender]:
    """One segment."""
    torch.manual_seed(count)
    b, s = LAYOUTS[layout](count), torch.rand(count)
    return [
        Contender(
            "visops",
            lambda: visops.soft_nms(b, s, method=method, **SOFT),
            comparable=lambda result: by_box(count, result),
        ),
        Contender(
            "mmcv's loop",
            lambda: loops.soft_nms(b, s, method, **SOFT),
            ROUNDING,
            floor=floor,
            comparable=lambda result: by_box(count, result),
            on_host=True,
        ),
    ]


def rotated(layout: str, count: int, floor: float | None) -> list[Contender]:
    """One segment of boxes with any angle."""
    torch.manual_seed(count)
    corners, s = LAYOUTS[layout](count), torch.rand(count)
    size = corners[:, 2:] - corners[:, :2]
    angle = torch.rand(count, 1) * math.pi
    b = torch.cat([corners[:, :2] + size / 2, size, angle], 1)
    return [
        Contender("visops", lambda: visops.nms_rotated(b, s, 0.5)),
        Contender(
            "a loop over all pairs",
            lambda: loops.nms_rotated(b, s, 0.5),
            floor=floor,
            on_host=True,
        ),
    ]


def cases() -> list[Case]:
    """Soft suppression by method, size and layout; rotated boxes by size and layout."""
    found = [
        case(
            "soft_nms",
            f"{method}, {layout}, {count:,} boxes",
            soft,
            *(layout, count, method, 10.0 if count == 5_000 else None),
            quick=count == 1_000 and layout == "uniform",
            threads=1,  # one segment
            on_cuda=True,
        )
        for method in ("linear", "gaussian", "hard")
        for layout in LAYOUTS
        for count in (100, 1_000, 5_000, 20_000)
    ]
    found += [
        case(
            "nms_rotated",
            f"{layout}, {count:,} boxes",
            rotated,
            *(layout, count, 10.0 if count >= 1_000 else None),
            quick=count == 1_000,
            threads=1,
            on_cuda=True,
        )
        for layout in LAYOUTS
        for count in (100, 1_000, 10_000)
    ]
    return found
