"""Numbers for each image of a batch, on its device: one upload, and no loop over the images."""

import numpy as np
import torch
from torch import Tensor


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
