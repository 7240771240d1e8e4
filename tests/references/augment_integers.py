"""antialias of uint8 images in integers, as loops over NumPy's float32 and Python's integers.

For maps without rotation whose coordinates float32 holds exactly: then there is one right result,
to the bit.
"""

import math
from fractions import Fraction

import numpy as np

LARGEST = 32700
LEVELS = {"bilinear": 256, "bicubic": 192, "lanczos": 128}
REACH = {"bilinear": 1, "bicubic": 2, "lanczos": 3}


def filter_weight(distance: np.float32, mode: str) -> np.float32:
    one, two = np.float32(1), np.float32(2)
    d = abs(distance)
    if mode == "bilinear":
        return one - d if d < one else np.float32(0)
    if mode == "lanczos":
        return lanczos(d)
    if d < one:
        return (np.float32(1.5) * d - np.float32(2.5)) * d * d + one
    if d < two:
        return ((np.float32(-0.5) * d + np.float32(2.5)) * d - np.float32(4)) * d + two
    return np.float32(0)


def lanczos(d: np.float32) -> np.float32:
    """Of z = (pi d / 3)^2, and the Taylor series of the sine's ratio to its argument."""
    if d >= np.float32(3):
        return np.float32(0)
    x = d * np.float32(np.pi / 3)
    z, q = x * x, np.float32(0)
    for k in range(9, -1, -1):
        q = q * z + np.float32((-1) ** k / math.factorial(2 * k + 1))
    square = q * q
    return square * (np.float32(1) - np.float32(4 / 3) * (z * square))


def integer_weights(
    at: float, width: float, count: int, mode: str, level: int, most_shift: int
) -> tuple[int, list[int], int]:
    """The first tap, integer weights, and their sum, of a point on an axis of `count` pixels."""
    filter_width = max(min(width, count), 1.0)
    radius = np.float32(filter_width * REACH[mode])
    scale = np.float32(1 / filter_width)
    centre = np.float32(min(max(at, -0.5), count - 0.5))
    first = int(np.floor(centre - radius)) + 1
    last = min(first + 2 * int(np.ceil(radius)) - 1, count - 1)
    first = max(first, 0)
    floats = [filter_weight((np.float32(k) - centre) * scale, mode) for k in range(first, last + 1)]
    running = np.cumsum(np.array(floats, np.float32), dtype=np.float32)
    norm = np.float32(1) / running[-1]
    largest = max(abs(w) for w in floats) * norm * np.float32(level)
    shift = 0
    while shift < most_shift and 2 * largest <= LARGEST:
        largest, shift = 2 * largest, shift + 1
    total = level << shift
    until = [int(np.floor(c * (norm * np.float32(total)) + np.float32(0.5))) for c in running]
    until[-1] = total
    return first, [b - a for a, b in zip([0, *until], until, strict=False)], total


def resize(
    image: np.ndarray, scale: tuple[float, float], size: tuple[int, int], mode: str
) -> np.ndarray:
    """[H, W, C] uint8 -> [*size, C] float32 before it is rounded, half-pixel convention.

    `scale` is source per output.
    """
    height, width, channels = image.shape
    level = LEVELS[mode]
    rows = [
        integer_weights((y + 0.5) * scale[0] - 0.5, scale[0], height, mode, level, 13)
        for y in range(size[0])
    ]
    columns = [
        integer_weights((x + 0.5) * scale[1] - 0.5, scale[1], width, mode, 1, 15)
        for x in range(size[1])
    ]
    result = np.zeros((*size, channels), np.float32)
    for y, (top, row_weights, row_total) in enumerate(rows):
        taps = image[top : top + len(row_weights)].astype(np.int64) - 128
        sums = np.einsum("k,kxc->xc", row_weights, taps)
        step = row_total // level
        line = np.clip((sums + step // 2) // step, -32768, 32767)
        for x, (left, weights, total) in enumerate(columns):
            for c in range(channels):
                run = line[left : left + len(weights), c]
                value = int(np.dot(np.array(weights), run))
                assert abs(value) < 2**31
                # Exact, then as float32 has it.
                unit = np.float32(Fraction(1, level * total))
                result[y, x, c] = np.float32(value) * unit + np.float32(128)
    return result
