"""The direct convolution within torch: fake kernels, gradients, vmap.

The three operators give each other's gradients. The input's is a convolution of the output's with
the kernel turned round, over the input extended, folded back to the elements that the extension
repeats; the kernel's is a sum over the whole output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.differentiable import Differentiable, refuse_lazy_out
from .._torch.fake_checks import INTEGERS, check_fill, check_same_device, register_fake, require
from .._torch.shapes import broadcast_shapes
from .._torch.vmap_calls import one_call_each

__all__ = ["convolve2d"]

convolve2d = Differentiable("convolve2d")
_fold = Differentiable("convolve2d_fold")
_backward_kernel = Differentiable("convolve2d_backward_kernel")

_Pair = Sequence[int]

# Parts of an output are no shorter: a call for each must be worth it.
_LEAST_PART = 256


def _check_planes(op: str, name: str, tensor: Tensor) -> None:
    require(
        tensor.dim() >= 2,
        f"visops.{op}: {name} has shape {list(tensor.shape)}, must have two dimensions or more",
    )


def _check_dtype(op: str, name: str, tensor: Tensor) -> None:
    require(
        tensor.dtype not in (torch.bool, torch.complex32),
        f"visops.{op}: {name} has dtype {tensor.dtype}, must be an integer, floating or complex "
        "type (not complex32)",
    )


def _check_sides(op: str, input: Tensor, kernel: Tensor, boundary: str) -> None:
    """Check as check_planes() in csrc/core/convolution/convolve2d.cpp."""
    least = "must have at least one row and one column"
    for size in kernel.shape[-2:]:
        require(size >= 1, f"visops.{op}: kernel has shape {list(kernel.shape)}, {least}")
    if boundary != "fill":
        text = f"visops.{op}: input has shape {list(input.shape)}, {least} to be repeated"
        for size in input.shape[-2:]:
            require(size >= 1, text)


def _check_boundary(op: str, boundary: str) -> None:
    require(
        boundary in ("fill", "wrap", "symm"),
        f"visops.{op}: boundary is '{boundary}', must be 'fill', 'wrap' or 'symm'",
    )


def _check_fill(op: str, input: Tensor, fill: Tensor | None, boundary: str) -> None:
    require(
        fill is None or boundary == "fill",
        f"visops.{op}: fill is given, boundary must be 'fill'",
    )
    check_fill(op, input, fill)


def _check_pair(op: str, name: str, pair: _Pair, least: int | None = None) -> None:
    require(len(pair) == 2, f"visops.{op}: {name} is {list(pair)}, must be two integers")
    if least is not None:
        text = f"visops.{op}: {name} is {list(pair)}, must be at least {least}"
        for number in pair:
            require(number >= least, text)


def _leading(op: str, names: tuple[str, str], first: Tensor, second: Tensor) -> tuple[Any, ...]:
    """Check as csrc/torch/convolution/convolve2d_operands.cpp; return broadcast leading sizes."""
    for name, tensor in zip(names, (first, second), strict=True):
        _check_planes(op, name, tensor)
    check_same_device(op, names[0], first, names[1], second)
    require(
        first.dtype == second.dtype,
        f"visops.{op}: {names[1]} has dtype {second.dtype}, {names[0]} has {first.dtype}",
    )
    try:
        return broadcast_shapes(first.shape[:-2], second.shape[:-2])
    except RuntimeError:
        raise RuntimeError(
            f"visops.{op}: {names[1]} has shape {list(second.shape)}, {names[0]} has "
            f"{list(first.shape)}; their leading dimensions don't broadcast"
        ) from None


@register_fake("convolve2d")
def _convolve2d_fake(
    input: Tensor,
    kernel: Tensor,
    start: _Pair,
    size: _Pair,
    boundary: str = "fill",
    fill: Tensor | None = None,
    flip: bool = True,
) -> Tensor:
    leading = _leading("convolve2d", ("input", "kernel"), input, kernel)
    _check_dtype("convolve2d", "input", input)
    _check_boundary("convolve2d", boundary)
    _check_pair("convolve2d", "start", start)
    _check_pair("convolve2d", "size", size, 0)
    _check_sides("convolve2d", input, kernel, boundary)
    _check_fill("convolve2d", input, fill, boundary)
    return input.new_empty((*leading, *size))


@register_fake("convolve2d_out")
def _convolve2d_out_fake(
    input: Tensor,
    kernel: Tensor,
    start: _Pair,
    size: _Pair,
    boundary: str,
    fill: Tensor | None,
    flip: bool,
    out: Tensor,
) -> None:
    shape = _convolve2d_fake(input, kernel, start, size, boundary, fill, flip).shape
    require(
        out.shape == shape,
        f"visops.convolve2d: out has shape {list(out.shape)}, must be {list(shape)}",
    )


@register_fake("convolve2d_fold", start=INTEGERS, size=INTEGERS)
def _fold_fake(grad: Tensor, start: _Pair, size: _Pair, boundary: str) -> Tensor:
    _check_planes("convolve2d_fold", "grad", grad)
    _check_boundary("convolve2d_fold", boundary)
    return grad.new_empty((*grad.shape[:-2], *size))


@register_fake("convolve2d_backward_kernel", kernel_size=INTEGERS, start=INTEGERS)
def _backward_kernel_fake(
    grad: Tensor,
    input: Tensor,
    kernel_size: _Pair,
    start: _Pair,
    boundary: str,
    fill: Tensor | None,
    flip: bool,
    sum_batch: bool,
) -> Tensor:
    leading = _leading("convolve2d_backward_kernel", ("grad", "input"), grad, input)
    _check_boundary("convolve2d_backward_kernel", boundary)
    _check_fill("convolve2d_backward_kernel", input, fill, boundary)
    return grad.new_empty((*(() if sum_batch else leading), *kernel_size))


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
        count, taps, places = input.shape[dim], kernel.shape[dim], size[dim]
        if not all(isinstance(n, int) for n in (count, taps, places)):
            continue  # under torch.compile: a question would fix the size
        part = max(count, _LEAST_PART)
        if min(taps, places) <= 2 * part:
            continue
        first = _first_extended(start, kernel.shape[-2:], flip)[dim]
        parts = []
        for begin in range(0, places, part):
            end = min(begin + part, places)
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


def _convolve2d_vmap(info: Any, in_dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    input, kernel, start, size, boundary, fill, flip = arguments
    if in_dims[5] is not None:
        return _one_convolve2d_each(info, in_dims, *arguments)  # type: ignore[return-value]
    mapped = list(zip((input, kernel), in_dims[:2], strict=True))
    leading = max(t.dim() - 2 - (d is not None) for t, d in mapped)
    input, kernel = (_with_batch(t, d, leading) for t, d in mapped)
    return convolve2d(input, kernel, start, size, boundary, fill, flip), 0


def _fold_vmap(info: Any, in_dims: Any, grad: Tensor, *arguments: Any) -> tuple[Tensor, int]:
    return _fold(grad.movedim(in_dims[0], 0), *arguments), 0


_one_convolve2d_each = one_call_each(convolve2d)

convolve2d.register(
    setup_context=_convolve2d_setup,
    backward=_convolve2d_vjp,
    constants=("fill",),
    vmap=_convolve2d_vmap,
)
_fold.register(setup_context=_fold_setup, backward=_fold_vjp, vmap=_fold_vmap)
_backward_kernel.register(
    setup_context=_backward_kernel_setup,
    backward=_backward_kernel_vjp,
    constants=("fill",),
    vmap=one_call_each(_backward_kernel),
)

refuse_lazy_out("convolve2d_out")
