"""Where one call's numbers come from: a seed, a generator, or an earlier call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import numpy as np
import torch
from torch import Tensor

from ..._native import call_key
from .random import CallCounter, fresh_key

_BITS = 40  # of a place in a data set; above them stands how often its sample came before


# Seed, epoch and index of each sample: what `uniforms` takes.
Key = tuple[int, int, Sequence[int]]


@dataclass
class Parameters:
    """The parameters drawn for a sample or a batch.

    Attributes
    ----------
    names : list of str
        The transforms' class names.
    steps : list of dict of ndarray
        The parameters of each transform by name, each with a first dimension B (1 for a single
        sample). Whole numbers are float64, too. A transform from another package has one, ``seed``,
        from which its seed is made.
    size : ndarray, int64 ``[B, 2]``
        Heights and widths of the images before the first transform.
    """

    names: list[str]
    steps: list[dict[str, np.ndarray]]
    size: np.ndarray


class Called:
    """What a call returns, for type checkers: it depends on `return_params`."""

    if TYPE_CHECKING:

        @overload
        def __call__(
            self, *sample: Any, return_params: Literal[False] = ..., **options: Any
        ) -> Any: ...
        @overload
        def __call__(
            self, *sample: Any, return_params: Literal[True], **options: Any
        ) -> tuple[Any, Parameters]: ...
        @overload
        def __call__(self, *sample: Any, return_params: bool, **options: Any) -> Any: ...
        def __call__(self, *sample: Any, **options: Any) -> Any: ...


def index_of_samples(samples: Sequence[Any]) -> list[Any] | None:
    """Return what samples hold as their ``"index"``, or None unless every one is such a dict."""
    found = [s.get("index") if isinstance(s, Mapping) else None for s in samples]
    return None if None in found else found


class Repeat(int):
    """The index by which a sample draws that came before in its epoch.

    Attributes
    ----------
    place : int
        That of the sample in the data set.
    times : int
        How often it came before.
    """

    place: int
    times: int

    def __new__(cls, place: int, times: int) -> "Repeat":
        made = super().__new__(cls, place + (times << _BITS))
        made.place, made.times = place, times
        return made

    def __reduce__(self) -> Any:
        return Repeat, (self.place, self.times)


def place_of(index: Any) -> Any:
    """Return where in its data set a sample is that a sampler has given this index."""
    return index.place if type(index) is Repeat else index


def position_of(index: Any, dataset: Any) -> Any:
    """Return what the draws of a sample depend on, by its index; one below 0 counts from the end.

    It is the place in the data set, if need be a `Repeat`; keys of other types stay as they are.
    """
    place = as_whole(place_of(index))
    if place is None:
        return index
    place = place + len(dataset) if place < 0 else place
    return int(Repeat(place, index.times)) if type(index) is Repeat else place


@dataclass(slots=True)
class Source:
    """The arguments of one call."""

    seed: int | None
    calls: CallCounter | None  # of a chain with a seed
    generator: torch.Generator | None
    index: Any
    epoch: Any
    params: Parameters | None
    owner: str = "Compose"  # for messages
    kept: Key | None = None

    @classmethod
    def within(cls, seed: int, position: int, batch: int = 1) -> "Source":
        """Return the source of a chain in another one, by its place among the others there."""
        return cls(seed, None, None, [position] * batch, 0, None)

    def key(self, sizes: np.ndarray) -> Key | None:
        """Return what determines this call's uniform numbers; None if `params` is given."""
        if self.params is not None:
            self._check_params(sizes)
            return None
        return self.key_for(sizes.shape[0])

    def key_for(self, batch: int) -> Key:
        """Return the key of a call without `params`, which stays the same.

        Every call takes another one where no `index` is given.
        """
        if self.kept is None:
            self.kept = self._key(batch)
        return self.kept

    def _key(self, batch: int) -> Key:
        epoch = None if self.epoch is None else as_whole(self.epoch)
        if epoch is None and self.epoch is not None:
            self._fail("epoch", self.epoch, "a whole number", TypeError)
        if self.index is None:
            return self._call_key(epoch), 0, range(batch)
        seed = self.seed
        if seed is None:
            self._fail("index", self.index, f"None, or {self.owner} must be given a seed")
        if self.generator is not None:
            self._fail("generator", self.generator, "None where an index is given")
        return seed, epoch or 0, self._indices(batch)

    def _call_key(self, epoch: int | None) -> int:
        """Return the key of a call that isn't given an index."""
        if self.generator is None and self.seed is not None and self.calls is not None:
            return call_key(self.seed, *self.calls.next(epoch))
        return fresh_key(self.generator)

    def _indices(self, batch: int) -> list[int]:
        given = self.index
        if type(given) is int and batch == 1:
            return [given]
        if isinstance(given, (Tensor, np.ndarray)):
            given = given.tolist()
        given = list(given) if isinstance(given, (Sequence, range)) else [given]
        wanted = "a whole number" if batch == 1 else f"{batch} whole numbers, one per sample"
        if set(map(type, given)) == {int}:
            indices = given
        else:
            indices = [number for i in given if (number := as_whole(i)) is not None]
        if len(indices) < len(given):
            self._fail("index", self.index, wanted, TypeError)
        if len(indices) != batch:
            self._fail("index", self.index, wanted)
        return indices

    def _check_params(self, sizes: np.ndarray) -> None:
        assert self.params is not None
        if self.generator is not None or self.index is not None:
            name = "index" if self.generator is None else "generator"
            self._fail(name, getattr(self, name), "None where params is given")
        given = self.params.size
        if given.shape != sizes.shape or (given != sizes).any():
            raise ValueError(
                f"visops.transforms.{self.owner}: params is for images of heights and widths "
                f"{given.tolist()}, the images have {sizes.tolist()}; must be the same"
            )

    def _fail(
        self, name: str, value: Any, allowed: str, error: type[Exception] = ValueError
    ) -> NoReturn:
        raise error(f"visops.transforms.{self.owner}: {name} is {value!r}, must be {allowed}")


def as_whole(value: Any) -> int | None:
    """Return a whole number, be it Python's, NumPy's or a tensor's; None for anything else."""
    if isinstance(value, (Tensor, np.ndarray)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return None
    return int(value)
