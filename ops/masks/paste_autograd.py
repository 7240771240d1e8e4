"""Pasted masks for torch: fake kernels, gradients, vmap.

Pasting is linear in the masks, so its gradient is linear in the incoming one, and the gradient of
the gradient is pasting.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.differentiable import Differentiable
from .._torch.fakes import register_fake
from .._torch.registering import add_vmap_rule
from .._torch.vmap_calls import complete_rule
from .fakes import word_count

paste_masks = Differentiable("paste_masks")
_paste_masks_backward = Differentiable("paste_masks_backward")

_BINARY = {"bool": torch.bool, "uint8": torch.uint8, "packed": torch.int64}


@register_fake("paste_masks")
def _paste_fake(masks: Tensor, boxes: Tensor, size: Sequence[Any], *options: Any) -> Tensor:
    return masks.new_empty((masks.shape[0], *size))


@register_fake("paste_binary_masks")
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


@register_fake("paste_masks_backward")
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


def _as_more_masks(call: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, int]]:
    """Return the vmap rule: the mapped entries' masks are masks of one call."""

    def rule(
        info: Any, in_dims: Any, values: Tensor, boxes: Tensor, *rest: Any
    ) -> tuple[Tensor, int]:
        entries = [
            part.expand(info.batch_size, *part.shape) if dim is None else part.movedim(dim, 0)
            for part, dim in zip((values, boxes), in_dims, strict=False)
        ]
        sizes = entries[0].shape[:2]
        result = call(*(entry.flatten(0, 1) for entry in entries), *rest)
        return result.unflatten(0, sizes), 0

    return rule


paste_masks.register(
    setup_context=_setup, backward=_vjp, constants=("boxes",), vmap=_as_more_masks(paste_masks)
)
_paste_masks_backward.register(
    setup_context=_setup,
    backward=_backward_vjp,
    constants=("boxes",),
    vmap=_as_more_masks(_paste_masks_backward),
)
_binary = torch.ops.visops.paste_binary_masks.default
add_vmap_rule("paste_binary_masks", complete_rule(_binary, _as_more_masks(_binary)))
