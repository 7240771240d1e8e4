"""Pixel operations of a batch, one for each image.

The schema is in csrc/library.cpp, checks of arguments in csrc/core/pixels/adjust.cpp.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .._torch.declaring import operator
from .._torch.fakes import contiguous_like
from .._torch.vmap_calls import into_batch, out_of_batch


def adjust_pixels(
    images: Tensor, kinds: Sequence[int], amounts: Sequence[float], more: Sequence[float] = ()
) -> Tensor:
    """Change each image [C, H, W] of a batch by an operation of its own.

    Parameters
    ----------
    images : Tensor ``[B, C, H, W]``
        uint8, or float32 with white at 1.
    kinds : sequence of int
        An operation for each image, by the numbers of ``csrc/core/chain/plan.h``.
    amounts : sequence of float
        Each operation's factor, threshold, exponent or side.
    more : sequence of float
        Nine numbers for each image, of those that an operation takes behind its amount; or none, if
        no operation takes any. Noise, gains in HSV, dropouts, motion and advanced blur, unsharp
        masks, emboss, sharpening, CLAHE, tone curves, bleaching, light, shadows and dilations do.

    Returns
    -------
    Tensor ``[B, C, H, W]``
        Contiguous; the images' dtype.

    Raises
    ------
    RuntimeError
        If the dtype is another, a number names no operation, or there is not one for each image; if
        an operation can't have its numbers, such as an even side of a median; if a contrast or a
        JPEG is asked of images that have neither 1 nor 3 channels.

    Notes
    -----
    Values are those of torchvision's functionals and, beyond these, of the classes of
    :mod:`visops.transforms`. No gradient. Medians and blurs have sides of at most 4095 pixels,
    motions of 1023, advanced blurs and dilations of 255; CLAHE has at most 256 rows and columns of
    tiles; there are at most 4096 holes, or 4096 rows and columns of cells, and 1000 shadows of 1000
    corners. On a GPU, two kernels run whatever the operations are; noise, HSV, medians, CLAHE,
    downscaling, JPEG, box blurs, unsharp masks, motion and advanced blur with emboss and
    sharpening, dilations, shading, and dropouts have one to five kernels each, for all images
    together. Nothing is copied to the host.

    Examples
    --------
    >>> import torch
    >>> from visops.pixels.adjust import adjust_pixels
    >>> images = torch.tensor([100, 200], dtype=torch.uint8).view(2, 1, 1, 1)
    >>> adjust_pixels(images, [10, 2], [0.0, 1.25]).flatten()  # inverted; brighter
    tensor([155, 250], dtype=torch.uint8)
    """
    numbers = list(kinds), list(amounts), list(more)
    return _adjust_pixels(images, *numbers)  # type: ignore[no-any-return]


def _vmap(
    call: Any, info: Any, in_dims: Any, images: Tensor, *lists: Sequence[float]
) -> tuple[Tensor, int]:
    count = info.batch_size
    folded = into_batch(images, in_dims[0], count)
    return out_of_batch(call(folded, *(list(numbers) * count for numbers in lists)), count), 0


_adjust_pixels = operator(
    "adjust_pixels",
    fake=contiguous_like(0),
    vmap=_vmap,
    without_gradient=True,
    private=True,
    documented_as="transforms.Compose",
)
