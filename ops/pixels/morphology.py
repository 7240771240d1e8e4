"""Dilation and erosion by torch's operators: masks of any dtype, and images without a kernel."""

import math

import torch
from torch import Tensor


def dilated(planes: Tensor, width: int, height: int, dilates: bool) -> Tensor:
    """Take the greatest, or the least, of the values under an ellipse.

    Parameters
    ----------
    planes : Tensor ``[..., H, W]``
        Any dtype that torch compares.
    width, height : int
        Sides of the ellipse, which is OpenCV's.
    dilates : bool
        Whether to take the greatest.

    Returns
    -------
    Tensor ``[..., H, W]``
        What lies outside doesn't count. Differentiable.

    Examples
    --------
    >>> import torch
    >>> from visops.pixels.morphology import dilated
    >>> dilated(torch.tensor([[0, 0, 0, 7]]), 3, 3, True)
    tensor([[0, 0, 7, 7]])
    """
    if planes.numel() == 0:
        return planes.clone()
    values = planes.to(torch.uint8) if planes.dtype is torch.bool else planes
    choose = torch.maximum if dilates else torch.minimum
    rows, columns = values.shape[-2:]
    left, right, above = width // 2, (width - 1) // 2, height // 2
    pitch, deep = columns + width - 1, rows + height - 1
    wide = values.new_full((*values.shape[:-2], deep, pitch), _extreme(values.dtype, least=dilates))
    wide[..., above : above + rows, left : left + columns] = values
    # All rows of all planes in one line, in which each pixel of the ellipse is a shift.
    line = wide.flatten()
    count = len(line) - (width - 1)
    length = count - (height - 1) * pitch
    reaches = _reaches(width, height)
    widest, found = line[left : left + count], None
    for reach in range(max(reaches) + 1):
        for shift in (-reach, reach) if reach > 0 else ():
            if shift <= right:
                widest = choose(widest, line[left + shift : left + shift + count])
        for row, own in enumerate(reaches):
            if own == reach:
                part = widest[row * pitch : row * pitch + length]
                found = part if found is None else choose(found, part)
    assert found is not None
    size = (len(line) // (deep * pitch), rows, columns)
    return found.as_strided(size, (deep * pitch, pitch, 1)).reshape(values.shape).to(planes.dtype)


def _reaches(width: int, height: int) -> list[int]:
    """Return how far each row of the ellipse reaches to both sides; an even one less to one."""
    middle = height // 2
    if middle == 0:
        return [0]
    shares = (math.sqrt((middle**2 - (y - middle) ** 2) / middle**2) for y in range(height))
    return [round(width // 2 * share) for share in shares]


def _extreme(dtype: torch.dtype, *, least: bool) -> float:
    """Return the least or the greatest value of a dtype."""
    if dtype.is_floating_point:
        return -math.inf if least else math.inf
    ends = torch.iinfo(dtype)
    return ends.min if least else ends.max
