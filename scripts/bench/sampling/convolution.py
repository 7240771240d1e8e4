"""Deformable convolution against torchvision's, and against a plain convolution of the same size.

A plain convolution computes something else: it is a bound, which reads no offsets and interpolates
nothing.
"""

from collections.abc import Callable

import torch
import torchvision
import visops
from bench.harness import Case, Contender, Tolerance, case
from torch import Tensor
from torch.nn import functional

ORDER = Tolerance(max_abs=1e-3, mean_abs=1e-5, why="products summed in another order")
GRADIENT = Tolerance(max_abs=5e-2, mean_abs=1e-4, why="sums over all pixels in another order")
HALF = Tolerance(max_abs=0.5, mean_abs=2e-2, why="samples of bfloat16 pixels, rounded results")

ANOTHER = Tolerance(why="another function")

Leaves = list[Tensor]


def leaves_of(channels: int, side: int, batch: int, dtype: torch.dtype) -> Leaves:
    """Return input, offset, weight, bias and mask of a 3 x 3 kernel; offsets of a pixel or so."""
    torch.manual_seed(0)
    x = torch.randn(batch, channels, side, side).to(dtype)
    offset = torch.randn(batch, 18, side, side)
    weight = (torch.randn(channels, channels, 3, 3) / (3 * channels**0.5)).to(dtype)
    return [x, offset, weight, torch.randn(channels).to(dtype), torch.rand(batch, 9, side, side)]


def ours(x: Tensor, offset: Tensor, weight: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
    found: Tensor = visops.deform_conv2d(x, offset, weight, bias, 1, 1, 1, mask)
    return found


def theirs(x: Tensor, offset: Tensor, weight: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
    found: Tensor = torchvision.ops.deform_conv2d(x, offset, weight, bias, 1, 1, 1, mask)
    return found


def plain(x: Tensor, offset: Tensor, weight: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
    """Return a convolution, which neither moves nor weighs samples."""
    return functional.conv2d(x, weight, bias, 1, 1)


def forward(channels: int, side: int, batch: int, floor: float | None) -> list[Contender]:
    given = leaves_of(channels, side, batch, torch.float32)
    return [
        Contender("visops", lambda: ours(*given)),
        Contender("torchvision", lambda: theirs(*given), ORDER, floor),
        Contender("F.conv2d", lambda: plain(*given), ANOTHER, 0.25, bound=True),
    ]


def with_gradients(channels: int, side: int, batch: int, floor: float | None) -> list[Contender]:
    """Forward, and the gradients of all five tensors (of three, for the plain convolution)."""
    leaves = [leaf.requires_grad_() for leaf in leaves_of(channels, side, batch, torch.float32)]
    grad = torch.randn(batch, channels, side, side)

    def of(function: Callable[..., Tensor], which: Leaves) -> Callable[[], tuple[Tensor, ...]]:
        return lambda: torch.autograd.grad(function(*leaves), which, grad)

    return [
        Contender("visops", of(ours, leaves)),
        Contender("torchvision", of(theirs, leaves), GRADIENT, floor),
        Contender("F.conv2d", of(plain, [leaves[0], *leaves[2:4]]), ANOTHER, 0.2, bound=True),
    ]


def halves(channels: int, side: int, batch: int) -> list[Contender]:
    """bfloat16 maps beside float32 offsets, as under autocast; torchvision has no such kernel."""
    given = leaves_of(channels, side, batch, torch.bfloat16)
    wide = [tensor.float() for tensor in given]
    return [
        Contender("visops", lambda: ours(*given)),
        Contender(
            "visops, float32",
            lambda: ours(*wide),
            HALF,
            comparable=lambda found: found.to(torch.bfloat16),
            bound=True,
        ),
    ]


def convolution_cases() -> list[Case]:
    """Return the cases."""
    cases = []
    for channels, side, batch in ((64, 128, 2), (256, 32, 2), (512, 14, 1)):
        label = f"{batch} x {channels} x {side} x {side}, 3 x 3"
        # On small maps of many channels, most of the time goes into products: MKL's, there.
        size = (channels, side, batch, 5.0 if side == 128 else None)
        quick = side == 14
        cases += [
            case("convolution", label, forward, *size, quick=quick, on_cuda=True),
            case("convolution, gradients", label, with_gradients, *size, on_cuda=True),
        ]
    return [
        *cases,
        case("convolution, bfloat16", "2 x 64 x 128 x 128", halves, 64, 128, 2, on_cuda=True),
    ]
