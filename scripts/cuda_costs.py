"""Counts what the CUDA kernels execute and ask of memory, without a GPU, for docs/cuda_costs.md.

    make ptx-costs

The PTX that nvcc makes of the kernels is interpreted (tests/ptx), at sizes as in training and
inference but with few images, boxes and channels: counts per element and per request don't depend
on how many there are. Every result is compared with that of the CPU's kernels.
"""

import argparse
import ctypes
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import visops
from kernels import use_slot
from ptx.report import Kernel, Kernels, add_statistics
from torch import Tensor
from visops._loader import LIBRARY

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cuda_costs.md"
OPS = torch.ops.visops
SMALL = 50_000  # bytes; kernels that ask for fewer have no row in the page
GLOBAL = ("load global", "store global", "atomic")
SHARED = ("load shared", "store shared")
# Returns what it makes; gradients are those of all inputs that require them.
Call = Callable[[], object]


def take_statistics() -> list[Kernel]:
    """What kernels have done since the last call."""
    library = ctypes.CDLL(str(LIBRARY))
    if not hasattr(library, "visops_ptx_take_statistics"):
        raise SystemExit(f"{LIBRARY} was not built with VISOPS_PTX=1")
    library.visops_ptx_take_statistics.restype = ctypes.c_char_p
    kernels: Kernels = {}
    add_statistics(kernels, library.visops_ptx_take_statistics().decode().splitlines())
    return list(kernels.values())


def tensors(value: object) -> Iterator[Tensor]:
    """All tensors of a result."""
    if isinstance(value, Tensor):
        yield value.detach()
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors(part)


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


def backward(result: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
    """A result and, for standard normal gradients of it, those of leaves."""
    gradient = numbers(*result.shape).to(result.dtype)
    return (result, *torch.autograd.grad(result, leaves, gradient))


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


def warps() -> dict[str, Call]:
    """Warps and augmentations."""
    image = numbers(1, 3, 256, 256)
    leaf = numbers(1, 3, 128, 128).requires_grad_()
    bytes_last = photo(1, 3, 256, 256).to(memory_format=torch.channels_last)
    large = photo(1, 3, 512, 640)
    half = resized(0.35, 0.4375)

    def augmented(
        source: Tensor, matrix: Tensor, size: tuple[int, int], **options: object
    ) -> Tensor:
        return visops.augment(source, matrix, size, layout="CHW", **options)  # type: ignore[arg-type]

    return {
        "warp_affine, float32, 30°": lambda: visops.warp_affine(image, turned(0.5, 256)),
        "warp_affine, uint8 channels last, 30°": lambda: visops.warp_affine(
            bytes_last, turned(0.5, 256)
        ),
        "warp_affine, image gradient, 30°": lambda: backward(
            visops.warp_affine(leaf, turned(0.5, 128)), leaf
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


def suppression() -> dict[str, Call]:
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


def regions() -> dict[str, Call]:
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
            visops.roi_align(planar, found, (7, 7), 1 / 16, 2, True), planar, found
        ),
        "roi_align, channels last": lambda: visops.roi_align(last, fixed, (7, 7), 1 / 16, 2, True),
        "roi_pool": lambda: backward(visops.roi_pool(planar, fixed, (7, 7), 1 / 16), planar),
        "ps_roi_align": lambda: backward(
            visops.ps_roi_align(scores, fixed, (3, 3), 1 / 16), scores
        ),
        "roi_align_rotated": lambda: backward(
            visops.roi_align_rotated(planar, tilted, (7, 7), 1 / 16, 2), planar
        ),
        "crop_rois, 16 of 56 × 56": lambda: backward(
            visops.crop_rois(picture, near, (56, 56)), picture
        ),
        "paste_rois, 16 of 56 × 56": lambda: backward(
            visops.paste_rois(picture, patches, near), picture, patches
        ),
    }


def convolutions() -> dict[str, Call]:
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
    levels = [(50, 68), (25, 34), (13, 17), (7, 9)]
    value = numbers(1, sum(h * w for h, w in levels), 8, 32).requires_grad_()
    positions = torch.rand(1, 300, 8, 4, 4, 2).requires_grad_()
    weights = torch.rand(1, 300, 8, 4, 4).requires_grad_()
    maps, taps_of_maps = numbers(1, 64, 56, 56), numbers(64, 64, 3, 3) / 24
    points = torch.rand(1, 2000, 2).requires_grad_()
    return {
        "im2col, 16 channels, 3 × 3": lambda: OPS.im2col(
            image.detach(), [3, 3], [1, 1], [1, 1, 1, 1], [1, 1]
        ),
        "col2im, 16 channels, 3 × 3": lambda: OPS.col2im(
            columns, [56, 56], [3, 3], [1, 1], [1, 1, 1, 1], [1, 1]
        ),
        "conv2d, 64 to 64 channels, 3 × 3": lambda: visops.conv2d(
            maps, taps_of_maps, padding=1, method="implicit"
        ),
        "conv2d, 16 to 64 channels, 3 × 3": lambda: backward(
            visops.conv2d(image, weight, padding=1, method="implicit"), image, weight
        ),
        "conv2d, 16 to 64 channels, 3 × 3, bfloat16": lambda: backward(
            visops.conv2d(halves, half_weight, padding=1, method="implicit"), halves, half_weight
        ),
        "conv2d, 16 to 64 channels, 3 × 3, bfloat16, channels last": lambda: backward(
            visops.conv2d(pixels, half_weight, padding=1, method="implicit"), pixels, half_weight
        ),
        "convolve2d, 256 × 256, 9 × 9": lambda: visops.convolve2d(plane, taps, mode="same"),
        "deform_conv2d, 32 to 64 channels": lambda: backward(
            visops.deform_conv2d(small, offset, kernel, padding=1), small, offset, kernel
        ),
        "deformable attention, 300 queries": lambda: backward(
            visops.multi_scale_deformable_attention(value, levels, positions, weights),
            *(value, positions, weights),
        ),
        "point_sample, 2000 points": lambda: backward(
            visops.point_sample(image, points), image, points
        ),
    }


def masks() -> dict[str, Call]:
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
    plain = kernel.replace("(anonymous namespace)::", "").replace("visops::", "")
    name, _, types = plain.partition("<")
    first = re.match(r"(unsigned char|\w+)", types)
    return f"{name}<{first[1]}>" if first else name


def row(case: str, kernel: Kernel, elements: int) -> str:
    """One row of the table."""
    all_of, at_large, shared = kernel.total(), kernel.total(*GLOBAL), kernel.total(*SHARED)
    cells = [
        case,
        f"`{short(kernel.name)}`",
        f"{all_of.lanes / elements:.0f}",
        f"{all_of.lanes / all_of.issues / 0.32:.0f} %",
        f"{at_large.bytes / 1e6:.2f}",
        ratio(at_large.units, at_large.issues),
        ratio(at_large.units, at_large.least),
        ratio(at_large.bytes, kernel.touched),
        ratio(32 * at_large.units, kernel.touched),
        ratio(shared.units, shared.least),
    ]
    return f"| {' | '.join(cells)} |"


HEAD = """| call | kernel | instructions an element | lanes at work | MB asked for | \
sectors a request | of the fewest | asked by touched | \
moved by touched | shared passes by the fewest |
|-|-|-|-|-|-|-|-|-|-|"""


def positions(kernel: Kernel) -> str:
    """What the kernel executes most, and where shared memory takes most passes too many."""
    share = {
        name: f"{name} {100 * counts.issues / kernel.total().issues:.0f} %"
        for name, counts in sorted(kernel.classes.items(), key=lambda item: -item[1].issues)
    }
    worst = sorted(kernel.banks.items(), key=lambda item: item[1][2] - item[1][1])[:3]
    lines = [f"line {line}: {n} accesses, {a} passes, {b} at least" for line, (n, a, b) in worst]
    return "; ".join([", ".join(list(share.values())[:8]), *lines])


def write(rows: list[str]) -> None:
    """Replace the table of the page."""
    text = PAGE.read_text()
    start = text.index("| call | kernel |")
    end = text.find("\n\n", start)
    PAGE.write_text(text[:start] + "\n".join([HEAD, *rows]) + (text[end:] if end >= 0 else "\n"))


def run(case: str, call: Call) -> Iterator[str]:
    """Rows of the kernels that a call launches."""
    torch.manual_seed(0)
    expected = list(tensors(call()))
    take_statistics()
    start = time.perf_counter()
    with use_slot("cuda_emulated"):
        found = list(tensors(call()))
    same = all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    seconds, elements = time.perf_counter() - start, max(1, found[0].numel())
    print(f"{case}: {elements} elements, {'equal bits' if same else 'OTHER BITS'}, {seconds:.1f} s")
    for kernel in take_statistics():
        line = row(case, kernel, elements)
        print(line, positions(kernel), flush=True)
        if kernel.total(*GLOBAL).bytes >= SMALL:
            yield line


def main() -> None:
    """Print a row for each call and kernel, and the places that ask for most."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="calls whose name holds this text")
    parser.add_argument("--write", action="store_true", help="write docs/cuda_costs.md")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows: list[str] = []
    for group in (warps, suppression, regions, convolutions, masks):
        for case, call in group().items():
            if arguments.only in case:
                rows += run(case, call)
    if arguments.write:
        write(rows)


if __name__ == "__main__":
    main()
