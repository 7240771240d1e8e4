"""Brings what a pass needs beside its images to where they are, in one copy.

Each copy to a GPU takes the host longer than a small kernel takes the GPU. So a pass first says all
arrays that it will need; the first time that one of them is asked for, all go together.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Returns the tensor of an array that was added to an upload.
Later = Callable[[], Tensor]


class Upload:
    """Arrays of one pass.

    Parameters
    ----------
    pixels : Pixels
        The images, to whose device they go.
    """

    def __init__(self, pixels: Any) -> None:
        self._pixels = pixels
        self._arrays: list[np.ndarray] = []
        self._tensors: list[Tensor] = []

    def add(self, array: np.ndarray) -> Later:
        """Say that an array of float64 or int64 will be needed."""
        if self._pixels.on_cpu:
            tensor = torch.from_numpy(array)
            return lambda: tensor
        index = len(self._arrays)
        self._arrays.append(array)
        return lambda: self._sent()[index]

    def add_each(self, array: np.ndarray, takes: np.ndarray | None = None) -> Later:
        """Say the same of what an array holds for each sample, for each frame of its video.

        With `takes`, only those images' are needed.
        """
        if self._pixels.frames > 1:
            array = array.repeat(self._pixels.frames, 0)
        return self.add(array if takes is None else array[takes])

    def _sent(self) -> list[Tensor]:
        if len(self._tensors) < len(self._arrays):
            new = self._arrays[len(self._tensors) :]
            if len(new) == 1:
                self._tensors.append(self._pixels.put(new[0]))
                return self._tensors
            # All have elements of eight bytes, and nothing computes with them on the way.
            flat = [array.reshape(-1).view(np.float64) for array in new]
            whole = self._pixels.put(np.concatenate(flat))
            for array, part in zip(new, whole.split([one.size for one in flat]), strict=True):
                own = part.view(torch.int64) if array.dtype == np.int64 else part
                self._tensors.append(own.view(array.shape))
        return self._tensors


def got(later: Later | None) -> Tensor | None:
    """Return the tensor, if there is one."""
    return None if later is None else later()
