"""RoIAlign written with torch's operators, so that autograd gives reference gradients.

All samples of a box at once, in the maps' dtype. Values are those of references/roi_align.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Samples(NamedTuple):
    """All samples of a box along one axis."""

    grid: int  # in a bin
    inside: Tensor  # [bins * grid] whether they count
    low: Tensor  # ... the pixels beside them
    high: Tensor
    part: Tensor  # ... the weight of `high`


def samples(
    low: Tensor, high: Tensor, scale: float, bins: int, ratio: int, aligned: bool, length: int
) -> Samples:
    offset = 0.5 if aligned else 0.0
    start = low * scale - offset
    size = high * scale - offset - start
    if not aligned:
        size = torch.where(size > 1, size, 1.0)
    bin_size = size / bins
    grid = ratio if ratio > 0 else int(bin_size.detach().ceil())
    within = (torch.arange(grid, dtype=low.dtype) + 0.5) * bin_size / max(grid, 1)
    at = (start + torch.arange(bins, dtype=low.dtype)[:, None] * bin_size + within).flatten()
    inside = (at >= -1) & (at <= length)
    at = torch.where(at > 0, at, 0.0)
    whole = at.detach().floor().clamp(max=length - 1)
    part = torch.where(whole >= length - 1, 0.0, at - whole)
    first = whole.long()
    return Samples(grid, inside, first, (first + 1).clamp(max=length - 1), part)


def of_box(plane: Tensor, y: Samples, x: Samples) -> Tensor:
    """[C, samples along y, samples along x]; 0 for samples outside."""

    def row(index: Tensor) -> Tensor:
        rows = plane[:, index]
        return (1 - x.part) * rows[:, :, x.low] + x.part * rows[:, :, x.high]

    part = y.part[:, None]
    values = (1 - part) * row(y.low) + part * row(y.high)
    return torch.where(y.inside[:, None] & x.inside, values, 0.0)


def roi_align(
    maps: Tensor,
    boxes: Tensor,
    output_size: Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    reduce: str = "mean",
) -> Tensor:
    """[K, C, PH, PW]; the maximum does not support NaN."""
    bins_y, bins_x = output_size
    height, width = maps.shape[2:]
    results = [maps.new_zeros((0, maps.shape[1], bins_y, bins_x))]
    for box in boxes.to(maps.dtype):
        image, x1, y1, x2, y2 = box.unbind()
        options = (sampling_ratio, aligned)
        y = samples(y1, y2, spatial_scale, bins_y, *options, height)
        x = samples(x1, x2, spatial_scale, bins_x, *options, width)
        values = of_box(maps[int(image)], y, x)
        grids = values.unflatten(2, (bins_x, x.grid)).unflatten(1, (bins_y, y.grid))
        if reduce == "mean" or y.grid * x.grid == 0:
            result = grids.sum((2, 4)) / max(y.grid * x.grid, 1)
        else:  # one of equal ones has the gradient, the first that is inside
            grids = grids.transpose(2, 3).flatten(3)
            inside = y.inside.view(bins_y, 1, y.grid, 1) & x.inside.view(1, bins_x, 1, x.grid)
            ranks = torch.arange(grids.shape[3]) + ~inside.flatten(2) * grids.shape[3]
            largest = grids.detach() == grids.detach().amax(3, keepdim=True)
            ranks = torch.where(largest, ranks, 2 * grids.shape[3])
            result = grids.gather(3, ranks.argmin(3, keepdim=True))[..., 0]
        results.append(result[None])
    return torch.cat(results)
