"""A call of every public function, with tensors of several sizes, for exported programs.

A case's inputs take a step: 0 and 1 differ in every size and count that a program must leave open;
further steps are sizes that no program was exported with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import visops
from boxes.iou_cases import FUNCTIONS
from convolution.im2col_cases import numbers
from torch import Tensor, nn

from exporting.inputs import (
    BATCHES,
    COUNTS,
    attention,
    batched,
    columns,
    detections,
    homographies,
    images,
    layer,
    matched,
    matrices,
    planes,
    points,
    positions,
    pyramid,
    regions,
    rotated,
    sampled,
    suppressed,
)

Inputs = Callable[[int], tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """`names` are the public functions that `call` stands for."""

    names: tuple[str, ...]
    call: Callable[..., Any]
    inputs: Inputs


class Call(nn.Module):
    """A function as a module, which is what is exported."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: Any) -> Any:
        return self.call(*inputs)


def dynamic_shapes(inputs: Inputs) -> Any:
    """Dim.DYNAMIC wherever the sizes of the first two steps differ."""

    def of(first: Any, second: Any) -> Any:
        if isinstance(first, Tensor):
            pairs = zip(first.shape, second.shape, strict=True)
            return {i: torch.export.Dim.DYNAMIC for i, (a, b) in enumerate(pairs) if a != b}
        return type(first)(of(a, b) for a, b in zip(first, second, strict=True))

    return (of(tuple(inputs(0)), tuple(inputs(1))),)  # of *inputs, which is one argument


def leaves(value: Any) -> list[Tensor]:
    """All tensors of nested tuples and lists."""
    return [value] if isinstance(value, Tensor) else [t for part in value for t in leaves(part)]


def _back_to_image(columns: Tensor, like: Tensor) -> Tensor:
    return visops.col2im(columns, like.shape[2:], (2, 3), padding=1)


_ATTENTION_LAYER = visops.MultiScaleDeformableAttention(12, 2, 2, 3).requires_grad_(False)
_DEFORM_LAYER = visops.DeformConv2d(3, 4, 3, padding=1).requires_grad_(False)
_KERNELS = torch.linspace(-1, 1, 4 * 3 * 9).view(4, 3, 3, 3)
_POOL = visops.RoIAlign((2, 3), 0.5, 2, aligned=True)
_PYRAMID = visops.MultiScaleRoIAlign(["0", "1", "2"], (2, 3), 2)
_PYRAMID.scales = [1 / 4, 1 / 8, 1 / 16]


def _pool_pyramid(maps: list[Tensor], boxes: Tensor) -> Tensor:
    pooled: Tensor = _PYRAMID({str(i): level for i, level in enumerate(maps)}, boxes, [])
    return pooled


def _one_of_all(name: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    return lambda *tensors: getattr(visops, name)(*tensors, *arguments, **options)


def packed_masks(images: Tensor) -> tuple[Tensor, ...]:
    packed = visops.pack_masks(images > 0.5)
    area, boxes = visops.mask_area(packed), visops.masks_to_boxes(packed)
    return packed.bits, packed.unpack(), area, boxes, visops.mask_iou(packed, packed)


def _of_sizes(images: Tensor, boxes: Tensor) -> tuple[Any, ...]:
    """Call functions of numbers with sizes that a program leaves open."""
    height, width = images.shape[-2:]
    middle = (width - 1) / 2, (height - 1) / 2
    return (
        visops.letterbox((height, width), (64, 48)),
        visops.letterbox((40, 60), (height, width), convention="integer", like=images),
        visops.unletterbox_boxes(boxes, images.shape[-2:], images.shape[-1]),
        visops.get_affine_matrix(middle, 30, (height, 1), scale=(width / 64, 2), shear=(9, 0)),
        visops.get_rotation_matrix2d(middle, 20.0, width / 64),
        visops.warp_affine(images, [[1, 0, width / 4], [0, 1, 0]]),
    )


def selected_masks(images: Tensor) -> tuple[Tensor, ...]:
    packed = visops.pack_masks(images > 0.5)
    scores = images.mean((-2, -1))
    kept = visops.mask_nms(packed, scores, 0.3)
    overlaps = visops.mask_iou(packed, packed, kind="boundary")
    return kept, overlaps, *visops.merge_masks(packed, scores), visops.stability_score(images, 0.5)


def _pasted(masks: Tensor, boxes: Tensor) -> tuple[Tensor, ...]:
    packed = visops.paste_masks(masks, boxes, (20, 30), out="packed")
    numbers = visops.paste_masks(masks, boxes, (20, 30), out="float", convention="torchvision")
    return packed.bits, numbers


def _bent(images: Tensor, grid: Tensor) -> Tensor:
    dx, dy = visops.displacement_field(grid, images.shape[-2:], spline=True)
    return visops.remap(images, dx, dy, relative=True, padding_mode="reflect")


CASES: dict[str, Case] = {}


def _add(names: str, call: Callable[..., Any], inputs: Inputs, what: str = "") -> None:
    case = Case(tuple(names.split()), call, inputs)
    CASES[f"{names} {what}".strip()] = case


_add("nms", lambda b, s: visops.nms(b, s, 0.4, score_threshold=0.2), lambda i: suppressed(i)[:2])
_add(
    "nms",
    lambda b, s: visops.nms(b, s, 0.4, max_output=b.shape[0] // 5),
    lambda i: suppressed(i)[:2],
    "at most",
)
_add("batched_nms", lambda b, s, c: visops.batched_nms(b, s, c, 0.4), suppressed)
_add(
    "batched_nms",
    lambda b, s: visops.batched_nms(b, s, None, 0.4, max_output=9, score_threshold=0.2),
    lambda i: batched(i)[::2],
    "classes",
)
_add(
    "nms",
    lambda b, s: torch.ops.visops.nms_match(b, s, 0.4),
    lambda i: suppressed(i)[:2],
    "match",
)
_add("nms_padded", lambda b, s: visops.nms_padded(b, s, 0.4, 8), lambda i: batched(i)[:2])
_add(
    "nms_rotated",
    lambda b, s, c: visops.nms_rotated(b, s, 0.3, idxs=c),
    lambda i: (rotated(i), *suppressed(i)[1:]),
)
_add("soft_nms", lambda b, s: visops.soft_nms(b, s), lambda i: suppressed(i)[:2])
_add("batched_soft_nms", lambda b, s, c: visops.batched_soft_nms(b, s, c), suppressed)
_add(
    "soft_nms_rotated",
    lambda b, s, c: visops.soft_nms_rotated(b, s, idxs=c),
    lambda i: (rotated(i), *suppressed(i)[1:]),
)
_add("matrix_nms", lambda b, s, c: visops.matrix_nms(b, s, c), suppressed)
_add("weighted_boxes_fusion", visops.weighted_boxes_fusion, detections)
_add("non_maximum_weighted", visops.non_maximum_weighted, detections)
_add(
    "weighted_boxes_fusion_1d",
    lambda b, s, c: visops.weighted_boxes_fusion_1d([part[:, ::2] for part in b], s, c),
    detections,
)
_add(
    "weighted_boxes_fusion_3d",
    lambda b, s, c: visops.weighted_boxes_fusion_3d(
        [part[:, [0, 1, 0, 2, 3, 2]] for part in b], s, c
    ),
    detections,
)
for _kind, _function in FUNCTIONS.items():
    _name = _function.__name__
    _add(_name, _function, lambda i: (suppressed(i)[0], suppressed((i + 1) % 4)[0]))
_add("box_iou_rotated", visops.box_iou_rotated, lambda i: (rotated(i), rotated((i + 1) % 4)))
_add(
    "box_iou",
    lambda a, b: visops.box_iou(a, b, kind="iof"),
    lambda i: (suppressed(i)[0], suppressed((i + 1) % 4)[0]),
    "iof",
)
_add(
    "RoIAlign roi_align",
    _POOL,
    lambda i: (images(i), regions(i)),
)
_add(
    "roi_align",
    lambda m, b: visops.roi_align(m, b, (m.shape[2] // 3, 2), reduce="max"),
    lambda i: (images(i), regions(i)),
    "max",
)
_add("MultiScaleRoIAlign multiscale_roi_align", _pool_pyramid, pyramid)
_add("roi_pool", _one_of_all("roi_pool", (2, 3)), lambda i: (images(i), regions(i)))
_add(
    "ps_roi_align",
    _one_of_all("ps_roi_align", (2, 3)),
    lambda i: (images(i, 12), regions(i)),
)
_add(
    "roi_align_rotated",
    _one_of_all("roi_align_rotated", (2, 3), sampling_ratio=2),
    lambda i: (images(i), torch.cat([regions(i)[:, :3], rotated(i)[:, 2:]], 1)),
)
_add("crop_rois", _one_of_all("crop_rois", (4, 5)), lambda i: (images(i), regions(i)))
_add(
    "paste_rois",
    _one_of_all("paste_rois", blend="feather", feather=2.0),
    lambda i: (images(i), images(i)[:1].expand(COUNTS[i], -1, -1, -1)[..., :5], regions(i)),
)
_add(
    "multi_scale_deformable_attention",
    lambda v, p, w: visops.multi_scale_deformable_attention(v, [(4, 5), (2, 3)], p, w),
    attention,
)
_add(
    "deform_conv2d",
    lambda x, offset, mask: visops.deform_conv2d(x, offset, _KERNELS, padding=1, mask=mask),
    lambda i: (images(i), *positions(i)),
)
_add(
    "DeformConv2d",
    lambda x, offset, mask: _DEFORM_LAYER(x, offset, mask),
    lambda i: (images(i), *positions(i)),
)
_add(
    "MultiScaleDeformableAttention",
    lambda q, p, v: _ATTENTION_LAYER(q, p, v, [(4, 5), (2, 3)]),
    lambda i: (
        attention(i)[2].flatten(2),
        attention(i)[1][:, :, 0, :, 0],
        attention(i)[0][..., 0, :].repeat(1, 1, 2)[..., :12],
    ),
)
_add(
    "multi_scale_deformable_attention",
    lambda v, s, p, w: visops.multi_scale_deformable_attention(v, s, p, w, method="discrete"),
    lambda i: (attention(i)[0], torch.tensor([[4, 5], [2, 3]]), *attention(i)[1:]),
    "shapes",
)
_add("point_sample", lambda x, p: visops.point_sample(x, p, padding_mode="border"), sampled)
_add(
    "match_cost",
    lambda x, b, n, t: tuple(visops.match_cost(x, b, n, t, weights=(2.0, 5.0, 2.0), counts=[3, 3])),
    matched,
)
_add(
    "warp_affine",
    lambda x, m: visops.warp_affine(x, m, padding_mode="reflect"),
    lambda i: (images(i), matrices(i)),
)
_add(
    "warp_affine",
    lambda x, m: visops.warp_affine(x, m, (x.shape[2] * 2, 20), mode="bicubic"),
    lambda i: (images(i, dtype=torch.float64), matrices(i)),
    "size",
)
_add(
    "augment",
    lambda x, m, c: visops.augment(
        x, m, (12, x.shape[3]), antialias=True, color=c, clamp=True, mean=0.5, std=0.2
    ),
    lambda i: ((images(i) * 255).byte(), matrices(i), torch.eye(3, 4).repeat(BATCHES[i], 1, 1)),
)
_add(
    "augment",
    lambda x, m: visops.augment(x, m, (8, 9), layout="CHW"),
    lambda i: ([images(i)[0], images((i + 1) % 4)[0]], matrices(0)),
    "list",
)
_add(
    "get_affine_matrix",
    lambda c, a: visops.get_affine_matrix(center=c, angle=a, scale=1.5),
    lambda i: (torch.rand(BATCHES[i], 2), torch.rand(BATCHES[i]) * 360),
)
_add("invert_affine", visops.invert_affine, lambda i: (matrices(i),))
_add("compose_affine", visops.compose_affine, lambda i: (matrices(i), matrices(i).float()))
_add(
    "affine_from_points",
    visops.affine_from_points,
    lambda i: (torch.rand(BATCHES[i], 4 + i, 2), torch.rand(BATCHES[i], 4 + i, 2)),
)
_add(
    "transform_points",
    visops.transform_points,
    lambda i: (batched(i)[0][..., :2].clone(), matrices(i)),
)
_add("transform_boxes", visops.transform_boxes, lambda i: (batched(i)[0], matrices(i)))
_add(
    "im2col",
    lambda x: visops.im2col(x, (2, 3), stride=2, padding=1, fill_value=0.5),
    lambda i: (images(i),),
)
_add("col2im", _back_to_image, lambda i: (*columns(i), images(i)))
_add("conv2d", lambda x, w, b: visops.conv2d(x, w, b, stride=2, padding=1), layer)
_add(
    "conv2d",
    lambda x, w: visops.conv2d(x, w, padding="same"),
    lambda i: (images(i, dtype=torch.int32) + i, numbers((4, 3, 3, 3), torch.int32)),
    "integers",
)
_add("convolve2d", lambda x, k: visops.convolve2d(x, k, boundary="symm"), planes)
_add(
    "correlate2d",
    lambda x, k: visops.correlate2d(x, k, mode="same", boundary="wrap", method="direct"),
    planes,
)

_add(
    "connected_components",
    lambda x: visops.connected_components(x > 0.5, return_stats=True, max_components=4),
    lambda i: (images(i),),
)
_add(
    "remove_small_regions",
    lambda x: visops.remove_small_regions(x > 0.4, 5),
    lambda i: (images(i),),
)
_add(
    "pack_masks mask_area mask_iou masks_to_boxes",
    packed_masks,
    lambda i: (images(i, 1)[:, 0].repeat(1, 1, 6),),
)
_add(
    "mask_nms mask_iou merge_masks stability_score",
    selected_masks,
    lambda i: (images(i, 1)[:, 0].repeat(1, 1, 6),),
)
_add(
    "paste_masks",
    _pasted,
    lambda i: (images(i, 1)[:, 0], images(i, 1)[:, 0, :4, 0].sort().values * 9),
)
_add(
    "distance_transform",
    lambda x: visops.distance_transform(x > 0.1, spacing=(1, 2), return_indices=True),
    lambda i: (images(i),),
)
for _name in ("generalized_box_iou_loss", "complete_box_iou_loss", "distance_box_iou_loss"):
    _add(_name, getattr(visops, _name), lambda i: (suppressed(i)[0], suppressed(i)[0] + 1.5))
_add("filter2d", lambda x: visops.filter2d(x, torch.ones(3, 5) / 15), lambda i: (images(i),))
_add("gaussian_blur", lambda x: visops.gaussian_blur(x, 5, 1.2), lambda i: (images(i),))
_add("box_blur", lambda x: visops.box_blur(x, (3, 5)), lambda i: (images(i),))
_add("sobel", lambda x: visops.sobel(x, 1, 0), lambda i: (images(i),))
_add(
    "letterbox unletterbox_boxes get_affine_matrix get_rotation_matrix2d warp_affine",
    _of_sizes,
    lambda i: (images(i), suppressed(i)[0]),
)
_add(
    "letterbox unletterbox_boxes",
    lambda b: visops.transform_boxes(
        visops.unletterbox_boxes(b, (40, 60), (64, 64)), visops.letterbox((40, 60), (64, 64))
    ),
    lambda i: (suppressed(i)[0],),
)
_add(
    "get_rotation_matrix2d",
    lambda angle: visops.get_rotation_matrix2d((3.0, 4.0), angle),
    lambda i: (matrices(i)[:, 0, 0] * 40,),
)
_add("similarity_from_points", visops.similarity_from_points, lambda i: points(i, 5))
_add("homography_from_points", visops.homography_from_points, lambda i: points(i, 4))
_add(
    "warp_perspective",
    lambda x, m: visops.warp_perspective(x, m, (7, 12)),
    lambda i: (images(i), torch.eye(3, dtype=torch.float64) + homographies(i)),
)
_add(
    "remap displacement_field",
    _bent,
    lambda i: (images(i), torch.linspace(-2, 2, 24).double().view(3, 4, 2)),
)
_add(
    "RoIPool",
    lambda x, b: visops.RoIPool((2, 3), 1.0)(x, b),
    lambda i: (images(i), regions(i)),
)
_add(
    "PSRoIAlign",
    lambda x, b: visops.PSRoIAlign((2, 3), 1.0, 2)(x, b),
    lambda i: (images(i, 12), regions(i)),
)
