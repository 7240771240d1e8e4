"""The rows of the GPU's benchmarks: calls of their shapes, with fewer images or boxes where counts
of one don't depend on how many there are."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import visops
from bench import roi_align
from bench.affine import noise
from bench.masks import discs
from torch import Tensor
from visops import transforms as T
from visops.convolution.filter2d import filter_separable

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass
class Row:
    label: str  # in docs/benchmarks/gpu_nvidia_h200.json
    call: Callable[[], Any]
    times: float = 1  # as many of these calls make the row
    exact: bool = True  # else a product of matrices is part of it


def gradients(result: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
    grad = torch.ones(()).expand_as(result).contiguous()
    return torch.autograd.grad(result, leaves, grad, retain_graph=True)


def turns(batch: int, out: int, shift: float = 0.0) -> Tensor:
    """Rotations about the middle of 512 x 512 pixels, from destination to source."""
    middle = (511 / 2, 511 / 2)
    angles = torch.linspace(-30, 30, batch).tolist()
    inverses = [visops.invert_affine(visops.get_affine_matrix(middle, a)) for a in angles]
    matrices = torch.stack(inverses).float()
    matrices[:, :, 2] += shift
    return matrices


def proposals(number: int) -> Tensor:
    """The benchmark's boxes, alike in every call."""
    torch.manual_seed(0)
    return roi_align.proposals(number)


def candidates(number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes, scores and classes of a detector."""
    torch.manual_seed(0)
    corner, sides = torch.rand(number, 2) * 1000, 2 ** (3 + 5 * torch.rand(number, 2))
    scores = torch.randperm(number).float() / number
    return torch.cat([corner, corner + sides], 1), scores, torch.randint(80, (number,))


def warps() -> Iterator[Row]:
    """All images: tiles are as high as leaves enough of them."""
    matrices = turns(64, 512)
    photos = noise(torch.uint8, 64, (512, 512), "NCHW", "cpu")
    for name in ("uint8", "float32", "float16"):
        images = photos.to(getattr(torch, name))
        call = functools.partial(visops.warp_affine, images, matrices, inverse_map=True)
        yield Row(f"warp_affine {name} 64×3×512²", call)
    options: dict[str, Any] = {"inverse_map": True, "mean": MEAN, "std": STD}
    options["color"] = torch.eye(3, 4).repeat(64, 1, 1) + 0.05
    crop = turns(64, 224, 100)
    augment = functools.partial(visops.augment, photos, crop, (224, 224), **options)
    yield Row("augment NCHW 64×3×512² → 224²", augment)
    leaf = torch.rand(32, 3, 512, 512).requires_grad_()
    warped = visops.warp_affine(leaf, matrices[::2], inverse_map=True)
    yield Row("gradient of warp_affine's image, 32", lambda: gradients(warped, leaf))
    large = noise(torch.uint8, 8, (1080, 1920), "NCHW", "cpu")
    resize = T.Resize((224, 224), antialias=True)
    yield Row("antialiased 32×3×1080×1920 → 224²", lambda: resize(large), 4)


def chains() -> Iterator[Row]:
    """All images, as above."""
    photos = noise(torch.uint8, 64, (512, 512), "NCHW", "cpu")
    steps: dict[str, list[Any]] = {
        "normalise": [],
        "jitter": [T.ColorJitter(0.4, 0.4, 0.4)],
        "RandAugment": [T.RandAugment()],
    }
    for name, more in steps.items():
        crop = [T.RandomResizedCrop(224, antialias=True), T.RandomHorizontalFlip()]
        to_floats = [T.ToDtype(torch.float32, scale=True), T.Normalize(MEAN, STD)]
        chain = T.Compose([*crop, *more, *to_floats])
        yield Row(f"crop, flip, {name}, 64×3×512² → 224²", functools.partial(chain, photos))


def boxes() -> Iterator[Row]:
    thousand, many = candidates(1_000), candidates(10_000)
    yield Row("nms, 1000", lambda: visops.nms(*thousand[:2], 0.5))
    yield Row("nms, 10000", lambda: visops.nms(*many[:2], 0.5))
    yield Row("batched_nms, 10000 of 80 classes", lambda: visops.batched_nms(*many, 0.5))
    yield Row("box_iou, 10000²", lambda: visops.box_iou(thousand[0], thousand[0]), 100)
    yield Row("soft_nms, 1000", lambda: visops.soft_nms(*thousand[:2], method="gaussian"))
    yield Row("matrix_nms, 1000", lambda: visops.matrix_nms(*thousand))


def regions() -> Iterator[Row]:
    some = proposals(100)
    for name, layout in (("channels_last", torch.channels_last), ("NCHW", None)):
        maps = torch.randn(1, 256, 200, 336)
        maps = (maps.contiguous(memory_format=layout) if layout else maps).requires_grad_()
        pool = functools.partial(visops.roi_align, maps.detach(), some, 7, 1 / 4, 2)
        yield Row(f"roi_align 2×256×200×336 {name}, 1000", pool, 10)
        part = torch.randn(1, 128, 200, 336)  # as many channels as a block has
        part = (part.contiguous(memory_format=layout) if layout else part).requires_grad_()
        pooled = visops.roi_align(part, proposals(500), 7, 1 / 4, 2)
        yield Row(f"its gradient, {name}", functools.partial(gradients, pooled, part), 4)
    photos = noise(torch.uint8, 1, (800, 1344), "NCHW", "cpu")
    crop = functools.partial(visops.crop_rois, photos, some, 224, padding_mode="replicate")
    yield Row("crop_rois uint8, 1000 of 3×224²", crop, 10)


def samples() -> Iterator[Row]:
    """Attention has a sixth of the rows' pixels, each of which is a query as there."""
    shapes = ((40, 67), (20, 34), (10, 17), (5, 9))
    grids = [((torch.arange(h) + 0.5) / h, (torch.arange(w) + 0.5) / w) for h, w in shapes]
    centres = torch.cat([torch.cartesian_prod(*grid).flip(1) for grid in grids])
    queries = len(centres)
    shifts = torch.randn(1, queries, 8, 4, 4, 2) * 3 / torch.tensor(shapes).flip(1)[:, None]
    places = centres[:, None, None, None] + shifts
    value, weights = torch.randn(1, queries, 8, 32), torch.rand(1, queries, 8, 4, 4)
    leaves = [tensor.clone().requires_grad_() for tensor in (value, places, weights)]

    def attend(value: Tensor, places: Tensor, weights: Tensor) -> Tensor:
        return visops.multi_scale_deformable_attention(value, shapes, places, weights)

    times = 22_223 / queries
    yield Row("float32, 22223 queries", lambda: attend(value, places, weights), times)
    yield Row("with gradients, 22223", lambda: gradients(attend(*leaves), *leaves), times)
    maps, offset, mask = (torch.randn(1, c, 64, 64) for c in (256, 18, 9))
    weight = torch.randn(8, 256, 3, 3)
    convolve = functools.partial(visops.deform_conv2d, maps, offset, weight, padding=1, mask=mask)
    yield Row("8×256×64², 3×3", convolve, 8, exact=False)
    logits, points = torch.randn(16, 1, 256, 256), torch.rand(16, 12_544, 2)
    yield Row("point_sample 128×256², 12544", lambda: visops.point_sample(logits, points), 8)


def filters() -> Iterator[Row]:
    for dtype in (torch.float32, torch.float16):
        maps = torch.randn(4, 64, 56, 56).to(dtype)
        unfold = functools.partial(visops.im2col, maps, kernel_size=3, padding=1)
        yield Row(f"im2col 64×64×56² 3×3, {dtype}", unfold, 16)
    columns = torch.randn(4, 64 * 9, 56 * 56)
    fold = functools.partial(visops.col2im, columns, (56, 56), kernel_size=3, padding=1)
    yield Row("col2im 64×64×56² 3×3", fold, 16)
    taps = [1 / 9] * 9
    for dtype in (torch.float32, torch.uint8):
        photos = noise(dtype, 4, (512, 512), "NCHW", "cpu")
        blur = functools.partial(filter_separable, photos, taps, taps)  # as gaussian_blur on CUDA
        yield Row(f"gaussian_blur 9×9 64×3×512², {dtype}", blur, 16)
    planes = torch.rand(4, 512, 512)
    for side in (3, 9):
        kernel = torch.rand(side, side) / side**2
        call = functools.partial(visops.convolve2d, planes, kernel, "same", method="direct")
        yield Row(f"direct {side}×{side}, 64×512²", call, 16)


def masks() -> Iterator[Row]:
    found = torch.from_numpy(discs(10, 800, 1344))
    logits, where = torch.rand(10, 28, 28), proposals(10)[:, 1:].contiguous()
    paste = functools.partial(visops.paste_masks, logits, where, (800, 1344), threshold=0.5)
    yield Row("paste_masks, 100 of 28² → 800×1344", paste, 10)
    yield Row("masks_to_boxes, 100 of 800×1344", lambda: visops.masks_to_boxes(found), 10)
    flat = torch.from_numpy(discs(100, 80, 1344))  # as many pairs, of a tenth of the pixels
    yield Row("mask_iou, 100² of 800×1344", lambda: visops.mask_iou(flat, flat), 10)


def rows() -> Iterator[Row]:
    for group in (warps, chains, boxes, regions, samples, filters, masks):
        yield from group()
