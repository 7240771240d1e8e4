"""Random numbers that depend only on a key and a position, not on who draws them or in what order.

Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) turns a key and a
counter into random bits. The key is (seed, epoch) and the counter holds the sample's index, so any
worker draws the same numbers for a sample, alone or within any batch. A call without an index has a
key of its own, drawn by a generator or by (seed, epoch, worker, number of the call). Bits are
always drawn on the CPU, whatever the images' device.
"""

import threading
import zlib
from collections.abc import Sequence

import numpy as np
import torch

from ..._native import call_key
from ..._native import uniforms as native_uniforms
from ..._torch.native import modes_or_transforms_active

_NAMED = 2**32 + 1  # no data loader has as many workers, so no call of a chain draws these keys


class _Word(threading.local):
    """Where torch's generators put a number: a new tensor would take longer than the draw."""

    tensor: torch.Tensor | None = None  # made in a call that nothing watches
    array: np.ndarray

    def draw(self, generator: torch.Generator | None) -> int:
        if self.tensor is None:
            with torch.inference_mode(False):  # else only that mode could write to it
                self.tensor = torch.zeros((), dtype=torch.int64, device="cpu")
            self.array = self.tensor.numpy()
        self.tensor.random_(generator=generator)
        return int(self.array)


_word = _Word()


def uniforms(
    seed: int, epoch: int, indices: Sequence[int], count: int, stream: int = 0
) -> np.ndarray:
    """Draw `count` numbers in [0, 1) for each sample.

    Parameters
    ----------
    seed, epoch : int
        The key; only the lower 64 bits matter.
    indices : sequence of int
        Position of each sample in the data set.
    count : int
        Numbers per sample. The leading ones don't depend on it.
    stream : int
        Draws of another stream are independent.

    Returns
    -------
    ndarray, float64 ``[B, count]``
        Multiples of 2^-53. Stored column by column, so that arithmetic on a column is the same
        whatever B is.

    Examples
    --------
    >>> from visops.transforms.engine.random import uniforms
    >>> batch = uniforms(seed=1, epoch=0, indices=[5, 6, 7], count=4)
    >>> bool((batch[1] == uniforms(seed=1, epoch=0, indices=[6], count=9)[0, :4]).all())
    True
    """
    return native_uniforms(seed, epoch, indices, count, stream)


def fresh_key(generator: torch.Generator | None) -> int:
    """Draw a key from the given generator, or from torch's global one."""
    if generator is not None and generator.device.type != "cpu":
        raise ValueError(
            f"visops.transforms.Compose: generator is on {generator.device}, must be on the CPU "
            "(where parameters are drawn, whatever the images' device)"
        )
    if modes_or_transforms_active():
        return int(torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator))
    return _word.draw(generator)


def seed_for(seed: int, name: str) -> int:
    """Return the seed of what has this name, so that it shares no number with a chain's seed."""
    return call_key(seed, zlib.crc32(name.encode()), _NAMED, 0)
