"""Crops and pasting for torch: fake kernels, gradients, vmap.

A crop is linear in the images, and pasting in images and patches together. So the gradient of the
images of a paste is a paste of zeros into the incoming gradient, and second derivatives are among
the same operators.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .._torch.declaring import operator
from .._torch.fakes import contiguous_like, empty_maps, prefers_channels_last
from .._torch.vmap_calls import one_call_each


def _nothing(like: Tensor, shape: Sequence[Any]) -> Tensor:
    """Return zeros that take no memory."""
    return like.new_zeros(()).expand(*shape)


def _crop_fake(images: Tensor, boxes: Tensor, size: Sequence[Any], *options: Any) -> Tensor:
    shape = (boxes.shape[0], images.shape[1], *size)
    return empty_maps(images, shape, prefers_channels_last(images))


def _crop_backward_images_fake(
    grad: Tensor, boxes: Tensor, images_size: Sequence[Any], *options: Any
) -> Tensor:
    return empty_maps(grad, images_size, prefers_channels_last(grad))


def _paste_fake(images: Tensor, patches: Tensor, boxes: Tensor, *options: Any) -> Tensor:
    return empty_maps(images, images.shape, prefers_channels_last(images))


def _paste_backward_patches_fake(
    grad: Tensor,
    boxes: Tensor,
    alpha: Tensor | None,
    patches_size: Sequence[Any],
    *options: Any,
) -> Tensor:
    return empty_maps(grad, patches_size, prefers_channels_last(grad))


def _crop_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    images, boxes, _, interpolation, padding_mode, fill = inputs
    # Linear in the images: only the boxes' gradient needs them.
    ctx.save_for_backward(boxes, images if ctx.needs_input_grad[1] else None)
    ctx.images_size = images.shape
    ctx.options = (interpolation, padding_mode)
    ctx.fill = fill


def _crop_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    boxes, images = ctx.saved_tensors
    of_images = of_boxes = None
    if ctx.needs_input_grad[0]:
        of_images = _crop_backward_images(grad, boxes, ctx.images_size, *ctx.options)
    if ctx.needs_input_grad[1]:
        of_boxes = _crop_backward_boxes(grad, images, boxes, *ctx.options, ctx.fill)
    return of_images, of_boxes, None, None, None, None


def _crop_backward_images_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, boxes, _, *ctx.options = inputs
    ctx.save_for_backward(boxes, grad if ctx.needs_input_grad[1] else None)
    ctx.size = grad.shape[2:]


def _crop_backward_images_vjp(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
    # <u, crop^T g> = <crop u, g>, so its derivatives are those of cropping u, without fill.
    boxes, grad = ctx.saved_tensors
    of_grad = of_boxes = None
    if ctx.needs_input_grad[0]:
        of_grad = crop_rois(incoming, boxes, ctx.size, *ctx.options, [0.0])
    if ctx.needs_input_grad[1]:
        of_boxes = _crop_backward_boxes(grad, incoming, boxes, *ctx.options, [0.0])
    return of_grad, of_boxes, None, None, None


def _crop_backward_boxes_vjp(ctx: Any, _: Tensor) -> None:
    raise RuntimeError(
        "visops.crop_rois: the gradient with respect to the boxes can't be differentiated again; "
        "detach it, or the boxes, where that is not needed"
    )


def _paste_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    images, patches, boxes, alpha, *ctx.options = inputs
    # Linear in images and patches: only alpha's gradient needs them.
    # Trailing arguments that equal their defaults are missing: without alpha there may be three.
    is_needed = alpha is not None and ctx.needs_input_grad[3]
    ctx.save_for_backward(
        boxes, alpha, images if is_needed else None, patches if is_needed else None
    )
    ctx.patches_size = patches.shape


def _paste_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    boxes, alpha, images, patches = ctx.saved_tensors
    of_images = of_patches = of_alpha = None
    if ctx.needs_input_grad[0]:
        of_images = paste_rois(grad, _nothing(grad, ctx.patches_size), boxes, alpha, *ctx.options)
    if ctx.needs_input_grad[1]:
        of_patches = _paste_backward_patches(grad, boxes, alpha, ctx.patches_size, *ctx.options)
    if alpha is not None and ctx.needs_input_grad[3]:
        interpolation = ctx.options[-1]
        of_alpha = _paste_backward_alpha(grad, images, patches, boxes, alpha, interpolation)
    return of_images, of_patches, None, of_alpha, None, None, None


def _paste_backward_patches_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, boxes, alpha, _, *ctx.options = inputs
    ctx.save_for_backward(boxes, alpha, grad if ctx.needs_input_grad[2] else None)
    ctx.images_size = grad.shape


def _paste_backward_patches_vjp(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
    # <u, paste^T g> = <paste of u into zeros, g>.
    boxes, alpha, grad = ctx.saved_tensors
    nothing = _nothing(incoming, ctx.images_size)
    of_grad = of_alpha = None
    if ctx.needs_input_grad[0]:
        of_grad = paste_rois(nothing, incoming, boxes, alpha, *ctx.options)
    if ctx.needs_input_grad[2]:
        of_alpha = _paste_backward_alpha(grad, nothing, incoming, boxes, alpha, ctx.options[-1])
    return of_grad, None, of_alpha, None, None, None, None


def _paste_backward_alpha_vjp(ctx: Any, _: Tensor) -> None:
    raise RuntimeError(
        "visops.paste_rois: the gradient with respect to alpha can't be differentiated again; "
        "detach it, or alpha, where that is not needed"
    )


crop_rois = operator(
    "crop_rois",
    fake=_crop_fake,
    setup_context=_crop_setup,
    backward=_crop_vjp,
    vmap=one_call_each,
    onnx="roi",
)
_crop_backward_images = operator(
    "crop_rois_backward_images",
    fake=_crop_backward_images_fake,
    setup_context=_crop_backward_images_setup,
    backward=_crop_backward_images_vjp,
    vmap=one_call_each,
)
_crop_backward_boxes = operator(
    "crop_rois_backward_boxes",
    fake=contiguous_like(2),
    backward=_crop_backward_boxes_vjp,
    vmap=one_call_each,
)
paste_rois = operator(
    "paste_rois",
    fake=_paste_fake,
    setup_context=_paste_setup,
    backward=_paste_vjp,
    constants=("boxes",),
    vmap=one_call_each,
)
_paste_backward_patches = operator(
    "paste_rois_backward_patches",
    fake=_paste_backward_patches_fake,
    setup_context=_paste_backward_patches_setup,
    backward=_paste_backward_patches_vjp,
    constants=("boxes",),
    vmap=one_call_each,
)
_paste_backward_alpha = operator(
    "paste_rois_backward_alpha",
    fake=contiguous_like(4),
    backward=_paste_backward_alpha_vjp,
    vmap=one_call_each,
)
