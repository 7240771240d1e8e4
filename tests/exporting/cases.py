"""A call of every public function, with tensors of several sizes, for exported programs.

A case's inputs take a step: 0 and 1 differ in every size and count that a program must leave open;
further steps are sizes that no program was exported with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import visops
from boxes.iou_cases import FUNCTIONS, rotated_boxes
from convolution.im2col_cases import numbers
from roi.align_cases import of_corners, ordered, proposals, pyramid_of
from suppression.nms_cases import BOXES, distinct_scores
from torch import Tensor, nn

STEPS = (0, 1, 2, 3)
_COUNTS = (30, 7, 100, 45)  # boxes
_BATCHES = (2, 3, 5, 4)
_SIZES = ((9, 11), (16, 13), (23, 8), (12, 31))

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


def _rng(step: int) -> np.random.Generator:
    return np.random.default_rng(step)


def suppressed(step: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes [N, 4], scores [N] and ids [N]."""
    rng, count = _rng(step), _COUNTS[step]
    boxes = torch.from_numpy(BOXES["clusters"](rng, count)).to(dtype)
    scores = torch.from_numpy(distinct_scores(rng, count)).float()
    return boxes, scores, torch.from_numpy(rng.integers(-2, 3, count))


def batched(step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes [B, N, 4], scores [B, N] and scores [B, N, C]."""
    rng, count, batch = _rng(step), _COUNTS[step], _BATCHES[step]
    boxes = np.stack([BOXES["clusters"](rng, count) for _ in range(batch)])
    scores = distinct_scores(rng, (batch, count, 3))
    of_classes = torch.from_numpy(scores).float()
    return torch.from_numpy(boxes).float(), of_classes[..., 0].clone(), of_classes


def rotated(step: int) -> Tensor:
    """Boxes [N, 5]."""
    return torch.from_numpy(rotated_boxes(_rng(step), _COUNTS[step])).float()


def images(step: int, channels: int = 3, dtype: torch.dtype = torch.float32) -> Tensor:
    """[B, C, H, W]"""
    values = _rng(step).random((_BATCHES[step], channels, *_SIZES[step]))
    return torch.from_numpy(values).to(dtype)


def regions(step: int) -> Tensor:
    """Boxes [K, 5] on those images, some beyond their borders."""
    rng, (height, width) = _rng(step), _SIZES[step]
    corners = ordered(rng.uniform(-0.2, 1.2, (_COUNTS[step], 2, 2)) * [width, height])
    return torch.from_numpy(of_corners(rng, corners)).float()


def matrices(step: int) -> Tensor:
    """[B, 2, 3] that turn, scale and shift a little."""
    rng, batch = _rng(step), _BATCHES[step]
    matrix: Tensor = visops.get_affine_matrix(
        center=rng.uniform(3, 6, (batch, 2)),
        angle=torch.from_numpy(rng.uniform(-40, 40, batch)),
        scale=torch.from_numpy(rng.uniform(0.7, 1.4, batch)),
    )
    return torch.as_tensor(matrix)


def _points(step: int, count: int) -> tuple[Tensor, Tensor]:
    """Corners of a square and a point within, [B, N, 2], and where they are moved to."""
    square = torch.tensor([[0.0, 0], [9, 0], [9, 9], [0, 9], [4, 5]], dtype=torch.float64)[:count]
    moves = _rng(step).uniform(-1, 1, (_BATCHES[step], count, 2))
    return square + torch.zeros(_BATCHES[step], 1, 1), square + torch.from_numpy(moves)


def _homographies(step: int) -> Tensor:
    """[B, 3, 3] of small numbers."""
    return torch.from_numpy(_rng(step).uniform(-0.01, 0.01, (_BATCHES[step], 3, 3)))


def pyramid(step: int) -> tuple[Any, ...]:
    rng, height, width = _rng(step), 32 + 8 * step, 48 + 16 * step
    maps = pyramid_of(3, height, width, torch.float32, seed=step)
    return maps, proposals(rng, _COUNTS[step], 4 * height, 4 * width)


def _detections(step: int) -> tuple[Any, ...]:
    """Boxes, scores and labels of two models."""
    found = [suppressed(step), suppressed((step + 1) % len(STEPS))]
    return tuple([part[i] for part in found] for i in range(3))


def _attention(step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Value, locations and weights of two levels, 4 x 5 and 2 x 3."""
    rng, batch, queries = _rng(step), _BATCHES[step], _COUNTS[step]
    shapes = (batch, 26, 2, 8), (batch, queries, 2, 2, 3, 2), (batch, queries, 2, 2, 3)
    value, locations, weights = (torch.from_numpy(rng.random(s)).float() for s in shapes)
    return value, locations, weights


def _places(step: int) -> tuple[Tensor, Tensor]:
    """Offsets and masks of a 3 x 3 kernel on the images, padded by 1."""
    rng = _rng(step)
    size = (_BATCHES[step], 9, *_SIZES[step])
    offset = rng.uniform(-2, 2, (size[0], 18, *size[2:]))
    return torch.from_numpy(offset).float(), torch.from_numpy(rng.random(size)).float()


def _sampled(step: int) -> tuple[Tensor, Tensor]:
    rng, batch = _rng(step), _BATCHES[step]
    shapes = (batch, 3, *_SIZES[step]), (batch, _COUNTS[step], 2)
    maps, points = (torch.from_numpy(rng.random(shape)).float() for shape in shapes)
    return maps, points


def _matched(step: int) -> tuple[Tensor, ...]:
    """Two images' predictions, and three targets of each."""
    rng, queries = _rng(step), _COUNTS[step]
    logits, boxes, targets = (
        torch.from_numpy(rng.random(shape)).float()
        for shape in ((2, queries, 7), (2, queries, 4), (6, 4))
    )
    return logits, boxes, torch.from_numpy(rng.integers(0, 7, 6)), targets


def _planes(step: int) -> tuple[Tensor, Tensor]:
    rng, (height, width) = _rng(step), _SIZES[step]
    kernel = rng.standard_normal((3 + step % 2, 4))
    image = rng.standard_normal((_BATCHES[step], height, width))
    return torch.from_numpy(image).float(), torch.from_numpy(kernel).float()


def _layer(step: int) -> tuple[Tensor, Tensor, Tensor]:
    return images(step), numbers((4, 3, 3, 3), torch.float32), numbers((4,), torch.float32)


def _columns(step: int) -> tuple[Tensor]:
    return (visops.im2col(images(step), (2, 3), padding=1),)


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


def _packed(images: Tensor) -> tuple[Tensor, ...]:
    packed = visops.pack_masks(images > 0.5)
    area, boxes = visops.mask_area(packed), visops.masks_to_boxes(packed)
    return packed.bits, packed.unpack(), area, boxes, visops.mask_iou(packed, packed)


def _selected(images: Tensor) -> tuple[Tensor, ...]:
    packed = visops.pack_masks(images > 0.5)
    scores = images.mean((-2, -1))
    kept = visops.mask_nms(packed, scores, 0.3)
    overlaps = visops.mask_iou(packed, packed, kind="boundary")
    return kept, overlaps, *visops.merge_masks(packed, scores), visops.stability_score(images, 0.5)


def _pasted(masks: Tensor, boxes: Tensor) -> tuple[Tensor, ...]:
    packed = visops.paste_masks(masks, boxes, (20, 30), out="packed")
    numbers = visops.paste_masks(masks, boxes, (20, 30), out="float", convention="torchvision")
    return packed.bits, numbers


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
_add("weighted_boxes_fusion", visops.weighted_boxes_fusion, _detections)
_add("non_maximum_weighted", visops.non_maximum_weighted, _detections)
_add(
    "weighted_boxes_fusion_1d",
    lambda b, s, c: visops.weighted_boxes_fusion_1d([part[:, ::2] for part in b], s, c),
    _detections,
)
_add(
    "weighted_boxes_fusion_3d",
    lambda b, s, c: visops.weighted_boxes_fusion_3d(
        [part[:, [0, 1, 0, 2, 3, 2]] for part in b], s, c
    ),
    _detections,
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
    lambda i: (images(i), images(i)[:1].expand(_COUNTS[i], -1, -1, -1)[..., :5], regions(i)),
)
_add(
    "multi_scale_deformable_attention",
    lambda v, p, w: visops.multi_scale_deformable_attention(v, [(4, 5), (2, 3)], p, w),
    _attention,
)
_add(
    "deform_conv2d",
    lambda x, offset, mask: visops.deform_conv2d(x, offset, _KERNELS, padding=1, mask=mask),
    lambda i: (images(i), *_places(i)),
)
_add(
    "DeformConv2d",
    lambda x, offset, mask: _DEFORM_LAYER(x, offset, mask),
    lambda i: (images(i), *_places(i)),
)
_add(
    "MultiScaleDeformableAttention",
    lambda q, p, v: _ATTENTION_LAYER(q, p, v, [(4, 5), (2, 3)]),
    lambda i: (
        _attention(i)[2].flatten(2),
        _attention(i)[1][:, :, 0, :, 0],
        _attention(i)[0][..., 0, :].repeat(1, 1, 2)[..., :12],
    ),
)
_add(
    "multi_scale_deformable_attention",
    lambda v, s, p, w: visops.multi_scale_deformable_attention(v, s, p, w, method="discrete"),
    lambda i: (_attention(i)[0], torch.tensor([[4, 5], [2, 3]]), *_attention(i)[1:]),
    "shapes",
)
_add("point_sample", lambda x, p: visops.point_sample(x, p, padding_mode="border"), _sampled)
_add(
    "match_cost",
    lambda x, b, n, t: tuple(visops.match_cost(x, b, n, t, weights=(2.0, 5.0, 2.0), counts=[3, 3])),
    _matched,
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
    lambda i: ((images(i) * 255).byte(), matrices(i), torch.eye(3, 4).repeat(_BATCHES[i], 1, 1)),
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
    lambda i: (torch.rand(_BATCHES[i], 2), torch.rand(_BATCHES[i]) * 360),
)
_add("invert_affine", visops.invert_affine, lambda i: (matrices(i),))
_add("compose_affine", visops.compose_affine, lambda i: (matrices(i), matrices(i).float()))
_add(
    "affine_from_points",
    visops.affine_from_points,
    lambda i: (torch.rand(_BATCHES[i], 4 + i, 2), torch.rand(_BATCHES[i], 4 + i, 2)),
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
_add("col2im", _back_to_image, lambda i: (*_columns(i), images(i)))
_add("conv2d", lambda x, w, b: visops.conv2d(x, w, b, stride=2, padding=1), _layer)
_add(
    "conv2d",
    lambda x, w: visops.conv2d(x, w, padding="same"),
    lambda i: (images(i, dtype=torch.int32) + i, numbers((4, 3, 3, 3), torch.int32)),
    "integers",
)
_add("convolve2d", lambda x, k: visops.convolve2d(x, k, boundary="symm"), _planes)
_add(
    "correlate2d",
    lambda x, k: visops.correlate2d(x, k, mode="same", boundary="wrap", method="direct"),
    _planes,
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
    _packed,
    lambda i: (images(i, 1)[:, 0].repeat(1, 1, 9),),
)
_add(
    "mask_nms mask_iou merge_masks stability_score",
    _selected,
    lambda i: (images(i, 1)[:, 0].repeat(1, 1, 9),),
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
_add("similarity_from_points", visops.similarity_from_points, lambda i: _points(i, 5))
_add("homography_from_points", visops.homography_from_points, lambda i: _points(i, 4))
_add(
    "warp_perspective",
    lambda x, m: visops.warp_perspective(x, m, (7, 12)),
    lambda i: (images(i), torch.eye(3, dtype=torch.float64) + _homographies(i)),
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
