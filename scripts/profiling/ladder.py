"""Implementations of one job, slowest to fastest, and the time that each takes."""

import contextlib
import math
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from bench.harness import Difference, Timing, Tolerance, compare, set_threads

SAMPLE_SECONDS = 1e-3  # a sample repeats its call until it lasts this long: timer noise drowns
REPEATS = 50  # samples at most: some fall between what else the machine does
ROUNDING = Tolerance(max_abs=1e-4, why="sums in another order")


@dataclass(frozen=True)
class Rung:
    """One way to do the job.

    Parameters
    ----------
    name
        What it is called in tables and pictures.
    call
        Does the job; its result is an array, a tensor or a list of numbers.
    threads
        How many torch and OpenCV may use.
    tolerance
        How far the result may lie from that of the last rung.
    device
        ``"cpu"``, or a device whose queue has to be waited for.
    peer
        Another library's, and no step of our own: drawn as a broken line.
    profiled
        Whether Python's profilers have something to show in it.
    """

    name: str
    call: Callable[[], Any]
    threads: int = 1
    tolerance: Tolerance = ROUNDING
    device: str = "cpu"
    peer: bool = False
    profiled: bool = False


@dataclass(frozen=True)
class Ladder:
    """A job of any size.

    Parameters
    ----------
    op
        The operator's name.
    job
        What is done, in words, for headings.
    unit
        What a size counts.
    sizes
        Those of a run that names none.
    work
        Grows as the time of the first rung does.
    build
        The rungs for a size, the slowest first and our fastest last, on the same data.
    """

    op: str
    job: str
    unit: str
    sizes: Sequence[int]
    work: Callable[[int], float]
    build: Callable[[int], Sequence[Rung]]


@dataclass
class Climb:
    """Measurements by rung and size."""

    ladder: Ladder
    sizes: list[int]
    times: dict[str, dict[int, Timing]] = field(default_factory=dict)
    differences: dict[str, Difference] = field(default_factory=dict)  # the largest
    rungs: dict[str, Rung] = field(default_factory=dict)

    @property
    def first(self) -> str:
        """The rung that others are compared with."""
        return next(iter(self.times))

    def minimum(self, name: str, size: int) -> float | None:
        """Seconds of a call; None where the rung was not timed."""
        timing = self.times[name].get(size)
        return None if timing is None else timing.minimum

    def estimate(self, name: str, size: int) -> float:
        """Seconds of a call, or an estimate that assumes time grows with the work."""
        timed = self.times[name]
        if size in timed:
            return timed[size].minimum
        nearest = min(timed, key=lambda known: abs(math.log(known / size)))
        return timed[nearest].minimum * self.ladder.work(size) / self.ladder.work(nearest)

    def expected(self, name: str, size: int) -> float:
        """The estimate; 0 for a rung that was never timed."""
        return self.estimate(name, size) if name in self.times else 0.0

    def check(self, rungs: Sequence[Rung], size: int) -> None:
        """Compare all results with the last one and record the largest differences."""
        reference = comparable(rungs[-1].call())
        for rung in rungs:
            set_threads(rung.threads)
            difference = compare(reference, comparable(rung.call()))
            if not difference.within(rung.tolerance):
                raise ValueError(
                    f"{self.ladder.op}, size {size}: {rung.name} differs from {rungs[-1].name} by "
                    f"{difference.max_abs:.3g}, mean {difference.mean_abs:.3g}"
                )
            known = self.differences.get(rung.name)
            if known is None or difference.max_abs >= known.max_abs:
                self.differences[rung.name] = difference

    def speed_up(self, name: str) -> tuple[float, int, bool]:
        """Return the speed-up over the first rung, at which size, and whether it was measured."""
        size = max(self.times[name])
        measured = size in self.times[self.first]
        return self.estimate(self.first, size) / self.times[name][size].minimum, size, measured


def gpu() -> str | None:
    """The CUDA device, if there is one and visops has kernels for it."""
    import visops

    return "cuda" if torch.cuda.is_available() and visops.build_info()["cuda_built"] else None


def on_threads(name: str, call: Callable[[], Any], threads: int) -> Iterator[Rung]:
    """Make the same rung on one thread and on all threads."""
    yield Rung(f"{name}, 1 thread", call)
    if threads > 1:
        yield Rung(f"{name}, {threads} threads", call, threads=threads)


@contextlib.contextmanager
def same_threads() -> Iterator[None]:
    """Restore the number of threads."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        set_threads(threads)


class Stopwatch:
    """Repeats a rung's call, as `timeit` does."""

    def __init__(self, rung: Rung) -> None:
        self.rung = rung
        self.samples: list[float] = []  # seconds of a call
        self._timer = timeit.Timer(self._call)
        once = self._sample(1)
        self._loops = max(1, round(SAMPLE_SECONDS / max(once, 1e-9)))
        if self._loops > 1:  # a single call is too short to go by
            once = self._sample(max(2, self._loops // 8))
            self._loops = max(1, round(SAMPLE_SECONDS / max(once, 1e-9)))

    @property
    def spent(self) -> float:
        """Seconds of all samples."""
        return sum(self.samples) * self._loops

    def sample(self) -> None:
        """Take one more."""
        self.samples.append(self._sample(self._loops))

    def _call(self) -> None:
        self.rung.call()
        if self.rung.device != "cpu":
            torch.cuda.synchronize(self.rung.device)

    def _sample(self, loops: int) -> float:
        set_threads(self.rung.threads)
        return self._timer.timeit(loops) / loops


def measure(rungs: Sequence[Rung], seconds: float) -> list[Timing]:
    """Time several rungs in turn for about that long each, so that disturbances hit all."""
    watches = [Stopwatch(rung) for rung in rungs]
    for n in range(REPEATS):
        for watch in watches:
            if n == 0 or watch.spent < seconds:
                watch.sample()
    return [Timing(watch.samples) for watch in watches]


def comparable(result: Any) -> torch.Tensor:
    """Bring a result into the form that rungs are compared in."""
    if isinstance(result, torch.Tensor):
        return result.detach().to("cpu", torch.float64)
    return torch.from_numpy(np.asarray(result).astype(np.float64))


def climb(
    ladder: Ladder,
    sizes: Sequence[int],
    *,
    limit: float,
    seconds: float,
    write: Callable[[str], object] = lambda line: None,
) -> Climb:
    """Time every rung at every size where it should take no longer than `limit`.

    Raises
    ------
    ValueError
        A rung's result differs from that of the last by more than it should.
    """
    result = Climb(ladder, sorted(set(sizes)))
    order: list[str] = []  # of all rungs, some of which are of a few sizes only
    for size in result.sizes:
        write(f"{ladder.unit}: {size:,}")
        with same_threads():
            built = ladder.build(size)
            _merge(order, [rung.name for rung in built])
            rungs = [rung for rung in built if result.expected(rung.name, size) <= limit]
            if rungs:
                result.check(rungs, size)
            for rung, timing in zip(rungs, measure(rungs, seconds), strict=True):
                result.times.setdefault(rung.name, {})[size] = timing
                result.rungs[rung.name] = rung
    result.times = {name: result.times[name] for name in order if name in result.times}
    return result


def _merge(order: list[str], names: Sequence[str]) -> None:
    """Insert new names after the ones that precede them."""
    at = 0
    for name in names:
        if name in order:
            at = order.index(name) + 1
        else:
            order.insert(at, name)
            at += 1
