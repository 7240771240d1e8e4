"""Where the time of a loader's threads goes."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

_WAITS = 0.25  # the share of threads' waiting from which more batches ahead help


@dataclass(slots=True)
class Times:
    """What one thread has done, and the seconds that it took. Only that thread writes it."""

    images: int = 0
    reading: float = 0.0  # the data set's __getitem__, and files
    decoding: float = 0.0
    transforming: float = 0.0
    python: float = 0.0  # what is between these, and waiting for the interpreter's lock
    collating: float = 0.0
    waiting: float = 0.0  # for the consumer to take a batch

    @property
    def working(self) -> float:
        """The seconds of what no lock is held for, or may be not."""
        return self.reading + self.decoding + self.transforming

    def add(self, reading: float, decoding: float, transforming: float) -> None:
        """Count what a call of C++ has measured."""
        self.reading += reading
        self.decoding += decoding
        self.transforming += transforming


@dataclass(frozen=True, slots=True)
class Skipped:
    """A sample that could not be loaded, and was left out."""

    index: Any
    path: str | None
    error: str


@dataclass(frozen=True)
class LoaderStats:
    """What a loader has done since its iteration began.

    Attributes
    ----------
    images : int
        Samples loaded.
    seconds : float
        Since the iteration began, until it ended.
    images_per_second : float
    shares : dict of str to float
        Shares of the threads' time by stage: reading, decoding, transforming, python (what is
        between them, and waiting for the interpreter's lock), collating, and waiting for the
        consumer.
    consumer_waited : float
        The share of the time that the consumer waited for batches.
    skipped : list of Skipped
        Index, path and error of the samples left out.
    limit : str
        What limits the speed, and what helps.
    """

    images: int
    seconds: float
    images_per_second: float
    shares: dict[str, float]
    consumer_waited: float
    skipped: list[Skipped] = field(default_factory=list)
    limit: str = ""

    def __str__(self) -> str:
        stages = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        return (
            f"{self.images} images in {self.seconds:.2f} s, {self.images_per_second:.0f} a "
            f"second{skipped}; threads: {stages}; {self.limit}"
        )


def summary(
    times: Iterable[Times],
    seconds: float,
    consumer: float,
    skipped: list[Skipped],
    threads: int,
    cpus: int,
) -> LoaderStats:
    """Return statistics of threads that worked for so many seconds.

    `consumer`: the seconds that the consumer waited.
    """
    names = [own.name for own in fields(Times) if own.name != "images"]
    own = list(times)
    totals = {name: sum(getattr(t, name) for t in own) for name in names}
    images = sum(t.images for t in own)
    whole = sum(totals.values())
    shares = {name: total / whole if whole else 0.0 for name, total in totals.items()}
    waited = min(consumer / seconds, 1.0) if seconds else 0.0
    rate = images / seconds if seconds else 0.0
    limit = _limit(shares, waited, threads, cpus) if images else "nothing was loaded yet"
    return LoaderStats(images, seconds, rate, shares, waited, skipped, limit)


def _limit(shares: dict[str, float], waited: float, threads: int, cpus: int) -> str:
    if waited < 0.05:
        return "the consumer: batches are ready before it asks for them"
    if shares["waiting"] > _WAITS:
        return (
            "prefetch: threads wait for batches to be taken, and the consumer for batches; more of "
            "them ahead help (a larger prefetch, or none given)"
        )
    stages = {name: share for name, share in shares.items() if name != "waiting"}
    stage = max(stages, key=lambda name: stages[name])
    if stage == "python":
        return (
            "Python: what print(loader) marks holds the interpreter's lock, so more threads do "
            "not help"
        )
    if stage == "reading":
        return "reading: more threads help, as long as the storage is not busy"
    if threads < cpus:
        return f"{stage}: more threads help ({threads} of {cpus} CPUs are in use)"
    return f"{stage}: all {cpus} CPUs are in use"
