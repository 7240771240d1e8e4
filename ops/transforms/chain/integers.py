"""Images of integers for which there is no kernel: they go through floats.

White is the greatest integer, as in torchvision. As a float, it is 1, and the float holds every
value well enough to be rounded back to itself: float32 those of 16 bits, float64 those of int32,
and of int64 those up to 2**53.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..._torch.arrays import SIGNED

WHITES = {
    torch.uint16: 65535.0,
    torch.int16: 32767.0,
    torch.int8: 127.0,
    torch.int32: 2.0**31 - 1.0,
    torch.int64: 2.0**63,  # the float64 next to it
}
INTEGERS = (torch.uint8, *WHITES)
_WIDE = (torch.int32, torch.int64)


def choose(condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Choose as torch.where() does, which takes no uint16 in torch 2.11."""
    bits = SIGNED.get(first.dtype)
    if bits is None:
        return torch.where(condition, first, second)
    return torch.where(condition, first.view(bits), second.view(bits)).view(first.dtype)


def reject_out_of_range(
    owner: str, name: str, values: Sequence[float], dtype: torch.dtype, white: bool = False
) -> None:
    """Refuse values that fill images of this dtype, and that its integers can't hold.

    With `white`, floating images refuse what isn't between black and white, 0 and 1.
    """
    if dtype in INTEGERS:
        info, place = torch.iinfo(dtype), f".{owner}" if owner else ""
        low, high = info.min, info.max
    elif white and dtype.is_floating_point:
        low, high, place = 0, 1, f".{owner}"
    else:
        return  # floating, or refused where the image is read
    for value in values:
        # As floats, as which values come: the greatest of int64 isn't one.
        if not float(low) <= value <= float(high):
            raise ValueError(
                f"visops.transforms{place}: {name} is {value:g}, must be within [{low}, "
                f"{high}] for a {dtype} image"
            )


def float_fill(owner: str, fill: Sequence[float], dtype: torch.dtype) -> list[float]:
    """Return a fill in the units of what `to_float` returns; refuse what the images can't hold."""
    white = WHITES.get(dtype)
    if white is None:
        return list(fill)
    reject_out_of_range(owner, "fill", fill, dtype)
    return [value / white for value in fill]


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which images of this one are computed where integers are the result."""
    return torch.float64 if dtype in _WIDE or dtype == torch.float64 else torch.float32


def to_float(images: Any) -> Any:
    """Convert images, a tensor or a list, to floats with white at 1; leave others alone."""
    if isinstance(images, list):
        return [to_float(image) for image in images]
    white = WHITES.get(images.dtype)
    return images if white is None else images.to(computed_in(images.dtype)).div_(white)


def from_float(images: Any, dtype: torch.dtype) -> Any:
    """Convert floating images to one of these integers: rounded, saturated, NaN becoming 0."""
    if isinstance(images, list):
        return [from_float(image, dtype) for image in images]
    if dtype in _WIDE:
        images = images.to(torch.float64)
    return rounded(images.mul(WHITES[dtype]), dtype)


def rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Round floats, in place, to an integer dtype: half to even, saturated, NaN becoming 0."""
    return values.round_().clamp_(*range_of(torch.iinfo(dtype))).nan_to_num_(nan=0.0).to(dtype)


def range_of(ends: Any) -> tuple[float, float]:
    """Return the least and the greatest float64 within the range of torch's or NumPy's iinfo."""
    low, high = float(ends.min), float(ends.max)
    return low, high if int(high) <= ends.max else math.nextafter(high, 0.0)
