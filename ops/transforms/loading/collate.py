"""What a loader gives to a `collate` of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .checks import takes_place

__all__ = ["Collate", "with_numbers"]

# A function of samples and their places in the data set.
Collate = Callable[[list[Any], Sequence[Any]], Any]


def with_numbers(collate: Callable[..., Any] | None, epoch: int) -> Collate | None:
    """Return a function of samples and places; None: there is no `collate`.

    What draws at random gets places and epoch, if it takes them: a call's number would depend on
    which thread is the first.
    """
    if collate is None:
        return None
    if not _takes_numbers(collate):
        return lambda samples, _: collate(samples)

    def collated(samples: list[Any], index: Sequence[Any]) -> Any:
        if not all(type(position) is int for position in index):  # keys of a data set
            return collate(samples)
        return collate(samples, index=index, epoch=epoch)

    return collated


def _takes_numbers(collate: Callable[..., Any]) -> bool:
    owner = getattr(collate, "__self__", None)
    if getattr(owner, "seed", 0) is None:  # a transform without a seed draws from torch's generator
        return False
    return takes_place(collate) is True
