"""roi_pool and ps_roi_align against torchvision, forward and backward.

1,000 boxes on an image of 800 × 1344 with sides log-uniform between 16 and 512 pixels, as proposals
have them; maps of float32 at 1/16 of its size: 256 channels, or 10 for each of 7 × 7 bins.
torchvision takes maps that are not NCHW for ones to copy: it gets NCHW in every row. No library
that runs here has rotated boxes: they are set against torchvision's roi_align of straight ones, as
large and as many, and values aren't compared.
"""

import torch
import torchvision
import visops
from bench.harness import EXACT, Case, Contender, Tolerance, rows
from bench.roi_align import GRADIENT, LAYOUTS, Pool, maps, pooled, proposals
from torch import Tensor

SCALE, BINS = 1 / 16, 7
POOLED = Tolerance(max_abs=1e-4, why="sums in another order")
OTHER = Tolerance(max_abs=float("inf"), why="straight boxes, not rotated ones")


def rotated(boxes: Tensor) -> Tensor:
    """Rotated boxes [K, 6] of the same places and sizes."""
    low, high = boxes[:, 1:3], boxes[:, 3:]
    return torch.cat([boxes[:, :1], (low + high) / 2, high - low, 6 * torch.rand(len(boxes), 1)], 1)


def pools(name: str) -> tuple[Pool, Pool, int, Tolerance, Tolerance]:
    """Both functions, the maps' channels, and the tolerances of values and gradients."""
    boxes = proposals()
    if name == "roi_pool":
        return (
            lambda m: visops.roi_pool(m, boxes, BINS, SCALE),
            lambda m: torchvision.ops.roi_pool(m, boxes, BINS, SCALE),
            256,
            EXACT,
            GRADIENT,
        )
    if name == "ps_roi_align":
        return (
            lambda m: visops.ps_roi_align(m, boxes, BINS, SCALE, 2),
            lambda m: torchvision.ops.ps_roi_align(m, boxes, BINS, SCALE, 2),
            10 * BINS * BINS,
            POOLED,
            GRADIENT,
        )
    turned = rotated(boxes)
    return (
        lambda m: visops.roi_align_rotated(m, turned, BINS, SCALE, 2),
        lambda m: torchvision.ops.roi_align(m, boxes, BINS, SCALE, 2, True),
        256,
        OTHER,
        OTHER,
    )


def forward(name: str, layout: str) -> list[Contender]:
    """Forward only."""
    torch.manual_seed(0)
    ours, theirs, channels, tolerance, _ = pools(name)
    return pooled(ours, theirs, [maps(SCALE, channels)], layout, tolerance)


def backward(name: str, layout: str) -> list[Contender]:
    """The gradient of the maps."""
    torch.manual_seed(0)
    ours, theirs, channels, _, tolerance = pools(name)
    return pooled(ours, theirs, [maps(SCALE, channels)], layout, tolerance, is_backward=True)


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    names = ("roi_pool", "ps_roi_align", "roi_align_rotated")
    table = {f"{name}, {layout}": (name, layout) for name in names for layout in LAYOUTS}
    return [
        *rows("forward", forward, table, "channels_last", on_cuda=True),
        *rows("backward", backward, table, "channels_last", on_cuda=True),
    ]
