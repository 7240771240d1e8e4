"""RoIAlign against torchvision: one map and a pyramid, forward and backward.

1,000 boxes on an image of 800 × 1344 with sides log-uniform between 16 and 512 pixels, as proposals
have them; 256 channels of float32. One map is 200 × 336, of a quarter of the image's size; a
pyramid has three more, each half as large. torchvision takes maps that are not NCHW for ones to
copy: it gets NCHW in every row.
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
from bench.harness import Case, Contender, Tolerance, case, main

IMAGE = (800, 1344)
COUNT, CHANNELS = 1_000, 256
SCALES = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
LAYOUTS = {"channels_last": torch.channels_last, "NCHW": torch.contiguous_format}
POOLED = Tolerance(max_abs=2e-4, why="sums in another order, of maps in N(0, 1)")
GRADIENT = Tolerance(max_abs=2e-3, mean_abs=1e-5, why="sums in another order")


def proposals(count: int = COUNT) -> Tensor:
    """Boxes [K, 5] inside the image."""
    height, width = IMAGE
    sides = 2 ** (4 + 5 * torch.rand(count, 2))
    low = torch.rand(count, 2) * (torch.tensor([width, height]) - sides)
    return torch.cat([torch.zeros(count, 1), low, low + sides], 1)


def maps(scale: float, channels: int = CHANNELS) -> Tensor:
    height, width = IMAGE
    return torch.randn(1, channels, int(height * scale), int(width * scale))


def one_map(bins: int, ratio: int, count: int = COUNT) -> tuple[Callable[..., Tensor], ...]:
    """Ours and theirs, as functions of a map."""
    boxes = proposals(count)

    def ours(m: Tensor) -> Tensor:
        return visops.roi_align(m, boxes, bins, 1 / 4, ratio)

    def theirs(m: Tensor) -> Tensor:
        pooled: Tensor = torchvision.ops.roi_align(m, boxes, bins, 1 / 4, ratio)
        return pooled

    return ours, theirs


def forward(bins: int, ratio: int, layout: str) -> list[Contender]:
    """One map."""
    torch.manual_seed(0)
    ours, theirs = one_map(bins, ratio)
    plain = maps(1 / 4)
    laid = plain.contiguous(memory_format=LAYOUTS[layout])
    return [
        Contender("visops", lambda: ours(laid)),
        Contender(
            "torchvision", lambda: theirs(plain), POOLED, 12.0 if layout == "channels_last" else 4.0
        ),
    ]


def few(count: int, channels: int, layout: str) -> list[Contender]:
    """The cost of a call: few boxes, few channels."""
    torch.manual_seed(0)
    ours, theirs = one_map(7, 2, count)
    plain = maps(1 / 4, channels)
    laid = plain.contiguous(memory_format=LAYOUTS[layout])
    return [
        Contender("visops", lambda: ours(laid)),
        Contender("torchvision", lambda: theirs(plain), POOLED),
    ]


def gradient(pool: Callable[..., Tensor], leaves: list[Tensor], grad: Tensor) -> Callable[[], Any]:
    """Backward only."""
    pooled = pool(*leaves)
    laid = grad
    if pooled.is_contiguous(memory_format=torch.channels_last):
        laid = grad.contiguous(memory_format=torch.channels_last)
    return lambda: torch.autograd.grad(pooled, leaves, laid, retain_graph=True)


def backward(bins: int, ratio: int, layout: str) -> list[Contender]:
    """The gradient of one map."""
    torch.manual_seed(0)
    ours, theirs = one_map(bins, ratio)
    plain = maps(1 / 4)
    grad = torch.randn(COUNT, CHANNELS, bins, bins)
    laid = plain.contiguous(memory_format=LAYOUTS[layout])
    return [
        Contender("visops", gradient(ours, [laid.requires_grad_()], grad)),
        Contender(
            "torchvision",
            gradient(theirs, [plain.clone().requires_grad_()], grad),
            GRADIENT,
            floor=8.0,
        ),
    ]


def pyramids(bins: int, ratio: int, layout: str, is_backward: bool) -> list[Contender]:
    """Four levels, as detectors call it: a dict of maps, boxes by image."""
    torch.manual_seed(0)
    boxes = [proposals()[:, 1:]]
    names = ["0", "1", "2", "3"]
    plain = [maps(scale) for scale in SCALES]
    laid = [m.contiguous(memory_format=LAYOUTS[layout]) for m in plain]
    modules = [
        module(names, bins, ratio)
        for module in (visops.MultiScaleRoIAlign, torchvision.ops.MultiScaleRoIAlign)
    ]

    def pool(module: Any) -> Callable[..., Tensor]:
        return lambda *m: module(dict(zip(names, m, strict=True)), boxes, [IMAGE])

    ours, theirs = map(pool, modules)
    if not is_backward:
        return [
            Contender("visops", lambda: ours(*laid)),
            Contender("torchvision", lambda: theirs(*plain), POOLED, floor=8.0),
        ]
    grad = torch.randn(COUNT, CHANNELS, bins, bins)
    return [
        Contender("visops", gradient(ours, [m.requires_grad_() for m in laid], grad)),
        Contender(
            "torchvision",
            gradient(theirs, [m.clone().requires_grad_() for m in plain], grad),
            GRADIENT,
            floor=8.0,
        ),
    ]


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    cases: list[Case] = []
    sizes = [(bins, ratio) for bins in (7, 14) for ratio in (2, 0)]
    for group, build in (("forward", forward), ("backward", backward)):
        for bins, ratio in sizes if group == "forward" else [(7, 2), (14, 2)]:
            for layout in LAYOUTS:
                cases.append(
                    case(
                        group,
                        f"{layout}, {bins} × {bins}, {ratio or 'adaptive'}",
                        build,
                        *(bins, ratio, layout),
                        quick=(bins, ratio) == (7, 2),
                        on_cuda=True,
                    )
                )
    cases += [
        case(
            "few boxes",
            f"{layout}, {count} × {channels} channels",
            few,
            count,
            channels,
            layout,
            on_cuda=True,
        )
        for count, channels in ((1, 256), (10, 256), (100, 3))
        for layout in LAYOUTS
    ]
    for group, is_backward in (("pyramid", False), ("pyramid, backward", True)):
        for layout in LAYOUTS:
            cases.append(
                case(
                    group,
                    f"{layout}, 7 × 7, 2",
                    pyramids,
                    *(7, 2, layout, is_backward),
                    quick=not is_backward,
                    on_cuda=True,
                )
            )
    return cases


if __name__ == "__main__":
    sys.exit(main("roi_align", __doc__ or "", all_cases()))
