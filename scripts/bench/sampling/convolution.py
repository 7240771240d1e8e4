"""Deformable convolution against torchvision's, and against a plain convolution of the same size.

A plain convolution computes something else: it is a bound, which reads no offsets and interpolates
nothing.
"""

from collections.abc import Callable, Sequence

import torch
import torchvision
import visops
from bench.harness import Case, Contender, Tolerance, gradients, pair, pair_of_gradients, rows
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
    bound = Contender("F.conv2d", lambda: plain(*given), ANOTHER, 0.25, bound=True)
    return [*pair("torchvision", ours, theirs, given, ORDER, floor), bound]


def with_gradients(channels: int, side: int, batch: int, floor: float | None) -> list[Contender]:
    """Forward, and the gradients of all five tensors (of three, for the plain convolution)."""
    leaves = leaves_of(channels, side, batch, torch.float32)
    found = pair_of_gradients("torchvision", ours, theirs, leaves, GRADIENT, floor)
    x, offset, weight, bias, mask = leaves
    used, grad = [x, weight, bias], torch.randn(batch, channels, side, side)
    call = gradients(lambda x, weight, bias: plain(x, offset, weight, bias, mask), used, grad)
    return [*found, Contender("F.conv2d", call, ANOTHER, 0.2, bound=True)]


def beside_float32(
    function: Callable[..., Tensor], given: Sequence[Tensor], tolerance: Tolerance
) -> list[Contender]:
    """A function of some bfloat16 tensors, and of the same ones in float32."""
    wide = [tensor.float() for tensor in given]
    return [
        Contender("visops", lambda: function(*given)),
        Contender(
            "visops, float32",
            lambda: function(*wide),
            tolerance,
            comparable=lambda found: found.to(torch.bfloat16),
            bound=True,
        ),
    ]


def halves(channels: int, side: int, batch: int) -> list[Contender]:
    """bfloat16 maps beside float32 offsets, as under autocast; torchvision has no such kernel."""
    return beside_float32(ours, leaves_of(channels, side, batch, torch.bfloat16), HALF)


def convolution_cases() -> list[Case]:
    """Return the cases."""
    # On small maps of many channels, most of the time goes into products: MKL's, there.
    table = {
        f"{batch} x {channels} x {side} x {side}, 3 x 3": (channels, side, batch, floor)
        for channels, side, batch, floor in (
            (64, 128, 2, 5.0),
            (256, 32, 2, None),
            (512, 14, 1, None),
        )
    }
    return [
        *rows("convolution", forward, table, "14 x 14", on_cuda=True),
        *rows("convolution, gradients", with_gradients, table, on_cuda=True),
        *rows("convolution, bfloat16", halves, {"2 x 64 x 128 x 128": (64, 128, 2)}, on_cuda=True),
    ]
