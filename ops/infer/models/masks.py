"""Masks to run lengths, label maps and back; masks and maps resized to their images."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._torch.options import Interpolation
from ...masks.rle import masks_to_rle, rle_to_masks
from ...masks.runs import RLE
from ...masks.select import merge_masks
from ...warp.augment import augment
from ..frames import Placement

_PIXELS_AT_ONCE = 1 << 24  # at the image's size; masks may be many and large
_MOST_LABELS = 2**16 - 1  # of a PNG with one channel


def run_lengths(mask: Tensor) -> RLE:
    """Return a mask ``[H, W]`` as COCO's uncompressed run lengths.

    That is :func:`visops.masks_to_rle` of one mask, of any dtype. Pixels are read column by column;
    ``counts`` alternate between runs of 0s and 1s, starting with 0s.

    Examples
    --------
    >>> import torch
    >>> from visops.infer import run_lengths
    >>> run_lengths(torch.tensor([[0, 1], [1, 1]], dtype=torch.bool))
    {'size': [2, 2], 'counts': [1, 3]}
    """
    if mask.dim() != 2:
        raise ValueError(
            f"visops.infer.run_lengths: mask has shape {list(mask.shape)}, must be [H, W]"
        )
    return run_lengths_of_all(mask.to(torch.bool)[None])[0]


def run_lengths_of_all(masks: Tensor) -> list[RLE]:
    """Return :func:`run_lengths` of each of the masks bool ``[K, H, W]``."""
    found: list[RLE] = masks_to_rle(masks, compressed=False)
    return found


def label_map(masks: Any, scores: Any, size: tuple[int, int]) -> np.ndarray:
    """Draw masks in run lengths into one map, the best on top, as :func:`visops.merge_masks` does.

    Parameters
    ----------
    masks : list of dict
        As :func:`visops.rle_to_masks` takes them, all of one size.
    scores : sequence of numbers, or None
        Equal scores go by index. If it doesn't have a number for each mask, all go by index.
    size : (int, int)
        Height and width of the map if there are no masks.

    Returns
    -------
    ndarray ``[H, W]``
        k on the pixels of the k-th mask, counted from 1, 0 where there is none. uint8 for up to 255
        masks, else uint16.

    Raises
    ------
    TypeError, ValueError
        Masks are no run lengths, differ in size, or are more than 65,535.
    """
    if not isinstance(masks, (list, tuple)):
        raise TypeError(f"masks is a {type(masks).__name__}, must be a list of run lengths")
    count = len(masks)
    if count > _MOST_LABELS:
        raise ValueError(f"there are {count} masks, must be at most {_MOST_LABELS}")
    dtype = np.uint8 if count <= 255 else np.uint16
    if not masks:
        return np.zeros(size, dtype)
    drawn, ids = merge_masks(
        rle_to_masks(masks, out="packed"), _numbers(scores, count), overlap_threshold=1.0
    )
    # Labels follow the order of drawing, and empty masks have none.
    ranks = np.zeros(count + 1, dtype)
    ranks[ids.numpy()] = np.arange(1, count + 1)
    ranks[0] = 0
    labels: np.ndarray = ranks[drawn.numpy()]
    return labels


def _numbers(scores: Any, count: int) -> Tensor:
    """Return scores of masks as a tensor; zeros for what is none."""
    try:
        numbers = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    if numbers.shape == (count,):
        return torch.from_numpy(numbers)
    return torch.zeros(count, dtype=torch.float32, device="cpu")


def masks_at_once(size: Sequence[int]) -> int:
    """Return how many masks of this height and width should be in memory at a time."""
    return max(1, _PIXELS_AT_ONCE // (size[0] * size[1]))


def columns_of_runs(counts: Sequence[int], height: int) -> tuple[int, np.ndarray]:
    """Return the mask of :func:`run_lengths`, without the empty columns on both sides.

    Parameters
    ----------
    counts : sequence of int
        Runs of a mask whose columns have `height` pixels.
    height : int

    Returns
    -------
    int
        The index of the first column returned.
    ndarray ``[H, w]``
        bool.
    """
    ends = np.cumsum(counts, dtype=np.int64)
    if len(ends) < 2:
        return 0, np.zeros((height, 0), bool)
    last_of_ones = ends[len(ends) // 2 * 2 - 1]
    first, last = int(ends[0]) // height, -(-int(last_of_ones) // height)
    bounds = np.clip([0, *ends], first * height, last * height)
    runs: np.ndarray = bounds[1:] - bounds[:-1]
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return first, flat.reshape(last - first, height).T


def masks_in_image(
    masks: Tensor, placement: Placement, *, mode: Interpolation = "bilinear", outside: float = 0.0
) -> Iterator[Tensor]:
    """Resize floating masks or maps ``[K, h, w]`` of a network's input to the image's size.

    They cover the whole input but may differ from it in size. `outside` is the value of parts of
    the image that the network has not seen; values don't fade towards it.

    Yields
    ------
    Tensor ``[k, H, W]``
        A few masks at a time.
    """
    size = (placement.full_height, placement.full_width)
    height, width = masks.shape[1:]
    x, y = placement.width / width, placement.height / height
    to_image = torch.tensor(
        [
            [x / placement.scale_x, 0, -placement.left / placement.scale_x],
            [0, y / placement.scale_y, -placement.top / placement.scale_y],
        ],
        dtype=torch.float64,
        device=masks.device,
    )
    for part in masks.split(masks_at_once(size)):
        yield augment(
            part[:, None],
            to_image,
            size,
            mode=mode,
            fill=outside,
            # With the window, values end within one pixel of the image; without it, of the mask.
            window=(0, 0, width, height),
            convention="half_pixel",
            layout="CHW",
        )[:, 0]
