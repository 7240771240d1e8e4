"""Separable filters of a batch, with weights for each image.

The schema is in csrc/library.cpp, checks of arguments in csrc/core/pixels/filters/filter.cpp.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .._torch.declaring import operator
from .._torch.fakes import contiguous_like
from .._torch.flops import separable_flops

DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
MOST_TAPS = 33


def filter_separable(
    images: Tensor,
    rows: Sequence[float],
    columns: Sequence[float],
    shared: bool = True,
    pairs: bool = False,
) -> Tensor:
    """Filter images along their rows, then along their columns.

    Parameters
    ----------
    images : Tensor ``[B, C, H, W]``
        uint8, float16, bfloat16 or float32; mirrored at the rim without repeating it.
    rows, columns : sequence of float
        Weights, at most 33 of each; the middle of n is number n // 2.
    shared : bool
        Whether all images have the same weights. Else each has as many of its own, one image's
        after another's.
    pairs : bool
        Whether weights to both sides of the middle are equal: then two neighbours are added before
        they are multiplied, and the sum begins with the middle.

    Returns
    -------
    Tensor ``[B, C, H, W]``
        Contiguous; the images' dtype. Integers are rounded half to even.

    Raises
    ------
    RuntimeError
        If the dtype is another, there are too many weights, or they don't fit the images.

    Notes
    -----
    Computed in float32, in the order of the taps: the bits are the same on every device. No
    gradient.

    Examples
    --------
    >>> import torch
    >>> from visops.convolution.filter_separable import filter_separable
    >>> filter_separable(torch.eye(3)[None, None], [0.25, 0.5, 0.25], [1.0])[0, 0]
    tensor([[0.5000, 0.2500, 0.0000],
            [0.5000, 0.5000, 0.5000],
            [0.0000, 0.2500, 0.5000]])
    """
    return _filter_separable(  # type: ignore[no-any-return]
        images, list(rows), list(columns), shared, pairs
    )


_filter_separable = operator(
    "filter_separable",
    fake=contiguous_like(0),
    without_gradient=True,
    flops=separable_flops,
    private=True,
    documented_as="transforms.Compose",
)
