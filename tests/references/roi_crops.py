"""Crops and pasting as their definitions read, in float64.

Along an axis, samples are a matrix of interpolation weights times the pixels; a loop over samples
and taps fills that matrix. Weights and padding come from the reference for the affine warp, which
shares nothing with the kernels.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from references.affine import TAPS, padded_index, weight

Size = tuple[int, int]


def axis_matrix(positions: np.ndarray, size: int, mode: str, padding_mode: str) -> np.ndarray:
    """[samples, size]: a row for each place, where pixel centres are integers.

    A row sums to 1, less the weights of taps beyond a constant border.
    """
    return _axis_matrix(tuple(positions.tolist()), size, mode, padding_mode)


@functools.cache  # tests repeat the same boxes for each dtype and layout
def _axis_matrix(
    positions: tuple[float, ...], size: int, mode: str, padding_mode: str
) -> np.ndarray:
    matrix = np.zeros((len(positions), size))
    for row, position in zip(matrix, positions, strict=True):
        first = math.floor(position + 0.5 if mode == "nearest" else position)
        for tap in TAPS[mode]:
            index = padded_index(first + tap, size, padding_mode)
            if index is not None:
                row[index] += float(weight(position - (first + tap), mode))
    return matrix


def positions_in(begin: float, end: float, count: int) -> np.ndarray:
    """Return the centres of `count` pixels from begin to end, given as pixel corners."""
    return begin + (np.arange(count) + 0.5) * (end - begin) / count - 0.5


def crop(
    image: np.ndarray,
    box: Any,
    size: Size,
    *,
    mode: str = "bilinear",
    padding_mode: str = "constant",
    fill: float | Sequence[float] = 0.0,
) -> np.ndarray:
    """image [C, H, W] -> [C, *size], before rounding; a box has four numbers."""
    x1, y1, x2, y2 = (float(v) for v in box)
    fills = np.broadcast_to(np.asarray(fill, np.float64), (image.shape[0],))[:, None, None]
    down = axis_matrix(positions_in(y1, y2, size[0]), image.shape[1], mode, padding_mode)
    across = axis_matrix(positions_in(x1, x2, size[1]), image.shape[2], mode, padding_mode)
    inside = down.sum(1)[:, None] * across.sum(1)
    return np.asarray(down @ image.astype(np.float64) @ across.T + fills * (1 - inside))


def crops(images: np.ndarray, boxes: np.ndarray, size: Size, **options: Any) -> np.ndarray:
    """[B, C, H, W], [K, 5] -> [K, C, *size]."""
    result = np.zeros((len(boxes), images.shape[1], *size))
    for k, box in enumerate(boxes):
        result[k] = crop(images[int(box[0])], box[1:], size, **options)
    return result


def centres_in(begin: float, end: float, size: int) -> list[int]:
    """Return the pixels whose centres lie in [begin, end)."""
    return [i for i in range(size) if begin <= i + 0.5 < end]


def ramp(pixels: list[int], begin: float, end: float, width: float) -> np.ndarray:
    """Return pixels' distance to the nearer end, in units of `width`, at most 1."""
    distances = [min(i + 0.5 - begin, end - (i + 0.5)) / width for i in pixels]
    return np.array([min(1.0, d) for d in distances])


def paste(
    images: np.ndarray,
    patches: np.ndarray,
    boxes: np.ndarray,
    *,
    blend: str = "replace",
    alpha: np.ndarray | None = None,
    feather: float = 8.0,
    mode: str = "bilinear",
) -> np.ndarray:
    """[B, C, H, W], [K, C, h, w], [K, 5] -> [B, C, H, W] in float64, before rounding."""
    result = images.astype(np.float64)
    for k, (image, x1, y1, x2, y2) in enumerate(boxes.astype(np.float64)):
        rows = centres_in(y1, y2, images.shape[2])
        columns = centres_in(x1, x2, images.shape[3])
        if not rows or not columns:
            continue
        height, width = patches.shape[2:]
        positions_y = (np.array(rows) + 0.5 - y1) * height / (y2 - y1) - 0.5
        positions_x = (np.array(columns) + 0.5 - x1) * width / (x2 - x1) - 0.5
        down = axis_matrix(positions_y, height, mode, "replicate")
        across = axis_matrix(positions_x, width, mode, "replicate")
        sample = down @ patches[k].astype(np.float64) @ across.T
        if blend == "replace":
            weights = np.ones((len(rows), len(columns)))
        elif blend == "feather":
            ramp_width = min(feather, (x2 - x1) / 2, (y2 - y1) / 2)
            weights = np.minimum(
                ramp(rows, y1, y2, ramp_width)[:, None], ramp(columns, x1, x2, ramp_width)
            )
        else:
            assert alpha is not None
            weights = down @ alpha[k].astype(np.float64) @ across.T
        covered = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
        region = (int(image), slice(None), *covered)
        result[region] = weights * sample + (1 - weights) * result[region]
    return result
