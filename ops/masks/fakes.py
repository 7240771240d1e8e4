"""How the operators on masks run under torch: fake kernels and vmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.fake_checks import check_shape, register_fake, require
from .._torch.registering import add_vmap_rule
from .._torch.vmap_calls import below_vmap, complete_rule, one_call_each

__all__: list[str] = []

_INTEGERS = (
    *(torch.uint8, torch.int8, torch.int16, torch.uint16),
    *(torch.int32, torch.uint32, torch.int64, torch.uint64),
)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check(
    op: str,
    name: str,
    tensor: Tensor,
    dtypes: Sequence[torch.dtype],
    allowed: str,
    shape: str = "[..., H, W]",
    dims: int = 2,
) -> None:
    require(
        tensor.dtype in dtypes,
        f"visops.{op}: {name} has dtype {_name(tensor.dtype)}, must be {allowed}",
    )
    require(
        tensor.dim() >= dims,
        f"visops.{op}: {name} has shape {list(tensor.shape)}, must be {shape}",
    )


def _check_connectivity(op: str, connectivity: int) -> None:
    require(connectivity in (4, 8), f"visops.{op}: connectivity is {connectivity}, must be 4 or 8")


@register_fake("connected_components")
def _connected_components(masks: Tensor, connectivity: int = 8) -> tuple[Tensor, Tensor]:
    op = "connected_components"
    _check(op, "masks", masks, (torch.bool, *_INTEGERS), "bool or an integer type")
    _check_connectivity(op, connectivity)
    labels = masks.new_empty(masks.shape, dtype=torch.int32)
    return labels, masks.new_empty(masks.shape[:-2], dtype=torch.int32)


@register_fake("component_stats")
def _component_stats(labels: Tensor, regions: int) -> tuple[Tensor, Tensor, Tensor]:
    op = "component_stats"
    _check(op, "labels", labels, (torch.int32,), "int32")
    require(regions >= 0, f"visops.{op}: regions is {regions}, must be >= 0")
    shape = (*labels.shape[:-2], regions)
    return (
        labels.new_empty(shape, dtype=torch.int64),
        labels.new_empty((*shape, 4), dtype=torch.int64),
        labels.new_empty((*shape, 2), dtype=torch.float64),
    )


@register_fake("remove_small_regions")
def _remove_small_regions(
    masks: Tensor, min_area: int, mode: str = "holes", connectivity: int = 8
) -> tuple[Tensor, Tensor]:
    op = "remove_small_regions"
    _check(op, "masks", masks, (torch.bool, torch.uint8), "bool or uint8")
    require(min_area >= 0, f"visops.{op}: min_area is {min_area}, must be >= 0")
    require(
        mode in ("holes", "islands"),
        f"visops.{op}: mode is '{mode}', must be 'holes' or 'islands'",
    )
    _check_connectivity(op, connectivity)
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
    op = "distance_transform"
    require(dims in (2, 3), f"visops.{op}: dims is {dims}, must be 2 or 3")
    shape = "[..., H, W]" if dims == 2 else "[..., D, H, W]"
    _check(op, "masks", masks, (torch.bool, torch.uint8), "bool or uint8", shape, dims)
    require(
        metric in ("euclidean", "taxicab", "chessboard"),
        f"visops.{op}: metric is '{metric}', must be 'euclidean', 'taxicab' or 'chessboard'",
    )
    require(
        len(spacing) in (0, dims),
        f"visops.{op}: spacing has length {len(spacing)}, must be {dims}",
    )
    distances = masks.new_empty(masks.shape, dtype=torch.float32)
    places = (*masks.shape[:-dims], dims, *masks.shape[-dims:]) if return_indices else (0,)
    return distances, masks.new_empty(places, dtype=torch.int32)


@register_fake("pack_masks")
def _pack_masks(masks: Tensor) -> Tensor:
    _check("pack_masks", "masks", masks, (torch.bool, torch.uint8), "bool or uint8")
    shape = (*masks.shape[:-1], (masks.shape[-1] + 63) // 64)
    return masks.new_empty(shape, dtype=torch.int64)


_BITS = "int64, as pack_masks returns"


def _check_width(op: str, bits: Tensor, width: int) -> None:
    message = (
        f"visops.{op}: width is {width}, bits has shape {list(bits.shape)}: its last dimension "
        "must be ceil(width / 64)"
    )
    require(width >= 0, message)
    require((width + 63) // 64 == bits.shape[-1], message)


@register_fake("unpack_masks")
def _unpack_masks(bits: Tensor, width: int) -> Tensor:
    op = "unpack_masks"
    _check(op, "bits", bits, (torch.int64,), _BITS)
    _check_width(op, bits, width)
    return bits.new_empty((*bits.shape[:-1], width), dtype=torch.bool)


def _check_masks(op: str, name: str, masks: Tensor, packed: bool) -> None:
    if packed:
        _check(op, name, masks, (torch.int64,), _BITS)
    else:
        _check(op, name, masks, (torch.bool, torch.uint8), "bool or uint8")


@register_fake("measure_masks")
def _measure_masks(masks: Tensor, packed: bool = True) -> tuple[Tensor, Tensor]:
    _check_masks("measure_masks", "masks", masks, packed)
    areas = masks.new_empty(masks.shape[:-2], dtype=torch.int64)
    return areas, areas.new_empty((*areas.shape, 4))


@register_fake("mask_iou")
def _mask_iou(
    masks1: Tensor,
    masks2: Tensor,
    kind: str = "iou",
    iscrowd: Tensor | None = None,
    packed1: bool = True,
    packed2: bool = True,
) -> Tensor:
    op = "mask_iou"
    for name, masks, packed in (("masks1", masks1, packed1), ("masks2", masks2, packed2)):
        require(
            masks.dim() == 3,
            f"visops.{op}: {name} has shape {list(masks.shape)}, must be "
            f"[N, H, {'words' if packed else 'W'}]",
        )
        _check_masks(op, name, masks, packed)
    message = (
        f"visops.{op}: masks1 has shape {list(masks1.shape)}, masks2 has {list(masks2.shape)}: "
        "masks must be of one size"
    )
    require(masks1.shape[1] == masks2.shape[1], message)
    if packed1 == packed2:
        require(masks1.shape[2] == masks2.shape[2], message)
    else:
        pixels, bits = (masks2, masks1) if packed1 else (masks1, masks2)
        require((pixels.shape[2] + 63) // 64 == bits.shape[2], message)
    require(kind in ("iou", "ioa"), f"visops.{op}: kind is '{kind}', must be 'iou' or 'ioa'")
    if iscrowd is not None:
        check_shape(op, "iscrowd", iscrowd, masks2.shape[:1], str(list(masks2.shape[:1])))
    return masks1.new_empty((masks1.shape[0], masks2.shape[0]), dtype=torch.float32)


def _check_ordered(
    op: str, bits: Tensor, order: Tensor, takes_part: Tensor | None, idxs: Tensor | None = None
) -> None:
    require(
        bits.dim() == 3,
        f"visops.{op}: bits has shape {list(bits.shape)}, must be [N, H, words]",
    )
    _check(op, "bits", bits, (torch.int64,), _BITS)
    for name, values in (("order", order), ("takes_part", takes_part), ("idxs", idxs)):
        if values is not None:
            check_shape(op, name, values, bits.shape[:1], str(list(bits.shape[:1])))


@register_fake("suppress_masks")
def _suppress_masks(
    bits: Tensor,
    order: Tensor,
    takes_part: Tensor | None,
    idxs: Tensor | None,
    iou_threshold: float,
) -> Tensor:
    _check_ordered("suppress_masks", bits, order, takes_part, idxs)
    return bits.new_empty(bits.shape[:1], dtype=torch.bool)


@register_fake("merge_masks")
def _merge_masks(
    bits: Tensor, width: int, order: Tensor, takes_part: Tensor | None, overlap_threshold: float
) -> tuple[Tensor, Tensor]:
    _check_ordered("merge_masks", bits, order, takes_part)
    _check_width("merge_masks", bits, width)
    labels = bits.new_empty((bits.shape[1], width), dtype=torch.int32)
    return labels, bits.new_empty(bits.shape[:1], dtype=torch.int32)


@register_fake("stability_score")
def _stability_score(logits: Tensor, mask_threshold: float, threshold_offset: float) -> Tensor:
    op = "stability_score"
    floating = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    _check(op, "logits", logits, floating, "a floating type")
    require(
        threshold_offset >= 0,
        f"visops.{op}: threshold_offset is {threshold_offset}, must be >= 0",
    )
    return logits.new_empty(logits.shape[:-2], dtype=torch.float32)


@register_fake("mask_boundaries")
def _mask_boundaries(bits: Tensor, width: int, dilation_ratio: float = 0.02) -> Tensor:
    op = "mask_boundaries"
    _check(op, "bits", bits, (torch.int64,), _BITS)
    _check_width(op, bits, width)
    require(
        dilation_ratio >= 0,
        f"visops.{op}: dilation_ratio is {dilation_ratio}, must be finite and >= 0",
    )
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
    add_vmap_rule(_op, below_vmap(complete_rule(_call, _leading(_call))))
for _op in ("mask_iou", "suppress_masks", "merge_masks"):
    _call = getattr(torch.ops.visops, _op).default
    add_vmap_rule(_op, below_vmap(complete_rule(_call, one_call_each(_call))))
