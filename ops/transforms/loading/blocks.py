"""Memory of batches, which is used again once nobody holds it.

NOTE on reuse. Fresh pages are zeroed by the system when they are touched first: for batches of 64
images that takes as long as decoding a few of them. A batch is therefore a tensor over memory of a
pool. It holds a NumPy view of it, which is collected when the last tensor over that memory is, be
it a slice that a user kept; then the memory goes back. Where there is a GPU, torch's own allocator
of pinned memory does the same, and also knows of copies that still run.
"""

import math
import weakref
from collections import deque

import numpy as np
import torch
from torch import Tensor


class Blocks:
    """A pool of memory for batches.

    Parameters
    ----------
    most : int
        How many blocks are kept while they are unused.
    pinned : bool
        Whether to take page-locked memory from torch.
    """

    def __init__(self, most: int, pinned: bool) -> None:
        self.pinned = pinned
        self._free: deque[np.ndarray] = deque(maxlen=most)

    def __call__(
        self, shape: tuple[int, ...], dtype: torch.dtype, memory_format: torch.memory_format
    ) -> Tensor:
        """Return an uninitialised batch [B, C, H, W]."""
        last = memory_format is torch.channels_last
        stored = (shape[0], *shape[2:], shape[1]) if last else shape
        if self.pinned:
            block = torch.empty(stored, dtype=dtype, device="cpu", pin_memory=True)
        else:
            size = math.prod(shape) * dtype.itemsize
            block = self._memory(size).view(dtype).view(stored)
        return block.permute(0, 3, 1, 2) if last else block

    def _memory(self, size: int) -> Tensor:
        owner = self._take(size)
        view = owner[:size]
        back = weakref.finalize(view, self._free.append, owner)
        back.atexit = False
        return torch.from_numpy(view)

    def _take(self, size: int) -> np.ndarray:
        while True:
            try:
                owner = self._free.pop()
            except IndexError:
                # Linux gives NumPy's large arrays huge pages, which are touched sooner.
                return np.empty(size, np.uint8)
            if size <= owner.size <= 4 * size + 4096:
                return owner
