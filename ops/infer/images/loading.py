"""Decoding in worker processes, which may die of what they decode."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from torch.utils.data import DataLoader, Dataset

from ..batch import Batch
from ..store.plan import PlannedBatch
from .decode import Decoder, import_torchvision
from .isolation import DIED, decode_apart, leave_signals

__all__ = ["DIED", "DecodedBatches"]


class DecodedBatches(Iterator[Batch]):
    """Batches, decoded in order, in `workers` processes, or in this one where that is 0.

    The processes are forks, started at once: before there are threads, with luck. A damaged file
    can crash a decoder, or make it take more memory than there is. Then the batch that was waited
    for is decoded image by image, the one that a process dies at is a failure like any other, and
    new workers do the rest.

    Where it is made in the main thread, workers that die raise nothing there until :meth:`close`,
    which has to be called in the same thread.

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
        When a batch is asked for: see :meth:`Decoder.batch`; or shared memory is full.
    """

    def __init__(
        self, batches: Sequence[PlannedBatch], decoder: Decoder, workers: int, prefetch: int = 2
    ) -> None:
        self._batches, self._decoder = batches, decoder
        self._workers, self._prefetch = workers, prefetch
        self._next = 0
        self._deaths = _QuietDeaths()
        import_torchvision()  # here, that not every worker imports it
        self._source = self._started(0)

    def __next__(self) -> Batch:
        if self._next == len(self._batches):
            raise StopIteration
        try:
            batch = next(self._source)
        except RuntimeError as error:
            if not is_death_of_worker(error):
                raise
        else:
            if isinstance(batch, OSError):
                raise batch
            self._next += 1
            return batch
        # Not in the block above, whose traceback has the workers. One has died of this batch, or of
        # one that was decoded ahead: then that one's turn will come.
        self._end()
        batch = decode_apart(self._decoder, self._batches[self._next], "fork")
        self._next += 1
        self._source = self._started(self._next)
        return batch

    def close(self) -> None:
        """End the workers, whatever still refers to this object, such as an error's traceback."""
        self._end()
        self._deaths.restore()

    def _started(self, first: int) -> Iterator[Batch | OSError]:
        """Return an iterator of the batches from `first` on, with new workers."""
        batches = self._batches[first:]
        workers = min(self._workers, len(batches))
        loader: DataLoader[Batch | OSError] = DataLoader(
            _Batches(self._decoder, shared=workers > 0),
            batch_size=None,
            sampler=batches,
            num_workers=workers,
            prefetch_factor=self._prefetch if workers else None,
            worker_init_fn=_prepare_worker,
            # Children of this process see that it has been killed; those of a fork server don't,
            # and stay. They also need no guard of the caller's main module.
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
            source = None  # the handler is DataLoader's first, and a worker has died already
        self._deaths.quieten()
        return iter(loader) if source is None else source

    def _end(self) -> None:
        source, self._source = self._source, iter(())
        end = getattr(source, "_shutdown_workers", None)
        if end is not None:
            end()  # which else is left to the end of its last reference


def is_death_of_worker(error: BaseException) -> bool:
    """Whether this is what DataLoader raises when a worker dies; it has no type of its own."""
    return type(error) is RuntimeError and "DataLoader worker (pid" in str(error)


class _QuietDeaths:
    """Takes the place of DataLoader's handler of SIGCHLD.

    That one raises in the main thread, whatever it is at: opening files, loading models. Its
    iterator also finds dead workers by itself, in the thread that waits for a batch.
    """

    def __init__(self) -> None:
        self._before: Callable[[int, FrameType | None], object] | None = None

    def quieten(self) -> None:
        """Get in front of the handler that there is, in the main thread: others can't."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGCHLD)
        if callable(handler) and handler is not self:
            self._before = handler
            signal.signal(signal.SIGCHLD, self)

    def restore(self) -> None:
        """Let the handler raise again."""
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
    """Decodes the planned batch that it is asked for.

    Batches are sent to the workers as they are wanted: a list of all paths would end as a copy in
    each of them.
    """

    def __init__(self, decoder: Decoder, *, shared: bool) -> None:
        self._decoder, self._shared = decoder, shared

    def __getitem__(self, plan: PlannedBatch) -> Batch | OSError:
        try:
            batch = self._decoder.batch(plan)
            if self._shared:
                _share(batch)
            return batch
        except OSError as error:
            return error  # raised here, it would arrive as the text of a traceback


def _share(batch: Batch) -> None:
    """Put pixels where the other process can read them.

    The queue would do so, in a thread that prints what goes wrong and sends nothing, for ever.
    """
    pixels = batch.pixels
    if pixels is None or not len(pixels):
        return
    try:
        pixels.share_memory_()
    except RuntimeError as error:
        raise OSError(
            f"no room in shared memory, /dev/shm, for {len(pixels)} bytes of decoded images: "
            f"{error}. Give it more, such as by docker run --shm-size=8g; or take fewer --workers; "
            "--workers 0 needs none"
        ) from error


def _prepare_worker(worker: int) -> None:
    leave_signals()
