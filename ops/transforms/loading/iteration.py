"""An iterator over the batches of one epoch."""

import os
import threading
import weakref
from collections.abc import Callable
from time import perf_counter
from typing import Any, Generic, TypeVar

from .batch import Batch
from .epochs import Progress
from .statistics import LoaderStats, Times, summary
from .threads import Work, stop, work

_Batch = TypeVar("_Batch")

# What an epoch's batches are made by, how far it is, and what receives a batch.
Begun = tuple[Work, Progress, Callable[[Any], Any]]


class Iteration(Generic[_Batch]):
    """Hands over batches in order, and owns the threads that make them.

    Parameters
    ----------
    begin : callable
        Begins an epoch. It is called when the first batch is asked for.
    threads : int
    """

    _end: Any = None  # ends the threads
    work: Work
    progress: Progress
    receive: Callable[[Any], Any]

    def __init__(self, begin: Callable[[], Begun], threads: int) -> None:
        self.begin: Callable[[], Begun] | None = begin
        self.threads, self.process = threads, os.getpid()

    def _start(self, begin: Callable[[], Begun]) -> None:
        self.begin, self.process = None, os.getpid()
        own, self.progress, self.receive = begin()
        self.work = own
        for number in range(self.threads):
            times, ended = Times(), threading.Event()
            own.times.append(times)
            name, arguments = f"visops-loader-{number}", (own, times, ended)
            thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
            own.threads[thread] = ended
        self._end = weakref.finalize(self, stop, own, self.process)
        for thread in own.threads:
            thread.start()

    def __iter__(self) -> "Iteration[_Batch]":
        return self

    def __next__(self) -> _Batch:
        if self.begin is not None:
            self._start(self.begin)
        if self._end is None or not self._end.alive:
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
        return result  # type: ignore[return-value]

    def close(self) -> None:
        """End the threads; there are no more batches."""
        self.begin = None
        if self._end is not None:
            self._end()

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
