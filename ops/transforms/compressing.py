"""JPEG compression."""

from collections.abc import Sequence
from typing import Any

import torch

from .arguments import fail, is_sequence, whole
from .engine.pixel_kinds import PixelKind
from .engine.plan import Plan
from .operation_step import OperationStep


class JPEG(OperationStep):
    """Change the image as a JPEG file would, written and read again.

    torchvision's transform of this name, with the bits of its ``encode_jpeg`` and ``decode_jpeg``,
    and so of libjpeg-turbo's, Pillow's and OpenCV's, on all devices.

    Parameters
    ----------
    quality : int or pair of int
        From 1 to 100, or its range.
    p : float
        Probability, for each sample; torchvision has none.

    Raises
    ------
    TypeError
        The image has integers other than uint8, or neither 1 nor 3 channels.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: the quality. No file is made: what loses is
    computed, and the coding, which loses nothing, is left out. Floating images, which torchvision
    refuses, are rounded to 256 levels and back. No gradient passes.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.arange(64, dtype=torch.uint8).view(1, 8, 8)
    >>> transforms.JPEG(10)(image)[0, :, 0]
    tensor([ 7, 10, 16, 24, 32, 40, 46, 49], dtype=torch.uint8)
    """

    kind = PixelKind.JPEG

    def __init__(self, quality: int | Sequence[int], p: float = 1.0) -> None:
        allowed = "a whole number from 1 to 100, or two (min, max)"
        given: Any = quality if is_sequence(quality) else (quality, quality)
        if len(given) != 2:
            fail("JPEG", "quality", quality, allowed)
        low, high = (whole("JPEG", "quality", value, 1, allowed, 100) for value in given)
        if low > high:
            fail("JPEG", "quality", quality, f"{allowed}, the smaller first")
        super().__init__(p, [(float(low), float(high), 1)])
        self.quality = (low, high)

    def settle(self, plan: Plan) -> None:
        bytes_or_floats = plan.dtype == torch.uint8 or plan.dtype.is_floating_point
        if not bytes_or_floats or plan.channels not in (1, 3):
            raise TypeError(
                f"visops.transforms.JPEG: images have dtype {plan.dtype} and {plan.channels} "
                "channels, must be uint8 or floating and have 1 or 3"
            )
