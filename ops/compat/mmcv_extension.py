"""The functions of mmcv's compiled extension, with its names, arguments and buffers."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from .._info import get_compiler_version, get_compiling_cuda_version
from ..boxes.iou import box_iou
from ..boxes.iou import box_iou_rotated as _box_iou_rotated
from ..losses.focal import sigmoid_focal_loss
from ..suppression.nms import nms as _nms
from ..suppression.nms import nms_match as _nms_match
from ..suppression.nms import nms_rotated as _nms_rotated
from ..suppression.soft_nms import soft_nms
from .deformable_attention import ms_deform_attn_backward as _attention_backward
from .deformable_attention import ms_deform_attn_forward as _attention_forward

__all__ = ["FUNCTIONS"]

_OPS: Any = torch.ops.visops
_KINDS: tuple[Literal["iou"], Literal["iof"]] = ("iou", "iof")
_METHODS: tuple[Literal["hard", "linear", "gaussian"], ...] = ("hard", "linear", "gaussian")
# Indices of maxima travel in mmcv's buffers of floats, also of halves: in two digits.
_DIGIT = 1024


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float, offset: int) -> Tensor:
    return _nms(_with_pixel(boxes, offset), scores, iou_threshold)


def softnms(
    boxes: Tensor,
    scores: Tensor,
    dets: Tensor,
    iou_threshold: float,
    sigma: float,
    min_score: float,
    method: int,
    offset: int,
) -> Tensor:
    kept, lowered = soft_nms(
        _with_pixel(boxes, offset),
        scores,
        method=_METHODS[method],
        iou_threshold=iou_threshold,
        sigma=sigma,
        min_score=min_score,
    )
    dets[: len(kept), :4] = boxes[kept]
    dets[: len(kept), 4] = lowered
    return kept


def nms_match(dets: Tensor, iou_threshold: float) -> list[list[int]]:
    return [group.tolist() for group in _nms_match(dets[:, :4], dets[:, 4], iou_threshold)]


def nms_rotated(
    dets: Tensor,
    scores: Tensor,
    order: Tensor,
    dets_sorted: Tensor,
    labels: Tensor,
    iou_threshold: float,
    multi_label: int,
) -> Tensor:
    idxs = labels.long() if multi_label else None
    return _nms_rotated(dets[:, :5], scores, iou_threshold, idxs=idxs)


def bbox_overlaps(
    bboxes1: Tensor, bboxes2: Tensor, ious: Tensor, mode: int, aligned: bool, offset: int
) -> None:
    boxes = (_with_pixel(bboxes1, offset), _with_pixel(bboxes2, offset))
    ious.copy_(box_iou(*boxes, kind=_KINDS[mode], aligned=bool(aligned)).view_as(ious))


def box_iou_rotated(
    bboxes1: Tensor, bboxes2: Tensor, ious: Tensor, mode_flag: int, aligned: bool
) -> None:
    found = _box_iou_rotated(bboxes1, bboxes2, kind=_KINDS[mode_flag], aligned=bool(aligned))
    ious.copy_(found.view_as(ious))


def _with_pixel(boxes: Tensor, offset: int) -> Tensor:
    """Return boxes whose last pixel counts, as mmcv 1 had them, if `offset` is 1."""
    if not offset:
        return boxes
    return boxes + boxes.new_tensor([0, 0, offset, offset])


def roi_align_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    arguments = [aligned_height, aligned_width], spatial_scale, sampling_ratio, aligned
    if pool_mode == 1:
        output.copy_(_OPS.roi_align(input, rois, *arguments))
        return
    found, index = _OPS.roi_align_max(input, rois, *arguments)
    output.copy_(found)
    argmax_y.copy_(index // _DIGIT)
    argmax_x.copy_(index % _DIGIT)


def roi_align_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    grad_input: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    rest = rois, list(grad_input.shape), spatial_scale, sampling_ratio, aligned, False
    if pool_mode == 1:
        found = _OPS.roi_align_backward_input(grad_output, *rest)
    else:
        index = argmax_y.long() * _DIGIT + argmax_x.long()
        found = _OPS.roi_align_max_backward_input(grad_output, index, *rest)
    grad_input.copy_(found)


def roi_pool_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    argmax: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    found, index = _OPS.roi_pool(input, rois, [pooled_height, pooled_width], spatial_scale)
    output.copy_(found)
    argmax.copy_(index)


def roi_pool_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax: Tensor,
    grad_input: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    rest = rois, list(grad_input.shape), spatial_scale, False
    grad_input.copy_(_OPS.roi_pool_backward(grad_output, argmax, *rest))


def roi_align_rotated_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    clockwise: bool,
) -> None:
    size = [pooled_height, pooled_width]
    options = spatial_scale, sampling_ratio, bool(aligned), bool(clockwise)
    output.copy_(_OPS.roi_align_rotated(input, rois, size, *options))


def roi_align_rotated_backward(
    grad_output: Tensor,
    rois: Tensor,
    grad_input: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    clockwise: bool,
) -> None:
    options = spatial_scale, sampling_ratio, bool(aligned), bool(clockwise), False, False
    arguments = grad_output, rois, list(grad_input.shape), *options
    grad_input.copy_(_OPS.roi_align_rotated_backward(*arguments))


def deform_conv_forward(
    input: Tensor, weight: Tensor, offset: Tensor, output: Tensor, *_: Any, **options: Any
) -> None:
    output.copy_(_OPS.deform_conv2d(input, offset, weight, None, *_steps(options)))


def deform_conv_backward_input(
    input: Tensor,
    offset: Tensor,
    grad_output: Tensor,
    grad_input: Tensor,
    grad_offset: Tensor,
    weight: Tensor,
    *_: Any,
    **options: Any,
) -> None:
    rest = weight, *_steps(options), None, False
    found = _OPS.deform_conv2d_backward_samples(grad_output, input, offset, *rest)
    grad_input.copy_(found[0])
    grad_offset.copy_(found[1])


def deform_conv_backward_parameters(
    input: Tensor,
    offset: Tensor,
    grad_output: Tensor,
    grad_weight: Tensor,
    *_: Any,
    scale: float = 1.0,
    **options: Any,
) -> None:
    rest = input, offset, list(grad_weight.shape), *_steps(options), None
    grad_weight.add_(_OPS.deform_conv2d_backward_weight(grad_output, *rest), alpha=scale)


def modulated_deform_conv_forward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    output: Tensor,
    columns: Tensor,
    with_bias: bool,
    **options: Any,
) -> None:
    added = bias if with_bias else None
    output.copy_(_OPS.deform_conv2d(input, offset, weight, added, *_steps(options), mask))


def modulated_deform_conv_backward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    columns: Tensor,
    grad_input: Tensor,
    grad_weight: Tensor,
    grad_bias: Tensor,
    grad_offset: Tensor,
    grad_mask: Tensor,
    grad_output: Tensor,
    with_bias: bool,
    **options: Any,
) -> None:
    steps = _steps(options)
    rest = weight, *steps, mask, False
    found = _OPS.deform_conv2d_backward_samples(grad_output, input, offset, *rest)
    for grad, own in zip((grad_input, grad_offset, grad_mask), found, strict=True):
        grad.copy_(own)
    rest = input, offset, list(weight.shape), *steps, mask
    grad_weight.add_(_OPS.deform_conv2d_backward_weight(grad_output, *rest))
    if with_bias:
        grad_bias.add_(grad_output.sum((0, 2, 3)))


# Deformable convolution's names of stride, padding and dilation, of version 1 and of version 2.
_STEPS = (
    (("dH", "dW"), ("padH", "padW"), ("dilationH", "dilationW")),
    (("stride_h", "stride_w"), ("pad_h", "pad_w"), ("dilation_h", "dilation_w")),
)


def _steps(options: dict[str, int]) -> list[list[int]]:
    names = _STEPS["stride_h" in options]
    return [[options[name] for name in pair] for pair in names]


def ms_deform_attn_forward(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> Tensor:
    levels = spatial_shapes, level_start_index
    return _attention_forward(value, *levels, sampling_locations, attention_weights)


def ms_deform_attn_backward(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    grad_output: Tensor,
    grad_value: Tensor,
    grad_sampling_loc: Tensor,
    grad_attn_weight: Tensor,
    im2col_step: int,
) -> None:
    levels = spatial_shapes, level_start_index
    found = _attention_backward(value, *levels, sampling_locations, attention_weights, grad_output)
    for grad, own in zip((grad_value, grad_sampling_loc, grad_attn_weight), found, strict=True):
        grad.copy_(own)


def sigmoid_focal_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor, output: Tensor, gamma: float, alpha: float
) -> None:
    losses = sigmoid_focal_loss(input, target, alpha, gamma)
    output.copy_(losses if weight.numel() == 0 else losses * _of_rows(target, weight))


def sigmoid_focal_loss_backward(
    input: Tensor, target: Tensor, weight: Tensor, grad_input: Tensor, gamma: float, alpha: float
) -> None:
    weights = input.new_ones(()) if weight.numel() == 0 else _of_rows(target, weight)
    grad = weights.expand_as(input).to(input.dtype)
    grad_input.copy_(_OPS.sigmoid_focal_loss_backward(grad, input, target, alpha, gamma))


def _of_rows(target: Tensor, weight: Tensor) -> Tensor:
    """Return the weights of the rows' classes, ``[N, 1]``."""
    return weight[target.clamp(max=len(weight) - 1)][:, None]


def softmax_focal_loss_forward(
    input_softmax: Tensor,
    target: Tensor,
    weight: Tensor,
    output: Tensor,
    gamma: float,
    alpha: float,
) -> None:
    p, factor = _softmax(input_softmax, target, weight, alpha)
    output.copy_((-factor * (1 - p) ** gamma * _log(p)).view_as(output))


def softmax_focal_loss_backward(
    input_softmax: Tensor,
    target: Tensor,
    weight: Tensor,
    buff: Tensor,
    grad_input: Tensor,
    gamma: float,
    alpha: float,
) -> None:
    p, factor = _softmax(input_softmax, target, weight, alpha)
    # The loss's derivative by p, times p; where p is 1, its logarithm is 0.
    rest = torch.where(p < 1, gamma * (1 - p) ** (gamma - 1) * p * _log(p), 0.0)
    slope = factor * (rest - (1 - p) ** gamma)
    classes = torch.arange(input_softmax.shape[1], device=target.device)
    is_class = (classes == target[:, None]).to(input_softmax.dtype)
    grad_input.copy_(slope[:, None] * (is_class - input_softmax))


def _softmax(
    input_softmax: Tensor, target: Tensor, weight: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    """Return the target's probability and the loss's factor, which is 0 without a target."""
    labels = target.clamp(min=0)
    p = input_softmax.gather(1, labels[:, None])[:, 0]
    factor = (target >= 0).to(p.dtype) * alpha
    return p, factor * weight[labels] if weight.numel() else factor


def _log(p: Tensor) -> Tensor:
    return p.clamp(min=torch.finfo(p.dtype).tiny).log()


# By name.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(nms, softnms, nms_match, nms_rotated, bbox_overlaps, box_iou_rotated),
        *(roi_align_forward, roi_align_backward, roi_pool_forward, roi_pool_backward),
        *(roi_align_rotated_forward, roi_align_rotated_backward),
        *(deform_conv_forward, deform_conv_backward_input, deform_conv_backward_parameters),
        *(modulated_deform_conv_forward, modulated_deform_conv_backward),
        *(ms_deform_attn_forward, ms_deform_attn_backward),
        *(sigmoid_focal_loss_forward, sigmoid_focal_loss_backward),
        *(softmax_focal_loss_forward, softmax_focal_loss_backward),
        *(get_compiler_version, get_compiling_cuda_version),
    )
}
