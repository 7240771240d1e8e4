"""How passes call the augmentation: windows, and samples of one size or several."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...warp.augment_arguments import AugmentOptions
from ...warp.augment_autograd import augment as _augment
from ...warp.augment_autograd import augment_list as _augment_list
from ..sample.leaf import Leaf
from ..targets.options import canvas_windows
from .compile import Compiled


def windows_for(
    window: np.ndarray | None, native: Compiled, sizes: np.ndarray
) -> np.ndarray | None:
    """Return windows [B, 4], which make the edge towards the fill one output pixel wide."""
    if window is None and native.shows_window:
        return canvas_windows(sizes)
    return window


def run_all(images: Any, matrix: Tensor, size: Sequence[int], options: AugmentOptions) -> Tensor:
    """Run samples that share their size in one call."""
    run = _augment_list if isinstance(images, list) else _augment
    return run(images, matrix, size, *options)  # type: ignore[no-any-return]


def run_each(
    images: Any, matrix: Tensor, sizes: list[list[int]], options: AugmentOptions
) -> list[Tensor]:
    """Run the samples one by one, as their sizes differ."""
    results = []
    for i, size in enumerate(sizes):
        one = slice(i, i + 1)
        image = images[i].unsqueeze(0) if isinstance(images, list) else images[one]
        own = options.of_sample(i, len(sizes))
        results.append(_augment(image, matrix[one], size, *own)[0])
    return results


def stack_images(images: Sequence[Leaf], sizes: np.ndarray, form: torch.memory_format) -> None:
    """Stack the lists that unfused transforms leave into batches, in the form that is wanted."""
    for leaf in images:
        if isinstance(leaf.value, list):
            if (sizes != sizes[0]).any():
                reject_sizes(sizes)
            leaf.value = torch.stack(leaf.value)
        if form is torch.channels_last and leaf.layout == "CHW" and isinstance(leaf.value, Tensor):
            leaf.value = leaf.value.movedim(-3, -1).contiguous().movedim(-1, -3)


def reject_sizes(sizes: np.ndarray) -> None:
    """Raise the error of samples that come out with different sizes."""
    index = int((sizes != sizes[0]).any(1).argmax())
    raise ValueError(
        f"visops.transforms.Compose: sample 0 comes out with {sizes[0, 0]} rows and {sizes[0, 1]} "
        f"columns, sample {index} with {sizes[index, 0]} and {sizes[index, 1]}; must be the same "
        "in a batch (end with Resize((height, width)) or CenterCrop)"
    )


def per_image(values: np.ndarray, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return rows of numbers ``[R, N]`` as ``[R, N, 1, 1, 1]``, beside images ``[N, C, H, W]``."""
    rows = torch.from_numpy(np.ascontiguousarray(values)).to(dtype)
    return rows.to(device, non_blocking=True)[:, :, None, None, None]


class Rectangles:
    """A rectangle in each of some images ``[N, C, H, W]``.

    Attributes
    ----------
    height, width : Tensor ``[N, 1, 1, 1]``
    y, x : Tensor ``[N, 1, H, 1]``, ``[N, 1, 1, W]``
        The pixels' rows and columns in the rectangle.
    inside : Tensor ``[N, 1, H, W]``
        Which pixels it has.
    """

    def __init__(self, images: Tensor, places: np.ndarray) -> None:
        """`places`: top, left, height, width, whole numbers ``[N, 4]``."""
        rows, columns = images.shape[-2:]
        device = images.device
        top, left, self.height, self.width = per_image(places.T, torch.int64, device)
        self.y = torch.arange(rows, device=device).view(-1, 1) - top
        self.x = torch.arange(columns, device=device) - left
        down = (self.y >= 0) & (self.y < self.height)
        self.inside = down & (self.x >= 0) & (self.x < self.width)
