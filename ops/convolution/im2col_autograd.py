"""im2col and col2im within torch: fake kernels, gradients, vmap.

Each is the other's adjoint, so each is the other's gradient, to any order.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .._torch.declaring import operator

_Sizes = Sequence[int]

# --- What results are like


def _im2col_fake(
    input: Tensor,
    kernel_size: _Sizes,
    stride: _Sizes,
    padding: _Sizes,
    dilation: _Sizes,
    fill: Tensor | None = None,
    layout: str = "unfold",
) -> Tensor:
    dims = len(kernel_size)
    leads = input.dim() - dims
    ends = zip(padding[:dims], padding[dims:], strict=True)
    padded = [n + sum(both) for n, both in zip(input.shape[leads:], ends, strict=True)]
    window = zip(padded, kernel_size, stride, dilation, strict=True)
    positions = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in window]
    if layout == "patches":
        return input.new_empty((*input.shape[:leads], *positions, *kernel_size))
    channels = input.shape[leads - 1] if leads > 0 else 1
    batch = input.shape[: max(0, leads - 1)]
    return input.new_empty((*batch, channels * math.prod(kernel_size), math.prod(positions)))


def _col2im_fake(
    input: Tensor,
    output_size: _Sizes,
    kernel_size: _Sizes,
    stride: _Sizes,
    padding: _Sizes,
    dilation: _Sizes,
    layout: str = "unfold",
) -> Tensor:
    shape = input.shape
    if layout == "patches":
        return input.new_empty((*shape[: len(shape) - 2 * len(kernel_size)], *output_size))
    channels = shape[-2] // math.prod(kernel_size)
    return input.new_empty((*shape[:-2], channels, *output_size))


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


def _im2col_vmap(
    call: Any, info: Any, in_dims: Any, input: Tensor, *arguments: Any
) -> tuple[Tensor, int]:
    kernel_size, *_, layout = arguments
    input = input.movedim(in_dims[0], 0)
    leads = input.dim() - len(kernel_size)  # 1 is the batch
    if layout == "patches":
        return call(input, *arguments), 0
    if leads == 1:
        return call(input.unsqueeze(1), *arguments), 0
    if leads == 2:
        return call(input, *arguments), 0
    batch = input.shape[:2]
    return call(input.flatten(0, 1), *arguments).unflatten(0, batch), 0


def _col2im_vmap(
    call: Any, info: Any, in_dims: Any, input: Tensor, *arguments: Any
) -> tuple[Tensor, int]:
    *_, layout = arguments
    input = input.movedim(in_dims[0], 0)
    if layout == "patches" or input.dim() == 3:
        return call(input, *arguments), 0
    batch = input.shape[:2]
    return call(input.flatten(0, 1), *arguments).unflatten(0, batch), 0


im2col = operator(
    "im2col",
    fake=_im2col_fake,
    setup_context=_im2col_setup,
    backward=_im2col_vjp,
    constants=("fill",),
    vmap=_im2col_vmap,
    onnx="columns",
)
col2im = operator(
    "col2im",
    fake=_col2im_fake,
    setup_context=_col2im_setup,
    backward=_col2im_vjp,
    vmap=_col2im_vmap,
    onnx="columns",
)
