"""The networks' convolution within torch: fake kernels, gradients, vmap, autocast.

The three operators come from one trilinear form in (gradient, input, weight), each leaving one of
them out; the derivatives of each are the other two. None of them conjugates, so the formulas do.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from .._torch.autocast import autocast_dtype, cast_to
from .._torch.declaring import operator
from .._torch.fakes import empty_maps, layer_flops, prefers_channels_last
from .._torch.vmap_calls import one_call_each


def _sides(padding: Sequence[Any]) -> list[Any]:
    """Top, bottom, left, right."""
    return list(padding) if len(padding) == 4 else [p for p in padding for _ in range(2)]


def result_size(
    input_size: Sequence[Any],
    weight_size: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
) -> list[Any]:
    """Return the size of the forward convolution's result, for valid arguments."""
    sides = _sides(padding)
    result = [input_size[0], weight_size[0]]
    for i in range(2):
        padded = input_size[2 + i] + sides[2 * i] + sides[2 * i + 1]
        result.append((padded - dilation[i] * (weight_size[2 + i] - 1) - 1) // stride[i] + 1)
    return result


def _conv2d_fake(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[Any] = (1, 1),
    padding: Sequence[Any] = (0, 0),
    dilation: Sequence[Any] = (1, 1),
    *options: Any,
) -> Tensor:
    size = result_size(input.shape, weight.shape, stride, padding, dilation)
    return empty_maps(input, size, prefers_channels_last(input))


def _backward_input_fake(
    grad: Tensor,
    weight: Tensor,
    input_size: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    groups: Any,
    channels_last: bool,
    *options: Any,
) -> Tensor:
    return empty_maps(grad, input_size, channels_last)


def _backward_weight_fake(
    grad: Tensor, input: Tensor, weight_size: Sequence[Any], *options: Any
) -> Tensor:
    return empty_maps(grad, weight_size, False)


def _conj(tensor: Tensor) -> Tensor:
    return tensor.conj() if tensor.is_complex() else tensor


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, weight, bias, *ctx.options = inputs
    needs_input, needs_weight = ctx.needs_input_grad[:2]
    ctx.save_for_backward(input if needs_weight else None, weight if needs_input else None)
    ctx.input_size, ctx.weight_size = input.shape, weight.shape
    ctx.channels_last = prefers_channels_last(input)
    ctx.has_bias = bias is not None


def _vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    input, weight = ctx.saved_tensors
    grad_input = grad_weight = grad_bias = None
    if ctx.needs_input_grad[0]:
        grad_input = _backward_input(
            grad,
            _conj(weight),
            ctx.input_size,
            *ctx.options,
            ctx.channels_last,
        )
    if ctx.needs_input_grad[1]:
        grad_weight = _backward_weight(grad, _conj(input), ctx.weight_size, *ctx.options)
    if ctx.has_bias and ctx.needs_input_grad[2]:
        grad_bias = grad.sum((0, 2, 3))
    return grad_input, grad_weight, grad_bias, None, None, None, None


def _backward_input_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, weight, _, *ctx.options, _ = inputs
    needs_grad, needs_weight = ctx.needs_input_grad[:2]
    ctx.save_for_backward(grad if needs_weight else None, weight if needs_grad else None)
    ctx.weight_size = weight.shape


def _backward_input_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    grad, weight = ctx.saved_tensors
    by_grad = by_weight = None
    if ctx.needs_input_grad[0]:
        by_grad = _conv2d(grad_grad, _conj(weight), None, *ctx.options)
    if ctx.needs_input_grad[1]:
        by_weight = _backward_weight(_conj(grad), grad_grad, ctx.weight_size, *ctx.options)
    return by_grad, by_weight, None, None, None, None, None, None


def _backward_weight_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, input, _, *ctx.options = inputs
    needs_grad, needs_input = ctx.needs_input_grad[:2]
    ctx.save_for_backward(grad if needs_input else None, input if needs_grad else None)
    ctx.input_size, ctx.channels_last = input.shape, prefers_channels_last(input)


def _backward_weight_vjp(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    grad, input = ctx.saved_tensors
    by_grad = by_input = None
    if ctx.needs_input_grad[0]:
        by_grad = _conv2d(_conj(input), grad_grad, None, *ctx.options)
    if ctx.needs_input_grad[1]:
        by_input = _backward_input(
            _conj(grad),
            grad_grad,
            ctx.input_size,
            *ctx.options,
            ctx.channels_last,
        )
    return by_grad, by_input, None, None, None, None, None


def _folding(size_at: int | None = None) -> Callable[..., Any]:
    """Return a vmap rule: maps of the first argument alone become more images of one call.

    `size_at` is where the size of the result is, if that is an argument.
    """

    def rule(call: Any, info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        if in_dims[0] is None or any(d is not None for d in in_dims[1:3] if not _is_list(d)):
            return one_call_each(call, info, in_dims, *arguments)
        folded = [arguments[0].movedim(in_dims[0], 0).flatten(0, 1), *arguments[1:]]
        if size_at is not None:
            size = list(folded[size_at])
            folded[size_at] = [size[0] * info.batch_size, *size[1:]]
        return call(*folded).unflatten(0, (info.batch_size, -1)), 0

    return rule


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def with_autocast(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *options: Any
) -> tuple[Any, ...]:
    """Cast as torch's convolutions do within torch.autocast."""
    dtype = autocast_dtype(input)
    if dtype is None:
        return input, weight, bias, *options
    return *(cast_to(tensor, dtype) for tensor in (input, weight, bias)), *options


_conv2d = operator(
    "conv2d",
    fake=_conv2d_fake,
    setup_context=_setup,
    backward=_vjp,
    vmap=_folding(),
    autocast=with_autocast,
    flops=layer_flops,
    onnx="convolution",
)
_backward_input = operator(
    "conv2d_backward_input",
    fake=_backward_input_fake,
    setup_context=_backward_input_setup,
    backward=_backward_input_vjp,
    vmap=_folding(size_at=2),
    flops=layer_flops,
)
_backward_weight = operator(
    "conv2d_backward_weight",
    fake=_backward_weight_fake,
    setup_context=_backward_weight_setup,
    backward=_backward_weight_vjp,
    vmap=one_call_each,
    flops=layer_flops,
)


def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    """Call the operator, with arguments cast where autocast is on: its formulas see them then."""
    return _conv2d(*with_autocast(input, weight, bias, *options))  # type: ignore[no-any-return]
