"""Point samples for torch: fake kernels, gradients, vmap.

Samples are linear in `input`. So their gradient with respect to it has the sampling itself as its
gradient, and second derivatives are among the same operators.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import operator
from .._torch.fakes import contiguous_like
from .._torch.shapes import prefers_channels_last
from .._torch.vmap_calls import into_batch, out_of_batch

_NAME = "point_sample"


def _sample_fake(input: Tensor, points: Tensor, *options: Any) -> Tensor:
    batch, channels, count = input.shape[0], input.shape[1], points.shape[1]
    dtype = input.dtype if input.is_floating_point() else torch.float32
    if prefers_channels_last(input):
        return input.new_empty((batch, count, channels), dtype=dtype).transpose(1, 2)
    return input.new_empty((batch, channels, count), dtype=dtype)


def _backward_input_fake(
    grad: Tensor, points: Tensor, input_size: Sequence[Any], *options: Any
) -> Tensor:
    return grad.new_empty(input_size)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, points, *ctx.options = inputs
    # Linear in input: only the points' gradient needs it.
    ctx.save_for_backward(points, input if ctx.needs_input_grad[1] else None)
    ctx.input_size = input.shape


def _of_points(ctx: Any, grad: Tensor, input: Tensor | None, points: Tensor) -> Tensor | None:
    if input is None or ctx.options[0] == "nearest":  # "nearest" rounds points
        return None
    found: Tensor = backward_points(grad, input, points, *ctx.options)
    return found


def _vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    points, input = ctx.saved_tensors
    of_input = None
    if ctx.needs_input_grad[0]:
        of_input = backward_input(grad, points, ctx.input_size, *ctx.options)
    return of_input, _of_points(ctx, grad, input, points), None, None, None


def _backward_input_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, points, _, *ctx.options = inputs
    ctx.save_for_backward(points, grad if ctx.needs_input_grad[1] else None)


def _backward_input_vjp(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
    # <u, A^T g> = <A u, g>, so its derivatives are those of the samples of u.
    points, grad = ctx.saved_tensors
    of_grad = sample(incoming, points, *ctx.options) if ctx.needs_input_grad[0] else None
    of_points = None if grad is None else _of_points(ctx, grad, incoming, points)
    return of_grad, of_points, None, None, None, None


def _backward_points_vjp(ctx: Any, *_: Tensor) -> None:
    raise RuntimeError(
        f"visops.{_NAME}: the gradient with respect to points can't be differentiated again; "
        "detach them where that is not needed"
    )


def _sample_vmap(call: Any, info: Any, dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    input, points, *options = arguments
    entries = info.batch_size
    if dims[0] is None:  # other points of the same maps
        points = points.movedim(dims[1], 1)
        found = call(input, points.flatten(1, 2), *options)
        return found.reshape(*found.shape[:2], entries, points.shape[2]), 2
    if dims[1] is None:  # the same points of other maps
        input = input.movedim(dims[0], 1)
        found = call(input.flatten(1, 2), points, *options)
        return found.reshape(found.shape[0], entries, input.shape[2], found.shape[2]), 1
    input, points = (into_batch(arguments[i], dims[i], entries) for i in range(2))
    return out_of_batch(call(input, points, *options), entries), 0


def _backward_input_vmap(call: Any, info: Any, dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    input_size, *options = arguments[2:]
    grad, points = (into_batch(arguments[i], dims[i], info.batch_size) for i in range(2))
    size = [info.batch_size * input_size[0], *input_size[1:]]
    return out_of_batch(call(grad, points, size, *options), info.batch_size), 0


def _backward_points_vmap(call: Any, info: Any, dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    tensors = [into_batch(arguments[i], dims[i], info.batch_size) for i in range(3)]
    return out_of_batch(call(*tensors, *arguments[3:]), info.batch_size), 0


def _constants(mode: str) -> tuple[str, ...]:
    return ("points",) if mode == "nearest" else ()


sample = operator(
    _NAME,
    fake=_sample_fake,
    setup_context=_setup,
    backward=_vjp,
    vmap=_sample_vmap,
    constants=lambda inputs: _constants(inputs[2]),
    onnx="deformable",
)
backward_input = operator(
    f"{_NAME}_backward_input",
    fake=_backward_input_fake,
    setup_context=_backward_input_setup,
    backward=_backward_input_vjp,
    vmap=_backward_input_vmap,
    constants=lambda inputs: _constants(inputs[3]),
)
backward_points = operator(
    f"{_NAME}_backward_points",
    fake=contiguous_like(2),
    backward=_backward_points_vjp,
    vmap=_backward_points_vmap,
)
