"""An iterator over the batches of one epoch."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from time import perf_counter
from typing import Any

from .batch import Batch
from .statistics import LoaderStats, Times, summary
from .threads import Work, stop, work

__all__ = ["Iteration", "Progress", "stats_of"]


class Progress:
    """How far an epoch is: what the loader's ``state_dict`` holds."""

    def __init__(self, epoch: int, seed: int, batch: int, random: Any = None) -> None:
        self.epoch, self.seed, self.batch = epoch, seed, batch
        self.random = random  # state of torch's generator when a sampler was asked
        self.ended = False


class Iteration:
    """Hands over batches in order, and owns the threads that make them."""

    def __init__(
        self,
        own: Work,
        progress: Progress,
        threads: int,
        receive: Callable[[Any], Any],
    ) -> None:
        self.work, self.progress, self.receive = own, progress, receive
        self.process = os.getpid()
        for number in range(threads):
            times = Times()
            own.times.append(times)
            name = f"visops-loader-{number}"
            thread = threading.Thread(target=work, args=(own, times), name=name, daemon=True)
            own.threads.append(thread)
        self.close = weakref.finalize(self, stop, own, self.process)
        for thread in own.threads:
            thread.start()

    def __iter__(self) -> Iteration:
        return self

    def __next__(self) -> Any:
        if not self.close.alive:
            raise StopIteration
        if os.getpid() != self.process:
            raise RuntimeError(
                "visops.transforms.Loader: this iteration began in the process that forked this "
                "one, where its threads stayed; begin a new one here"
            )
        try:
            batch = self._next()
            result = None if batch is None else self.receive(batch.result)
        except StopIteration as error:
            self.close()
            raise RuntimeError(  # the caller's loop would end in silence
                "visops.transforms.Loader: what loads a batch raised StopIteration"
            ) from error
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.progress.ended = True
            self.close()
            raise StopIteration
        return result

    def _next(self) -> Batch | None:
        while True:
            batch = self.work.hand_over()
            if batch is None:
                return None
            self.progress.batch = batch.number + 1
            if any(item is not None for item in batch.items):
                return batch


def stats_of(own: Work, cpus: int) -> LoaderStats:
    """Return what threads have done so far."""
    with own.lock:
        seconds = (own.end or perf_counter()) - own.begin
        skipped = list(own.skipped)
    return summary(own.times, seconds, own.consumer, skipped, len(own.threads), cpus)
