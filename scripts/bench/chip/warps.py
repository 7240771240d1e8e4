"""Warps and augmentation, forward and backward."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import visops
from bench.harness import Case, Contender, Tolerance
from torch import Tensor
from torch.nn import functional
from torchvision.transforms import v2
from visops import transforms

from .rows import against_copy, count, noise, row

SIDE, CROP = 512, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LEVEL = Tolerance(max_abs=1.0, fraction=0.02, why="coordinates rounded once more: one level")
CLOSE = Tolerance(max_abs=0.05, mean_abs=1e-3, why="coordinates rounded once more")
HALVES = Tolerance(max_abs=0.3, mean_abs=2e-2, why="coordinates in float16 of the peer")
GRADIENT = Tolerance(mean_abs=5e-2, why="slopes jump where rounding puts a sample across a pixel")
DTYPES = {"uint8": torch.uint8, "float32": torch.float32, "float16": torch.float16}


def turns(batch: int, device: str, scale: float = 1.0) -> Tensor:
    """[batch, 2, 3] destination to source, in pixels: another rotation for each image."""
    angles = torch.linspace(-30, 30, batch)
    middle = (SIDE - 1) / 2
    found = [
        visops.get_affine_matrix((middle, middle), float(angle), scale=scale) for angle in angles
    ]
    return visops.invert_affine(torch.stack(found)).float().to(device)


def grid_of(matrix: Tensor, size: tuple[int, int]) -> Tensor:
    """The grid of grid_sample for a matrix in pixels (align_corners: 0 is a pixel's centre)."""
    height, width = size
    y, x = torch.meshgrid(
        torch.arange(height, device=matrix.device, dtype=torch.float32),
        torch.arange(width, device=matrix.device, dtype=torch.float32),
        indexing="ij",
    )
    places = torch.stack([x, y, torch.ones_like(x)], -1).view(-1, 3)
    return (places @ matrix.transpose(1, 2)).view(-1, height, width, 2) * (2 / (SIDE - 1)) - 1


def sampled(images: Tensor, matrix: Tensor, size: tuple[int, int]) -> Tensor:
    """kornia's way: a grid for each image, and grid_sample of floats."""
    floats = images if images.is_floating_point() else images.float()
    grid = grid_of(matrix, size).to(floats.dtype)
    warped = functional.grid_sample(floats, grid, "bilinear", "zeros", align_corners=True)
    return warped if images.is_floating_point() else warped.round_().to(images.dtype)


def affine(batch: int, dtype: str, device: str) -> list[Contender]:
    images = noise((batch, 3, SIDE, SIDE), DTYPES[dtype], device)
    matrix = turns(batch, device)
    tolerance = {"uint8": LEVEL, "float32": CLOSE, "float16": HALVES}[dtype]
    return against_copy(
        device,
        images,
        lambda: visops.warp_affine(images, matrix, inverse_map=True),
        [
            Contender(
                "grid_sample", lambda: sampled(images, matrix, (SIDE, SIDE)), tolerance, floor=1.0
            )
        ],
    )


def fused(batch: int, layout: str, device: str) -> list[Contender]:
    """Rotation and crop, colour and normalisation of bytes to floats in one pass."""
    images = noise((batch, 3, SIDE, SIDE), torch.uint8, device)
    if layout == "channels_last":
        images = images.contiguous(memory_format=torch.channels_last)
    matrix = turns(batch, device)
    matrix[:, :, 2] += 100
    color = torch.eye(3, 4, device=device).repeat(batch, 1, 1)
    color[:, :, 3] = 0.05
    mean, std = (torch.tensor(values, device=device).view(1, 3, 1) for values in (MEAN, STD))

    def theirs() -> Tensor:
        warped = sampled(images.float().div_(255), matrix, (CROP, CROP))
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
    images = noise((batch, 3, height, width), torch.uint8, device)
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


def chain(batch: int, with_jitter: bool, device: str) -> list[Contender]:
    """A training recipe, from bytes to a normalised batch; torchvision draws once a batch."""
    images = noise((batch, 3, SIDE, SIDE), torch.uint8, device)

    def recipe(library: Any) -> Callable[..., Tensor]:
        steps = [
            library.RandomResizedCrop(CROP, antialias=True),
            library.RandomHorizontalFlip(),
            *([library.ColorJitter(0.4, 0.4, 0.4)] if with_jitter else []),
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
    images = noise((batch, 3, SIDE, SIDE), torch.float32, device).requires_grad_()
    matrix = turns(batch, device)
    warped = visops.warp_affine(images, matrix, inverse_map=True)
    peer = sampled(images, matrix, (SIDE, SIDE))
    grad = noise(warped.shape, torch.float32, device)

    def of(result: Tensor) -> Callable[[], tuple[Tensor, ...]]:
        return lambda: torch.autograd.grad(result, images, grad, retain_graph=True)

    return against_copy(
        device, grad, of(warped), [Contender("grid_sample", of(peer), GRADIENT, floor=1.0)]
    )


def all_gradients(batch: int, device: str) -> list[Contender]:
    """Forward and backward through images, matrix and colour."""
    images = noise((batch, 3, CROP, CROP), torch.float32, device).requires_grad_()
    matrix = turns(batch, device).requires_grad_()
    color = torch.eye(3, 4, device=device).repeat(batch, 1, 1).requires_grad_()
    grad = noise((batch, 3, CROP, CROP), torch.float32, device)

    def ours() -> tuple[Tensor, ...]:
        result = visops.augment(
            images, matrix, (CROP, CROP), color=color, mean=MEAN, std=STD, inverse_map=True
        )
        return torch.autograd.grad(result, [images, matrix, color], grad)

    mean, std = (torch.tensor(values, device=device).view(1, 3, 1) for values in (MEAN, STD))

    def theirs() -> tuple[Tensor, ...]:
        warped = sampled(images, matrix, (CROP, CROP))
        weights, offsets = color[:, :, :3] / std, (color[:, :, 3:] - mean) / std
        result = torch.baddbmm(offsets, weights, warped.flatten(2)).view(grad.shape)
        return torch.autograd.grad(result, [images, matrix, color], grad)

    size = images.numel() * 4
    return against_copy(
        device,
        None,
        ours,
        [Contender("grid_sample", theirs, Tolerance(why="grid of another size"), floor=1.0)],
        moved=6 * size,
    )


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
        one("warp", f"augment, all gradients, {few}×3×224²", all_gradients, few),
        one("resize", f"antialiased {few}×3×1080×1920 → 224²", shrunk, few),
        one("chain", f"crop, flip, normalise, {batch}×3×512² → 224²", chain, batch, False),
        one("chain", f"with jitter, {batch}×3×512² → 224²", chain, batch, True),
    ]
