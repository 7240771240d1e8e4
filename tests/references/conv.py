"""Convolution and patches as their definitions read, and the steps from there to a fast one."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Im2col = Callable[[np.ndarray, Sequence[int], Any], np.ndarray]


def convolve_naive(data: np.ndarray, kernel: np.ndarray, fill_value: Any = 0) -> np.ndarray:
    """Images [H, W] and [KH, KW]: a loop over pixels, and over the kernel at each."""
    height, width = data.shape
    kernel_height, kernel_width = kernel.shape
    result = np.empty(data.shape, np.result_type(data, kernel))
    number = result.dtype.type
    with np.errstate(over="ignore"):  # integers wrap
        for y in range(height):
            for x in range(width):
                total = number(0)
                for m in range(kernel_height):
                    for n in range(kernel_width):
                        row, column = (
                            y + (kernel_height - 1) // 2 - m,
                            x + (kernel_width - 1) // 2 - n,
                        )
                        inside = 0 <= row < height and 0 <= column < width
                        value = data[row, column] if inside else fill_value
                        total += number(kernel[m, n]) * number(value)
                result[y, x] = total
    return result


def padded(data: np.ndarray, kernel_shape: Sequence[int], fill_value: Any = 0) -> np.ndarray:
    """`data` with a border of what a kernel whose centre is at K // 2 reaches."""
    border = [(size // 2, size - 1 - size // 2) for size in kernel_shape]
    return np.pad(data, border, constant_values=fill_value)


def convolve_slices(data: np.ndarray, kernel: np.ndarray, fill_value: Any = 0) -> np.ndarray:
    """Convolve in any dimension: a loop over the kernel, NumPy's over the pixels."""
    dtype = np.result_type(data, kernel)
    bordered = padded(data, kernel.shape, fill_value).astype(dtype, copy=False)
    turned = np.flip(kernel).astype(dtype)
    result = np.zeros(data.shape, dtype)
    for offset in np.ndindex(*kernel.shape):
        window = tuple(slice(k, k + size) for k, size in zip(offset, data.shape, strict=True))
        result += turned[offset] * bordered[window]
    return result


def im2col_naive(
    data: np.ndarray,
    kernel_shape: Sequence[int],
    fill_value: Any = 0,
    *,
    stride: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
) -> np.ndarray:
    """Neighbourhoods of all pixels, element by element: an array of output + kernel.

    Element [i, k] is ``data[i * stride + k * dilation - before]`` in each dimension, or the fill
    value where that is outside. `padding` is what there is before and then after each dimension;
    without it the centre of a kernel is its element K // 2, and the output has the shape of `data`.
    """
    ndim = data.ndim
    stride, dilation = stride or [1] * ndim, dilation or [1] * ndim
    reach = [d * (size - 1) for d, size in zip(dilation, kernel_shape, strict=True)]
    if padding is None:
        before = [d * (size // 2) for d, size in zip(dilation, kernel_shape, strict=True)]
        after = [r - b for r, b in zip(reach, before, strict=True)]
    else:
        before, after = list(padding[:ndim]), list(padding[ndim:])
    output = [
        (size + before[d] + after[d] - reach[d] - 1) // stride[d] + 1
        for d, size in enumerate(data.shape)
    ]
    result = np.empty((*output, *kernel_shape), data.dtype)
    for i in itertools.product(*map(range, output)):
        for k in itertools.product(*map(range, kernel_shape)):
            at = tuple(i[d] * stride[d] + k[d] * dilation[d] - before[d] for d in range(ndim))
            inside = all(0 <= a < size for a, size in zip(at, data.shape, strict=True))
            result[i + k] = data[at] if inside else fill_value
    return result


def im2col_recursive(
    data: np.ndarray, kernel_shape: Sequence[int], fill_value: Any = 0, fall_back_dim: int = 2
) -> np.ndarray:
    """The same neighbourhoods, [*data.shape, *kernel_shape], for data of any dimension.

    The neighbourhoods within each ``data[i]``, which has a dimension less, are found once, and
    copied to the places at which the first dimension of the kernel sees them. Data of at most
    `fall_back_dim` dimensions are left to `im2col_naive`.
    """
    if data.ndim <= max(fall_back_dim, 1):
        return im2col_naive(data, kernel_shape, fill_value)
    size, centre = len(data), kernel_shape[0] // 2
    result = np.full((*data.shape, *kernel_shape), fill_value, data.dtype)
    # Where the first dimension of the kernel lies behind those of the data.
    by_offset = np.moveaxis(result, data.ndim, 0)
    for i in range(size):
        within = im2col_recursive(data[i], kernel_shape[1:], fill_value, fall_back_dim)
        for k in range(kernel_shape[0]):
            pixel = i - k + centre  # the one whose neighbour k is i
            if 0 <= pixel < size:
                by_offset[k, pixel] = within
    return result


def convolve_im2col(
    data: np.ndarray,
    kernel: np.ndarray,
    fill_value: Any = 0,
    im2col: Im2col = im2col_recursive,
) -> np.ndarray:
    """Convolve in any dimension: a row for each pixel, times the kernel as a column."""
    dtype = np.result_type(data, kernel)
    columns = im2col(data, kernel.shape, fill_value).reshape(data.size, kernel.size)
    turned = np.flip(kernel).reshape(-1)
    return (columns.astype(dtype, copy=False) @ turned.astype(dtype)).reshape(data.shape)


def conv2d(
    input: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> np.ndarray:
    """Return the sums over each window; `padding` is top, bottom, left, right."""
    top, bottom, left, right = padding
    batch, _, height, width = input.shape
    outs, of_group, kernel_height, kernel_width = weight.shape
    rows = (height + top + bottom - dilation[0] * (kernel_height - 1) - 1) // stride[0] + 1
    columns = (width + left + right - dilation[1] * (kernel_width - 1) - 1) // stride[1] + 1
    output = np.zeros((batch, outs, rows, columns))
    for n, m, i, j in np.ndindex(output.shape):
        group = m // (outs // groups)
        total = 0.0 if bias is None else float(bias[m])
        for c, v, u in np.ndindex(of_group, kernel_height, kernel_width):
            y = i * stride[0] + v * dilation[0] - top
            x = j * stride[1] + u * dilation[1] - left
            if 0 <= y < height and 0 <= x < width:
                total += float(weight[m, c, v, u]) * float(input[n, group * of_group + c, y, x])
        output[n, m, i, j] = total
    return output
