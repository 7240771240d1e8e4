"""RoIAlign on pyramids for torch: fake kernels, gradients, vmap.

As on one map (align_autograd.py): the result is linear in all maps together. torch.func does
not see into lists of maps: while one of its transforms is active, levels are pooled one by one.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import operator
from .._torch.fakes import contiguous_like, empty_maps, prefers_channels_last
from .._torch.unsupported_inputs import unsupported
from .align_autograd import (
    backward_boxes,
    backward_input,
    empty_bins,
    not_differentiable_again,
    roi_align,
)

_COMPUTED_IN_SINGLE = (torch.float16, torch.bfloat16, torch.float32)


def _fake(
    features: Sequence[Tensor], boxes: Tensor, output_size: Sequence[Any], *options: Any
) -> Tensor:
    return empty_bins(features[0], boxes, output_size)


def _backward_input_fake(
    grad: Tensor, boxes: Tensor, sizes: Sequence[Any], batch: Any, *options: Any
) -> list[Tensor]:
    return [
        empty_maps(grad, (batch, grad.shape[1], height, width), channels_last)
        for height, width, channels_last in zip(sizes[::2], sizes[1::2], options[-1], strict=True)
    ]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    features, boxes, _, *ctx.options = inputs
    # Linear in the maps: only the boxes' gradient needs them.
    ctx.save_for_backward(boxes, *(features if ctx.needs_input_grad[len(features)] else ()))
    ctx.sizes = [size for maps in features for size in maps.shape[2:]]
    ctx.batch = features[0].shape[0]
    ctx.channels_last = [prefers_channels_last(maps) for maps in features]


def _vjp(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    boxes, *features = ctx.saved_tensors
    needs = ctx.needs_input_grad
    grad_features: list[Tensor | None] = [None] * len(ctx.channels_last)
    grad_boxes = None
    batched = _is_batch(grad)
    back: Callable[..., Any]
    if any(needs[0]):
        back = _backward_input_by_level if batched else _backward_input
        of_maps = back(grad, boxes, ctx.sizes, ctx.batch, *ctx.options, ctx.channels_last)
        grad_features = list(of_maps)
    if needs[1]:
        back = _backward_boxes_by_level if batched else _backward_boxes
        grad_boxes = back(grad, features, boxes, *ctx.options)
    # `needs` may lack trailing options that equal their defaults.
    return grad_features, grad_boxes, *(None for _ in needs[2:])


def _is_batch(grad: Tensor) -> bool:
    """Whether these are several gradients, of torch.autograd.grad(..., is_grads_batched=True).

    They come as tensors that no operator with lists can have a rule for.
    """
    return torch._C._functorch.is_legacy_batchedtensor(grad)


def level_number(scale: float) -> int:
    """Return k of the level whose scale is nearest to 2 ** -k."""
    return round(-math.log2(scale))


def box_levels(
    boxes: Tensor, scales: Sequence[float], canonical_scale: float, canonical_level: int, rule: str
) -> Tensor:
    """Compute each box's level as level_of_box() in csrc/core/roi/align.h does."""
    dtype = torch.float32 if boxes.dtype in _COMPUTED_IN_SINGLE else torch.float64
    x1, y1, x2, y2 = boxes.detach().to(dtype)[:, 1:].unbind(1)
    # torch's square roots and logarithms in float32 may be off by one in the last place.
    size = ((x2 - x1) * (y2 - y1)).double().sqrt().to(dtype)
    size = size / torch.full_like(
        size, canonical_scale
    )  # torch may divide by a number by multiplying
    if rule == "detectron2":
        size = size + 1e-8
    exact = canonical_level + size.double().log2().to(dtype)
    if rule == "torchvision":
        exact = exact + 1e-6
    numbers = [level_number(scale) for scale in scales]
    return sum(((exact >= n).long() for n in numbers[1:]), torch.zeros_like(exact).long())


def _level_by_level(
    features: Sequence[Tensor],
    boxes: Tensor,
    output_size: Any,
    scales: Sequence[float],
    sampling_ratio: int,
    aligned: bool,
    *levels: Any,
) -> Tensor:
    """Pool all boxes from every level, then select each box's level: the same bits."""
    if message := unsupported("multiscale_roi_align", "features", list(features)):
        raise RuntimeError(message)
    if not all(math.isfinite(scale) and scale > 0 for scale in scales):
        raise RuntimeError(
            f"visops.multiscale_roi_align: scales is {list(scales)}, must be finite and > 0"
        )
    return pool_by_position(
        features, boxes, output_size, scales, sampling_ratio, aligned, scales, *levels
    )


def _gradients_by_level(
    grad: Tensor, boxes: Tensor, scales: Sequence[float], levels: Sequence[Any]
) -> Iterator[Tensor]:
    """Yield the gradient of each level's boxes, 0 for the others': their sums keep their bits."""
    chosen = box_levels(boxes, scales, *levels)[:, None, None, None]
    return (torch.where(chosen == i, grad, 0.0) for i in range(len(scales)))


def _backward_input_by_level(
    grad: Tensor,
    boxes: Tensor,
    sizes: Sequence[Any],
    batch: Any,
    scales: Sequence[float],
    sampling_ratio: int,
    aligned: bool,
    *rest: Any,
) -> list[Tensor]:
    *levels, channels_last = rest
    parts = _gradients_by_level(grad, boxes, scales, levels)
    shapes = [[batch, grad.shape[1], *pair] for pair in zip(sizes[::2], sizes[1::2], strict=True)]
    return [
        backward_input(part, boxes, shape, scale, sampling_ratio, aligned, last)
        for part, shape, scale, last in zip(parts, shapes, scales, channels_last, strict=True)
    ]


def _backward_boxes_by_level(
    grad: Tensor,
    features: Sequence[Tensor],
    boxes: Tensor,
    scales: Sequence[float],
    sampling_ratio: int,
    aligned: bool,
    *levels: Any,
) -> Tensor:
    parts = _gradients_by_level(grad, boxes, scales, levels)
    found = [
        backward_boxes(part, maps, boxes, scale, sampling_ratio, aligned)
        for part, maps, scale in zip(parts, features, scales, strict=True)
    ]
    return functools.reduce(torch.add, found)


def pool_by_position(
    features: Sequence[Tensor],
    boxes: Tensor,
    output_size: Any,
    scales: Sequence[float],
    sampling_ratio: int,
    aligned: bool,
    level_scales: Sequence[float],
    *levels: Any,
) -> Tensor:
    """Pool all boxes from every map by its scale; select map i if `level_scales[i]` is a box's."""
    pooled = [
        roi_align(maps, boxes, output_size, scale, sampling_ratio, aligned)
        for maps, scale in zip(features, scales, strict=True)
    ]
    result = pooled[0]
    if len(features) > 1:
        chosen = box_levels(boxes, level_scales, *levels)[:, None, None, None]
        for i, values in enumerate(pooled[1:], 1):
            result = torch.where(chosen == i, values, result)
    return result


def _backward_input_setup(ctx: Any, inputs: tuple[Any, ...], output: Sequence[Tensor]) -> None:
    grad, boxes, _, _, *ctx.options, _ = inputs
    ctx.save_for_backward(boxes, grad if ctx.needs_input_grad[1] else None)
    ctx.output_size = grad.shape[2:]


def _backward_input_vjp(ctx: Any, incoming: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    # <u, pool^T g> = <pool u, g>, so its derivatives are those of pooling u.
    boxes, grad = ctx.saved_tensors
    maps = list(incoming)
    batched = _is_batch(maps[0])
    of_grad = of_boxes = None
    if ctx.needs_input_grad[0]:
        pool = _level_by_level if batched else multiscale_roi_align
        of_grad = pool(maps, boxes, ctx.output_size, *ctx.options)
    if ctx.needs_input_grad[1]:
        back = _backward_boxes_by_level if batched else _backward_boxes
        of_boxes = back(grad, maps, boxes, *ctx.options)
    return of_grad, of_boxes, *(None for _ in ctx.needs_input_grad[2:])


multiscale_roi_align = operator(
    "multiscale_roi_align",
    fake=_fake,
    setup_context=_setup,
    backward=_vjp,
    one_by_one=_level_by_level,
    onnx="roi",
)
_backward_input = operator(
    "multiscale_roi_align_backward_input",
    fake=_backward_input_fake,
    setup_context=_backward_input_setup,
    backward=_backward_input_vjp,
    one_by_one=_backward_input_by_level,
)
_backward_boxes = operator(
    "multiscale_roi_align_backward_boxes",
    fake=contiguous_like(2),
    backward=not_differentiable_again("multiscale_roi_align"),
    one_by_one=_backward_boxes_by_level,
)
