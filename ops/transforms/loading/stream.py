"""Iterable data sets, whose samples can only be read one after another."""

import itertools
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..chain.random import drawing_apart
from .epochs import Indices


class StreamEndedError(Exception):
    """There is no sample of this number: the data set has ended."""


class StreamOrder:
    """Batches of samples by their number in a stream, of which nobody knows where it ends.

    Parameters
    ----------
    dataset : iterable
        Its length is used for that of the loader, if it has one.
    batch_size : int
    drop_last : bool
    rank, world_size : int
        This rank has one of `world_size` samples in turn.
    pad : bool
        At the end, repeat the first samples for ranks that have one less.
    """

    def __init__(
        self,
        dataset: Iterable[Any],
        batch_size: int,
        drop_last: bool,
        rank: int,
        world_size: int,
        pad: bool,
    ) -> None:
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.rank, self.world_size, self.pad = rank, world_size, pad

    def __len__(self) -> int:
        count = len(self.dataset)  # type: ignore[arg-type]
        if self.drop_last:
            return count // self.world_size // self.batch_size
        last = self.world_size - 1 if self.pad else self.world_size - 1 - self.rank
        own = (count + last) // self.world_size if count > 0 else 0
        return -(-own // self.batch_size)

    def batches(self, seed: int, epoch: int, start: int) -> Iterator[Indices]:
        size, ranks = self.batch_size, self.world_size
        for number in itertools.count(start):
            first = self.rank + number * size * ranks
            yield range(first, first + size * ranks, ranks)


class Stream:
    """One pass over an iterable data set, whose samples threads ask for by number.

    Whoever asks reads on up to that number, and leaves what comes before it to the others. Only
    this is done by one thread at a time; decoding and transforming are not.

    Parameters
    ----------
    order : StreamOrder
    first : int
        The first number that will be asked for; samples before it are read and dropped.
    buffer : int
        Samples among which the next one is drawn; 0: they stay in order.
    seed : int
        Seeds these draws.
    """

    def __init__(self, order: StreamOrder, first: int, buffer: int, seed: int) -> None:
        self._order, self._first = order, first
        samples = order.dataset
        self._samples = iter(samples) if buffer == 0 else _shuffled(samples, buffer, seed)
        self._drawing = drawing_apart(seed, 0, -1)
        self._ready: dict[int, Any] = {}
        self._read = 0  # how many
        self._beginning: list[Any] = []  # what pads the end of ranks
        self._ended = False
        self._failure: tuple[int, BaseException] | None = None
        self._lock = threading.Lock()

    def __getitem__(self, number: int) -> Any:
        ranks = self._order.world_size
        # Ranks drop what some have more than others: the samples of an incomplete round.
        last = number // ranks * ranks + ranks - 1 if self._order.drop_last else number
        with self._lock:
            while last >= self._read and not self._ended:
                self._read_on()
            if self._failure is not None and number == self._failure[0]:
                raise self._failure[1]
            if number in self._ready and (last < self._read or not self._order.drop_last):
                return self._ready.pop(number)
        raise StreamEndedError

    def _read_on(self) -> None:
        number, ranks, rank = self._read, self._order.world_size, self._order.rank
        try:
            with self._drawing:  # not the caller's, as any thread may be the one that reads
                sample = next(self._samples)
        except StopIteration:
            self._end()
            return
        except BaseException as error:
            self._ended = True  # as a generator that has raised
            self._failure = number + (rank - number) % ranks, error
            return
        self._read += 1
        if number < ranks:
            self._beginning.append(sample)
        if number >= self._first and number % ranks == rank:
            self._ready[number] = sample

    def _end(self) -> None:
        """Give this rank what it lacks, if others have one more and ranks are to be even."""
        self._ended = True
        count, ranks = self._read, self._order.world_size
        own = count // ranks * ranks + self._order.rank
        if self._order.pad and count % ranks > 0 and own >= count:
            self._ready[own] = self._beginning[(own - count) % len(self._beginning)]


def _shuffled(samples: Iterable[Any], buffer: int, seed: int) -> Iterator[Any]:
    """Yield samples drawn from a buffer, which is filled up from the stream."""
    generator = torch.Generator().manual_seed(seed % 2**63)
    held: list[Any] = []
    for sample in samples:
        if len(held) < buffer:
            held.append(sample)
            continue
        drawn = int(torch.randint(buffer, (), generator=generator, device="cpu"))
        held[drawn], sample = sample, held[drawn]
        yield sample
    for index in torch.randperm(len(held), generator=generator, device="cpu").tolist():
        yield held[index]
