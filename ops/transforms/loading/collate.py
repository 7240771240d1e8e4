"""What a loader gives to a `collate` of the user's."""

from collections.abc import Callable, Sequence
from typing import Any

from ..chain.generators import drawing_apart
from .checks import takes_place

# A function of samples and their places in the data set.
Collate = Callable[[list[Any], Sequence[Any]], Any]


def with_numbers(collate: Callable[..., Any] | None, seed: int, epoch: int) -> Collate | None:
    """Return a function of samples and places; None: there is no `collate`.

    What draws at random gets places and epoch, if it takes them: a call's number would depend on
    which thread is the first. Torch's functions draw from a generator of the batch.
    """
    if collate is None:
        return None
    takes_numbers = _takes_numbers(collate)

    def collated(samples: list[Any], index: Sequence[Any]) -> Any:
        numbered = all(type(position) is int for position in index)  # not the keys of a data set
        with drawing_apart(seed, epoch, -2 - index[0] if numbered else -1):
            if not (numbered and takes_numbers):
                return collate(samples)
            return collate(samples, index=index, epoch=epoch)

    return collated


def _takes_numbers(collate: Callable[..., Any]) -> bool:
    owner = getattr(collate, "__self__", None)
    if getattr(owner, "seed", 0) is None:  # a transform without a seed draws from torch's generator
        return False
    return takes_place(collate) is True
