"""How the suppression operators run under torch: fake kernels, vmap, and no gradients."""

from typing import Any

import torch
from torch import Tensor

from .._torch.differentiable import without_gradient
from .._torch.fakes import dynamic_size, register_fake
from .._torch.registering import add_vmap_rule
from .._torch.vmap_calls import check_presence, loop_equal_sizes

nms = torch.ops.visops.nms.default
batched_nms = torch.ops.visops.batched_nms.default
nms_padded = torch.ops.visops.nms_padded.default
nms_rotated = torch.ops.visops.nms_rotated.default
nms_match = torch.ops.visops.nms_match.default
soft_nms = torch.ops.visops.soft_nms.default
batched_soft_nms = torch.ops.visops.batched_soft_nms.default
soft_nms_rotated = torch.ops.visops.soft_nms_rotated.default

without_gradient("soft_nms", "batched_soft_nms", "soft_nms_rotated")


def _kept(boxes: Tensor, columns: int) -> Tensor:
    size = dynamic_size()
    return boxes.new_empty((size,) if columns == 1 else (size, columns), dtype=torch.int64)


def _columns(boxes: Tensor, scores: Tensor) -> int:
    return 1 if boxes.dim() == 2 else scores.dim()


@register_fake("nms")
@register_fake("nms_rotated")
def _nms_fake(boxes: Tensor, *_: Any) -> Tensor:
    return _kept(boxes, 1)


@register_fake("batched_nms")
def _batched_nms_fake(boxes: Tensor, scores: Tensor, *_: Any) -> Tensor:
    return _kept(boxes, _columns(boxes, scores))


@register_fake("nms_match")
def _nms_match_fake(boxes: Tensor, *_: Any) -> Tensor:
    return boxes.new_empty(boxes.shape[:1], dtype=torch.int64)


@register_fake("soft_nms")
@register_fake("soft_nms_rotated")
def _soft_nms_fake(boxes: Tensor, scores: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    kept = _kept(boxes, 1)
    return kept, scores.new_empty(kept.shape)


@register_fake("batched_soft_nms")
def _batched_soft_nms_fake(boxes: Tensor, scores: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    kept = _kept(boxes, _columns(boxes, scores))
    return kept, scores.new_empty(kept.shape[:1])


@register_fake("nms_padded")
def _nms_padded_fake(
    boxes: Tensor, scores: Tensor, iou_threshold: float, max_output: int, *_: Any
) -> tuple[Tensor, Tensor]:
    batch = boxes.shape[0]
    return (
        boxes.new_empty((batch, max_output), dtype=torch.int64),
        boxes.new_empty((batch,), dtype=torch.int64),
    )


_PADDED_SCHEMA = torch.ops.visops.nms_padded.default._schema.arguments


def _nms_padded_vmap(
    info: Any, in_dims: Any, boxes: Tensor, scores: Tensor, *rest: Any
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    for argument, value in zip(_PADDED_SCHEMA, (boxes, scores), strict=False):
        check_presence("nms_padded", argument, value)

    def mapped(tensor: Tensor, dim: int | None) -> Tensor:
        if dim is None:
            return tensor.expand(info.batch_size, *tensor.shape)
        return tensor.movedim(dim, 0)

    boxes, scores = mapped(boxes, in_dims[0]), mapped(scores, in_dims[1])
    shape = (info.batch_size, boxes.shape[1])
    indices, count = nms_padded(boxes.flatten(0, 1), scores.flatten(0, 1), *rest)
    return (indices.unflatten(0, shape), count.unflatten(0, shape)), (0, 0)


add_vmap_rule("nms_padded", _nms_padded_vmap)
for _op in (nms, batched_nms, nms_rotated):
    _name = _op._schema.name.removeprefix("visops::")
    add_vmap_rule(_name, loop_equal_sizes(_op, "; nms_padded gives a fixed number"))
for _op in (nms_match, soft_nms, batched_soft_nms, soft_nms_rotated):
    add_vmap_rule(_op._schema.name.removeprefix("visops::"), loop_equal_sizes(_op))
