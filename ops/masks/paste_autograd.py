"""Pasted masks for torch: fake kernels, gradients, vmap.

Pasting is linear in the masks, so its gradient is linear in the incoming one, and the gradient of
the gradient is pasting.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import operator
from .._torch.vmap_calls import mapped_first
from .operators import word_count

_BINARY = {"bool": torch.bool, "uint8": torch.uint8, "packed": torch.int64}


def _paste_fake(masks: Tensor, boxes: Tensor, size: Sequence[Any], *options: Any) -> Tensor:
    return masks.new_empty((masks.shape[0], *size))


def _paste_binary_fake(
    masks: Tensor,
    boxes: Tensor,
    size: Sequence[Any],
    threshold: float = 0.5,
    out: str = "bool",
    *options: Any,
) -> Tensor:
    height, width = size
    last = word_count(width) if out == "packed" else width
    return masks.new_empty((masks.shape[0], height, last), dtype=_BINARY.get(out, torch.bool))


def _paste_backward_fake(
    grad: Tensor, boxes: Tensor, mask_size: Sequence[Any], *options: Any
) -> Tensor:
    return grad.new_empty((grad.shape[0], *mask_size))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    values, boxes, _, *ctx.options = inputs
    ctx.save_for_backward(boxes)
    ctx.given = values.shape[1:]


def _vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (boxes,) = ctx.saved_tensors
    of_masks = None
    if ctx.needs_input_grad[0]:
        of_masks = _paste_masks_backward(grad, boxes, ctx.given, *ctx.options)
    return of_masks, None, None, None, None


def _backward_vjp(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
    # <u, paste^T g> = <paste u, g>.
    (boxes,) = ctx.saved_tensors
    of_grad = None
    if ctx.needs_input_grad[0]:
        of_grad = paste_masks(incoming, boxes, ctx.given, *ctx.options)
    return of_grad, None, None, None, None


def _as_more_masks(
    call: Callable[..., Tensor], info: Any, in_dims: Any, values: Tensor, boxes: Tensor, *rest: Any
) -> tuple[Tensor, int]:
    """Let the mapped entries' masks be masks of one call."""
    values, boxes = (
        mapped_first(part, dim, info.batch_size)
        for part, dim in zip((values, boxes), in_dims, strict=False)
    )
    result = call(values.flatten(0, 1), boxes.flatten(0, 1), *rest)
    return result.unflatten(0, values.shape[:2]), 0


paste_masks = operator(
    "paste_masks",
    fake=_paste_fake,
    setup_context=_setup,
    backward=_vjp,
    constants=("boxes",),
    vmap=_as_more_masks,
    note="Returns numbers; convention: detectron2, or torchvision with padding.",
)
_paste_masks_backward = operator(
    "paste_masks_backward",
    fake=_paste_backward_fake,
    setup_context=_setup,
    backward=_backward_vjp,
    constants=("boxes",),
    vmap=_as_more_masks,
)
paste_binary_masks = operator(
    "paste_binary_masks",
    fake=_paste_binary_fake,
    vmap=_as_more_masks,
    documented_as="paste_masks",
    description="Masks as paste_masks has them; out: bool, uint8 or packed.",
)
