"""Bits, areas, boxes and overlaps of masks, pixel by pixel."""

import numpy as np


def pack(mask: np.ndarray) -> np.ndarray:
    """Bits of one mask [H, W]: int64 [H, ceil(W / 64)]."""
    height, width = mask.shape
    bits = np.zeros((height, -(-width // 64)), np.uint64)
    for y, x in np.ndindex(height, width):
        if mask[y, x] != 0:
            bits[y, x // 64] |= np.uint64(1 << (x % 64))
    return bits.view(np.int64)


def box(mask: np.ndarray) -> list[float]:
    """First and last column and row with a pixel; zeros without one."""
    pixels = [at for at in np.ndindex(*mask.shape) if mask[at] != 0]
    if not pixels:
        return [0.0] * 4
    rows, columns = [y for y, _ in pixels], [x for _, x in pixels]
    return [float(min(columns)), float(min(rows)), float(max(columns)), float(max(rows))]


def overlap(a: np.ndarray, b: np.ndarray, kind: str) -> np.float32:
    """Compute the overlap of two masks [H, W]."""
    in_a, in_b = a != 0, b != 0
    common, area, union = (int(np.count_nonzero(m)) for m in (in_a & in_b, in_a, in_a | in_b))
    whole = area if kind == "ioa" else union
    return np.float32(common / whole if common else 0.0)
