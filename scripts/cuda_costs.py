"""Counts what the CUDA kernels ask of memory, without a GPU, and writes it into docs/cuda_costs.md.

    make build/cuda-check/.built
    PYTHONPATH=build/cuda-check python scripts/cuda_costs.py --write

Every access of every thread of the emulated kernels is seen (tests/cuda_check/costs.cpp), at sizes
as in training and inference but with few images, boxes and channels: emulation is slow, and counts
per request don't depend on how many there are.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
import visops
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cuda_costs.md"
OPS = torch.ops.visops
SMALL = 50_000  # bytes; kernels that ask for fewer have no row in the page


@dataclass
class Cost:
    """What the launches of a kernel asked for; units are sectors of 32 bytes, or passes."""

    launches: int
    blocks: int
    threads: int
    touched: int  # bytes of global memory, each once
    requests: int
    sectors: int
    least_sectors: int
    bytes: int
    shared_requests: int
    passes: int
    least_passes: int
    shared_bytes: int


class Counter:
    """The functions of tests/cuda_check/costs.cpp."""

    def __init__(self) -> None:
        from visops._loader import LIBRARY

        library = ctypes.CDLL(str(LIBRARY))
        if not hasattr(library, "visops_count_costs"):
            raise SystemExit(f"{LIBRARY} was not built with VISOPS_SANITIZE=cuda")
        self._count = library.visops_count_costs
        self._take = library.visops_take_costs
        self._take.restype = ctypes.c_char_p

    def of(self, call: Callable[[], object]) -> dict[str, tuple[Cost, str]]:
        """Costs of the kernels that the call launches, by name, and their worst places."""
        self._count(1)
        try:
            call()
            lines = self._take().decode().splitlines()
        finally:
            self._count(0)
        found = {}
        for line in lines:
            name, *numbers, positions = line.split("\t")
            found[name] = (Cost(*map(int, numbers)), positions)
        assert all(len(fields(cost)) == 12 for cost, _ in found.values())
        return found


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers, always the same."""
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.standard_normal(shape)).to(dtype)


def photo(*shape: int) -> Tensor:
    """Bytes of an image."""
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(0, 256, shape, np.uint8))


def boxes(count: int, width: float, height: float, size: float) -> Tensor:
    """Boxes [count, 4] of about this size."""
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 1, (count, 2)) * [width - size, height - size]
    extent = rng.uniform(0.5, 1, (count, 2)) * size
    return torch.from_numpy(np.concatenate([corner, corner + extent], 1)).float()


def with_image(found: Tensor) -> Tensor:
    """Boxes [count, 5] on the first image."""
    return torch.cat([torch.zeros(len(found), 1), found], 1)


def backward(result: Tensor) -> None:
    """Run the backward of a result with standard normal gradients."""
    result.backward(numbers(*result.shape).to(result.dtype))


def turned(angle: float, size: int) -> Tensor:
    """A rotation about the centre of a square image."""
    c, s, m = np.cos(angle), np.sin(angle), (size - 1) / 2
    matrix = [[c, -s, m - c * m + s * m], [s, c, m - s * m - c * m]]
    return torch.tensor([matrix], dtype=torch.float64)


def resized(scale_x: float, scale_y: float) -> Tensor:
    """An upright map from source to destination."""
    return torch.tensor([[[scale_x, 0, 0], [0, scale_y, 0]]], dtype=torch.float64)


def masks_of(count: int, height: int, width: int) -> Tensor:
    """A few blobs a mask."""
    y = torch.arange(height)[:, None] / height
    x = torch.arange(width)[None] / width
    rng = np.random.default_rng(0)
    made = torch.zeros(count, height, width, dtype=torch.bool)
    for i in range(count):
        for cx, cy, r in rng.uniform(0, 1, (3, 3)) * [1, 1, 0.3]:
            made[i] |= (x - cx) ** 2 + (y - cy) ** 2 < r * r
    return made


def warps() -> dict[str, Callable[[], object]]:
    """Warps and augmentations."""
    image = numbers(1, 3, 256, 256)
    leaf = numbers(1, 3, 128, 128).requires_grad_()
    bytes_last = photo(1, 3, 256, 256).to(memory_format=torch.channels_last)
    large = photo(1, 3, 512, 640)
    half = resized(0.35, 0.4375)

    def augmented(source: Tensor, matrix: Tensor, size: tuple[int, int], **options: object) -> None:
        visops.augment(source, matrix, size, layout="CHW", **options)  # type: ignore[arg-type]

    return {
        "warp_affine, float32, 30°": lambda: visops.warp_affine(image, turned(0.5, 256)),
        "warp_affine, uint8 channels last, 30°": lambda: visops.warp_affine(
            bytes_last, turned(0.5, 256)
        ),
        "warp_affine, image gradient, 30°": lambda: backward(
            visops.warp_affine(leaf, turned(0.5, 128))
        ),
        "augment, uint8 to float32, 30°": lambda: augmented(
            photo(1, 3, 256, 256), turned(0.5, 256), (224, 224), mode="bilinear"
        ),
        "augment, uint8, antialias, 512 × 640 to 224 × 224": lambda: augmented(
            large, half, (224, 224), mode="bilinear", antialias=True
        ),
        "augment, float32, antialias, 512 × 640 to 224 × 224": lambda: augmented(
            large.float(), half, (224, 224), mode="bilinear", antialias=True
        ),
    }


def suppression() -> dict[str, Callable[[], object]]:
    """Boxes against boxes."""
    crowd, scores = boxes(2000, 1000, 1000, 100), numbers(2000).abs()
    some = crowd[:400], scores[:400]
    blobs = masks_of(60, 160, 160)
    return {
        "box_iou, 500 × 500": lambda: visops.box_iou(crowd[:500], crowd[500:1000]),
        "nms, 2000 boxes": lambda: visops.nms(crowd, scores, 0.5),
        "soft_nms, 400 boxes": lambda: visops.soft_nms(*some, max_output=100),
        "matrix_nms, 60 masks of 160 × 160": lambda: visops.matrix_nms(blobs, scores[:60]),
        "weighted_boxes_fusion, 400 boxes": lambda: visops.weighted_boxes_fusion(
            [some[0] / 1000], [some[1].clamp(0, 1)], [torch.zeros(400, dtype=torch.int64)]
        ),
    }


def regions() -> dict[str, Callable[[], object]]:
    """Operators on regions of feature maps and images."""
    found = with_image(boxes(32, 800, 600, 200)).requires_grad_()
    planar = numbers(1, 64, 38, 50).requires_grad_()
    last = planar.detach().to(memory_format=torch.channels_last)
    scores = numbers(1, 36, 38, 50).requires_grad_()
    picture = numbers(1, 3, 300, 400).requires_grad_()
    near = with_image(boxes(16, 400, 300, 100))
    patches = numbers(16, 3, 56, 56).requires_grad_()
    fixed = found.detach()
    angles = torch.linspace(0, 3, len(fixed))[:, None]
    corners = fixed[:, 1:]
    tilted = torch.cat([fixed[:, :1], corners[:, :2], corners[:, 2:] - corners[:, :2], angles], 1)
    return {
        "roi_align, 32 boxes, 64 channels": lambda: backward(
            visops.roi_align(planar, found, (7, 7), 1 / 16, 2, True)
        ),
        "roi_align, channels last": lambda: visops.roi_align(last, fixed, (7, 7), 1 / 16, 2, True),
        "roi_pool": lambda: backward(visops.roi_pool(planar, fixed, (7, 7), 1 / 16)),
        "ps_roi_align": lambda: backward(visops.ps_roi_align(scores, fixed, (3, 3), 1 / 16)),
        "roi_align_rotated": lambda: backward(
            visops.roi_align_rotated(planar, tilted, (7, 7), 1 / 16, 2)
        ),
        "crop_rois, 16 of 56 × 56": lambda: backward(visops.crop_rois(picture, near, (56, 56))),
        "paste_rois, 16 of 56 × 56": lambda: backward(visops.paste_rois(picture, patches, near)),
    }


def convolutions() -> dict[str, Callable[[], object]]:
    """Convolutions, unfolded, direct and deformable; attention; points."""
    image = numbers(1, 16, 56, 56).requires_grad_()
    weight = numbers(64, 16, 3, 3).requires_grad_()
    halves, half_weight = (t.detach().bfloat16().requires_grad_() for t in (image, weight))
    pixels = halves.detach().to(memory_format=torch.channels_last).requires_grad_()
    plane, taps = numbers(1, 256, 256), numbers(9, 9)
    columns = OPS.im2col(image.detach(), [3, 3], [1, 1], [1, 1, 1, 1], [1, 1])
    small = numbers(1, 32, 32, 32).requires_grad_()
    kernel, offset = numbers(64, 32, 3, 3).requires_grad_(), numbers(1, 18, 32, 32)
    offset.requires_grad_()
    value = numbers(1, 1360, 8, 32).requires_grad_()
    positions = torch.rand(1, 100, 8, 2, 4, 2).requires_grad_()
    weights = torch.rand(1, 100, 8, 2, 4).requires_grad_()
    levels = [(32, 34), (16, 17)]
    points = torch.rand(1, 2000, 2).requires_grad_()
    return {
        "im2col, 16 channels, 3 × 3": lambda: OPS.im2col(
            image.detach(), [3, 3], [1, 1], [1, 1, 1, 1], [1, 1]
        ),
        "col2im, 16 channels, 3 × 3": lambda: OPS.col2im(
            columns, [56, 56], [3, 3], [1, 1], [1, 1, 1, 1], [1, 1]
        ),
        "conv2d, 16 to 64 channels, 3 × 3": lambda: backward(
            visops.conv2d(image, weight, padding=1, method="implicit")
        ),
        "conv2d, 16 to 64 channels, 3 × 3, bfloat16": lambda: backward(
            visops.conv2d(halves, half_weight, padding=1, method="implicit")
        ),
        "conv2d, 16 to 64 channels, 3 × 3, bfloat16, channels last": lambda: backward(
            visops.conv2d(pixels, half_weight, padding=1, method="implicit")
        ),
        "convolve2d, 256 × 256, 9 × 9": lambda: visops.convolve2d(plane, taps, mode="same"),
        "deform_conv2d, 32 to 64 channels": lambda: backward(
            visops.deform_conv2d(small, offset, kernel, padding=1)
        ),
        "deformable attention, 100 queries": lambda: backward(
            visops.multi_scale_deformable_attention(value[:, :1360], levels, positions, weights)
        ),
        "point_sample, 2000 points": lambda: backward(visops.point_sample(image, points)),
    }


def masks() -> dict[str, Callable[[], object]]:
    """Operators on masks."""
    blobs = masks_of(8, 240, 320)
    logits, where = numbers(8, 28, 28), boxes(8, 320, 240, 100)
    return {
        "pack_masks, mask_iou": lambda: visops.mask_iou(blobs, blobs),
        "connected_components": lambda: visops.connected_components(blobs[:2], return_stats=True),
        "distance_transform": lambda: visops.distance_transform(blobs[:2]),
        "masks_to_rle, rle_to_masks": lambda: visops.rle_to_masks(visops.masks_to_rle(blobs[:4])),
        "paste_masks, 8 of 28 × 28": lambda: visops.paste_masks(logits, where, (240, 320)),
        "mask_nms, merge_masks": lambda: (
            visops.mask_nms(blobs, torch.arange(8.0), 0.5),
            visops.merge_masks(blobs, torch.arange(8.0)),
        ),
        "stability_score": lambda: visops.stability_score(numbers(4, 256, 256)),
    }


def ratio(a: int, b: int) -> str:
    """A quotient with two digits, or nothing."""
    return f"{a / b:.2f}" if b else ""


def short(kernel: str) -> str:
    """The kernel and its first type: "augment_forward<float>"."""
    name, _, types = kernel.partition("<")
    first = re.match(r"(unsigned char|\w+)", types)
    return f"{name}<{first[1]}>" if first else name


def row(case: str, kernel: str, cost: Cost) -> str:
    """One row of the table."""
    cells = [
        case,
        f"`{short(kernel)}`",
        f"{cost.bytes / 1e6:.2f}",
        ratio(cost.sectors, cost.requests),
        ratio(cost.sectors, cost.least_sectors),
        ratio(cost.bytes, cost.touched),
        ratio(32 * cost.sectors, cost.touched),
        ratio(cost.passes, cost.least_passes),
    ]
    return f"| {' | '.join(cells)} |"


HEAD = """| call | kernel | MB asked for | sectors a request | of the fewest | asked by touched | \
moved by touched | shared passes by the fewest |
|-|-|-|-|-|-|-|-|"""


def write(rows: list[str]) -> None:
    """Replace the table of the page."""
    text = PAGE.read_text()
    start = text.index("| call | kernel |")
    end = text.find("\n\n", start)
    PAGE.write_text(text[:start] + "\n".join([HEAD, *rows]) + (text[end:] if end >= 0 else "\n"))


def main() -> None:
    """Print a row for each call and kernel, and the places that ask for most."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="calls whose name holds this text")
    parser.add_argument("--write", action="store_true", help="write docs/cuda_costs.md")
    arguments = parser.parse_args()

    sys.path.insert(0, str(ROOT / "tests"))
    from kernels import use_slot

    torch.manual_seed(0)
    torch.set_num_threads(1)
    counter, rows = Counter(), []
    with use_slot("cuda_emulated"):
        for group in (warps, suppression, regions, convolutions, masks):
            for case, call in group().items():
                if arguments.only not in case:
                    continue
                start = time.perf_counter()
                for kernel, (cost, positions) in counter.of(call).items():
                    print(row(case, kernel, cost), positions, flush=True)
                    rows += [row(case, kernel, cost)] if cost.bytes >= SMALL else []
                print(f"{case}: {time.perf_counter() - start:.1f} s", flush=True)
    if arguments.write:
        write(rows)


if __name__ == "__main__":
    main()
