"""im2col and col2im within torch: fake kernels, gradients, vmap.

Each is the other's adjoint, so each is the other's gradient, to any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .._torch.differentiable import Differentiable
from .._torch.fake_checks import check_fill, register_fake, require
from .spatial_arguments import output_sizes

__all__ = ["col2im", "im2col"]

im2col = Differentiable("im2col")
col2im = Differentiable("col2im")

_Sizes = Sequence[int]

# The limits of csrc/core/convolution/im2col.cpp and csrc/torch/contiguous.cpp; elements have up to
# 16 bytes.
_MOST = 2**31 - 1
_MOST_ELEMENTS = (2**63 - 1) // 16


# --- Checks: those of csrc/torch/convolution/im2col.cpp, which fake tensors bypass.


def _check_numbers(op: str, name: str, values: _Sizes, count: int, least: int) -> None:
    require(
        len(values) == count,
        f"visops.{op}: {name} is {list(values)}, must be {count} integers",
    )
    for value in values:
        require(
            value >= least,
            f"visops.{op}: {name} is {list(values)}, must be {'>= 0' if least == 0 else '> 0'}",
        )
    for i, value in enumerate(values):
        require(
            value <= _MOST,
            f"visops.{op}: {name}[{i}] is {value}, must be at most {_MOST}",
        )


def _empty(op: str, input: Tensor, shape: _Sizes) -> Tensor:
    if all(type(size) is int for size in shape) and math.prod(shape) > _MOST_ELEMENTS:
        raise RuntimeError(
            f"visops.{op}: result of shape {list(shape)} can't be allocated on {input.device}: "
            "not enough memory"
        )
    return input.new_empty(shape)


def _check_window(
    op: str, layout: str, kernel: _Sizes, stride: _Sizes, padding: _Sizes, dilation: _Sizes
) -> None:
    require(
        layout in ("unfold", "patches"),
        f"visops.{op}: layout is '{layout}', must be unfold or patches",
    )
    dims = len(kernel)
    require(
        1 <= dims <= 4,
        f"visops.{op}: kernel_size is {list(kernel)}, must be 1 to 4 integers",
    )
    _check_numbers(op, "kernel_size", kernel, dims, 1)
    _check_numbers(op, "stride", stride, dims, 1)
    _check_numbers(op, "padding", padding, 2 * dims, 0)
    _check_numbers(op, "dilation", dilation, dims, 1)


@register_fake("im2col")
def _im2col_fake(
    input: Tensor,
    kernel_size: _Sizes,
    stride: _Sizes,
    padding: _Sizes,
    dilation: _Sizes,
    fill: Tensor | None = None,
    layout: str = "unfold",
) -> Tensor:
    op = "im2col"
    _check_window(op, layout, kernel_size, stride, padding, dilation)
    dims = len(kernel_size)
    leads = input.dim() - dims
    message = f"visops.{op}: input has shape {list(input.shape)}, "
    if layout == "patches":
        require(
            leads >= 0,
            f"{message}must have {dims} dimensions or more, as kernel_size has {dims}",
        )
    else:
        require(
            0 <= leads <= 2,
            f"{message}must have {dims} to {dims + 2} dimensions, as kernel_size has {dims}",
        )
    sizes = input.shape[leads:]
    for size in sizes:
        are = "dimension" if dims == 1 else "dimensions"
        require(size > 0, f"{message}its last {dims} {are} must not be empty")
    places = output_sizes(op, sizes, kernel_size, stride, padding, dilation)
    check_fill(op, input, fill)
    if layout == "patches":
        return _empty(op, input, (*input.shape[:leads], *places, *kernel_size))
    channels = input.shape[leads - 1] if leads > 0 else 1
    batch = input.shape[: max(0, leads - 1)]
    shape = (*batch, channels * math.prod(kernel_size), math.prod(places))
    return _empty(op, input, shape)


@register_fake("col2im")
def _col2im_fake(
    input: Tensor,
    output_size: _Sizes,
    kernel_size: _Sizes,
    stride: _Sizes,
    padding: _Sizes,
    dilation: _Sizes,
    layout: str = "unfold",
) -> Tensor:
    op = "col2im"
    _check_window(op, layout, kernel_size, stride, padding, dilation)
    dims = len(kernel_size)
    _check_numbers(op, "output_size", output_size, dims, 1)
    places = output_sizes(op, output_size, kernel_size, stride, padding, dilation, "output")
    shape = input.shape
    message = f"visops.{op}: input has shape {list(shape)}, "
    if layout == "patches":
        last = [*places, *kernel_size]
        message += f"its last dimensions must be {last}"
        require(len(shape) >= 2 * dims, message)
        for size, expected in zip(shape[-2 * dims :], last, strict=True):
            require(size == expected, message)
        return _empty(op, input, (*shape[: -2 * dims], *output_size))
    rows, columns = math.prod(kernel_size), math.prod(places)
    message += f"must be [N, C * {rows}, {columns}] or [C * {rows}, {columns}]"
    require(len(shape) in (2, 3), message)
    require(shape[-1] == columns, message)
    require(shape[-2] % rows == 0, message)
    return _empty(op, input, (*shape[:-2], shape[-2] // rows, *output_size))


# --- Gradients


def _im2col_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, *window, _, layout = inputs
    ctx.window, ctx.layout, ctx.shape = window, layout, input.shape


def _im2col_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    sizes = ctx.shape[len(ctx.shape) - len(ctx.window[0]) :]
    gradient = col2im(grad, sizes, *ctx.window, ctx.layout)
    return gradient.reshape(ctx.shape), *(None for _ in range(6))


def _col2im_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, _, *window, layout = inputs
    ctx.window, ctx.layout = window, layout


def _col2im_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return im2col(grad, *ctx.window, None, ctx.layout), *(None for _ in range(6))


# --- vmap: dimensions of a batch become one of the call's own.


def _im2col_vmap(info: Any, in_dims: Any, input: Tensor, *arguments: Any) -> tuple[Tensor, int]:
    kernel_size, *_, layout = arguments
    input = input.movedim(in_dims[0], 0)
    leads = input.dim() - len(kernel_size)  # 1 is the batch
    if layout == "patches":
        return im2col(input, *arguments), 0
    if leads == 1:
        return im2col(input.unsqueeze(1), *arguments), 0
    if leads == 2:
        return im2col(input, *arguments), 0
    batch = input.shape[:2]
    return im2col(input.flatten(0, 1), *arguments).unflatten(0, batch), 0


def _col2im_vmap(info: Any, in_dims: Any, input: Tensor, *arguments: Any) -> tuple[Tensor, int]:
    *_, layout = arguments
    input = input.movedim(in_dims[0], 0)
    if layout == "patches" or input.dim() == 3:
        return col2im(input, *arguments), 0
    batch = input.shape[:2]
    return col2im(input.flatten(0, 1), *arguments).unflatten(0, batch), 0


im2col.register(
    setup_context=_im2col_setup, backward=_im2col_vjp, constants=("fill",), vmap=_im2col_vmap
)
col2im.register(setup_context=_col2im_setup, backward=_col2im_vjp, vmap=_col2im_vmap)
