"""Soft-NMS and rotated NMS against loops over all pairs."""

import math
from typing import Any

import torch
import visops
from bench.harness import Case, Contender, Tolerance, pair, rows
from torch import Tensor

from . import loops
from .boxes import clustered, uniform

SOFT: dict[str, Any] = {"iou_threshold": 0.3, "sigma": 0.5, "min_score": 0.001}
ROUNDING = Tolerance(
    max_abs=2e-3, mean_abs=1e-6, why="boxes at min_score, and exp, by the last place"
)
LAYOUTS = {"uniform": uniform, "clustered": clustered}


def soft(layout: str, count: int, method: Any) -> list[Contender]:
    """One segment."""
    torch.manual_seed(count)
    b, s = LAYOUTS[layout](count), torch.rand(count)

    def by_box(result: tuple[Tensor, Tensor]) -> Tensor:
        """New scores [N]; 0 where a box was dropped."""
        return result[1].new_zeros(count).index_put((result[0],), result[1])

    def ours() -> tuple[Tensor, Tensor]:
        return visops.soft_nms(b, s, method=method, **SOFT)

    def theirs() -> tuple[Tensor, Tensor]:
        return loops.soft_nms(b, s, method, **SOFT)

    return [
        Contender("visops", ours, comparable=by_box),
        Contender("mmcv's loop", theirs, ROUNDING, by_box, on_host=True),
    ]


def rotated(layout: str, count: int) -> list[Contender]:
    """One segment of boxes with any angle."""
    torch.manual_seed(count)
    corners, s = LAYOUTS[layout](count), torch.rand(count)
    size = corners[:, 2:] - corners[:, :2]
    angle = torch.rand(count, 1) * math.pi
    b = torch.cat([corners[:, :2] + size / 2, size, angle], 1)
    given, name = (b, s, 0.5), "a loop over all pairs"
    return pair(name, visops.nms_rotated, loops.nms_rotated, given, on_host=True)


def cases() -> list[Case]:
    """Soft suppression by method, size and layout; rotated boxes by size and layout."""
    softened = {
        f"{method}, {layout}, {count:,} boxes": (layout, count, method)
        for method in ("linear", "gaussian", "hard")
        for layout in LAYOUTS
        for count in (100, 1_000, 5_000)
    }
    turned = {f"{layout}, 10,000 boxes": (layout, 10_000) for layout in LAYOUTS}
    return [  # of one segment each
        *rows("soft_nms", soft, softened, "uniform, 1,000", threads=1, on_cuda=True),
        *rows("nms_rotated", rotated, turned, "", threads=1, on_cuda=True),
    ]
