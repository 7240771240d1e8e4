"""roi_pool and ps_roi_align against torchvision, forward and backward.

1,000 boxes on an image of 800 × 1344 with sides log-uniform between 16 and 512 pixels, as proposals
have them; maps of float32 at 1/16 of its size: 256 channels, or 10 for each of 7 × 7 bins.
torchvision takes maps that are not NCHW for ones to copy: it gets NCHW in every row. No library
that runs here has rotated boxes: they are set against torchvision's roi_align of straight ones, as
large and as many, and values aren't compared.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `bench` is a package

import visops
from bench.harness import EXACT, Case, Contender, Tolerance, case, main

IMAGE = (800, 1344)
COUNT, SCALE, BINS = 1_000, 1 / 16, 7
LAYOUTS = {"channels_last": torch.channels_last, "NCHW": torch.contiguous_format}
POOLED = Tolerance(max_abs=1e-4, why="sums in another order")
GRADIENT = Tolerance(max_abs=2e-3, mean_abs=1e-5, why="sums in another order")
OTHER = Tolerance(max_abs=float("inf"), why="straight boxes, not rotated ones")

Pool = Callable[[Tensor], Tensor]


def proposals() -> Tensor:
    """Boxes [K, 5] inside the image."""
    height, width = IMAGE
    sides = 2 ** (4 + 5 * torch.rand(COUNT, 2))
    low = torch.rand(COUNT, 2) * (torch.tensor([width, height]) - sides)
    return torch.cat([torch.zeros(COUNT, 1), low, low + sides], 1)


def rotated(boxes: Tensor) -> Tensor:
    """Rotated boxes [K, 6] of the same places and sizes."""
    low, high = boxes[:, 1:3], boxes[:, 3:]
    return torch.cat([boxes[:, :1], (low + high) / 2, high - low, 6 * torch.rand(COUNT, 1)], 1)


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


def maps(channels: int) -> Tensor:
    height, width = IMAGE
    return torch.randn(1, channels, int(height * SCALE), int(width * SCALE))


def forward(name: str, layout: str) -> list[Contender]:
    """Forward only."""
    torch.manual_seed(0)
    ours, theirs, channels, tolerance, _ = pools(name)
    plain = maps(channels)
    laid = plain.contiguous(memory_format=LAYOUTS[layout])
    return [
        Contender("visops", lambda: ours(laid)),
        Contender("torchvision", lambda: theirs(plain), tolerance),
    ]


def gradient(pool: Pool, leaf: Tensor) -> Callable[[], Any]:
    """Backward only, with a gradient in the result's memory format."""
    pooled = pool(leaf)
    torch.manual_seed(1)
    grad = torch.randn(pooled.shape)
    if pooled.is_contiguous(memory_format=torch.channels_last):
        grad = grad.contiguous(memory_format=torch.channels_last)
    return lambda: torch.autograd.grad(pooled, leaf, grad, retain_graph=True)


def backward(name: str, layout: str) -> list[Contender]:
    """The gradient of the maps."""
    torch.manual_seed(0)
    ours, theirs, channels, _, tolerance = pools(name)
    plain = maps(channels)
    laid = plain.contiguous(memory_format=LAYOUTS[layout])
    return [
        Contender("visops", gradient(ours, laid.requires_grad_())),
        Contender("torchvision", gradient(theirs, plain.clone().requires_grad_()), tolerance),
    ]


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    return [
        case(
            group,
            f"{name}, {layout}",
            build,
            name,
            layout,
            quick=layout == "channels_last",
            on_cuda=True,
        )
        for group, build in (("forward", forward), ("backward", backward))
        for name in ("roi_pool", "ps_roi_align", "roi_align_rotated")
        for layout in LAYOUTS
    ]


if __name__ == "__main__":
    sys.exit(main("roi_pooling", __doc__ or "", all_cases()))
