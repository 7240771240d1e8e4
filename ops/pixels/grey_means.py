"""Grey means of small pictures, as a contrast adds them to colour matrices.

The schema is in csrc/library.cpp, checks of arguments in csrc/core/pixels/colors/grey_means.cpp.
"""

from typing import Any

from torch import Tensor

from .._torch.declaring import operator
from .._torch.fakes import contiguous_like
from .._torch.vmap_calls import into_batch, out_of_batch


def add_grey_means(pictures: Tensor, colors: Tensor, weights: Tensor) -> Tensor:
    """Add each picture's grey mean, times weights, to the offsets of colour matrices.

    Parameters
    ----------
    pictures : Tensor ``[B, C, H, W]``
        uint8, with 1, 3 or 4 channels and at most 65,536 pixels.
    colors : Tensor, float64 ``[B, K, C, C + 1]``
        Steps v' = A v + a of each sample; a is the last column. Contiguous.
    weights : Tensor, float64 ``[B, K, C]``
        The shares of the mean that are added to a. Contiguous.

    Returns
    -------
    Tensor, float64 ``[B, K, C, C + 1]``

    Raises
    ------
    RuntimeError
        If a dtype, a shape or a device is another.

    Notes
    -----
    The mean is that of 0.2989 R + 0.587 G + 0.114 B, with white at 1; of one channel, its own.
    Channels are summed in integers, so it has the same bits everywhere. No gradient.

    Examples
    --------
    >>> import torch
    >>> from visops.pixels.grey_means import add_grey_means
    >>> pictures = torch.tensor([0, 255], dtype=torch.uint8).view(1, 1, 1, 2)
    >>> colors = torch.tensor([2.0, 0.1], dtype=torch.float64).view(1, 1, 1, 2)
    >>> add_grey_means(pictures, colors, torch.full((1, 1, 1), -1.0, dtype=torch.float64)).flatten()
    tensor([ 2.0000, -0.4000], dtype=torch.float64)
    """
    return _add_grey_means(pictures, colors, weights)  # type: ignore[no-any-return]


def _vmap(call: Any, info: Any, in_dims: Any, *tensors: Tensor) -> tuple[Tensor, int]:
    count = info.batch_size
    folded = [into_batch(t, d, count).contiguous() for t, d in zip(tensors, in_dims, strict=True)]
    return out_of_batch(call(*folded), count), 0


_add_grey_means = operator(
    "add_grey_means",
    fake=contiguous_like(1),
    vmap=_vmap,
    without_gradient=True,
    private=True,
    documented_as="transforms.Compose",
)
