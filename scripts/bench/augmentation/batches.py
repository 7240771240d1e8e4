"""Batches on a GPU: warps, passes, resizing, training recipes and filters.

Recipes go from bytes to a normalised batch. torchvision draws once a batch there, so it blurs all
images alike and all get one operation. Widths of 512 and 544 tell whether rows that begin a power
of two apart cost more.
"""

from collections.abc import Callable
from typing import Any

import torch
import visops
from bench.affine import noise, theta_of
from bench.augmentation.libraries import finish
from bench.augmentation.pictures import MEAN, STD, Size
from bench.harness import Case, Contender, Tolerance, pair, rows
from torch import Tensor
from torch.nn import functional
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as vision
from visops import transforms

CUDA = "cuda"
CROP: Size = (224, 224)
BATCH = 64
LEVEL = Tolerance(max_abs=1.0, fraction=0.02, why="coordinates rounded once more: one level")
CLOSE = Tolerance(max_abs=0.05, mean_abs=1e-3, why="coordinates rounded once more")
HALVES = Tolerance(max_abs=0.3, mean_abs=2e-2, why="coordinates in float16 of the peer")
SUMS = Tolerance(max_abs=1e-3, mean_abs=1e-5, why="sums in another order")
DTYPES = {"uint8": torch.uint8, "float32": torch.float32, "float16": torch.float16}


def turns(source: Size, out: Size, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    """Destination to source, [64, 2, 3]: in pixels, and as affine_grid takes it.

    Another rotation for each image, then a move by so many pixels of the source.
    """
    middle = ((source[1] - 1) / 2, (source[0] - 1) / 2)
    inverses = []
    for angle in range(BATCH):
        turned = visops.get_affine_matrix(middle, angle * 60 / (BATCH - 1) - 30)
        inverse = visops.invert_affine(turned)
        inverse[:, 2] += shift
        inverses.append(inverse)
    theta = torch.stack([theta_of(inverse, source, out) for inverse in inverses])
    return torch.stack(inverses).float().to(CUDA), theta.to(CUDA)


def sampled(images: Tensor, theta: Tensor, out: Size) -> Tensor:
    """kornia's way: a grid for each image, and grid_sample of floats."""
    floats = images if images.is_floating_point() else images.float()
    grid = functional.affine_grid(theta, [len(images), 3, *out], align_corners=True)
    grid = grid.to(floats.dtype)
    warped = functional.grid_sample(floats, grid, "bilinear", "zeros", align_corners=True)
    return warped if images.is_floating_point() else warped.round_().to(images.dtype)


def affine(dtype: str, width: int) -> list[Contender]:
    size = (512, width)
    images = noise(DTYPES[dtype], BATCH, size, "NCHW", CUDA)
    matrix, theta = turns(size, size)
    tolerance = {"uint8": LEVEL, "float32": CLOSE, "float16": HALVES}[dtype]

    def ours() -> Tensor:
        return visops.warp_affine(images, matrix, inverse_map=True)

    return pair("grid_sample", ours, lambda: sampled(images, theta, size), (), tolerance)


def fused(layout: str) -> list[Contender]:
    """Rotation and crop, colour and normalisation of bytes to floats in one pass."""
    size = (512, 512)
    images = noise(torch.uint8, BATCH, size, layout, CUDA)
    matrix, theta = turns(size, CROP, shift=100)
    color = torch.eye(3, 4, device=CUDA).repeat(BATCH, 1, 1)
    color[:, :, 3] = 0.05
    mean, std = (torch.tensor(values, device=CUDA).view(1, 3, 1) for values in (MEAN, STD))
    options: dict[str, Any] = {"color": color, "mean": MEAN, "std": STD, "inverse_map": True}

    def theirs() -> Tensor:
        warped = sampled(images.float().div_(255), theta, CROP)
        weights, offsets = color[:, :, :3] / std, (color[:, :, 3:] - mean) / std
        return torch.baddbmm(offsets, weights, warped.flatten(2)).view(BATCH, 3, *CROP)

    def ours() -> Tensor:
        return visops.augment(images, matrix, CROP, **options)

    return pair("grid_sample", ours, theirs, (), CLOSE)


def shrunk(height: int, width: int) -> list[Contender]:
    """Antialiased Resize of photos."""
    images = noise(torch.uint8, BATCH // 2, (height, width), "NCHW", CUDA)
    matrix = torch.tensor([[width / 224, 0.0, 0.0], [0.0, height / 224, 0.0]], device=CUDA)
    options: dict[str, Any] = {"antialias": True, "convention": "half_pixel", "inverse_map": True}
    options |= {"std": [1 / 255] * 3, "mean": [0.0] * 3}
    tolerance = Tolerance(mean_abs=0.1, why="at the border ours fills, torch drops weights")

    def ours() -> Tensor:
        return visops.augment(images, matrix, CROP, **options)

    def theirs() -> Tensor:
        return functional.interpolate(images.float(), CROP, mode="bilinear", antialias=True)

    return pair("interpolate", ours, theirs, (), tolerance)


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


def chain(recipe_name: str) -> list[Contender]:
    images = noise(torch.uint8, BATCH, (512, 512), "NCHW", CUDA)

    def recipe(library: Any) -> Callable[..., Tensor]:
        crop = [library.RandomResizedCrop(224, antialias=True), library.RandomHorizontalFlip()]
        steps = [*crop, *extras(library)[recipe_name], *finish(library)]
        built: Callable[..., Tensor] = library.Compose(steps)
        return built

    other = Tolerance(why="other draws")
    return pair("torchvision", recipe(transforms), recipe(v2), [images], other)


def blurred(dtype: str) -> list[Contender]:
    images = noise(DTYPES[dtype], BATCH, (512, 512), "NCHW", CUDA)
    tolerance = SUMS if dtype == "float32" else Tolerance(max_abs=1.0, why="rounding")

    def ours() -> Tensor:
        return visops.gaussian_blur(images, 9, 2.0, channels="first")

    def theirs() -> Tensor:
        return vision.gaussian_blur(images, [9, 9], [2.0, 2.0])

    return pair("torchvision", ours, theirs, (), tolerance)


def direct(side: int) -> list[Contender]:
    """A kernel that does not separate."""
    images = torch.rand(BATCH, 512, 512, device=CUDA)
    kernel = torch.rand(side, side, device=CUDA) / side**2
    flipped = kernel.flip(0, 1)[None, None]

    def theirs() -> Tensor:
        return functional.conv2d(images[:, None], flipped, padding=side // 2)[:, 0]

    def ours() -> Tensor:
        return visops.convolve2d(images, kernel, "same", method="direct")

    return pair("F.conv2d", ours, theirs, (), SUMS)


def cases() -> list[Case]:
    """Every row."""
    warped = {f"{t}, 64×3×512×{width}": (t, width) for t in DTYPES for width in (512, 544)}
    layouts = {f"{of}, 64×3×512² → 224²": (of,) for of in ("NCHW", "channels_last")}
    chains = {f"crop, flip, {name}, 64×3×512² → 224²": (name,) for name in extras(transforms)}
    blurs = {f"9×9 64×3×512², {dtype}": (dtype,) for dtype in ("float32", "uint8")}
    kernels = {f"direct {side}×{side}, 64×512²": (side,) for side in (3, 9)}
    tables: list[tuple[str, Callable[..., list[Contender]], dict[str, Any]]] = [
        ("warp_affine", affine, warped),
        ("augment", fused, layouts),
        ("resize", shrunk, {"antialiased 32×3×1080×1920 → 224²": (1080, 1920)}),
        ("chain", chain, chains),
        ("gaussian_blur", blurred, blurs),
        ("convolve2d", direct, kernels),
    ]
    return [
        row
        for group, build, table in tables
        for row in rows(f"batches, {group}", build, table, device=CUDA)
    ]
