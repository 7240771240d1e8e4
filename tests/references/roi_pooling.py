"""The other poolings as their definitions read: one pixel or sample after another.

Coordinates are numbers of one NumPy type, in the order of operations of the libraries that define
them, because the number of samples or pixels depends on their last bit. Values are in float64.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from references.roi_align import axes, coordinates, neighbours, sample


def roi_pool(
    image: np.ndarray, boxes: np.ndarray, output_size: Sequence[int], spatial_scale: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """[K, C, PH, PW] largest elements, and their pixels: row * width + column, or -1."""
    channels, height, width = image.shape[1:]
    values = np.zeros((len(boxes), channels, *output_size), image.dtype)
    index = np.full(values.shape, -1)
    for k, box in enumerate(boxes):
        x1, y1, x2, y2 = (_rounded(c * type(c)(spatial_scale)) for c in box[1:])
        rows = _bins(y1, y2, output_size[0], type(box[0]))
        columns = _bins(x1, x2, output_size[1], type(box[0]))
        for ph, pw in np.ndindex(*output_size):
            for c in range(channels):
                for y in range(max(rows[ph][0], 0), min(rows[ph][1], height)):
                    for x in range(max(columns[pw][0], 0), min(columns[pw][1], width)):
                        value, best = image[int(box[0]), c, y, x], values[k, c, ph, pw]
                        first = index[k, c, ph, pw] < 0
                        if first or value > best or (np.isnan(value) and not np.isnan(best)):
                            values[k, c, ph, pw] = value
                            index[k, c, ph, pw] = y * width + x
    return values, index


def _rounded(number: Any) -> int:
    """Round to the nearest, halves away from zero."""
    return int(math.copysign(math.floor(abs(float(number)) + 0.5), number))


def _bins(first: int, last: int, bins: int, number: Any) -> list[tuple[int, int]]:
    """Return each bin's pixels as (first, end), for bins between two pixels."""
    size = number(max(last - first + 1, 1)) / number(bins)
    return [
        (first + math.floor(number(i) * size), first + math.ceil(number(i + 1) * size))
        for i in range(bins)
    ]


def ps_roi_align(
    image: np.ndarray,
    boxes: np.ndarray,
    output_size: Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> np.ndarray:
    """[K, C, PH, PW] means, each from a channel of its own."""
    image = image.astype(np.float64)
    bins = output_size[0] * output_size[1]
    result = np.zeros((len(boxes), image.shape[1] // bins, *output_size))
    for k, box in enumerate(boxes):
        along_y, along_x = axes(box, output_size, spatial_scale, sampling_ratio, True)
        count = max(along_y.grid * along_x.grid, 1)
        for bin_index, (ph, pw) in enumerate(np.ndindex(*output_size)):
            planes = image[int(box[0]), bin_index::bins]
            for y in coordinates(along_y, ph):
                for x in coordinates(along_x, pw):
                    near_y = neighbours(y, planes.shape[1])
                    near_x = neighbours(x, planes.shape[2])
                    if near_y is not None and near_x is not None:
                        result[k, :, ph, pw] += sample(planes, near_y, near_x) / count
    return result


def roi_align_rotated(
    image: np.ndarray,
    boxes: np.ndarray,
    output_size: Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = True,
    clockwise: bool = False,
    degrees: bool = False,
) -> np.ndarray:
    """[K, C, PH, PW] means of samples in the frames of boxes [K, 6]."""
    image = image.astype(np.float64)
    number = boxes.dtype.type
    result = np.zeros((len(boxes), image.shape[1], *output_size))
    for k, box in enumerate(boxes):
        plane = image[int(box[0])]
        x, y, width, height = (c * number(spatial_scale) for c in box[1:5])
        if aligned:
            x, y = x - number(0.5), y - number(0.5)
        else:
            width, height = max(width, number(1)), max(height, number(1))
        angle = math.radians(float(box[5])) if degrees else float(box[5])
        angle = -angle if clockwise else angle
        cosine, sine = number(math.cos(angle)), number(math.sin(angle))
        along_y = _centred(height, output_size[0], sampling_ratio)
        along_x = _centred(width, output_size[1], sampling_ratio)
        for ph, pw in np.ndindex(*output_size):
            for v in along_y[ph]:
                for u in along_x[pw]:
                    near_y = neighbours(v * cosine - u * sine + y, plane.shape[1])
                    near_x = neighbours(v * sine + u * cosine + x, plane.shape[2])
                    if near_y is not None and near_x is not None:
                        count = len(along_y[ph]) * len(along_x[pw])
                        result[k, :, ph, pw] += sample(plane, near_y, near_x) / count
    return result


def _centred(size: Any, bins: int, sampling_ratio: int) -> list[list[Any]]:
    """Return each bin's samples along a side, relative to the box's centre."""
    number = type(size)
    of_bin = size / number(bins)
    grid = sampling_ratio if sampling_ratio > 0 else math.ceil(of_bin)
    steps = [number(i + 0.5) * of_bin / number(grid) for i in range(grid)]
    return [[-size / number(2) + number(b) * of_bin + s for s in steps] for b in range(bins)]
