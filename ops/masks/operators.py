"""The operators on masks: fake kernels, vmap, what C++ is told of them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import operator
from .._torch.fakes import dynamic_size
from .._torch.numbers import is_symbol
from .._torch.vmap_calls import OneCallOfEqualSizes, one_call_each


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


def _connected_components(masks: Tensor, connectivity: int = 8) -> tuple[Tensor, Tensor]:
    labels = masks.new_empty(masks.shape, dtype=torch.int32)
    return labels, masks.new_empty(masks.shape[:-2], dtype=torch.int32)


def _component_stats(labels: Tensor, regions: int) -> tuple[Tensor, Tensor, Tensor]:
    shape = (*labels.shape[:-2], regions)
    return (
        labels.new_empty(shape, dtype=torch.int64),
        labels.new_empty((*shape, 4), dtype=torch.int64),
        labels.new_empty((*shape, 2), dtype=torch.float64),
    )


def _remove_small_regions(masks: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    cleaned = masks.new_empty(masks.shape, dtype=torch.bool)
    return cleaned, masks.new_empty(masks.shape[:-2], dtype=torch.bool)


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


def _pack_masks(masks: Tensor) -> Tensor:
    shape = (*masks.shape[:-1], word_count(masks.shape[-1]))
    return masks.new_empty(shape, dtype=torch.int64)


def _unpack_masks(bits: Tensor, width: int) -> Tensor:
    return bits.new_empty((*bits.shape[:-1], width), dtype=torch.bool)


def _measure_masks(masks: Tensor, packed: bool = True) -> tuple[Tensor, Tensor]:
    areas = masks.new_empty(masks.shape[:-2], dtype=torch.int64)
    return areas, areas.new_empty((*areas.shape, 4))


def _mask_iou(masks1: Tensor, masks2: Tensor, *options: Any) -> Tensor:
    return masks1.new_empty((masks1.shape[0], masks2.shape[0]), dtype=torch.float32)


def _suppress_masks(bits: Tensor, *rest: Any) -> Tensor:
    return bits.new_empty(bits.shape[:1], dtype=torch.bool)


def _merge_masks(bits: Tensor, width: int, *rest: Any) -> tuple[Tensor, Tensor]:
    labels = bits.new_empty((bits.shape[1], width), dtype=torch.int32)
    return labels, bits.new_empty(bits.shape[:1], dtype=torch.int32)


def _stability_score(logits: Tensor, *options: Any) -> Tensor:
    return logits.new_empty(logits.shape[:-2], dtype=torch.float32)


def _mask_boundaries(bits: Tensor, *options: Any) -> Tensor:
    return bits.new_empty(bits.shape)


def _masks_to_runs(masks: Tensor, width: int = -1) -> tuple[Tensor, Tensor]:
    ends = masks.new_empty(dynamic_size(), dtype=torch.int32)
    return ends, masks.new_empty(masks.shape[0] + 1, dtype=torch.int64)


def _runs_to_bits(ends: Tensor, offsets: Tensor, size: Sequence[int]) -> Tensor:
    height, width = size
    return offsets.new_empty((offsets.shape[0] - 1, height, word_count(width)))


def _leading(
    call: Callable[..., Any], info: Any, in_dims: Any, masks: Tensor, *rest: Any
) -> tuple[Any, Any]:
    """Let the mapped dimension lead, for an operator on [..., H, W]."""
    parts = call(masks.movedim(in_dims[0], 0), *rest)
    if isinstance(parts, Tensor):
        return parts, 0
    mapped = tuple(_as_mapped(part, info.batch_size) for part in parts)
    return mapped, (0,) * len(mapped)


def _as_mapped(part: Tensor, size: int) -> Tensor:
    """Return a result of an operator; one that was not wanted has no mapped dimension."""
    return part.new_empty(size, 0) if part.dim() == 1 and part.shape[0] == 0 else part


connected_components = operator(
    "connected_components",
    fake=_connected_components,
    vmap=_leading,
    note="Returns labels and how many components each mask has.",
)
component_stats = operator(
    "component_stats",
    fake=_component_stats,
    vmap=_leading,
    documented_as="connected_components",
    description="Areas, boxes and centroids of the labels 1 to regions.",
)
remove_small_regions = operator("remove_small_regions", fake=_remove_small_regions, vmap=_leading)
distance_transform = operator(
    "distance_transform",
    fake=_distance_transform,
    vmap=_leading,
    note="Indices are empty unless asked for.",
)
pack_masks = operator("pack_masks", fake=_pack_masks, vmap=_leading)
unpack_masks = operator(
    "unpack_masks",
    fake=_unpack_masks,
    vmap=_leading,
    documented_as="masks.PackedMasks.unpack",
    description="Masks from the bits of pack_masks.",
)
measure_masks = operator(
    "measure_masks",
    fake=_measure_masks,
    vmap=_leading,
    documented_as="mask_area or masks_to_boxes",
    description="Areas and boxes of the bits of pack_masks, or of masks; x2 and y2 are exclusive.",
)
mask_boundaries = operator(
    "mask_boundaries",
    fake=_mask_boundaries,
    vmap=_leading,
    documented_as="mask_iou",
    description="Bits of the boundaries of the bits of pack_masks.",
)
stability_score = operator(
    "stability_score", fake=_stability_score, vmap=_leading, without_gradient=True
)
mask_iou = operator(
    "mask_iou",
    fake=_mask_iou,
    vmap=one_call_each,
    note="Takes the bits of pack_masks, or masks; kind: iou or ioa.",
)
suppress_masks = operator(
    "suppress_masks",
    fake=_suppress_masks,
    vmap=one_call_each,
    documented_as="mask_nms",
    description="Which of the masks in `order` suppression keeps, by position.",
)
merge_masks = operator(
    "merge_masks",
    fake=_merge_masks,
    vmap=one_call_each,
    note="Takes the bits of pack_masks, their width, and the order to draw them in.",
)
masks_to_runs = operator(
    "masks_to_runs",
    fake=_masks_to_runs,
    vmap=OneCallOfEqualSizes(),
    documented_as="masks_to_rle",
    description="Where the runs of masks end, down their columns, and where masks begin among "
    "them. Takes the bits of pack_masks if a width is given.",
)
runs_to_bits = operator(
    "runs_to_bits",
    fake=_runs_to_bits,
    vmap=one_call_each,
    documented_as="rle_to_masks",
    description="Bits, as of pack_masks, from the ends and offsets of masks_to_runs.",
)
