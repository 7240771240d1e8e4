"""Which samples make up the batches of an epoch.

An order is a function of the seed and the epoch, so that an interrupted epoch continues at any
batch. Samplers that the user gives are asked again, and what was handed out already is skipped.
Where a sample comes again in an epoch, its index is a `Repeat`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import torch
from torch import Tensor

from ..chain.generators import drawing_apart
from ..chain.source import Repeat
from .indexed_dataset import counted

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
