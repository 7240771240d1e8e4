"""Which epoch a loader loads next, and where in it.

NOTE [ The epoch is the user's ]
An epoch that was set explicitly wins: at the loader or at what trainers find as its `sampler`, or
at the sampler or the stream that it was made with, whose attribute `epoch` tells. Otherwise it is
one more than that of the latest iteration which has handed something over: trainers also make
iterators of which they take nothing. An iteration therefore chooses its epoch, and asks its
sampler, when its first batch is asked for.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import torch
from torch import Tensor

from ..chain.random import drawing_apart
from ..chain.source import Repeat, as_whole
from .indexed_dataset import attribute_within, counted


class Progress:
    """How far an epoch is: what the loader's ``state_dict`` holds.

    Attributes
    ----------
    epoch, seed : int
    first, batch : int
        Numbers of the batches that it began with, and that comes next.
    random : Tensor, optional
        State of torch's generator when a sampler was asked.
    generators : list of Tensor, optional
        States of the sampler's own generators then.
    ended : bool
    """

    def __init__(
        self, epoch: int, seed: int, batch: int, random: Any = None, generators: Any = None
    ) -> None:
        self.epoch, self.seed, self.first, self.batch = epoch, seed, batch, batch
        self.random, self.generators = random, generators
        self.ended = False

    @property
    def counts(self) -> bool:
        """Whether the epoch after it is the next."""
        return self.ended or self.batch > self.first

    def state(self) -> dict[str, Any]:
        """Return what ``state_dict`` holds of it."""
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "seed": self.seed,
            "random": self.random,
            "generators": self.generators,
        }


class Epochs:
    """The epochs of a loader.

    Parameters
    ----------
    sampler : Any
        The user's sampler, batch sampler or stream, if there is one.
    """

    def __init__(self, sampler: Any) -> None:
        asked = [own for own in (sampler, getattr(sampler, "sampler", None)) if own is not None]
        self._asked = bool(asked)
        self._driven = [own for own in asked if callable(getattr(own, "set_epoch", None))]
        self._seen = [_epoch_of(own) for own in self._driven]
        self._generators = [
            own.generator
            for own in asked
            if isinstance(getattr(own, "generator", None), torch.Generator)
        ]
        self._begin = next((own for own in self._seen if own is not None), 0)
        self._given: tuple[int, int] | None = None  # an epoch, and how far the latest was
        self.progress: Progress | None = None  # of the latest iteration
        self.resumed: Progress | None = None  # where the next one begins

    @property
    def drawn_ahead(self) -> bool:
        """Whether threads that read ahead advance generators that the next epoch draws from."""
        return bool(self._generators)

    def set(self, epoch: int) -> None:
        """Say which epoch comes next."""
        self._given = epoch, 0 if self.progress is None else self.progress.batch

    def resume(self, progress: Progress) -> None:
        """Say where the next iteration begins."""
        self.resumed, self._given = progress, None
        self._seen = [_epoch_of(own) for own in self._driven]

    def _chosen(self) -> int | None:
        """Return the epoch that the user has chosen for the next iteration."""
        last = self.progress
        if self._given is not None:
            epoch, batch = self._given
            # Trainers set the epoch of an iteration that runs already, too.
            if last is None or last.epoch != epoch or last.batch <= batch:
                return epoch
        for own, seen in zip(self._driven, self._seen, strict=True):
            epoch_now = _epoch_of(own)
            if epoch_now is not None and epoch_now != seen:
                return epoch_now
        return None

    @property
    def next(self) -> int:
        """The epoch that the next iteration loads."""
        chosen, last = self._chosen(), self.progress
        if chosen is not None:
            return chosen
        if self.resumed is not None:
            return self.resumed.epoch
        return self._begin if last is None else last.epoch + last.counts

    def begin(self, seed: Callable[[], int]) -> Progress:
        """Return the progress of a new iteration, and tell the sampler its epoch."""
        epoch, resumed, last = self.next, self.resumed, self.progress
        if resumed is None and last is not None and not last.counts and self._chosen() is None:
            resumed = Progress(last.epoch, last.seed, last.first, last.random, last.generators)
        if resumed is None or resumed.epoch != epoch:
            resumed = Progress(epoch, seed(), 0)
        self.progress, self.resumed, self._given = resumed, None, None
        for own in self._driven:
            own.set_epoch(epoch)
        self._seen = [_epoch_of(own) for own in self._driven]
        return resumed

    def now(self, seed: Callable[[], int]) -> Progress:
        """Return where the latest iteration is, or where the next one will be."""
        own, chosen = self.resumed or self.progress, self._chosen()
        if own is None or own.ended or chosen not in (None, own.epoch):
            number = seed()  # it may draw from torch's generator, as it would before the sampler
            states = [generator.get_state() for generator in self._generators]
            random = torch.get_rng_state() if self._asked else None
            return Progress(self.next, number, 0, random, states)
        return own

    def asked(self, progress: Progress, ask: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Ask the user's sampler for batches; in a resumed epoch as it was asked before."""
        if progress.generators:
            for generator, state in zip(self._generators, progress.generators, strict=True):
                generator.set_state(state)
        else:
            progress.generators = [own.get_state() for own in self._generators]
        if progress.random is None:
            progress.random = torch.get_rng_state()
            return begun(ask())[1]
        with torch.random.fork_rng(devices=[]):  # a sampler that draws by torch's generator
            torch.set_rng_state(progress.random)
            return begun(ask())[1]


class EpochSampler:
    """What trainers find as a loader's ``sampler``: its `set_epoch` is the loader's.

    All else is the user's sampler's, if there is one.
    """

    def __init__(self, sampler: Any, set_epoch: Callable[[int], None]) -> None:
        self.sampler, self.set_epoch = sampler, set_epoch

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        return attribute_within(self, "sampler", name)


def _epoch_of(own: Any) -> int | None:
    """Return the epoch that a sampler or a stream was set to, if it tells."""
    for name in ("epoch", "_epoch", "current_epoch"):
        epoch = as_whole(getattr(own, name, None))
        if epoch is not None:
            return epoch
    return None


def begun(batches: Iterator[Any]) -> tuple[Any, Iterator[Any]]:
    """Return an iterator's first value, or None, and the iterator as it was before."""
    first = next(batches, None)
    return first, iter(()) if first is None else itertools.chain([first], batches)


Indices = Sequence[Any]


class Order(Protocol):
    """The batches of an epoch."""

    def __len__(self) -> int:
        """Return the number of batches."""

    def batches(self, seed: int, epoch: int, start: int) -> Iterator[Indices]:
        """Return the indices of each batch, from number `start` on."""


@dataclass(frozen=True)
class OwnOrder:
    """All samples of a map-style data set, or this rank's share of them.

    Ranks and shuffling are those of ``torch.utils.data.DistributedSampler``: the same permutation
    of ``seed + epoch`` everywhere, of which rank r takes every `world_size`-th from r on. So that
    all have as many, the first samples are repeated at the end, or with `drop_last` the last left
    out; without `pad`, every sample is in one rank and some ranks have one more.
    """

    length: int
    batch_size: int
    shuffle: bool = False
    drop_last: bool = False
    rank: int = 0
    world_size: int = 1
    pad: bool = True

    @property
    def samples(self) -> int:
        """The number of this rank's samples, before batches are formed."""
        ranks = self.world_size
        if self.drop_last:
            return self.length // ranks
        if self.pad:
            return -(-self.length // ranks)
        return len(range(self.rank, self.length, ranks))

    def __len__(self) -> int:
        if self.drop_last:
            return self.samples // self.batch_size
        return -(-self.samples // self.batch_size)

    def batches(self, seed: int, epoch: int, start: int) -> Iterator[Indices]:
        size = self.batch_size
        own = self._positions()
        order: Tensor | None = None
        if self.shuffle:
            generator = torch.Generator().manual_seed((seed + epoch) % 2**63)
            order = torch.randperm(self.length, generator=generator, device="cpu")
        for number in range(start, len(self)):
            rows = own[number * size : (number + 1) * size]
            repeats = bool(rows) and rows[-1] >= self.length  # the first samples pad the end
            indices = [row % self.length for row in rows] if repeats else list(rows)
            if order is not None:
                indices = order[indices].tolist()
            if repeats:
                pairs = zip(indices, rows, strict=True)
                indices = [
                    Repeat(index, row // self.length) if row >= self.length else index
                    for index, row in pairs
                ]
            yield indices

    def _positions(self) -> range:
        """Return this rank's places in the order, which may begin again at its end."""
        last = self.rank + self.samples * self.world_size
        return range(self.rank, last, self.world_size)


class SampledOrder:
    """Batches of a user's `batch_sampler`, or of so many of a `sampler`."""

    def __init__(
        self,
        sampler: Iterable[Any],
        batch_size: int | None,
        drop_last: bool = False,
    ) -> None:
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def batches(self, seed: int, epoch: int, start: int) -> Iterator[Indices]:
        seen: dict[int, int] = {}  # counts what is skipped as well
        for number, indices in enumerate(self._batches(seed, epoch)):
            own = [counted(index, seen) for index in indices]
            if number >= start:
                yield own

    def _batches(self, seed: int, epoch: int) -> Iterator[Indices]:
        size, rest = self.batch_size, _apart(self.sampler, seed, epoch)
        if size is None:
            for indices in rest:
                if not isinstance(indices, Iterable):
                    raise TypeError(
                        f"visops.transforms.Loader: batch_sampler gave {indices!r}, must give the "
                        "indices of a batch"
                    )
                yield list(indices)
            return
        while batch := list(islice(rest, size)):
            if len(batch) == size or not self.drop_last:
                yield batch


def _apart(sampler: Iterable[Any], seed: int, epoch: int) -> Iterator[Any]:
    """Iterate over a sampler whose later draws, in threads, are not the caller's."""
    rest = iter(sampler)
    first = next(rest, None)
    if first is None:
        return
    yield first
    if type(sampler).__module__.startswith("torch."):  # draws at first, or by its own generator
        yield from rest
        return
    drawing = drawing_apart(seed, epoch, -1)
    while True:
        with drawing:
            drawn = next(rest, None)
        if drawn is None:
            return
        yield drawn
