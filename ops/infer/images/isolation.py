"""Decoding in a separate process, for batches that kill the process decoding them.

A damaged file can crash a decoder, or make it use more memory than there is, without any exception.
So images go one by one to a process that may die; the image it died at is a failure, like any
other unreadable image.
"""

import ctypes
import multiprocessing
import os
import signal
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..batch import Batch
from ..frames import Frame
from ..store.plan import PlannedBatch
from .decode import Decoder

DIED = "decoding it ends the process, which crashes or runs out of memory"

_PR_SET_PDEATHSIG = 1  # of prctl(2)


def decode_apart(
    decoder: Decoder, plan: PlannedBatch, method: Literal["spawn", "fork"] = "spawn"
) -> Batch:
    """Do what ``decoder.batch(plan)`` does, in processes that may die.

    Parameters
    ----------
    method : {"spawn", "fork"}
        How processes start. "spawn" takes seconds, again after each image that killed one, but is
        safe whatever threads this process has.
    """
    child = _Child(decoder, method)
    try:
        options = {option.name: getattr(decoder, option.name) for option in fields(Decoder)}
        return _Apart(**options, child=child).batch(plan)
    finally:
        child.close()


def leave_signals() -> None:
    """Ignore interrupts, which reach the whole process group: the main process handles them."""
    warnings.simplefilter("ignore")  # Pillow's, about metadata
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@dataclass(frozen=True, kw_only=True)
class _Apart(Decoder):
    """A decoder that passes each image to another process."""

    child: "_Child"

    def attempt(self, path: str, room: int) -> tuple[Tensor, Frame] | str:
        return self.child.attempt(path, room)


class _Child:
    """A process that decodes; replaced after it has died."""

    def __init__(self, decoder: Decoder, method: str) -> None:
        self._decoder = decoder
        self._context = multiprocessing.get_context(method)
        self._pool: ProcessPoolExecutor | None = None

    def attempt(self, path: str, room: int) -> tuple[Tensor, Frame] | str:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, self._context, _begin, (os.getpid(),))
        try:
            decoded = self._pool.submit(_attempt, self._decoder, path, room).result()
        except BrokenProcessPool:
            self.close()
            return DIED
        return decoded if isinstance(decoded, str) else (torch.from_numpy(decoded[0]), decoded[1])

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _begin(parent: int) -> None:
    """Set up a process that must end when its parent does, however that ends."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:  # Linux
        # It watches the parent thread, not the process; that thread waits for this process.
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before prctl
    leave_signals()
    torch.set_num_threads(1)  # a fork lacks the threads that its parent's libraries rely on


def _attempt(decoder: Decoder, path: str, room: int) -> tuple[np.ndarray, Frame] | str:
    """Decode one image, or return the reason: not every exception can be sent back."""
    decoded = decoder.attempt(path, room)
    return decoded if isinstance(decoded, str) else (decoded[0].numpy(), decoded[1])
