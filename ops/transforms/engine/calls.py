"""Numbers the calls of a seeded chain that are given no index.

NOTE on epochs without an epoch. A data set that knows nothing of indices or epochs calls its chain
with a sample and nothing else. Each worker process has its own copy of the chain, so a call is
known by its worker and its number there. But unless workers persist, each epoch starts new ones,
whose numbers start again. So every worker notes in shared memory that one with its number has
started; how many did before is the epoch.
"""

import os
import threading
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

_SLOTS = 1024


def in_shared_memory(values: Tensor) -> Tensor:
    """Return the values where processes started later see them change."""
    if values.is_shared():
        return values
    try:
        return values.clone().share_memory_()
    except RuntimeError:  # a system without any: data loaders can't have workers there either
        return values.clone()


class CallCounter:
    """Counts calls, in this process and as this worker of a data loader."""

    def __init__(self) -> None:
        self._starts = in_shared_memory(torch.zeros(_SLOTS, dtype=torch.int64, device="cpu"))
        self._worker = 0  # that of the process; workers are 1, 2, ...
        self._started = 0  # how many workers of this number started before
        self._epoch: int | None = None
        self._number = 0
        self._lock = threading.Lock()
        self._process: int | None = None

    def next(self, epoch: int | None) -> tuple[int, int, int]:
        """Return epoch, worker and number of a call; numbers start anew with each epoch."""
        if self._process != os.getpid():
            self._enter_process()
        with self._lock:
            if epoch != self._epoch:
                self._epoch, self._number = epoch, 0
            number = self._number
            self._number += 1
        return self._started if epoch is None else epoch, self._worker, number

    def _enter_process(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()  # a thread of the process that was forked may hold the old
        info = get_worker_info()
        if info is None:
            return
        self._worker, self._number = info.id + 1, 0
        slot = self._starts[info.id % _SLOTS]
        self._started = int(slot)
        slot += 1

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_process": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        # Sending it to a process shares the memory; any other copy has its own.
        self._starts = in_shared_memory(self._starts)
