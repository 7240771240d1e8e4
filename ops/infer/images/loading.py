"""Decoding in worker processes, which a damaged file may kill."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..batch import Batch
from ..store.plan import PlannedBatch
from .decode import Decoder, import_torchvision
from .isolation import decode_apart, leave_signals


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
