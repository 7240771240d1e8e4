"""Warps and augmentation, forward and backward."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import visops
from bench.affine import noise, theta_of
from bench.augmentation.gradients import gradient_contenders
from bench.augmentation.pictures import MEAN, STD, Size
from bench.harness import Case, Contender, Tolerance
from torch import Tensor
from torch.nn import functional
from torchvision.transforms import v2
from visops import transforms

from .rows import against_copy, copy_of, count, row

SIDE, CROP = 512, 224
IMAGE: Size = (SIDE, SIDE)
LEVEL = Tolerance(max_abs=1.0, fraction=0.02, why="coordinates rounded once more: one level")
CLOSE = Tolerance(max_abs=0.05, mean_abs=1e-3, why="coordinates rounded once more")
HALVES = Tolerance(max_abs=0.3, mean_abs=2e-2, why="coordinates in float16 of the peer")
GRADIENT = Tolerance(mean_abs=5e-2, why="slopes jump where rounding puts a sample across a pixel")
DTYPES = {"uint8": torch.uint8, "float32": torch.float32, "float16": torch.float16}


def turns(batch: int, out: Size, device: str, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    """Destination to source, [batch, 2, 3]: in pixels, and as affine_grid takes it.

    Another rotation for each image, then a move by so many pixels of the source.
    """
    middle = (SIDE - 1) / 2
    inverses = []
    for angle in torch.linspace(-30, 30, batch).tolist():
        inverse = visops.invert_affine(visops.get_affine_matrix((middle, middle), angle))
        inverse[:, 2] += shift
        inverses.append(inverse)
    theta = torch.stack([theta_of(inverse, IMAGE, out) for inverse in inverses])
    return torch.stack(inverses).float().to(device), theta.to(device)


def sampled(images: Tensor, theta: Tensor, out: Size) -> Tensor:
    """kornia's way: a grid for each image, and grid_sample of floats."""
    floats = images if images.is_floating_point() else images.float()
    grid = functional.affine_grid(theta, [len(images), 3, *out], align_corners=True)
    grid = grid.to(floats.dtype)
    warped = functional.grid_sample(floats, grid, "bilinear", "zeros", align_corners=True)
    return warped if images.is_floating_point() else warped.round_().to(images.dtype)


def affine(batch: int, dtype: str, device: str) -> list[Contender]:
    images = noise(DTYPES[dtype], batch, IMAGE, "NCHW", device)
    matrix, theta = turns(batch, IMAGE, device)
    tolerance = {"uint8": LEVEL, "float32": CLOSE, "float16": HALVES}[dtype]
    return against_copy(
        device,
        images,
        lambda: visops.warp_affine(images, matrix, inverse_map=True),
        [Contender("grid_sample", lambda: sampled(images, theta, IMAGE), tolerance, floor=1.0)],
    )


def fused(batch: int, layout: str, device: str) -> list[Contender]:
    """Rotation and crop, colour and normalisation of bytes to floats in one pass."""
    images = noise(torch.uint8, batch, IMAGE, layout, device)
    matrix, theta = turns(batch, (CROP, CROP), device, shift=100)
    color = torch.eye(3, 4, device=device).repeat(batch, 1, 1)
    color[:, :, 3] = 0.05
    mean, std = (torch.tensor(values, device=device).view(1, 3, 1) for values in (MEAN, STD))

    def theirs() -> Tensor:
        warped = sampled(images.float().div_(255), theta, (CROP, CROP))
        weights, offsets = color[:, :, :3] / std, (color[:, :, 3:] - mean) / std
        return torch.baddbmm(offsets, weights, warped.flatten(2)).view(batch, 3, CROP, CROP)

    return against_copy(
        device,
        images,
        lambda: visops.augment(
            images, matrix, (CROP, CROP), color=color, mean=MEAN, std=STD, inverse_map=True
        ),
        [Contender("grid_sample", theirs, CLOSE, floor=1.0)],
        moved=batch * 3 * CROP * CROP * 5,  # a crop reads as many pixels as it has
    )


def shrunk(batch: int, device: str) -> list[Contender]:
    """Antialiased Resize of photos."""
    height, width = 1080, 1920
    images = noise(torch.uint8, batch, (height, width), "NCHW", device)
    matrix = torch.tensor([[width / CROP, 0.0, 0.0], [0.0, height / CROP, 0.0]], device=device)

    def theirs() -> Tensor:
        return functional.interpolate(images.float(), (CROP, CROP), mode="bilinear", antialias=True)

    def ours() -> Tensor:
        return visops.augment(
            images,
            matrix,
            (CROP, CROP),
            antialias=True,
            padding_mode="replicate",
            std=[1 / 255] * 3,
            mean=[0.0] * 3,
            convention="half_pixel",
            inverse_map=True,
        )

    tolerance = Tolerance(mean_abs=0.1, why="at the border ours replicates, torch drops weights")
    return against_copy(
        device, images, ours, [Contender("interpolate", theirs, tolerance, floor=1.0)]
    )


def extras(library: Any) -> dict[str, list[Any]]:
    """What recipes have besides a crop and a flip."""
    return {
        "normalise": [],
        "jitter": [library.ColorJitter(0.4, 0.4, 0.4)],
        "TrivialAugmentWide": [library.TrivialAugmentWide()],
        "RandAugment": [library.RandAugment()],
        "SimCLR": [
            library.RandomApply([library.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
            library.RandomGrayscale(0.2),
            library.GaussianBlur(23, (0.1, 2.0)),
        ],
    }


def chain(batch: int, recipe_name: str, device: str) -> list[Contender]:
    """A training recipe, from bytes to a normalised batch.

    torchvision draws once a batch, so it blurs all images alike and all get one operation.
    """
    images = noise(torch.uint8, batch, IMAGE, "NCHW", device)

    def recipe(library: Any) -> Callable[..., Tensor]:
        steps = [
            library.RandomResizedCrop(CROP, antialias=True),
            library.RandomHorizontalFlip(),
            *extras(library)[recipe_name],
            library.ToDtype(torch.float32, scale=True),
            library.Normalize(MEAN, STD),
        ]
        built: Callable[..., Tensor] = library.Compose(steps)
        return built

    ours, theirs = recipe(transforms), recipe(v2)
    return against_copy(
        device,
        images,
        lambda: ours(images),
        [Contender("torchvision", lambda: theirs(images), Tolerance(why="other draws"), floor=1.0)],
    )


def image_gradient(batch: int, device: str) -> list[Contender]:
    grad = noise(torch.float32, batch, IMAGE, "NCHW", device)
    images = grad.clone().requires_grad_()
    matrix, theta = turns(batch, IMAGE, device)
    warped = visops.warp_affine(images, matrix, inverse_map=True)
    peer = sampled(images, theta, IMAGE)

    def of(result: Tensor) -> Callable[[], tuple[Tensor, ...]]:
        return lambda: torch.autograd.grad(result, images, grad, retain_graph=True)

    return against_copy(
        device, grad, of(warped), [Contender("grid_sample", of(peer), GRADIENT, floor=1.0)]
    )


def all_gradients(batch: int, device: str) -> list[Contender]:
    """Forward and backward through images, matrix and colour: those of `augment`'s benchmark."""
    size = batch * 3 * CROP * CROP * 4
    # Images and gradients are read twice, results and gradients of images written.
    return [*gradient_contenders(batch, (CROP, CROP), True, device), copy_of(device, 6 * size)]


def cases(device: str, share: float) -> list[Case]:
    """Every row; `share` of the usual batches."""
    batch, few = count(64, share), count(32, share)
    one = functools.partial(row, device=device)
    return [
        *(
            one("warp", f"warp_affine {name} {batch}×3×512²", affine, batch, name)
            for name in DTYPES
        ),
        *(
            one("warp", f"augment {layout} {batch}×3×512² → 224²", fused, batch, layout)
            for layout in ("NCHW", "channels_last")
        ),
        one("warp", f"gradient of warp_affine's image, {few}", image_gradient, few),
        one("gradients", f"augment, all, {few}×3×224²", all_gradients, few),
        one("resize", f"antialiased {few}×3×1080×1920 → 224²", shrunk, few),
        *(
            one("chain", f"crop, flip, {name}, {batch}×3×512² → 224²", chain, batch, name)
            for name in extras(transforms)
        ),
    ]
