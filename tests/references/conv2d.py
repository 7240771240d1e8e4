"""The network's convolution as its definition reads: loops in float64."""

import numpy as np


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
