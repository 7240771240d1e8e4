"""RoIAlign as its definition reads: one sample after another.

Coordinates are numbers of one NumPy type, in torchvision's order of operations, because the number
of samples in a bin depends on their last bit. Means are in float64. A maximum picks one sample, so
there samples are in the type of the coordinates.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np


class Axis(NamedTuple):
    """A box along x or y."""

    start: Any  # of the first bin
    bin: Any  # its size
    grid: int  # samples in a bin


class Neighbours(NamedTuple):
    """Two pixels and their weights."""

    low: int
    high: int
    weight_low: Any
    weight_high: Any


def axis(low: Any, high: Any, scale: Any, bins: int, sampling_ratio: int, aligned: bool) -> Axis:
    """Return the axis of a box from `low` to `high`, numbers of one type."""
    number = type(low)
    offset = number(0.5) if aligned else number(0)
    start = low * scale - offset
    size = high * scale - offset - start
    if not aligned:
        size = max(size, number(1))
    bin_size = size / number(bins)
    grid = sampling_ratio if sampling_ratio > 0 else math.ceil(bin_size)
    return Axis(start, bin_size, grid)


def coordinates(a: Axis, bin_index: int) -> Iterator[Any]:
    """Yield the coordinates of a bin's samples."""
    number = type(a.start)
    for i in range(a.grid):
        within = number(i + 0.5) * a.bin / number(a.grid)
        yield a.start + number(bin_index) * a.bin + within


def neighbours(at: Any, length: int) -> Neighbours | None:
    """Return the pixels beside a sample; None if it is outside and counts as 0."""
    number = type(at)
    if at < -1 or at > length:
        return None
    at = max(at, number(0))
    low = int(at)
    if low >= length - 1:
        return Neighbours(length - 1, length - 1, number(1), number(0))
    part = at - number(low)
    return Neighbours(low, low + 1, number(1) - part, part)


def sample(plane: np.ndarray, y: Neighbours, x: Neighbours) -> np.ndarray:
    """Values [C] of planes [C, H, W]."""
    top = x.weight_low * plane[:, y.low, x.low] + x.weight_high * plane[:, y.low, x.high]
    bottom = x.weight_low * plane[:, y.high, x.low] + x.weight_high * plane[:, y.high, x.high]
    return np.asarray(y.weight_low * top + y.weight_high * bottom)


def axes(
    box: np.ndarray,
    output_size: Sequence[int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> tuple[Axis, Axis]:
    """Return the axes along y and x of a box: batch, x1, y1, x2, y2."""
    scale = type(box[0])(spatial_scale)
    return (
        axis(box[2], box[4], scale, output_size[0], sampling_ratio, aligned),
        axis(box[1], box[3], scale, output_size[1], sampling_ratio, aligned),
    )


def roi_align(
    image: np.ndarray,
    boxes: np.ndarray,
    output_size: Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> np.ndarray:
    """[K, C, PH, PW] float64 means; coordinates in the dtype of the boxes [K, 5]."""
    image = image.astype(np.float64)
    result = np.zeros((len(boxes), image.shape[1], *output_size))
    for k, box in enumerate(boxes):
        plane = image[int(box[0])]
        along_y, along_x = axes(box, output_size, spatial_scale, sampling_ratio, aligned)
        count = max(along_y.grid * along_x.grid, 1)
        for ph, pw in np.ndindex(*output_size):
            total = np.zeros(len(plane))
            for y in coordinates(along_y, ph):
                for x in coordinates(along_x, pw):
                    near_y = neighbours(y, plane.shape[1])
                    near_x = neighbours(x, plane.shape[2])
                    if near_y is not None and near_x is not None:
                        total += sample(plane, near_y, near_x)
            result[k, :, ph, pw] = total / count
    return result


def roi_align_max(
    image: np.ndarray,
    boxes: np.ndarray,
    output_size: Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest samples [K, C, PH, PW] and their numbers, -1 for the 0 outside.

    Everything is in the boxes' dtype. Among equal samples the first counts; NaN beats everything,
    and the first NaN counts.
    """
    image = image.astype(boxes.dtype)
    result = np.zeros((len(boxes), image.shape[1], *output_size), boxes.dtype)
    index = np.full(result.shape, -1)
    for k, box in enumerate(boxes):
        plane = image[int(box[0])]
        along_y, along_x = axes(box, output_size, spatial_scale, sampling_ratio, aligned)
        for ph, pw in np.ndindex(*output_size):
            best: list[Any] = [None] * len(plane)
            which = [-1] * len(plane)
            some_outside = False
            for i, y in enumerate(coordinates(along_y, ph)):
                for j, x in enumerate(coordinates(along_x, pw)):
                    near_y = neighbours(y, plane.shape[1])
                    near_x = neighbours(x, plane.shape[2])
                    if near_y is None or near_x is None:
                        some_outside = True
                        continue
                    for c, value in enumerate(sample(plane, near_y, near_x)):
                        if best[c] is None or is_above(value, best[c]):
                            best[c], which[c] = value, i * along_x.grid + j
            for c in range(len(plane)):
                if best[c] is None or (some_outside and is_above(0, best[c])):
                    best[c], which[c] = 0, -1
                result[k, c, ph, pw], index[k, c, ph, pw] = best[c], which[c]
    return result, index


def is_above(value: Any, best: Any) -> bool:
    """NaN is above everything else."""
    return not np.isnan(best) and bool(np.isnan(value) or value > best)


def level(
    box: np.ndarray,
    scales: Sequence[float],
    canonical_scale: float = 224.0,
    canonical_level: int = 4,
    rule: str = "torchvision",
) -> int:
    """Return the level, among these scales, that a box is read from: batch, x1, y1, x2, y2."""
    number = type(box[0])
    size = np.sqrt((box[3] - box[1]) * (box[4] - box[2]))
    with np.errstate(divide="ignore"):
        if rule == "torchvision":
            exact = number(canonical_level) + np.log2(size / number(canonical_scale))
            exact += number(1e-6)
        else:
            exact = number(canonical_level) + np.log2(size / number(canonical_scale) + number(1e-8))
    # The coarsest level that is not coarser than that, or the first.
    numbers = [round(-math.log2(scale)) for scale in scales]
    return max((i for i, n in enumerate(numbers) if n <= np.floor(exact)), default=0)
