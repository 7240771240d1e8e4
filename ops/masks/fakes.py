"""How the operators on masks run under torch: fake kernels and vmap."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.fakes import dynamic_size, register_fake
from .._torch.numbers import is_symbol
from .._torch.registering import add_vmap_rule
from .._torch.vmap_calls import complete_rule, loop_equal_sizes, one_call_each


def word_count(width: Any) -> Any:
    """Return how many numbers hold the bits of a row of masks.

    Where an exported program leaves the width open, the count is an open size of its own. Torch
    asks a size that it has computed whether it is 1, and the program would work on one side of 64
    columns only.
    """
    count = (width + 63) // 64
    if not is_symbol(count) or not width.node.shape_env.allow_dynamic_output_shape_ops:
        return count
    size = dynamic_size()
    torch._check(size * 64 >= width)
    torch._check(size * 64 < width + 64)
    return size


@register_fake("connected_components")
def _connected_components(masks: Tensor, connectivity: int = 8) -> tuple[Tensor, Tensor]:
    labels = masks.new_empty(masks.shape, dtype=torch.int32)
    return labels, masks.new_empty(masks.shape[:-2], dtype=torch.int32)


@register_fake("component_stats")
def _component_stats(labels: Tensor, regions: int) -> tuple[Tensor, Tensor, Tensor]:
    shape = (*labels.shape[:-2], regions)
    return (
        labels.new_empty(shape, dtype=torch.int64),
        labels.new_empty((*shape, 4), dtype=torch.int64),
        labels.new_empty((*shape, 2), dtype=torch.float64),
    )


@register_fake("remove_small_regions")
def _remove_small_regions(masks: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    cleaned = masks.new_empty(masks.shape, dtype=torch.bool)
    return cleaned, masks.new_empty(masks.shape[:-2], dtype=torch.bool)


@register_fake("distance_transform")
def _distance_transform(
    masks: Tensor,
    metric: str = "euclidean",
    spacing: Sequence[float] = (),
    dims: int = 2,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    distances = masks.new_empty(masks.shape, dtype=torch.float32)
    positions = (*masks.shape[:-dims], dims, *masks.shape[-dims:]) if return_indices else (0,)
    return distances, masks.new_empty(positions, dtype=torch.int32)


@register_fake("pack_masks")
def _pack_masks(masks: Tensor) -> Tensor:
    shape = (*masks.shape[:-1], word_count(masks.shape[-1]))
    return masks.new_empty(shape, dtype=torch.int64)


@register_fake("unpack_masks")
def _unpack_masks(bits: Tensor, width: int) -> Tensor:
    return bits.new_empty((*bits.shape[:-1], width), dtype=torch.bool)


@register_fake("measure_masks")
def _measure_masks(masks: Tensor, packed: bool = True) -> tuple[Tensor, Tensor]:
    areas = masks.new_empty(masks.shape[:-2], dtype=torch.int64)
    return areas, areas.new_empty((*areas.shape, 4))


@register_fake("mask_iou")
def _mask_iou(masks1: Tensor, masks2: Tensor, *options: Any) -> Tensor:
    return masks1.new_empty((masks1.shape[0], masks2.shape[0]), dtype=torch.float32)


@register_fake("suppress_masks")
def _suppress_masks(bits: Tensor, *rest: Any) -> Tensor:
    return bits.new_empty(bits.shape[:1], dtype=torch.bool)


@register_fake("merge_masks")
def _merge_masks(bits: Tensor, width: int, *rest: Any) -> tuple[Tensor, Tensor]:
    labels = bits.new_empty((bits.shape[1], width), dtype=torch.int32)
    return labels, bits.new_empty(bits.shape[:1], dtype=torch.int32)


@register_fake("stability_score")
def _stability_score(logits: Tensor, *options: Any) -> Tensor:
    return logits.new_empty(logits.shape[:-2], dtype=torch.float32)


@register_fake("mask_boundaries")
def _mask_boundaries(bits: Tensor, *options: Any) -> Tensor:
    return bits.new_empty(bits.shape)


def _leading(call: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """Return the vmap rule of an operator on [..., H, W]: the mapped dimension leads."""

    def rule(info: Any, in_dims: Any, masks: Tensor, *rest: Any) -> tuple[Any, Any]:
        parts = call(masks.movedim(in_dims[0], 0), *rest)
        if isinstance(parts, Tensor):
            return parts, 0
        mapped = tuple(_as_mapped(part, info.batch_size) for part in parts)
        return mapped, (0,) * len(mapped)

    return rule


def _as_mapped(part: Tensor, size: int) -> Tensor:
    """Return a result of an operator; one that was not wanted has no mapped dimension."""
    return part.new_empty(size, 0) if part.dim() == 1 and part.shape[0] == 0 else part


for _op in (
    "connected_components",
    "component_stats",
    "remove_small_regions",
    "distance_transform",
    "pack_masks",
    "unpack_masks",
    "measure_masks",
    "mask_boundaries",
    "stability_score",
):
    _call = getattr(torch.ops.visops, _op).default
    add_vmap_rule(_op, complete_rule(_call, _leading(_call)))
for _op in ("mask_iou", "suppress_masks", "merge_masks"):
    _call = getattr(torch.ops.visops, _op).default
    add_vmap_rule(_op, complete_rule(_call, one_call_each(_call)))


@register_fake("masks_to_runs")
def _masks_to_runs(masks: Tensor, width: int = -1) -> tuple[Tensor, Tensor]:
    ends = masks.new_empty(dynamic_size(), dtype=torch.int32)
    return ends, masks.new_empty(masks.shape[0] + 1, dtype=torch.int64)


@register_fake("runs_to_bits")
def _runs_to_bits(ends: Tensor, offsets: Tensor, size: Sequence[int]) -> Tensor:
    height, width = size
    return offsets.new_empty((offsets.shape[0] - 1, height, word_count(width)))


_masks_to_runs_op = torch.ops.visops.masks_to_runs.default
_runs_to_bits_op = torch.ops.visops.runs_to_bits.default
add_vmap_rule("masks_to_runs", loop_equal_sizes(_masks_to_runs_op))
add_vmap_rule("runs_to_bits", complete_rule(_runs_to_bits_op, one_call_each(_runs_to_bits_op)))
