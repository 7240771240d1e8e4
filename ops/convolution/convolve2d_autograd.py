"""The direct convolution within torch: fake kernels, gradients, vmap.

The three operators give each other's gradients. The input's is a convolution of the output's with
the kernel turned round, over the input extended, folded back to the elements that the extension
repeats; the kernel's is a sum over the whole output.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import GRADIENT, operator
from .._torch.fakes import broadcast_shapes, filter_flops
from .._torch.vmap_calls import one_call_each

_Pair = Sequence[int]

# Parts of an output are no shorter: a call for each must be worth it.
_LEAST_PART = 256


def _convolve2d_fake(
    input: Tensor, kernel: Tensor, start: _Pair, size: _Pair, *options: Any
) -> Tensor:
    return input.new_empty((*broadcast_shapes(input.shape[:-2], kernel.shape[:-2]), *size))


def _fold_fake(grad: Tensor, start: _Pair, size: _Pair, boundary: str) -> Tensor:
    return grad.new_empty((*grad.shape[:-2], *size))


def _backward_kernel_fake(grad: Tensor, input: Tensor, kernel_size: _Pair, *options: Any) -> Tensor:
    sum_batch = options[-1]
    leading = () if sum_batch else broadcast_shapes(grad.shape[:-2], input.shape[:-2])
    return grad.new_empty((*leading, *kernel_size))


def _conj(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.conj()


def _first_extended(start: _Pair, kernel_size: _Pair, flip: bool) -> list[int]:
    """Return where the part of the extended input begins that the output needs."""
    return [s - (k - 1) if flip else s for s, k in zip(start, kernel_size, strict=True)]


def _over_zeros(input: Tensor, kernel: Tensor, start: _Pair, size: _Pair, flip: bool) -> Tensor:
    """Convolve an input that zeros surround.

    Few elements of a kernel that is far longer than the input meet it. So a long side of the output
    is computed in parts, each with those elements only; sums leave out nothing but zeros.
    """
    for dim in (-2, -1):
        count, taps, positions = input.shape[dim], kernel.shape[dim], size[dim]
        if not all(isinstance(n, int) for n in (count, taps, positions)):
            continue  # under torch.compile: a question would fix the size
        part = max(count, _LEAST_PART)
        if min(taps, positions) <= 2 * part:
            continue
        first = _first_extended(start, kernel.shape[-2:], flip)[dim]
        parts = []
        for begin in range(0, positions, part):
            end = min(begin + part, positions)
            low = min(max(0, 1 - first - end), taps - 1)  # elements that meet the input
            high = max(min(taps, count - first - begin), low + 1)
            taken = (taps - high, high - low) if flip else (low, high - low)
            at, of = list(start), list(size)
            at[dim] = first + begin + low + (high - low - 1 if flip else 0)
            of[dim] = end - begin
            parts.append(_over_zeros(input, kernel.narrow(dim, *taken), at, of, flip))
        return torch.cat(parts, dim)
    return convolve2d(input, kernel, start, size, "fill", None, flip)


def _input_gradient(
    grad: Tensor, kernel: Tensor, start: _Pair, shape: Sequence[int], boundary: str, flip: bool
) -> Tensor:
    """Return the gradient of an input of `shape`; `kernel` is already conjugated."""
    size = list(shape[-2:])
    if boundary == "fill":
        back = [-s for s in start]
        found = _over_zeros(grad, kernel, back, size, not flip)
    else:
        kernel_size = kernel.shape[-2:]
        first = _first_extended(start, kernel_size, flip)
        back = [f - s for f, s in zip(first, start, strict=True)]
        extended = [n + k - 1 for n, k in zip(grad.shape[-2:], kernel_size, strict=True)]
        found = _over_zeros(grad, kernel, back, extended, not flip)
        found = _fold(found, first, size, boundary)
    return found.sum_to_size(tuple(shape))


def _kernel_gradient(
    grad: Tensor,
    input: Tensor,
    start: _Pair,
    shape: Sequence[int],
    boundary: str,
    fill: Tensor | None,
    flip: bool,
) -> Tensor:
    """Return the gradient of a kernel of `shape`; `input` and `fill` are already conjugated."""
    is_shared = all(n == 1 for n in shape[:-2])
    size = list(shape[-2:])
    found = _backward_kernel(grad, input, size, start, boundary, fill, flip, is_shared)
    return found.reshape(tuple(shape)) if is_shared else found.sum_to_size(tuple(shape))


def _convolve2d_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, kernel, ctx.start, _, ctx.boundary, ctx.fill, ctx.flip = inputs
    ctx.save_for_backward(input, kernel)


def _convolve2d_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    input, kernel = ctx.saved_tensors
    by_input = by_kernel = None
    if ctx.needs_input_grad[0]:
        by_input = _input_gradient(
            grad, kernel.conj(), ctx.start, input.shape, ctx.boundary, ctx.flip
        )
    if ctx.needs_input_grad[1]:
        by_kernel = _kernel_gradient(
            grad, input.conj(), ctx.start, kernel.shape, ctx.boundary, _conj(ctx.fill), ctx.flip
        )
    return by_input, by_kernel, None, None, None, None, None


def _fold_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, ctx.start, _, ctx.boundary = inputs
    ctx.extended = list(grad.shape[-2:])


def _fold_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    one = grad.new_ones((1, 1))
    extended = convolve2d(grad, one, ctx.start, ctx.extended, ctx.boundary, None, False)
    return extended, None, None, None


def _backward_kernel_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, input, _, ctx.start, ctx.boundary, ctx.fill, ctx.flip, _ = inputs
    ctx.save_for_backward(grad, input)


def _backward_kernel_vjp(ctx: Any, kernel: Tensor) -> tuple[Tensor | None, ...]:
    grad, input = ctx.saved_tensors
    by_grad = by_input = None
    if ctx.needs_input_grad[0]:
        size, fill = list(grad.shape[-2:]), _conj(ctx.fill)
        by_grad = convolve2d(input.conj(), kernel, ctx.start, size, ctx.boundary, fill, ctx.flip)
        by_grad = by_grad.sum_to_size(grad.shape)
    if ctx.needs_input_grad[1]:
        by_input = _input_gradient(
            grad.conj(), kernel, ctx.start, input.shape, ctx.boundary, ctx.flip
        )
    return by_grad, by_input, None, None, None, None, None, None


def _with_batch(tensor: Tensor, dim: int | None, leading: int) -> Tensor:
    """Move the batch to the front of `leading` dimensions before a plane; without one, keep it."""
    if dim is None:
        return tensor
    tensor = tensor.movedim(dim, 0)
    own = tensor.dim() - 3
    return tensor.reshape((tensor.shape[0], *(1,) * (leading - own), *tensor.shape[1:]))


def _convolve2d_vmap(call: Any, info: Any, in_dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    input, kernel, start, size, boundary, fill, flip = arguments
    if in_dims[5] is not None:
        return one_call_each(call, info, in_dims, *arguments)
    mapped = list(zip((input, kernel), in_dims[:2], strict=True))
    leading = max(t.dim() - 2 - (d is not None) for t, d in mapped)
    input, kernel = (_with_batch(t, d, leading) for t, d in mapped)
    return call(input, kernel, start, size, boundary, fill, flip), 0


def _fold_vmap(
    call: Any, info: Any, in_dims: Any, grad: Tensor, *arguments: Any
) -> tuple[Tensor, int]:
    return call(grad.movedim(in_dims[0], 0), *arguments), 0


convolve2d = operator(
    "convolve2d",
    fake=_convolve2d_fake,
    setup_context=_convolve2d_setup,
    backward=_convolve2d_vjp,
    constants=("fill",),
    vmap=_convolve2d_vmap,
    flops=filter_flops,
    onnx="convolution",
    note="start and size name the part of the full result that is wanted.",
)
convolve2d_out = operator("convolve2d_out", in_errors="convolve2d")
_fold = operator(
    "convolve2d_fold",
    fake=_fold_fake,
    setup_context=_fold_setup,
    backward=_fold_vjp,
    vmap=_fold_vmap,
    onnx=GRADIENT,
)
_backward_kernel = operator(
    "convolve2d_backward_kernel",
    fake=_backward_kernel_fake,
    setup_context=_backward_kernel_setup,
    backward=_backward_kernel_vjp,
    constants=("fill",),
    vmap=one_call_each,
    flops=filter_flops,
)
