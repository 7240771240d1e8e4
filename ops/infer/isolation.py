"""Decoding in a process apart, for batches that end the process that decodes them.

A damaged file can crash a decoder, or make it take more memory than there is. No exception tells
of that. So images go one by one to a process that may die; the one it died at is a failure, like
any other image that can't be read.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from .batch import Batch, Frame
from .decode import Decoder
from .listing import Entry
from .loading import DIED
from .plan import PlannedBatch

__all__ = ["decode_apart"]


def decode_apart(decoder: Decoder, plan: PlannedBatch) -> Batch:
    """Do what ``decoder.batch(plan)`` does, in processes that may die.

    It takes some seconds to start one, and again after each image that has ended it.
    """
    child = _Child(decoder)
    try:
        options = {option.name: getattr(decoder, option.name) for option in fields(Decoder)}
        return _Apart(**options, child=child).batch(plan)
    finally:
        child.close()


@dataclass(frozen=True, kw_only=True)
class _Apart(Decoder):
    """Leaves each image to another process."""

    child: _Child

    def image(self, path: str) -> tuple[Tensor, Frame]:
        return self.child.image(path)


class _Child:
    """A process that decodes, and the next one after it has died."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._pool: ProcessPoolExecutor | None = None

    def image(self, path: str) -> tuple[Tensor, Frame]:
        if self._pool is None:
            # Not a fork: this process has threads, of Ray and others.
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        try:
            pixels, frame, reason = self._pool.submit(_image, self._decoder, path).result()
        except BrokenProcessPool:
            self._pool = None
            raise RuntimeError(DIED) from None
        if frame is None:
            raise RuntimeError(reason)
        return torch.from_numpy(pixels), frame

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


def _image(decoder: Decoder, path: str) -> tuple[np.ndarray, Frame | None, str]:
    """Decode one image, or say why not: not every exception comes back from another process."""
    batch = decoder.batch(PlannedBatch(0, (Entry(path),)))
    if not batch.frames or batch.pixels is None:
        return np.empty(0, np.uint8), None, batch.failures[0]
    frame = batch.frames[0]
    return batch.pixels.view(frame.height, frame.width, 3).numpy(), frame, ""
