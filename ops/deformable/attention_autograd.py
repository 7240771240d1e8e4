"""Deformable attention for torch: fake kernels, gradients, vmap.

The attention is linear in `value`. So its gradient with respect to `value` has the attention itself
as its gradient, and second derivatives are among the same operators.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import operator
from .._torch.vmap_calls import into_batch, mapped_first, out_of_batch

_NAME = "multi_scale_deformable_attention"


def _attention_fake(
    value: Tensor, shapes: Tensor | None, sizes: Sequence[Any], locations: Tensor, *rest: Any
) -> Tensor:
    batch, _, heads, channels = value.shape
    return value.new_empty((batch, locations.shape[1], heads * channels))


def _backward_value_fake(grad: Tensor, *rest: Any) -> Tensor:
    return grad.new_empty(rest[-1])


def _backward_samples_fake(
    grad: Tensor,
    value: Tensor,
    shapes: Tensor | None,
    sizes: Sequence[Any],
    locations: Tensor,
    weights: Tensor,
    *rest: Any,
) -> tuple[Tensor, Tensor]:
    return (
        torch.empty_like(locations, memory_format=torch.contiguous_format),
        torch.empty_like(weights, memory_format=torch.contiguous_format),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    value, shapes, ctx.sizes, locations, weights, ctx.points, ctx.method = inputs
    # Linear in value: only the samples' gradient needs it.
    is_needed = ctx.needs_input_grad[3] or ctx.needs_input_grad[4]
    ctx.save_for_backward(shapes, locations, weights, value if is_needed else None)
    ctx.value_size = value.shape


def _gradients(
    ctx: Any, grad: Tensor, value: Tensor | None, *samples: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of locations and weights where they are wanted.

    `samples` are the saved shapes, locations and weights. Non-reentrant checkpoints unpack saved
    tensors once only, so they are passed on.
    """
    if value is None:
        return None, None
    shapes, locations, weights = samples
    of_locations, of_weights = backward_samples(
        grad, value, shapes, ctx.sizes, locations, weights, ctx.points, ctx.method
    )
    has_positions = ctx.method == "default"  # "discrete" rounds locations
    return (
        of_locations if ctx.needs_input_grad[3] and has_positions else None,
        of_weights if ctx.needs_input_grad[4] else None,
    )


def _vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    shapes, locations, weights, value = ctx.saved_tensors
    of_value = None
    if ctx.needs_input_grad[0]:
        of_value = backward_value(
            grad, shapes, ctx.sizes, locations, weights, ctx.points, ctx.method, ctx.value_size
        )
    of_locations, of_weights = _gradients(ctx, grad, value, shapes, locations, weights)
    return of_value, None, None, of_locations, of_weights, None, None


def _backward_value_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, shapes, ctx.sizes, locations, weights, ctx.points, ctx.method, _ = inputs
    is_needed = ctx.needs_input_grad[3] or ctx.needs_input_grad[4]
    ctx.save_for_backward(shapes, locations, weights, grad if is_needed else None)


def _backward_value_vjp(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
    # <u, A^T g> = <A u, g>, so its derivatives are those of the attention to u.
    shapes, locations, weights, grad = ctx.saved_tensors
    of_grad = of_locations = of_weights = None
    if ctx.needs_input_grad[0]:
        of_grad = attention(incoming, shapes, ctx.sizes, locations, weights, ctx.points, ctx.method)
    if grad is not None:
        of_locations, of_weights = _gradients(ctx, grad, incoming, shapes, locations, weights)
    return of_grad, None, None, of_locations, of_weights, None, None, None


def _backward_samples_vjp(ctx: Any, *_: Tensor) -> None:
    raise RuntimeError(
        f"visops.{_NAME}: the gradients with respect to sampling_locations and attention_weights "
        "can't be differentiated again; detach them where that is not needed"
    )


def _reject_mapped_shapes(dim: int | None) -> None:
    if dim is not None:
        raise RuntimeError(f"visops.{_NAME}: spatial_shapes can't be mapped by vmap")


def _attention_vmap(call: Any, info: Any, dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    value, shapes, sizes, locations, weights, *options = arguments
    _reject_mapped_shapes(dims[1])
    entries = info.batch_size
    if dims[0] is None:  # the entries' queries attend to the same values
        locations = mapped_first(locations, dims[3], entries).movedim(0, 1).flatten(1, 2)
        weights = mapped_first(weights, dims[4], entries).movedim(0, 1).flatten(1, 2)
        found = call(value, shapes, sizes, locations, weights, *options)
        queries = found.shape[1] // entries
        return found.reshape(found.shape[0], entries, queries, found.shape[2]), 1
    value, locations, weights = (
        into_batch(tensor, dims[i], entries)
        for i, tensor in ((0, value), (3, locations), (4, weights))
    )
    return out_of_batch(call(value, shapes, sizes, locations, weights, *options), entries), 0


def _backward_value_vmap(call: Any, info: Any, dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    grad, shapes, sizes, locations, weights, *options, value_size = arguments
    _reject_mapped_shapes(dims[1])
    grad, locations, weights = (
        into_batch(tensor, dims[i], info.batch_size)
        for i, tensor in ((0, grad), (3, locations), (4, weights))
    )
    size = [info.batch_size * value_size[0], *value_size[1:]]
    found = call(grad, shapes, sizes, locations, weights, *options, size)
    return out_of_batch(found, info.batch_size), 0


def _backward_samples_vmap(
    call: Any, info: Any, dims: Any, *arguments: Any
) -> tuple[Any, tuple[int, int]]:
    grad, value, shapes, sizes, locations, weights, *options = arguments
    _reject_mapped_shapes(dims[2])
    tensors = zip((grad, value, locations, weights), (*dims[:2], *dims[4:6]), strict=True)
    grad, value, locations, weights = (
        into_batch(tensor, dim, info.batch_size) for tensor, dim in tensors
    )
    found = call(grad, value, shapes, sizes, locations, weights, *options)
    return tuple(out_of_batch(part, info.batch_size) for part in found), (0, 0)


def _constants(inputs: Sequence[Any]) -> tuple[str, ...]:
    return () if inputs[6] == "default" else ("sampling_locations",)


attention = operator(
    _NAME,
    fake=_attention_fake,
    setup_context=_setup,
    backward=_vjp,
    vmap=_attention_vmap,
    constants=_constants,
    onnx="deformable",
)
backward_value = operator(
    f"{_NAME}_backward_value",
    fake=_backward_value_fake,
    setup_context=_backward_value_setup,
    backward=_backward_value_vjp,
    vmap=_backward_value_vmap,
    constants=_constants,
)
backward_samples = operator(
    f"{_NAME}_backward_samples",
    fake=_backward_samples_fake,
    backward=_backward_samples_vjp,
    vmap=_backward_samples_vmap,
)
