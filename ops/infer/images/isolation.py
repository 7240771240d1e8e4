"""Decoding in a process apart, for batches that end the process that decodes them.

A damaged file can crash a decoder, or make it take more memory than there is. No exception tells
of that. So images go one by one to a process that may die; the one it died at is a failure, like
any other image that can't be read.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from ..batch import Batch
from ..frames import Frame
from ..store.plan import Entry, PlannedBatch
from .decode import Decoder

__all__ = ["DIED", "decode_apart", "leave_signals"]

DIED = "decoding it ends the process, which crashes or runs out of memory"

_PR_SET_PDEATHSIG = 1  # of prctl(2)


def decode_apart(decoder: Decoder, plan: PlannedBatch, method: str = "spawn") -> Batch:
    """Do what ``decoder.batch(plan)`` does, in processes that may die.

    Parameters
    ----------
    method : {"spawn", "fork"}
        How they are started: "spawn" takes some seconds, and again after each image that has ended
        one, but doesn't mind whatever threads there are.
    """
    child = _Child(decoder, method)
    try:
        options = {option.name: getattr(decoder, option.name) for option in fields(Decoder)}
        return _Apart(**options, child=child).batch(plan)
    finally:
        child.close()


def leave_signals() -> None:
    """Leave interrupts, which go to the whole process group, to the process that drains."""
    warnings.simplefilter("ignore")  # Pillow's, of metadata
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@dataclass(frozen=True, kw_only=True)
class _Apart(Decoder):
    """Leaves each image to another process."""

    child: _Child

    def image(self, path: str) -> tuple[Tensor, Frame]:
        return self.child.image(path)


class _Child:
    """A process that decodes, and the next one after it has died."""

    def __init__(self, decoder: Decoder, method: str) -> None:
        self._decoder = decoder
        self._context = multiprocessing.get_context(method)
        self._pool: ProcessPoolExecutor | None = None

    def image(self, path: str) -> tuple[Tensor, Frame]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, self._context, _begin, (os.getpid(),))
        try:
            pixels, frame, reason = self._pool.submit(_image, self._decoder, path).result()
        except BrokenProcessPool:
            self.close()
            raise RuntimeError(DIED) from None
        if frame is None:
            raise RuntimeError(reason)
        return torch.from_numpy(pixels), frame

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _begin(parent: int) -> None:
    """Prepare a process, which is to end with the one that has started it, however that ends."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:  # Linux
        # The parent is the thread, and that one waits for this process.
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it was too late for the signal
    leave_signals()
    torch.set_num_threads(1)  # a fork has none of the threads that its parent's libraries know of


def _image(decoder: Decoder, path: str) -> tuple[np.ndarray, Frame | None, str]:
    """Decode one image, or say why not: not every exception comes back from another process."""
    batch = decoder.batch(PlannedBatch(0, (Entry(path),)))
    if not batch.frames or batch.pixels is None:
        return np.empty(0, np.uint8), None, batch.failures[0]
    frame = batch.frames[0]
    return batch.pixels.view(frame.height, frame.width, 3).numpy(), frame, ""
