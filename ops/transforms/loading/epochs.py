"""Which epoch a loader loads next, and where in it.

NOTE [ The epoch is the user's ]
An epoch that was set explicitly wins: at the loader or at what trainers find as its `sampler`, or
at the sampler or the stream that it was made with, whose attribute `epoch` tells. Otherwise it is
one more than that of the latest iteration which has handed something over: trainers also make
iterators of which they take nothing. An iteration therefore chooses its epoch, and asks its
sampler, when its first batch is asked for.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..chain.source import as_whole
from .indexed_dataset import attribute_within


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
