"""Patches, convolutions and filters."""

import functools
from typing import Any

import torch
import visops
from bench.affine import noise
from bench.harness import EXACT, Case, Contender, Tolerance
from torch.nn import functional
from torchvision.transforms.v2 import functional as vision

from .rows import against_copy, count, row

CLOSE = Tolerance(max_abs=1e-3, mean_abs=1e-5, why="sums in another order")
HALF = Tolerance(max_abs=0.25, mean_abs=1e-2, why="sums in another order, rounded to float16")


def patches(batch: int, dtype: torch.dtype, device: str) -> list[Contender]:
    images = torch.randn(batch, 64, 56, 56, device=device).to(dtype)
    options: dict[str, Any] = {"kernel_size": 3, "padding": 1}
    return against_copy(
        device,
        images,
        lambda: visops.im2col(images, **options),
        [Contender("unfold", lambda: functional.unfold(images, **options), EXACT, floor=1.0)],
    )


def folded(batch: int, device: str) -> list[Contender]:
    columns = torch.randn(batch, 64 * 9, 56 * 56, device=device)
    options: dict[str, Any] = {"kernel_size": 3, "padding": 1}
    size = (56, 56)
    peer = Contender("fold", lambda: functional.fold(columns, size, **options), CLOSE, floor=1.0)
    return against_copy(device, columns, lambda: visops.col2im(columns, size, **options), [peer])


def convolved(batch: int, dtype: torch.dtype, device: str) -> list[Contender]:
    """A layer of a ResNet by our kernel; torch's is cuDNN's, without TF32."""
    images = torch.randn(batch, 64, 56, 56, device=device).to(dtype)
    weight = (torch.randn(64, 64, 3, 3, device=device) / 24).to(dtype)
    peer = Contender(
        "torch",
        lambda: functional.conv2d(images, weight, padding=1),
        CLOSE if dtype == torch.float32 else HALF,
    )
    return against_copy(
        device,
        (images, weight),
        lambda: visops.conv2d(images, weight, padding=1, method="implicit"),
        [peer],
    )


def blurred(batch: int, dtype: torch.dtype, device: str) -> list[Contender]:
    images = noise(dtype, batch, (512, 512), "NCHW", device)
    tolerance = CLOSE if dtype == torch.float32 else Tolerance(max_abs=1.0, why="rounding")
    peer = Contender(
        "torchvision", lambda: vision.gaussian_blur(images, [9, 9], [2.0, 2.0]), tolerance, 1.0
    )
    return against_copy(
        device, images, lambda: visops.gaussian_blur(images, 9, 2.0, channels="first"), [peer]
    )


def direct(batch: int, side: int, device: str) -> list[Contender]:
    """A kernel that does not separate."""
    images = torch.rand(batch, 512, 512, device=device)
    kernel = torch.rand(side, side, device=device) / side**2
    flipped = kernel.flip(0, 1)[None, None]

    def theirs() -> Any:
        return functional.conv2d(images[:, None], flipped, padding=side // 2)[:, 0]

    return against_copy(
        device,
        images,
        lambda: visops.convolve2d(images, kernel, "same", method="direct"),
        [Contender("conv2d", theirs, CLOSE, floor=1.0)],
    )


def cases(device: str, share: float) -> list[Case]:
    """Every row; `share` of the usual batches."""
    one = functools.partial(row, device=device)
    batch = count(64, share)
    dtypes = (torch.float32, torch.float16)
    return [
        *(
            one("patches", f"im2col {batch}×64×56² 3×3, {dtype}", patches, batch, dtype)
            for dtype in dtypes
        ),
        one("folds", f"col2im {batch}×64×56² 3×3", folded, batch),
        *(
            one("conv2d", f"implicit {batch}×64×56² → 64, 3×3, {dtype}", convolved, batch, dtype)
            for dtype in dtypes
        ),
        *(
            one("filters", f"gaussian_blur 9×9 {batch}×3×512², {dtype}", blurred, batch, dtype)
            for dtype in (torch.float32, torch.uint8)
        ),
        *(
            one("convolve2d", f"direct {side}×{side}, {batch}×512²", direct, batch, side)
            for side in (3, 9)
        ),
    ]
