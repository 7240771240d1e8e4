"""The threads of a loader, and what they share.

NOTE [ Threads ]
Threads take the samples of an epoch one by one. A batch is complete when its last sample is, and is
handed over in order. At most `prefetch` batches are begun beyond those that the consumer has taken,
or as many as give each thread two samples: that bounds memory. Threads know only the work, not the
iterator over it: once nobody holds that, it is collected, and stops them. All that threads share
changes under one lock, which is reentrant, as a collection of garbage may stop the work of a thread
that holds it.
"""

import _thread
import atexit
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from time import monotonic, perf_counter, sleep
from typing import Any

from ..chain.random import in_loader_thread
from ..chain.source import Repeat, as_whole, place_of
from ..sample.files import DamagedFileError
from .batch import Batch, Blocks
from .samples import Samples
from .sources import UnreadableError
from .statistics import Skipped, Times
from .stream import Stream, StreamEndedError

_CHECK = 1.0  # seconds after which a consumer looks whether threads still live
_END = 5.0  # seconds that threads have to end; what they read may block for longer
_TRIES = 1000  # samples that are tried in the place of a damaged one
_INSTEAD = 1 << 22  # what stands in for a damaged sample counts its repeats from here


class Work:
    """One epoch: batches that are to be begun, are being loaded, and are ready.

    Parameters
    ----------
    batches : iterator of indices
    first : int
        Number of the first batch.
    samples : Samples
    finish : callable
        Makes the result of a batch.
    blocks : Blocks
    prefetch, samples_ahead : int
        Batches and samples that may be begun beyond those handed over: either is enough.
    skips : bool
        Whether samples that can't be read are left out.
    refills : bool
        Whether others take the places of these.
    drop_last : bool
        Leave out the last batch of an iterable data set if it isn't full.
    """

    def __init__(
        self,
        batches: Iterator[Sequence[Any]],
        first: int,
        samples: Samples,
        finish: Callable[[Batch], Any],
        blocks: Blocks,
        prefetch: int,
        samples_ahead: int,
        skips: bool,
        refills: bool,
        drop_last: bool,
    ) -> None:
        self.batches, self.samples, self.finish = batches, samples, finish
        self.blocks, self.prefetch, self.skips = blocks, prefetch, skips
        self.drop_last, self.refills = drop_last, refills
        self.samples_ahead, self.ahead = samples_ahead, 0
        self.is_stream = isinstance(samples.dataset, Stream)
        # The batches of an epoch whose damaged samples are replaced, from the first on.
        self.order: list[Any] | None = [] if refills and not self.is_stream else None
        self.lock = threading.RLock()
        self.may_begin = threading.Condition(self.lock)
        self.is_ready = threading.Condition(self.lock)
        self.next = self.taken = first  # numbers of the batches to be begun and handed over next
        self.open: dict[int, Batch] = {}
        self.current: Batch | None = None
        self.exhausted = self.stopped = False
        self.failure: BaseException | None = None  # of a thread, rather than of a sample
        self.skipped: list[Skipped] = []
        self.first_error: BaseException | None = None
        self.loaded = 0
        self.begin, self.end, self.consumer = perf_counter(), 0.0, 0.0
        self.times: list[Times] = []
        self.threads: dict[threading.Thread, threading.Event] = {}  # and when they have ended
        for _ in range(0 if self.order is None else first):
            self._draw()

    def take(self, times: Times) -> tuple[Batch, int] | None:
        """Return the next sample, as a batch and a place in it; None: there is no more to do."""
        with self.lock:
            while not self.stopped:
                batch = self.current
                if batch is not None:
                    row = batch.begun
                    batch.begun += 1
                    if batch.begun == len(batch.items):
                        self.current = None
                    return batch, row
                if self.exhausted:
                    return None
                if self.next - self.taken < self.prefetch or self.ahead < self.samples_ahead:
                    self._begin()
                    continue
                begin = perf_counter()
                self.may_begin.wait()
                times.waiting += perf_counter() - begin
            return None

    def _draw(self) -> Any:
        """Return the indices of one more batch of the order, an error of the sampler, or None."""
        try:
            drawn: Any = next(self.batches, None)
        except BaseException as error:
            drawn = error
        if self.order is not None and drawn is not None:
            self.order.append(drawn)
        return drawn

    def _begin(self) -> None:
        """Begin the next batch, if there is one."""
        known = self.order is not None and self.next < len(self.order)
        indices = self.order[self.next] if known else self._draw()  # type: ignore[index]
        failed = indices if isinstance(indices, BaseException) else None
        indices = indices if failed is None else []
        if indices is None or failed is not None:
            self.exhausted = True
            self.may_begin.notify_all()
            self.is_ready.notify_all()
        if indices is None:
            return
        batch = Batch(self.next, indices, self.blocks)
        if self.refills and self.is_stream:
            batch.samples = [None] * len(indices)
        self.open[self.next] = batch
        self.next += 1
        self.ahead += len(batch.items)
        if batch.items:
            self.current = batch
            self.may_begin.notify(len(batch.items) - 1)
        else:
            batch.error = None if failed is None else (0, failed)
            batch.ready = True

    def done(self, batch: Batch, times: Times) -> None:
        """Note that another sample is loaded; the last one finishes its batch."""
        with self.lock:
            batch.missing -= 1
            if batch.missing > 0 or self.stopped:
                return
        dropped = batch.is_short and self.drop_last
        if batch.skipped and self.refills and batch.error is None and not dropped:
            self._refill(batch, times)
        if dropped:
            batch.items = [None] * len(batch.items)
        if not self.samples.in_order:
            self._complete(batch, times)
        with self.lock:
            batch.ready = True
            if batch.error is not None:
                self.exhausted = True  # nothing comes after it
                self.current = None
                self.may_begin.notify_all()
            self.is_ready.notify_all()

    def _complete(self, batch: Batch, times: Times) -> None:
        """Make the result of a batch whose samples are loaded."""
        begin = perf_counter()
        if self.samples.later:
            self._transform(batch)
        if batch.error is None and any(item is not None for item in batch.items):
            try:
                batch.result = self.finish(batch)
            except BaseException as error:
                batch.fail(0, error)
        batch.block = batch.samples = None
        times.collating += perf_counter() - begin

    def _transform(self, batch: Batch) -> None:
        """Transform samples in order, in the thread that asks for batches."""
        for row, item in enumerate(batch.items):
            if item is None or batch.error is not None:
                continue
            try:
                self.samples.transform(batch, row)
            except DamagedFileError as error:  # of what is decoded only here
                batch.items[row] = None
                _reject(self, batch, row, error)
            except BaseException as error:
                _reject(self, batch, row, error, may_skip=False)

    def _refill(self, batch: Batch, times: Times) -> None:
        """Load others in the place of samples that could not be: of each, the next that can be.

        So a batch stays full, and ranks have as many. What takes the place of a sample follows from
        its place in the order, and draws as a repeat.
        """
        damaged = {row for row, _ in batch.skipped}
        for row, error in sorted(batch.skipped, key=lambda own: own[0]):
            others = self._rows_of(batch, row) if self.is_stream else self._others(batch, row)
            for place, read in islice(others, _TRIES):
                try:
                    self.samples.load(batch, row, place, times, read)
                    damaged.discard(row)
                    break
                except (UnreadableError, DamagedFileError):
                    continue  # counted where it is due
                except BaseException as own:
                    batch.fail(row, own)
                    return
            if row in damaged:
                batch.fail(row, error)  # more is wrong than single files

    def _rows_of(self, batch: Batch, row: int) -> Iterator[tuple[Any, Any]]:
        """Return the other samples of a stream's batch, which gives none twice."""
        assert batch.samples is not None
        count, first = len(batch.items), batch.indices[row]
        good = [item is not None for item in batch.items]
        for other in (*range(row + 1, count), *range(row)):
            if good[other]:
                sample = batch.samples[other]
                yield Repeat(first, _INSTEAD), lambda _, sample=sample: sample

    def _others(self, batch: Batch, row: int) -> Iterator[tuple[Any, Any]]:
        """Return what comes after a row in the order, and then what comes before it."""
        assert self.order is not None
        number, begin = batch.number, row + 1
        times = _INSTEAD + (number * len(batch.items) + row) % _INSTEAD
        while True:
            with self.lock:
                if number == len(self.order) and self._draw() is None:
                    break
                indices = self.order[number]
            if not isinstance(indices, BaseException):
                yield from _as_repeats(indices[begin:], times)
            elif indices is self.order[-1]:
                break
            number, begin = number + 1, 0
        for indices in self.order[: batch.number]:
            yield from _as_repeats(indices, times)
        yield from _as_repeats(batch.indices[:row], times)

    def exhaust(self) -> bool:
        """Return whether the order has no more batches, after all that it has were handed over."""
        with self.lock:
            if self.open or self.current is not None:
                return False
            if not self.exhausted:
                self._begin()
            return self.exhausted and not self.open

    def drain(self, most: int) -> None:
        """Draw what is left of the order after threads have stopped, however far they were."""
        with self.lock:
            for _ in range(most):
                if self._draw() is None:
                    break

    def end_stream(self, batch: Batch) -> None:
        """Note that an iterable data set has ended before this batch was full."""
        with self.lock:
            batch.is_short = True
            self.exhausted = True
            self.may_begin.notify_all()

    def skip(self, index: Any, path: str | None, error: BaseException) -> None:
        """Count a sample that was left out."""
        with self.lock:
            text = f"{type(error).__name__}: {error}"
            self.skipped.append(Skipped(index, path, text))
            self.first_error = self.first_error or error

    def fail(self, error: BaseException) -> None:
        """Note the error of a thread, rather than of a sample."""
        with self.lock:
            self.failure = self.failure or error
            self.exhausted = True
            self.is_ready.notify_all()
            self.may_begin.notify_all()

    def hand_over(self) -> Batch | None:
        """Wait for the next batch, and return it; None: there is no more."""
        begin = perf_counter()
        with self.lock:
            while True:
                batch = self.open.get(self.taken)
                if batch is not None and batch.ready:
                    break
                if self.failure is not None:
                    raise self.failure
                if batch is None and self.exhausted:
                    self._finish()
                    return None
                if not self.is_ready.wait(_CHECK):
                    self._check_threads()
            del self.open[self.taken]
            self.taken += 1
            self.ahead -= len(batch.items)
            self.may_begin.notify_all()
        if self.samples.in_order:
            self._complete(batch, Times())
        self.consumer += perf_counter() - begin
        if batch.error is not None:
            raise batch.error[1]
        self.loaded += sum(item is not None for item in batch.items)
        return batch

    def _finish(self) -> None:
        self.end = self.end or perf_counter()
        if self.loaded == 0 and self.first_error is not None:
            raise self.first_error  # all were skipped: more is wrong than single files

    def _check_threads(self) -> None:
        if not any(thread.is_alive() for thread in self.threads):
            raise RuntimeError(
                "visops.transforms.Loader: its threads have ended before the epoch has; if the "
                "process was forked meanwhile, begin a new iteration in the child"
            )

    def stop(self) -> None:
        """Let threads end after the samples that they are loading."""
        with self.lock:
            self.stopped = True
            self.end = self.end or perf_counter()
            self.current = None
            self.open.clear()
            self.may_begin.notify_all()
            self.is_ready.notify_all()

    def wait_for_end(self) -> None:
        """Wait for threads that were told to end, but not for ever.

        One that is within C++ when Python itself ends aborts the process. Joining alone is not
        enough: Python up to 3.12 takes a thread for ended once an interrupt ends its join.
        """
        if threading.current_thread() in self.threads:
            return
        last = monotonic() + _END
        for thread, ended in self.threads.items():
            if thread.ident is not None and ended.wait(max(last - monotonic(), 0.0)):
                thread.join(max(last - monotonic(), 0.0))


def work(own: Work, times: Times, ended: threading.Event) -> None:
    """Load samples until there are no more: what a thread runs."""
    try:
        use_one_thread()
        in_loader_thread()
        while (task := own.take(times)) is not None:
            batch, row = task
            try:
                own.samples.load(batch, row, batch.indices[row], times)
            except StreamEndedError:
                own.end_stream(batch)
            except (UnreadableError, DamagedFileError) as error:
                _reject(own, batch, row, error)
            except BaseException as error:
                _reject(own, batch, row, error, may_skip=False)
            own.done(batch, times)
            del batch, task
    except BaseException as error:
        own.fail(error)
    finally:
        ended.set()


def _reject(own: Work, batch: Batch, row: int, error: BaseException, may_skip: bool = True) -> None:
    """Skip a sample, or note its error, which then says which sample it is."""
    index, path = place_of(batch.indices[row]), None
    if isinstance(error, UnreadableError):
        path = error.path
        error = error.__cause__ or error
    elif isinstance(error, DamagedFileError):
        path = error.path
    named = f"sample {index!r}" if path is None else f"sample {index!r}, {path}"
    if isinstance(error, DamagedFileError):
        reason = str(error).removeprefix("visops.transforms.DecodeJpeg: the sample ")
        named_error = DamagedFileError(f"visops.transforms.Loader: {named}: {reason}")
        error = named_error.with_traceback(error.__traceback__)
    else:
        error.add_note(f"visops.transforms.Loader: {named}")
    if own.skips and may_skip:
        own.skip(index, path, error)
        batch.skipped.append((row, error))
    else:
        batch.fail(row, error)


def _as_repeats(indices: Sequence[Any], times: int) -> Iterator[tuple[Any, Any]]:
    for index in indices:
        place = as_whole(place_of(index))
        yield (index if place is None else Repeat(place, times)), None


def stop(own: Work, process: int) -> None:
    """End the threads, unless this is another process than theirs."""
    if os.getpid() != process:
        return
    try:
        own.stop()
        own.wait_for_end()
    except KeyboardInterrupt:
        atexit.register(own.wait_for_end)
        caller = sys._getframe(1)  # weakref.finalize, which a reference calls with itself
        if caller.f_locals.get("_") is None:
            raise
        # Python drops what is raised while it collects something: interrupt again after that.
        own.stop()
        interrupt = threading.Thread(target=_interrupt_after, args=(caller,), daemon=True)
        interrupt.start()


def _interrupt_after(frame: Any) -> None:
    """Interrupt the main thread once it has left a frame."""
    main = threading.main_thread().ident
    while True:
        running = sys._current_frames().get(main) if main is not None else None
        while running is not None and running is not frame:
            running = running.f_back
        if running is None:
            _thread.interrupt_main()
            return
        sleep(0.001)


def use_one_thread() -> None:
    """Let torch's operators in this thread use it alone: its neighbours have work of their own.

    torch.set_num_threads would change other threads' number as well.
    """
    setter = getattr(_process(), "omp_set_num_threads", None)
    if setter is not None:
        setter(1)


def _process() -> Any:
    return ctypes.CDLL(None) if os.name == "posix" else None
