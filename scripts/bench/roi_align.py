"""RoIAlign against torchvision: one map and a pyramid, forward and backward.

1,000 boxes on an image of 800 × 1344 with sides log-uniform between 16 and 512 pixels, as proposals
have them; 256 channels of float32. One map is 200 × 336, of a quarter of the image's size; a
pyramid has three more, each half as large. torchvision takes maps that are not NCHW for ones to
copy: it gets NCHW in every row.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torchvision
import visops
from bench.harness import Case, Contender, Tolerance, pair, rows
from torch import Tensor

IMAGE = (800, 1344)
COUNT, CHANNELS = 1_000, 256
SCALES = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
LAYOUTS = {"channels_last": torch.channels_last, "NCHW": torch.contiguous_format}
POOLED = Tolerance(max_abs=2e-4, why="sums in another order, of maps in N(0, 1)")
GRADIENT = Tolerance(max_abs=2e-3, mean_abs=1e-5, why="sums in another order")

Pool = Callable[..., Tensor]


def proposals(count: int = COUNT) -> Tensor:
    """Boxes [K, 5] inside the image."""
    height, width = IMAGE
    sides = 2 ** (4 + 5 * torch.rand(count, 2))
    low = torch.rand(count, 2) * (torch.tensor([width, height]) - sides)
    return torch.cat([torch.zeros(count, 1), low, low + sides], 1)


def maps(scale: float, channels: int = CHANNELS) -> Tensor:
    """Noise [1, C, H, W] of a part of the image's size."""
    height, width = IMAGE
    return torch.randn(1, channels, int(height * scale), int(width * scale))


def one_map(bins: int, ratio: int, count: int = COUNT) -> tuple[Pool, Pool]:
    """Ours and theirs, as functions of a map."""
    boxes = proposals(count)

    def ours(m: Tensor) -> Tensor:
        return visops.roi_align(m, boxes, bins, 1 / 4, ratio)

    def theirs(m: Tensor) -> Tensor:
        pooled: Tensor = torchvision.ops.roi_align(m, boxes, bins, 1 / 4, ratio)
        return pooled

    return ours, theirs


def gradient(pool: Pool, leaves: Sequence[Tensor], grad: Tensor) -> Callable[[], Any]:
    """Backward only, with a gradient in the result's memory format."""
    result = pool(*leaves)
    laid = grad
    if result.is_contiguous(memory_format=torch.channels_last):
        laid = grad.contiguous(memory_format=torch.channels_last)
    return lambda: torch.autograd.grad(result, leaves, laid, retain_graph=True)


def pooled(
    ours: Pool,
    theirs: Pool,
    plain: Sequence[Tensor],
    layout: str,
    tolerance: Tolerance,
    is_backward: bool = False,
) -> list[Contender]:
    """Results, or the gradients of all maps: ours has them in a layout, torchvision in its own."""
    laid = [m.contiguous(memory_format=LAYOUTS[layout]) for m in plain]
    calls: tuple[Callable[[], Any], Callable[[], Any]]
    if is_backward:
        grad = torch.randn_like(theirs(*plain))
        own = [m.clone().requires_grad_() for m in plain]
        laid = [m.requires_grad_() for m in laid]
        calls = gradient(ours, laid, grad), gradient(theirs, own, grad)
    else:
        calls = (lambda: ours(*laid)), (lambda: theirs(*plain))
    return pair("torchvision", *calls, (), tolerance)


def forward(bins: int, ratio: int, layout: str) -> list[Contender]:
    """One map."""
    torch.manual_seed(0)
    return pooled(*one_map(bins, ratio), [maps(1 / 4)], layout, POOLED)


def few(count: int, channels: int, layout: str) -> list[Contender]:
    """The cost of a call: few boxes, few channels."""
    torch.manual_seed(0)
    return pooled(*one_map(7, 2, count), [maps(1 / 4, channels)], layout, POOLED)


def backward(bins: int, ratio: int, layout: str) -> list[Contender]:
    """The gradient of one map."""
    torch.manual_seed(0)
    return pooled(*one_map(bins, ratio), [maps(1 / 4)], layout, GRADIENT, True)


def pyramids(layout: str, is_backward: bool) -> list[Contender]:
    """Four levels, as detectors call it: a dict of maps, boxes by image."""
    torch.manual_seed(0)
    boxes = [proposals()[:, 1:]]
    names = ["0", "1", "2", "3"]
    plain = [maps(scale) for scale in SCALES]

    def pool(library: Any) -> Pool:
        module = library.MultiScaleRoIAlign(names, 7, 2)
        return lambda *m: module(dict(zip(names, m, strict=True)), boxes, [IMAGE])

    both = pool(visops), pool(torchvision.ops)
    tolerance = GRADIENT if is_backward else POOLED
    return pooled(*both, plain, layout, tolerance, is_backward)


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    sizes = [(bins, ratio, layout) for bins in (7, 14) for ratio in (2, 0) for layout in LAYOUTS]
    labels = {f"{size[2]}, {size[0]} × {size[0]}, {size[1] or 'adaptive'}": size for size in sizes}
    fixed = {label: size for label, size in labels.items() if size[1]}
    small = {
        f"{layout}, {count} × {channels} channels": (count, channels, layout)
        for count, channels in ((1, 256), (10, 256), (100, 3))
        for layout in LAYOUTS
    }
    forwards, backwards = (
        {f"{layout}, 7 × 7, 2": (layout, is_backward) for layout in LAYOUTS}
        for is_backward in (False, True)
    )
    return [
        *rows("forward", forward, labels, "7 × 7, 2", on_cuda=True),
        *rows("backward", backward, fixed, "7 × 7, 2", on_cuda=True),
        *rows("few boxes", few, small, on_cuda=True),
        *rows("pyramid", pyramids, forwards, "", on_cuda=True),
        *rows("pyramid, backward", pyramids, backwards, on_cuda=True),
    ]
