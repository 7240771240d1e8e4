"""Decoding in worker processes, which may die of what they decode."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch.utils.data import DataLoader, Dataset

from .batch import Batch
from .decode import Decoder, import_torchvision
from .plan import PlannedBatch

__all__ = ["DecodedBatches"]

DIED = "decoding it ends the process, which crashes or runs out of memory"


class DecodedBatches(Iterator[Batch]):
    """Batches, decoded in order, in `workers` processes, or in this one where that is 0.

    The processes are forks, started at once: before there are threads, with luck. A damaged file
    can crash a decoder, or make it take more memory than there is. Then the batch that was waited
    for is decoded image by image, the one that a process dies at is a failure like any other, and
    new workers do the rest.

    Parameters
    ----------
    batches : sequence of PlannedBatch
    decoder : Decoder
    workers : int
    prefetch : int
        Batches that each worker decodes ahead.
    """

    def __init__(
        self, batches: Sequence[PlannedBatch], decoder: Decoder, workers: int, prefetch: int = 2
    ) -> None:
        self._batches, self._decoder = batches, decoder
        self._workers, self._prefetch = workers, prefetch
        self._next = 0
        import_torchvision()  # here, that not every worker imports it
        self._source = _started(batches, decoder, workers, prefetch)

    def __next__(self) -> Batch:
        if self._next == len(self._batches):
            raise StopIteration
        try:
            batch = next(self._source)
        except RuntimeError as error:
            if not is_death_of_worker(error):
                raise
            # Of this batch, or of one that was decoded ahead: then that one's turn will come.
            self._source = iter(())  # ends the other workers
            batch = _one_by_one(self._batches[self._next], self._decoder)
            rest = self._batches[self._next + 1 :]
            self._source = _started(rest, self._decoder, self._workers, self._prefetch)
        self._next += 1
        return batch


def is_death_of_worker(error: BaseException) -> bool:
    """Whether this is what DataLoader raises when a worker dies; it has no type of its own."""
    return type(error) is RuntimeError and "DataLoader worker (pid" in str(error)


class _Batches(Dataset[Batch]):
    """Decodes the planned batch that it is asked for.

    Batches are sent to the workers as they are wanted: a list of all paths would end as a copy in
    each of them.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def __getitem__(self, plan: PlannedBatch) -> Batch:
        return self._decoder.batch(plan)


def _started(
    batches: Sequence[PlannedBatch], decoder: Decoder, workers: int, prefetch: int
) -> Iterator[Batch]:
    loader: DataLoader[Batch] = DataLoader(
        _Batches(decoder),
        batch_size=None,
        sampler=batches,
        num_workers=min(workers, len(batches)),
        prefetch_factor=prefetch if workers and batches else None,
        worker_init_fn=_prepare_worker,
        # Children of this process see that it has been killed; those of a fork server don't, and
        # stay. They also need no guard of the caller's main module.
        multiprocessing_context="fork" if workers and batches else None,
    )
    return iter(loader)


def _prepare_worker(worker: int) -> None:
    """Leave interrupts, which go to the whole process group, to the process that drains."""
    warnings.simplefilter("ignore")  # Pillow's, of metadata
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _one_by_one(plan: PlannedBatch, decoder: Decoder) -> Batch:
    """Decode a batch's images each on its own; those that end the process are failures."""
    batch = Batch(plan)
    frames, parts, offset = [], [], 0
    left = [index for index, entry in enumerate(plan.entries) if entry.status is None]
    while left:
        alone = [PlannedBatch(plan.number, (plan.entries[index],)) for index in left]
        source = _started(alone, decoder, 1, 1)
        try:
            while left:
                one = next(source)
                index = left.pop(0)
                batch.decode_seconds += one.decode_seconds
                for reason in one.failures.values():
                    batch.failures[index] = reason
                for frame in one.frames:
                    frames.append(replace(frame, index=index, offset=offset))
                if one.pixels is not None and len(one.pixels):
                    parts.append(one.pixels.clone())
                    offset += len(one.pixels)
        except RuntimeError as error:
            if not is_death_of_worker(error):
                raise
            batch.failures[left.pop(0)] = DIED  # one at a time: it was this one
    batch.pixels = torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)
    batch.frames = frames
    return batch
