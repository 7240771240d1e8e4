"""Small calls that together reach every barrier of the CUDA kernels where it matters.

For tests that take barriers away. So blocks have several pieces of work
each (emulated grids have seven blocks at most), lists have more entries than are prepared at once,
and warps have more than one row; otherwise the calls are as small as they can be.
"""

import ctypes
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
import visops
from torch import Tensor
from transforms.pixels.amounts import AMOUNTS, KINDS, contrasts, more_of, pictures
from visops._loader import LIBRARY
from visops.convolution.filter2d import filter_separable
from visops.transforms.chain.pixel_kinds import PixelKind

OPS = torch.ops.visops


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal(shape)).to(dtype)


def boxes_in(count: int, width: float, height: float, seed: int = 0) -> Tensor:
    """Boxes [count, 4] with corners in a rectangle."""
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.uniform(0, 1, (count, 2, 2)), 1) * [width, height]
    return torch.from_numpy(ends.reshape(count, 4)).float()


def rois(count: int, width: float, height: float, images: int = 1) -> Tensor:
    """Boxes [count, 5] on images in turn."""
    image = torch.arange(count) % images
    return torch.cat([image[:, None].float(), boxes_in(count, width, height)], 1)


@contextmanager
def boxes_pass() -> Iterator[None]:
    """Let kernels see boxes that a front would throw for, as they may on a GPU."""
    pass_boxes = ctypes.CDLL(str(LIBRARY)).visops_pass_boxes
    pass_boxes(1)
    try:
        yield
    finally:
        pass_boxes(0)


def grown(leaves: list[Tensor], result: Tensor) -> None:
    """Run the backward of a result."""
    result.backward(torch.ones_like(result))
    assert all(leaf.grad is not None for leaf in leaves)


def affine() -> None:
    """More tiles than blocks; channels through shared memory; gradients, with boxes of bands."""
    angle = torch.tensor([[0.9, -0.2, 3.0], [0.2, 0.9, -2.0]], dtype=torch.float64)
    image = numbers(2, 3, 40, 90).to(memory_format=torch.channels_last).requires_grad_()
    matrix = angle.repeat(2, 1, 1).requires_grad_()
    for padding in ("constant", "reflect"):
        result = visops.warp_affine(image, matrix, (40, 150), padding_mode=padding)
        grown([image, matrix], result)
    # More bands of rows than a block looks through at once.
    grown([image, matrix], visops.warp_affine(image[:1, :1], matrix[:1], (1030, 2)))
    # Boxes of the image that don't fit into shared memory.
    visops.warp_affine(image.detach(), angle * 0.4, (40, 150))


def matrices() -> None:
    """More samples than blocks finish the gradient of the matrix."""
    image = numbers(9, 1, 6, 7)
    matrix = torch.eye(2, 3, dtype=torch.float64).repeat(9, 1, 1).requires_grad_()
    grown([matrix], visops.warp_affine(image, matrix, (70, 7)))


def augmented() -> None:
    """More tiles than blocks, in words of interleaved output, of many rows; erasing and colour."""
    image = numbers(3, 3, 30, 41)
    matrix = torch.tensor([[2.2, 0.1, 0.0], [0.0, 0.8, 1.0]], dtype=torch.float64)
    color = torch.eye(3, 4).repeat(3, 2, 1, 1) * 0.9
    erase = torch.tensor([[[3, 4, 30, 20]]]).repeat(3, 1, 1)
    for antialias in (False, True):
        visops.augment(
            image, matrix.repeat(3, 1, 1), (40, 192), mode="bilinear", antialias=antialias,
            color=color, erase=erase, memory_format=torch.channels_last, layout="CHW",
        )  # fmt: skip
    # Photos are staged, part by part.
    turn = [[0.9, -0.3, 20.0], [0.3, 0.9, 1.0]]
    photo = numbers(1, 3, 90, 200).mul(20).clamp(0, 255).byte()
    visops.augment(photo, turn, (70, 150), inverse_map=True, layout="CHW")


def filtered() -> None:
    """Upright maps and others in turn, with more taps than are held at once."""
    image = numbers(9, 3, 90, 200)
    matrix = torch.eye(3, dtype=torch.float64).repeat(9, 1, 1)
    matrix[:, 0, 0], matrix[:, 1, 1] = 3.0, 40.0
    matrix[:8:3, 0, 1] = 0.5
    fewer = matrix.clone()
    fewer[:, 1, 1] = 20.0  # few enough taps for integers
    for pixels in (image, image.mul(50).clamp(0, 255).byte()):
        for channels, maps in ((3, matrix), (1, matrix), (3, fewer), (1, fewer)):
            visops.augment(
                pixels[:, :channels], maps, (3, 70), mode="bilinear", antialias=True,
                memory_format=torch.channels_last, layout="CHW", inverse_map=True,
            )  # fmt: skip
    # Rows that are closed one after the other.
    visops.augment(
        image, [[3.0, 0.0, 0.0], [0.0, 2.0, 0.0]], (40, 70), mode="bilinear", antialias=True,
        layout="CHW", inverse_map=True,
    )  # fmt: skip


def augmented_backward() -> None:
    """More bands than blocks, rows of several chunks, and all three gradients."""
    image = numbers(9, 3, 8, 11).requires_grad_()
    matrix = torch.eye(3, dtype=torch.float64).repeat(9, 1, 1)
    matrix[:, 0, 0], matrix[:, 2, 0] = 20, 0.001
    color = (torch.eye(3, 4).repeat(9, 2, 1, 1) * 0.9).requires_grad_()
    matrix.requires_grad_()
    result = visops.augment(
        image, matrix, (6, 300), mode="bilinear", color=color, layout="CHW", inverse_map=False
    )
    grown([image, matrix, color], result)
    wide = visops.augment(
        image[:1], matrix[:1], (2, 1100), mode="bilinear", color=color[:1], layout="CHW"
    )
    grown([image, matrix, color], wide)


def aligned() -> None:
    """More boxes than blocks; tiles that more boxes reach than are prepared at once."""
    boxes = rois(40, 40, 20)
    boxes[::3, 1] = float("nan")
    for last, size in itertools.product((False, True), ((11, 3), (2, 1200))):
        maps = numbers(1, 6, 20, 40)
        if last:
            maps = maps.to(memory_format=torch.channels_last)
        if size[1] > 1000:  # lists of which have no room
            boxes = boxes[:9]
        options = (1.0, 2, True)
        with boxes_pass():
            values = OPS.roi_align(maps, boxes, size, *options)
            _, index = OPS.roi_align_max(maps, boxes, size, *options)
            assert not values[0].any()
            grad = numbers(*values.shape, seed=1)
            OPS.roi_align_backward_input(grad, boxes, maps.shape, *options, last)
            OPS.roi_align_max_backward_input(grad, index, boxes, maps.shape, *options, last)
            OPS.roi_align_max_at(maps, index, boxes, size, *options)
            OPS.roi_align_backward_boxes(grad, maps, boxes, *options)
            OPS.roi_align_max_backward_boxes(grad, index, maps, boxes, *options)


def aligned_many() -> None:
    """More boxes than a list of a tile holds, a list without any, and more tiles than blocks."""
    for count, side in ((0, 20), (700, 20), (5, 70)):
        boxes = rois(count, side, side)
        grad, index = numbers(count, 2, 1, 1), torch.zeros(count, 2, 1, 1, dtype=torch.int64)
        size, options = (1, 2, side, side), (1.0, 1, True)
        OPS.roi_align_backward_input(grad, boxes, size, *options, False)
        OPS.roi_align_max_backward_input(grad, index, boxes, size, *options, False)
    # More channels than a warp has lanes, and more bins than a block copies at once.
    OPS.roi_align_backward_input(numbers(5, 70, 7, 7), boxes, (1, 70, 9, 9), 0.1, 1, True, False)


def pooled() -> None:
    """Pooling, position-sensitive and rotated alignment, and their gradients."""
    boxes = rois(20, 30, 20)
    maps = numbers(1, 40, 20, 30).requires_grad_()
    grown([maps], visops.roi_pool(maps, boxes, (2, 2)))
    # Blocks go from one image to the other.
    visops.roi_pool(numbers(2, 4, 20, 30), rois(20, 30, 20, images=2), (2, 2))
    maps.grad = None
    grown([maps], visops.ps_roi_align(maps, boxes, (2, 2)))
    maps.grad = None
    turned = torch.cat([boxes, torch.linspace(0, 3, 20)[:, None]], 1)
    grown([maps], visops.roi_align_rotated(maps, turned, (2, 2)))
    last = maps.detach().to(memory_format=torch.channels_last)
    visops.roi_align_rotated(last, turned, (3, 12))


def cropped() -> None:
    """Crops of more tiles than blocks, and gradients with lists of many boxes."""
    images = numbers(2, 3, 23, 31).requires_grad_()
    boxes = rois(300, 31, 23, images=2)
    boxes[::5, 2] = float("inf")
    with boxes_pass():
        grown([images], visops.crop_rois(images, boxes, (2, 2)))
        grown([images], visops.crop_rois(images, boxes[:0], (2, 2)))
        visops.crop_rois(images.detach(), boxes[:9], (25, 70))
    leaf = rois(20, 31, 23, images=2).requires_grad_()
    grown([leaf], visops.crop_rois(images, leaf, (2, 2)))


def listed() -> None:
    """Boxes of more images than blocks, and more of them than are listed at once."""
    images = numbers(9, 1, 6, 7).requires_grad_()
    grown([images], visops.crop_rois(images, rois(600, 7, 6, images=9), (1, 1)))


def pasted() -> None:
    """Tiles with more boxes than are placed at once, and more boxes than a list takes."""
    images = numbers(2, 3, 23, 90).requires_grad_()
    patches = numbers(300, 3, 2, 2).requires_grad_()
    boxes = rois(300, 90, 23, images=2)
    boxes[::5, 0] = 7
    with boxes_pass():
        grown([images, patches], visops.paste_rois(images, patches, boxes))


def suppressed() -> None:
    """More candidates than all warps take at once; groups; limits; padded results; matches."""
    boxes, scores = boxes_in(900, 60, 60), numbers(900).abs()
    visops.nms(boxes, scores, 0.5)
    visops.nms(boxes, scores, 0.5, max_output=20)
    visops.nms_match(boxes[:130], scores[:130], 0.3)
    visops.batched_nms(boxes, scores, torch.arange(900) % 2, 0.7)
    visops.batched_nms(boxes[:300], scores[:300], torch.arange(300) % 2, 0.7)
    visops.nms_padded(boxes.reshape(9, 100, 4), scores.reshape(9, 100), 0.9, 70)


def padded() -> None:
    """An image with more candidates than a block counts at once, and more images than blocks."""
    boxes = boxes_in(2500, 4000, 4000)
    visops.nms_padded(boxes[None], torch.rand(1, 2500), 1.0, 2500)
    visops.nms_padded(boxes[:36].reshape(9, 4, 4), torch.rand(9, 4), 0.5, 4)


def softened() -> None:
    """Segments in shared memory and beyond, several to a block; with and without a limit."""
    boxes, scores = boxes_in(600, 60, 60), numbers(600).abs()
    visops.soft_nms(boxes[:150], scores[:150], max_output=5)
    visops.soft_nms(boxes[:40], scores[:40], min_score=9.0)  # no score is as high
    visops.batched_soft_nms(boxes, scores, torch.arange(600) // 50, max_output=4)
    visops.batched_soft_nms(boxes, scores, torch.arange(600) // 3, max_output=0)
    turned = torch.cat([boxes[:90], torch.zeros(90, 1)], 1)
    visops.soft_nms_rotated(turned, scores[:90], idxs=torch.arange(90) % 2, max_output=4)


def fused() -> None:
    """Labels with more clusters than threads, more labels than blocks."""
    boxes, scores = boxes_in(300, 1, 1), numbers(300).abs().clamp(0, 1)
    labels = torch.arange(300) % 9
    visops.weighted_boxes_fusion([boxes], [scores], [labels], iou_threshold=0.9)
    visops.weighted_boxes_fusion([boxes], [scores], [labels * 0], iou_threshold=0.99)


def matrix_suppressed() -> None:
    """More tiles of pairs than blocks, and masks of more words than are compared at once."""
    masks = numbers(70, 40, 70) > 0.5
    visops.matrix_nms(masks, torch.rand(70))
    visops.matrix_nms(boxes_in(500, 60, 60), torch.rand(500))


def masks() -> None:
    """Every mask operator, on more masks than blocks."""
    made = numbers(9, 40, 70) > 0.3
    visops.connected_components(made, return_stats=True)
    visops.remove_small_regions(made, 3)
    visops.distance_transform(made, return_indices=True)
    packed = visops.pack_masks(made)
    visops.masks_to_boxes(packed)
    visops.mask_iou(packed, packed, kind="boundary")
    visops.mask_nms(made, torch.rand(9), 0.5)
    visops.merge_masks(made, torch.rand(9))
    visops.stability_score(numbers(9, 40, 70))
    visops.rle_to_masks(visops.masks_to_rle(made))
    logits = numbers(40, 5, 5).requires_grad_()
    found = visops.paste_masks(logits, boxes_in(40, 70, 40), (40, 70), out="float")
    grown([logits], found)


def crowd_of_masks() -> None:
    """More masks than a warp decides on at once."""
    made = numbers(70, 4, 9) > 0.8
    visops.mask_nms(made, torch.rand(70), 0.2)


def large_masks() -> None:
    """More rows and runs than a block adds up at once."""
    made = numbers(2, 300, 300) > 0.3
    OPS.runs_to_bits(*OPS.masks_to_runs(made), [300, 300])
    visops.connected_components(made)


def convolved() -> None:
    """Products with more depth than a tile holds, on several tiles."""
    image, weight = numbers(2, 20, 9, 11), numbers(70, 20, 3, 3)
    image.requires_grad_(), weight.requires_grad_()
    grown([image, weight], visops.conv2d(image, weight, padding=1, method="implicit"))
    image, kernel = numbers(9, 40, 50).requires_grad_(), numbers(5, 7).requires_grad_()
    grown([image, kernel], visops.convolve2d(image, kernel, mode="same"))
    for pairs in (False, True):
        filter_separable(numbers(1, 1, 70, 200), [0.25, 0.5, 0.25], [0.25, 0.5, 0.25], pairs=pairs)


def multiplied() -> None:
    """Products by matrix units, with more depth than a step, on more tiles than blocks."""
    image, weight = numbers(2, 24, 5, 30).bfloat16(), numbers(130, 24, 1, 3).bfloat16()
    leaves = [image.requires_grad_(), weight.requires_grad_()]
    grown(leaves, visops.conv2d(image, weight, padding=(0, 1), method="implicit"))
    pixels = image.detach().to(memory_format=torch.channels_last).float()
    OPS.conv2d(pixels, weight.detach().float(), None, [1, 1], [0, 1], [1, 1], 1)


def deformed() -> None:
    """Deformable convolution and its gradients, on several tiles; few channels and many."""
    for channels, outputs in ((8, 70), (32, 5)):
        image = numbers(2, channels, 12, 12).requires_grad_()
        weight = numbers(outputs, channels, 3, 3).requires_grad_()
        offset = numbers(2, 18, 12, 12).requires_grad_()
        mask = torch.rand(2, 9, 12, 12).requires_grad_()
        found = visops.deform_conv2d(image, offset, weight, padding=1, mask=mask)
        grown([image, weight, offset, mask], found)


def attended() -> None:
    """More samples than are placed at once, more rows than blocks."""
    value = numbers(1, 60, 8, 8).requires_grad_()
    positions = torch.rand(1, 40, 8, 2, 30, 2).requires_grad_()
    weights = torch.rand(1, 40, 8, 2, 30).requires_grad_()
    found = visops.multi_scale_deformable_attention(value, [(6, 8), (3, 4)], positions, weights)
    grown([value, positions, weights], found)
    # A query for each position, more than blocks; levels that the device alone knows.
    shapes = torch.tensor([(10, 12), (5, 6)])
    samples = torch.rand(1, 150, 8, 2, 1, 2), torch.rand(1, 150, 8, 2, 1)
    visops.multi_scale_deformable_attention(numbers(1, 150, 8, 8), shapes, *samples)


def pointed() -> None:
    """Points, and costs of matching them."""
    maps, points = numbers(2, 3, 20, 30).requires_grad_(), torch.rand(2, 300, 2).requires_grad_()
    grown([maps, points], visops.point_sample(maps, points))


def adjusted() -> None:
    """Pixel operations of more images than launches take, each of more parts than blocks."""
    for dtype in (torch.uint8, torch.float32):
        images = pictures((30, 40), 3, dtype)
        for kind in KINDS:
            own = [kind] * len(images)
            amounts = [AMOUNTS.get(kind, (0.5,))[0]] * len(images)
            OPS.adjust_pixels(images, own, amounts, more_of(own))
        tiles = more_of([PixelKind.CLAHE] * 4)
        OPS.adjust_pixels(images, [PixelKind.CLAHE] * 4, [2.0] * 4, tiles)
        large = pictures((60, 60), 3, dtype)  # each with tables of its own
        for kind in (PixelKind.HSV, PixelKind.SHOT_NOISE):
            OPS.adjust_pixels(large, [kind] * 4, [0.1, 0.2, 0.3, 0.4], more_of([kind] * 4))
        tall = pictures((520, 2), 1, dtype)  # more rows than are added up at once
        OPS.adjust_pixels(
            tall, [PixelKind.CONTRAST] * 4, [0.5] * 4, more_of([PixelKind.CONTRAST] * 4)
        )
    contrasts(pictures((30, 40), 3, torch.uint8).repeat(3, 1, 1, 1))


CALLS: dict[str, Callable[[], None]] = {
    call.__name__: call
    for call in (
        affine, matrices, augmented, filtered, augmented_backward, aligned, aligned_many, pooled,
        cropped, listed, pasted, suppressed, padded, softened, fused, matrix_suppressed, masks,
        crowd_of_masks, large_masks, convolved, multiplied, deformed, attended, pointed,
        adjusted,
    )
}  # fmt: skip
