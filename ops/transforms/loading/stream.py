"""Iterable data sets, whose samples can only be read one after another."""

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any

import torch

from ..chain.decode import decode_ahead
from ..chain.execute import run_passes
from ..chain.random import drawing_apart
from ..chain.source import Source
from ..classes.views import Views
from ..sample.batches import MOVABLE
from ..sample.files import File, with_content
from ..sample.images import restored_image
from .batch import Batch, Collating, Item
from .epochs import Indices
from .samples import Samples
from .sources import with_masks
from .statistics import Times


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


# Several views of each sample: a file is read once and decoded once, and each view has its batch.
#
# NOTE [ Views in a loader ]
# Where every chain runs in C++, one call reads, decodes and makes all views of a file, and one call
# each makes those of a decoded image. Else a file is decoded once, and each chain runs on it by
# torch's operators. A batch has one for each view beside it,
# whose memory that view's images go to; what doesn't move is the same in all of them, and is handed
# over once.


class SampleViews(Samples):
    """Reads samples and makes their views; the arguments are those of `Samples`."""

    def __init__(self, dataset: Any, chain: Views, seed: int, epoch: int) -> None:
        super().__init__(dataset, chain, seed, epoch)
        self.parts = [Samples(dataset, own, int(own.seed or 0), epoch) for own in chain.chains]
        self.kinds = self.parts[0].kinds
        natives = [part.native for part in self.parts]
        self.native = natives[0] if chain.decodes_once and all(natives) else None
        self.pipeline = None

    def _batches_of(self, batch: Batch) -> list[Batch]:
        return batch.views(len(self.parts))

    def _stored(self, made: list[Item], batches: list[Batch], row: int, index: Any) -> Item:
        for item, own in zip(made, batches, strict=True):
            item.index = index
            own.items[row] = item
        return Item([], None)

    def _by_chain(
        self, sample: Any, file: File | None, index: Any, batch: Batch, row: int, times: Times
    ) -> Item:
        if file is not None:
            sample = with_content(sample, file)
        sample = with_masks(sample, self.kinds, times)
        batches = self._batches_of(batch)
        if not self.later and all(part.pipeline is not None for part in self.parts):
            pairs = zip(self.parts, batches, strict=True)
            made = [part._in_one_call(sample, index, own, row, times) for part, own in pairs]
            taken = [item for item in made if item is not None]
            if len(taken) == len(batches):
                return self._stored(taken, batches, row, index)
        split = [part.chain.split(sample) for part in self.parts]
        leaves = [own for own, _ in split]
        sources = [Source(part.seed, None, None, index, self.epoch, None) for part in self.parts]
        chains = [part.chain for part in self.parts]
        begin = perf_counter()
        if self.chain.decodes_once:
            decode_ahead(chains, leaves, sources)
        times.decoding += perf_counter() - begin

        def run() -> None:
            made = []
            for part, own, source, (values, rebuild) in zip(
                self.parts, batches, sources, split, strict=True
            ):
                run_passes(part.chain, values, source)
                made.append(part.with_image(Item(values, rebuild), own, row))
            self._stored(made, batches, row, index)

        if self.later:
            return Item([], None, result=run)
        begin = perf_counter()
        run()
        times.transforming += perf_counter() - begin
        return Item([], None)


class CollatingViews:
    """How samples' views become a batch: as `Collating`, of which it takes one for each view."""

    def __init__(self, views: Sequence[Collating], collate: Callable[..., Any] | None) -> None:
        self.views, self.collate = views, collate

    def __call__(self, batch: Batch) -> Any:
        """Return a batch of the samples that were not skipped; there is at least one."""
        batches = batch.views(len(self.views))
        for own in batches:
            own.items = [
                i if kept else None for i, kept in zip(own.items, batch.items, strict=True)
            ]
        if self.collate is not None:
            alone = [
                [view.alone(item) for item in own.items if item is not None]
                for view, own in zip(self.views, batches, strict=True)
            ]
            indices = [item.index for item in batch.items if item is not None]
            return self.collate(list(zip(*alone, strict=True)), indices)
        made = [view.together(own) for view, own in zip(self.views, batches, strict=True)]
        leaves, rebuild = made[0]
        if any(leaf.kind in MOVABLE or leaf.per_box for leaf in leaves):
            return tuple(rebuild(own) for own, rebuild in made)
        columns = [[leaf for leaf in own if leaf.kind == "image"] for own, _ in made]
        for views in zip(*columns, strict=True):
            images = [restored_image(leaf) for leaf in views]
            views[0].kind, views[0].value, views[0].like = "other", images, images
        return rebuild(leaves)
