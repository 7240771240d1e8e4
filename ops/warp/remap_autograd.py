"""What torch needs to know of ``torch.ops.visops.remap``: fake kernel, gradient and vmap.

The gradient is a formula of torch's operators, which are differentiable again. Sums over pixels
that share one are those of ``index_put``, so they don't depend on threads; on CUDA it sorts first.
On the CPU, where no second derivative is wanted, the backward of ``grid_sample`` does it in a
fraction of the time.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.autocast import full_product
from .._torch.declaring import ON_ARRAYS, Refused, operator
from .._torch.fakes import empty_maps, prefers_channels_last

_OP = "remap"
_FAR = 1e7


def _remap_fake(
    images: Tensor, _x: Tensor, _y: Tensor, size: Sequence[int], *options: Any
) -> Tensor:
    to_float = len(options) > 6 and options[6]
    shape = (*images.shape[:2], *size)
    dtype = torch.float32 if to_float else images.dtype
    return empty_maps(images, shape, prefers_channels_last(images), dtype)


def _at_least(size: Any, least: int) -> Any:
    """Return the larger one."""
    # Open sizes of a program need torch's own maximum; torch 2.11 doesn't compile it for numbers.
    return max(size, least) if isinstance(size, int) else torch.sym_max(size, least)


def grid_weights(
    side: int, points: int, spline: bool, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return the share of each point of a grid in each pixel, along one axis: [side, points]."""
    cells = _at_least(side - 1, 1)
    at: Tensor = torch.arange(side, dtype=torch.float64, device="cpu") * ((points - 1) / cells)
    whole = at.floor().clamp(max=_at_least(points - 2, 0))
    t = at - whole
    u = 1.0 - t
    if spline:
        parts = [u**3, 3 * t**3 - 6 * t**2 + 4, 3 * u**3 - 6 * u**2 + 4, t**3]
        weights, first = [part / 6 for part in parts], -1
    else:
        weights, first = [u, t], 0
    out = torch.zeros((side, points), dtype=torch.float64, device="cpu")
    for k, weight in enumerate(weights):
        point = (whole.long() + first + k).clamp(0, points - 1)
        out.scatter_add_(1, point[:, None], weight[:, None])
    return out.to(device, dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    images, x, y, ctx.size, matrix, *options = inputs
    ctx.options = (*options, False)[:6]  # torch.func leaves to_float out where the caller did
    ctx.save_for_backward(images, x, y, matrix)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    images, x, y, matrix = ctx.saved_tensors
    grid, relative, mode, padding_mode, fill, to_float = ctx.options
    wants_images, wants_x, wants_y, _, wants_matrix = ctx.needs_input_grad[:5]
    wants_map = wants_x or wants_y
    dtype = torch.float64 if images.dtype == torch.float64 else torch.float32
    grad = grad.to(dtype)
    if to_float and images.dtype == torch.uint8:
        grad = grad / 255.0
    weights = None
    if grid != "dense":
        weights = [
            grid_weights(side, points, grid == "spline", dtype, x.device)
            for side, points in zip(ctx.size, x.shape[-2:], strict=True)
        ]
    maps = torch.stack(torch.broadcast_tensors(x.to(dtype), y.to(dtype)), 1)
    placed = _positions(maps, weights, ctx.size, relative)
    source, depth = placed, None
    if matrix is not None:
        source, depth = _to_source(placed, matrix.to(dtype))
    limited = torch.nan_to_num(source, nan=-_FAR).clamp(-_FAR, _FAR)
    wants_slopes = wants_map or wants_matrix
    sampled: _Samples | _GridSamples
    if _GridSamples.takes(images, grad, mode, padding_mode):
        wants = bool(wants_images), bool(wants_slopes)
        sampled = _GridSamples(images, limited, mode, padding_mode, fill, grad, wants)
    else:
        sampled = _Samples(images, limited, mode, padding_mode, fill)
    grad_images = grad_x = grad_y = grad_matrix = None
    if wants_images:
        grad_images = sampled.gradient_of_images(grad).to(images.dtype)
    if wants_slopes and mode != "nearest":
        slopes = sampled.gradient_of_positions(grad)
        slopes = torch.where(limited == source, slopes, torch.zeros_like(slopes))
        if matrix is not None:
            slopes, grad_matrix = _through_matrix(slopes, placed, source, depth, matrix)
        grad_x = _onto_map(slopes[:, 0], weights, x)
        grad_y = _onto_map(slopes[:, 1], weights, y)
    elif wants_slopes:
        grad_x, grad_y = torch.zeros_like(x), torch.zeros_like(y)
        grad_matrix = None if matrix is None else torch.zeros_like(matrix)
    wanted = (grad_images, grad_x, grad_y, None, grad_matrix)
    return *(g if n else None for g, n in zip(wanted, ctx.needs_input_grad, strict=False)), *[
        None
    ] * 6


def _positions(
    maps: Tensor, weights: list[Tensor] | None, size: Sequence[int], relative: bool
) -> Tensor:
    """Return where the map leads each pixel, ``[B or 1, 2, h, w]``."""
    placed = maps
    if weights is not None:
        placed = full_product(full_product(weights[0], maps), weights[1].T)
    if not relative:
        return placed
    rows, columns = (torch.arange(s, dtype=maps.dtype, device=maps.device) for s in size)
    own = torch.stack((columns.expand(*size), rows[:, None].expand(*size)))
    return placed + own


def _to_source(placed: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return positions in the source, and what they were divided by, ``[B or 1, 1, h, w]``."""
    x, y = placed[:, :1], placed[:, 1:]
    rows = [
        matrix[:, i, 0, None, None, None] * x
        + matrix[:, i, 1, None, None, None] * y
        + matrix[:, i, 2, None, None, None]
        for i in range(3)
    ]
    return torch.cat((rows[0] / rows[2], rows[1] / rows[2]), 1), rows[2]


def _through_matrix(
    slopes: Tensor, placed: Tensor, source: Tensor, depth: Any, matrix: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of positions before the matrix, and of the matrix."""
    along = (slopes * source).sum(1, keepdim=True)
    rows = torch.cat((slopes, -along), 1) / depth  # of the three rows' values
    m = matrix.to(slopes.dtype)
    before = torch.cat([(rows * m[:, :, i, None, None]).sum(1, keepdim=True) for i in range(2)], 1)
    ones = torch.ones_like(placed[:, :1])
    points = torch.cat((placed, ones), 1).expand(len(rows), -1, -1, -1).to(matrix.dtype)
    sums = full_product(_pixels(rows.to(matrix.dtype)), _pixels(points).mT)
    return before, sums.sum(0, keepdim=True) if len(matrix) == 1 else sums


def _onto_map(slopes: Tensor, weights: list[Tensor] | None, maps: Tensor) -> Tensor:
    """Return the gradient of an axis of the map, by those of positions ``[B, h, w]``."""
    if len(maps) == 1 and len(slopes) != 1:
        slopes = slopes.sum(0, keepdim=True)
    if weights is not None:
        slopes = full_product(full_product(weights[0].T, slopes), weights[1])
    return slopes.to(maps.dtype)


def _pixels(grad: Tensor) -> Tensor:
    """Return [B, C, h * w]; batches of gradients have no rule for flatten()."""
    return grad.reshape(*grad.shape[:2], grad.shape[2] * grad.shape[3])


class _Samples:
    """Images ``[B, C, H, W]`` read at positions ``[B or 1, 2, h, w]``."""

    def __init__(
        self, images: Tensor, positions: Tensor, mode: str, padding_mode: str, fill: Sequence[float]
    ) -> None:
        self._images, self._padding = images, padding_mode
        self._dtype = positions.dtype
        self._fill = torch.tensor(fill, dtype=self._dtype, device=images.device).view(1, -1, 1)
        self._size = positions.shape[-2:]
        x, y = positions.expand(len(images), -1, -1, -1).flatten(2).unbind(1)
        if mode == "nearest":
            x, y = x + 0.5, y + 0.5
        x0, y0 = x.detach().floor(), y.detach().floor()
        self._first = -1 if mode == "bicubic" else 0
        self._x, self._y = x0.long(), y0.long()
        self._across, self._across_slope = _weights(mode, x - x0)
        self._down, self._down_slope = _weights(mode, y - y0)

    def _taps(self) -> Any:
        """Yield each tap's row and column, place in a flat image and whether it is inside it."""
        height, width = self._images.shape[-2:]
        for row in range(len(self._down)):
            for column in range(len(self._across)):
                y, x = self._y + row + self._first, self._x + column + self._first
                inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
                if self._padding != "constant":
                    inside = torch.ones_like(inside)
                index = _padded(y, height, self._padding) * width + _padded(x, width, self._padding)
                yield row, column, index, inside

    def gradient_of_images(self, grad: Tensor) -> Tensor:
        batch, channels, height, width = self._images.shape
        area = height * width
        flat = _pixels(grad)
        first = torch.arange(batch, device=grad.device)[:, None] * area
        sums = torch.zeros((batch * area, channels), dtype=grad.dtype, device=grad.device)
        for row, column, index, inside in self._taps():
            share = self._down[row] * self._across[column] * inside
            parts = (flat * share[:, None]).transpose(1, 2).reshape(-1, channels)
            sums = sums.index_put(((first + index).flatten(),), parts, accumulate=True)
        return sums.view(batch, area, channels).transpose(1, 2).reshape(self._images.shape)

    def gradient_of_positions(self, grad: Tensor) -> Tensor:
        flat = self._images.flatten(2).to(self._dtype)
        own = _pixels(grad)
        along_x: Any = 0.0
        along_y: Any = 0.0
        for row, column, index, inside in self._taps():
            found = flat.gather(2, index[:, None].expand(-1, flat.shape[1], -1))
            value = (own * torch.where(inside[:, None], found, self._fill)).sum(1)
            along_x = along_x + value * self._down[row] * self._across_slope[column]
            along_y = along_y + value * self._down_slope[row] * self._across[column]
        found = torch.stack((along_x, along_y), 1)
        return found.reshape(*found.shape[:2], *self._size)


# grid_sample's numbers of modes and paddings.
_GRID_MODES = {"bilinear": 0, "bicubic": 2}
_GRID_PADDINGS = {"constant": 0, "replicate": 1, "symmetric": 2}


class _GridSamples:
    """The same gradients by the backward of ``grid_sample``, which computes them together."""

    @staticmethod
    def takes(images: Tensor, grad: Tensor, mode: str, padding_mode: str) -> bool:
        known = mode in _GRID_MODES and padding_mode in _GRID_PADDINGS
        is_empty = images.numel() == 0 or grad.numel() == 0
        return known and images.is_cpu and not is_empty and not torch.is_grad_enabled()

    def __init__(
        self,
        images: Tensor,
        positions: Tensor,
        mode: str,
        padding_mode: str,
        fill: Sequence[float],
        grad: Tensor,
        wants: tuple[bool, bool],
    ) -> None:
        height, width = images.shape[-2:]
        size = torch.tensor([width, height], dtype=grad.dtype, device="cpu")
        points = positions.expand(len(images), -1, -1, -1).permute(0, 2, 3, 1)
        values = images.to(grad.dtype)
        if any(fill):  # it counts as 0
            values = values - torch.tensor(fill, dtype=grad.dtype, device="cpu").view(1, -1, 1, 1)
        options = _GRID_MODES[mode], _GRID_PADDINGS[padding_mode], False, list(wants)
        grid = (2.0 * points + 1.0) / size - 1.0
        backward = torch.ops.aten.grid_sampler_2d_backward.default
        self._images, slopes = backward(grad, values, grid, *options)
        self._slopes = (slopes * (2.0 / size)).permute(0, 3, 1, 2) if wants[1] else None

    def gradient_of_images(self, _: Tensor) -> Tensor:
        return self._images

    def gradient_of_positions(self, _: Tensor) -> Any:
        return self._slopes


def _weights(mode: str, t: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Return the weights of the taps along an axis, and their derivatives."""
    one = torch.ones_like(t)
    if mode == "nearest":
        return [one], [torch.zeros_like(t)]
    if mode == "bilinear":
        return [1.0 - t, t], [-one, one]
    before, after, a = t + 1.0, 1.0 - t, -0.75
    first = ((a * before + 3.75) * before - 6.0) * before + 3.0
    second = (1.25 * t - 2.25) * t * t + 1.0
    third = (1.25 * after - 2.25) * after * after + 1.0
    first_slope = (-2.25 * before + 7.5) * before - 6.0
    second_slope = (3.75 * t - 4.5) * t
    third_slope = -((3.75 * after - 4.5) * after)
    return (
        [first, second, third, 1.0 - first - second - third],
        [first_slope, second_slope, third_slope, -first_slope - second_slope - third_slope],
    )


def _padded(i: Tensor, n: int, padding: str) -> Tensor:
    """Return the pixel that stands for pixel i of n; some pixel for "constant"."""
    if padding in ("constant", "replicate"):
        return i.clamp(0, n - 1)
    if padding == "circular":
        return i.remainder(n)
    if padding == "symmetric":
        m = i.remainder(2 * n)
        return torch.where(m < n, m, 2 * n - 1 - m)
    if n == 1:
        return torch.zeros_like(i)
    m = i.remainder(2 * n - 2)
    return torch.where(m < n, m, 2 * n - 2 - m)


def _vmap(
    call: Any,
    info: Any,
    in_dims: Any,
    images: Tensor,
    x: Tensor,
    y: Tensor,
    size: Sequence[int],
    matrix: Tensor | None,
    *options: Any,
) -> tuple[Tensor, int]:
    count = info.batch_size
    dims = *in_dims[:3], in_dims[4]
    batch = images.shape[0 if dims[0] is None or dims[0] > 0 else 1]
    images, x, y, matrix = (
        _fold(value, dim, count, batch)
        for value, dim in zip((images, x, y, matrix), dims, strict=True)
    )
    out = call(images, x, y, size, matrix, *options)
    return out.unflatten(0, (count, batch)), 0


def _fold(value: Any, dim: int | None, count: int, batch: int) -> Any:
    """Return ``[count * batch, ...]`` of what is mapped, or ``[1, ...]`` of what all share."""
    if value is None or (dim is None and len(value) == 1 and batch != 1):
        return value
    mapped = value.expand(count, *value.shape) if dim is None else value.movedim(dim, 0)
    return mapped.expand(count, batch, *mapped.shape[2:]).flatten(0, 1)


# remap(images [B, C, H, W], map_x and map_y [B or 1, h, w], size, matrix [B or 1, 3, 3] or None,
# grid, relative, mode, padding_mode, fill, to_float=False): NOTE [ Maps ], csrc/core/warp/remap.h.
remap = operator(
    _OP,
    fake=_remap_fake,
    setup_context=_setup,
    backward=_backward,
    vmap=_vmap,
    onnx=Refused(instead=f"{ON_ARRAYS}, or export the model with grid_sample at its positions"),
    note="map_x and map_y [B, h, w] are dense or a grid (bilinear, spline); matrix [B, 3, 3] leads "
    "from there to the source. to_float: the result is float32, with white at 1.",
)
