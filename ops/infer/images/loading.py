"""Decoding in worker processes, which a damaged file may kill."""

import ctypes
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, fields
from types import FrameType
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..batch import Batch
from ..frames import Frame
from ..store.plan import PlannedBatch
from .decode import Decoder, import_torchvision

# Decoding in a separate process, for batches that kill the process decoding them.
#
# A damaged file can crash a decoder, or make it use more memory than there is, without any
# exception. So images go one by one to a process that may die; the image it died at is a failure,
# like any other unreadable image.

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


class DecodedBatches(Iterator[Batch]):
    """Batches, decoded in order in `workers` processes, or in this process if that is 0.

    The processes are forks, started at once, ideally before this process has threads. A damaged
    file can crash a decoder, or make it use more memory than there is. Then the batch being waited
    for is decoded image by image, the image that kills a process is a failure like any other, and
    new workers do the rest.

    Created in the main thread, it keeps dying workers from raising there until :meth:`close`, which
    must be called in the same thread.

    Parameters
    ----------
    batches : sequence of PlannedBatch
    decoder : Decoder
    workers : int
    prefetch : int
        Batches that each worker decodes ahead.

    Raises
    ------
    OSError
        On requesting a batch: as from :meth:`Decoder.batch`, or because shared memory is full.
    """

    def __init__(
        self, batches: Sequence[PlannedBatch], decoder: Decoder, workers: int, prefetch: int = 2
    ) -> None:
        self._batches, self._decoder = batches, decoder
        self._workers, self._prefetch = workers, prefetch
        self._next = 0
        self._deaths = _QuietDeaths()
        import_torchvision()  # once here rather than in every worker
        self._source = self._started(0)

    def __next__(self) -> Batch:
        if self._next == len(self._batches):
            raise StopIteration
        try:
            batch = next(self._source)
        except (RuntimeError, OSError, EOFError) as error:
            if not is_death_of_worker(error):
                raise
        else:
            if isinstance(batch, OSError):
                raise batch
            self._next += 1
            return batch
        # Outside the except block, whose traceback refers to the workers. One died decoding this
        # batch, or a later one: that one's turn will come.
        self._end()
        batch = decode_apart(self._decoder, self._batches[self._next], "fork")
        self._next += 1
        self._source = self._started(self._next)
        return batch

    def close(self) -> None:
        """End the workers, even if something, such as a traceback, still refers to this object."""
        self._end()
        self._deaths.restore()

    def _started(self, first: int) -> Iterator[Batch | OSError]:
        """Return an iterator over the batches from `first` on, with new workers."""
        batches = self._batches[first:]
        workers = min(self._workers, len(batches))
        loader: DataLoader[Batch | OSError] = DataLoader(
            _Batches(self._decoder, shared=workers > 0),
            batch_size=None,
            sampler=batches,
            num_workers=workers,
            prefetch_factor=self._prefetch if workers else None,
            worker_init_fn=_prepare_worker,
            # Children of this process notice when it is killed, those of a fork server don't and
            # stay. Forks also need no ``if __name__ == "__main__"`` in the caller's script.
            multiprocessing_context="fork" if workers else None,
        )
        if not workers:
            return iter(loader)
        self._deaths.quieten()
        try:
            source: Iterator[Batch | OSError] | None = iter(loader)
        except RuntimeError as error:
            if not is_death_of_worker(error):
                raise
            source = None  # DataLoader has just set its handler, and a worker is already dead
        self._deaths.quieten()
        return iter(loader) if source is None else source

    def _end(self) -> None:
        source, self._source = self._source, iter(())
        end = getattr(source, "_shutdown_workers", None)
        if end is not None:
            end()  # otherwise called when the last reference goes


def is_death_of_worker(error: BaseException) -> bool:
    """Whether DataLoader raised this because a worker died.

    The error has no type of its own. It is one of a connection if the worker died while its batch
    was being fetched, and the system doesn't call it dead yet.
    """
    if type(error) is RuntimeError:
        return "DataLoader worker (pid" in str(error)
    return isinstance(error, (ConnectionError, EOFError, FileNotFoundError))


class _QuietDeaths:
    """Replaces DataLoader's handler of SIGCHLD.

    That handler raises in the main thread, whatever it is doing: opening files, loading models. It
    isn't needed: DataLoader's iterator also detects dead workers in the thread that waits for a
    batch.
    """

    def __init__(self) -> None:
        self._before: Callable[[int, FrameType | None], object] | None = None

    def quieten(self) -> None:
        """Wrap the current handler; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGCHLD)
        if callable(handler) and handler is not self:
            self._before = handler
            signal.signal(signal.SIGCHLD, self)

    def restore(self) -> None:
        """Put the wrapped handler back."""
        if threading.current_thread() is not threading.main_thread():
            return
        before = self._before
        if before is not None and signal.getsignal(signal.SIGCHLD) is self:
            signal.signal(signal.SIGCHLD, before)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            if self._before is not None:
                self._before(number, frame)
        except RuntimeError as error:
            if not is_death_of_worker(error):
                raise


class _Batches(Dataset["Batch | OSError"]):
    """Decodes the planned batches it is indexed with.

    Each planned batch is sent to its worker when needed: a list of all paths would end up copied
    into every worker.
    """

    def __init__(self, decoder: Decoder, *, shared: bool) -> None:
        self._decoder, self._shared = decoder, shared

    def __getitem__(self, plan: PlannedBatch) -> Batch | OSError:
        try:
            return self._decoder.batch(plan, _shared_memory if self._shared else None)
        except OSError as error:
            return error  # if raised, DataLoader would send only the text of the traceback


def _shared_memory(count: int) -> Tensor:
    """Allocate shared memory for pixels.

    The queue would move them there as well, but in a thread: if that fails, it prints the error and
    the parent waits for ever.
    """
    pixels = torch.empty(0, dtype=torch.uint8, device="cpu")
    if not count:
        return pixels
    try:
        return pixels.set_(torch.UntypedStorage._new_shared(count))
    except RuntimeError as error:
        raise OSError(
            f"no room in shared memory, /dev/shm, for {count} bytes of decoded images: "
            f"{error}. Enlarge it, for example with docker run --shm-size=8g, or use fewer "
            "--workers; --workers 0 needs none"
        ) from error


def _prepare_worker(worker: int) -> None:
    leave_signals()
