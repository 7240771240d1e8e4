"""A chain of stages: a thread for each, with bounded queues between them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..store.summary import StageTimes

T = TypeVar("T")


class StageError(RuntimeError):
    """The error that stopped a stage, with the stage and the batch."""

    def __init__(self, stage: str, batch: int | None, cause: BaseException) -> None:
        self.stage, self.batch = stage, batch
        where = f"stage {stage}" if batch is None else f"stage {stage}, batch {batch}"
        super().__init__(f"visops.infer: {where}: {type(cause).__name__}: {cause}")


@dataclass
class Stage(Generic[T]):
    """A named function of items, and one to call after the last item."""

    name: str
    work: Callable[[T], T]
    finish: Callable[[], None] | None = None


class _ClosedError(Exception):
    """The other end of the queue is closed."""


class _Queue(Generic[T]):
    """A queue of at most `room` items that can be closed from either end."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._items: deque[T] = deque()
        self._change = threading.Condition()
        self._ended = False  # closed by the producer: items left can still be taken
        self._dropped = False  # closed by the consumer

    def put(self, item: T) -> None:
        with self._change:
            self._change.wait_for(lambda: len(self._items) < self._room or self._dropped)
            if self._dropped:
                raise _ClosedError
            self._items.append(item)
            self._change.notify_all()

    def get(self) -> T:
        with self._change:
            self._change.wait_for(lambda: self._items or self._ended)
            if not self._items:
                raise _ClosedError
            item = self._items.popleft()
            self._change.notify_all()
            return item

    def end(self) -> None:
        with self._change:
            self._ended = True
            self._change.notify_all()

    def drop(self) -> None:
        with self._change:
            self._dropped = True
            self._items.clear()
            self._change.notify_all()


class Chain(Generic[T]):
    """Runs the items of a source through stages, in order.

    If a stage raises, the stages before it end, and those after it finish what they have. After
    :meth:`stop` all stages finish what they have.

    Parameters
    ----------
    source : (str, iterator)
        Name of the first stage, and the iterator that yields its items.
    stages : sequence of Stage
        The results of the last one are discarded.
    room : int
        Items that may wait between two stages.
    size : callable
        Returns the number of images in an item.
    number : callable
        Returns the batch number of an item, for errors.
    """

    def __init__(
        self,
        source: tuple[str, Iterator[T]],
        stages: Sequence[Stage[T]],
        *,
        room: int,
        size: Callable[[T], int],
        number: Callable[[T], int],
    ) -> None:
        self._source = source[1]
        self._stages = stages
        self._size, self._number = size, number
        self._queues: list[_Queue[T]] = [_Queue(room) for _ in stages]
        self.times: Sequence[StageTimes] = [
            StageTimes(source[0]),
            *(StageTimes(stage.name) for stage in stages),
        ]
        self._begun: list[float | None] = [None] * len(self.times)
        self._stopping = threading.Event()
        self._error: StageError | None = None
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads."""
        targets: list[tuple[Callable[..., None], tuple[Any, ...]]] = [(self._feed, ())]
        targets += [(self._work, (index,)) for index in range(len(self._stages))]
        for index, (target, arguments) in enumerate(targets):
            name = f"visops.infer {self.times[index].name}"
            thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
            try:
                thread.start()
            except BaseException:  # no more threads
                self.stop()
                for queue in self._queues[max(0, index - 1) :]:
                    queue.drop()  # it has no consumer
                raise
            self._threads.append(thread)

    def busy(self) -> list[float]:
        """Return each stage's seconds at work so far, its current item included."""
        now = time.perf_counter()
        return [
            times.busy + (0.0 if begun is None else max(0.0, now - begun))
            for times, begun in zip(self.times, list(self._begun), strict=True)
        ]

    def stop(self) -> None:
        """Take nothing more from the source; the stages finish what they have."""
        self._stopping.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, or this many seconds; return whether the chain has ended.

        Raises
        ------
        StageError
            The first error of a stage, once all have ended.
        """
        end = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
            if thread.is_alive():
                return False
        if self._error is not None:
            raise self._error
        return True

    def _feed(self) -> None:
        times, queue = self.times[0], self._queues[0]
        try:
            while not self._stopping.is_set():
                start = time.perf_counter()
                if times.batches:  # before the first batch, workers start
                    self._begun[0] = start
                try:
                    item = next(self._source)
                except StopIteration:
                    break
                now = time.perf_counter()
                if times.batches == 0:
                    times.starting, times.first = now - start, self._size(item)
                    self._count(0, item, 0.0)
                else:
                    self._count(0, item, now - start)
                queue.put(item)
                times.waiting_room += time.perf_counter() - now
        except _ClosedError:
            pass
        except BaseException as error:
            self._fail(times.name, None, error)
        finally:
            self._begun[0] = None
            queue.end()

    def _work(self, index: int) -> None:
        times, stage = self.times[index + 1], self._stages[index]
        before = self._queues[index]
        after = self._queues[index + 1] if index + 1 < len(self._queues) else None
        item: T | None = None
        try:
            while True:
                item = None
                start = time.perf_counter()
                item = before.get()
                begun = self._begun[index + 1] = time.perf_counter()
                times.waiting_input += begun - start
                item = stage.work(item)
                done = time.perf_counter()
                self._count(index + 1, item, done - begun)
                if after is not None:
                    after.put(item)
                    times.waiting_room += time.perf_counter() - done
        except _ClosedError:
            self._finish(index)
        except BaseException as error:
            self._fail(times.name, None if item is None else self._number(item), error)
        finally:
            self._begun[index + 1] = None
            before.drop()
            if after is not None:
                after.end()

    def _finish(self, index: int) -> None:
        times, finish = self.times[index + 1], self._stages[index].finish
        if finish is None:
            return
        start = self._begun[index + 1] = time.perf_counter()
        try:
            finish()
        except BaseException as error:
            self._fail(times.name, None, error)
        times.busy += time.perf_counter() - start

    def _count(self, stage: int, item: T, seconds: float) -> None:
        times = self.times[stage]
        self._begun[stage] = None
        times.busy += seconds
        times.batches += 1
        times.images += self._size(item)

    def _fail(self, stage: str, batch: int | None, cause: BaseException) -> None:
        with self._lock:
            if self._error is None:
                if isinstance(cause, StageError):  # names an earlier batch
                    self._error = cause
                else:
                    self._error = StageError(stage, batch, cause)
                    self._error.__cause__ = cause
