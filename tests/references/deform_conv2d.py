"""Deformable convolution as its definition reads: Python loops in float64."""

import math

import numpy as np


def sample(plane: np.ndarray, y: float, x: float) -> float:
    """plane [H, W] at a place where pixel centres are integers; 0 outside."""
    if not (math.isfinite(y) and math.isfinite(x)):
        return 0.0
    total = 0.0
    for row in range(math.floor(y), math.floor(y) + 2):
        for column in range(math.floor(x), math.floor(x) + 2):
            if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
                total += (1 - abs(y - row)) * (1 - abs(x - column)) * float(plane[row, column])
    return total


def convolve(
    image: np.ndarray,
    offset: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    mask: np.ndarray | None = None,
) -> np.ndarray:
    """image [N, C, H, W], offset [N, 2 G K, OH, OW], weight [M, C / groups, KH, KW]."""
    batch, channels = image.shape[:2]
    outs, ins, kernel_height, kernel_width = weight.shape
    height, width = offset.shape[2:]
    taps = kernel_height * kernel_width
    offset_groups = offset.shape[1] // (2 * taps)
    out_group = outs // (channels // ins)
    result = np.zeros((batch, outs, height, width))
    for n, m, row, column in np.ndindex(*result.shape):
        total = 0.0 if bias is None else float(bias[m])
        for c in range(ins):
            channel = m // out_group * ins + c
            positions = channel // (channels // offset_groups)
            for i, j in np.ndindex(kernel_height, kernel_width):
                k = positions * taps + i * kernel_width + j
                y = row * stride[0] - padding[0] + i * dilation[0] + offset[n, 2 * k, row, column]
                x = column * stride[1] - padding[1] + j * dilation[1]
                x = x + offset[n, 2 * k + 1, row, column]
                value = sample(image[n, channel], float(y), float(x))
                if mask is not None and value != 0:
                    value *= float(mask[n, k, row, column])
                total += float(weight[m, c, i, j]) * value
        result[n, m, row, column] = total
    return result
