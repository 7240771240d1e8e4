"""Pooling and crops of regions."""

import functools
from collections.abc import Callable

import torch
import torchvision
import visops
from bench.affine import noise
from bench.harness import Case, Contender, Tolerance
from torch import Tensor

from .rows import against_copy, count, row

IMAGE = (800, 1344)
SCALES = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
LAYOUTS = {"channels_last": torch.channels_last, "NCHW": torch.contiguous_format}
POOLED = Tolerance(max_abs=2e-3, mean_abs=1e-5, why="sums in another order, of maps in N(0, 1)")
GRADIENT = Tolerance(max_abs=2e-2, mean_abs=1e-4, why="sums in another order")
LEVEL = Tolerance(max_abs=1.0, fraction=0.05, why="rounding of bytes")


def proposals(number: int, images: int, device: str) -> Tensor:
    """Boxes [K, 5] of images, with sides log-uniform between 16 and 512."""
    torch.manual_seed(0)
    height, width = IMAGE
    sides = 2 ** (4 + 5 * torch.rand(number, 2))
    low = torch.rand(number, 2) * (torch.tensor([width, height]) - sides)
    of = torch.arange(number).view(-1, 1) * images // number
    return torch.cat([of.float(), low, low + sides], 1).to(device)


def maps(images: int, scale: float, layout: str, device: str) -> Tensor:
    shape = (images, 256, int(IMAGE[0] * scale), int(IMAGE[1] * scale))
    made: Tensor = torch.randn(shape, device=device).contiguous(memory_format=LAYOUTS[layout])
    return made


def aligned(number: int, layout: str, device: str) -> list[Contender]:
    """One map of a quarter of the image; torchvision copies what isn't NCHW."""
    boxes, features = proposals(number, 2, device), maps(2, 1 / 4, layout, device)
    plain = features.contiguous()
    peer = Contender(
        "torchvision",
        lambda: torchvision.ops.roi_align(plain, boxes, 7, 1 / 4, 2),
        POOLED,
        floor=1.0,
    )
    return against_copy(
        device, features, lambda: visops.roi_align(features, boxes, 7, 1 / 4, 2), [peer]
    )


def gradient(number: int, layout: str, device: str) -> list[Contender]:
    boxes = proposals(number, 2, device)
    features = maps(2, 1 / 4, layout, device).requires_grad_()
    plain = features.detach().contiguous().requires_grad_()
    pooled = visops.roi_align(features, boxes, 7, 1 / 4, 2)
    peer = torchvision.ops.roi_align(plain, boxes, 7, 1 / 4, 2)
    grad = torch.randn(pooled.shape, device=device)
    laid = grad.contiguous(memory_format=LAYOUTS[layout])

    def of(result: Tensor, leaf: Tensor, given: Tensor) -> Callable[[], tuple[Tensor, ...]]:
        return lambda: torch.autograd.grad(result, leaf, given, retain_graph=True)

    theirs = Contender("torchvision", of(peer, plain, grad), GRADIENT, floor=1.0)
    return against_copy(device, grad, of(pooled, features, laid), [theirs])


def pyramid(number: int, device: str) -> list[Contender]:
    boxes = [part[:, 1:] for part in proposals(number, 2, device).chunk(2)]
    features = {str(n): maps(2, scale, "NCHW", device) for n, scale in enumerate(SCALES)}
    module = torchvision.ops.MultiScaleRoIAlign(list(features), 7, 2)
    ours = visops.MultiScaleRoIAlign(list(features), 7, 2)
    sizes = [IMAGE] * 2
    peer = Contender("torchvision", lambda: module(features, boxes, sizes), POOLED, floor=1.0)
    return against_copy(device, features, lambda: ours(features, boxes, sizes), [peer])


def pooled(number: int, device: str) -> list[Contender]:
    boxes, features = proposals(number, 2, device), maps(2, 1 / 16, "NCHW", device)
    peer = Contender(
        "torchvision", lambda: torchvision.ops.roi_pool(features, boxes, 7, 1 / 16), POOLED, 1.0
    )
    return against_copy(
        device, features, lambda: visops.roi_pool(features, boxes, 7, 1 / 16), [peer]
    )


def crops(number: int, device: str) -> list[Contender]:
    """Patches of photos for a second network; torchvision's roi_align of floats with one sample."""
    images = noise(torch.uint8, 8, IMAGE, "NCHW", device)
    boxes = proposals(number, 8, device)

    def theirs() -> Tensor:
        found: Tensor = torchvision.ops.roi_align(images.float(), boxes, 224, 1.0, 1, aligned=True)
        return found.round_().to(torch.uint8)

    return against_copy(
        device,
        None,
        lambda: visops.crop_rois(images, boxes, 224, padding_mode="replicate"),
        [Contender("torchvision", theirs, Tolerance(mean_abs=2.0, why="borders"), floor=1.0)],
        moved=2 * number * 3 * 224 * 224,
    )


def cases(device: str, share: float) -> list[Case]:
    """Every row; `share` of the usual numbers of boxes."""
    one = functools.partial(row, device=device)
    number = count(1_000, share)
    return [
        *(
            one("regions", f"roi_align 2×256×200×336 {layout}, {number}", aligned, number, layout)
            for layout in LAYOUTS
        ),
        *(
            one("regions", f"its gradient, {layout}", gradient, number, layout)
            for layout in LAYOUTS
        ),
        one("regions", f"multiscale_roi_align, {number}", pyramid, number),
        one("regions", f"roi_pool 2×256×50×84, {number}", pooled, number),
        one("regions", f"crop_rois uint8, {number} of 3×224²", crops, number),
    ]
