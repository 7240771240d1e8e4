"""Checks of a loader's arguments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset

from ..arguments import fail, whole
from ..engine.source import as_whole
from ..indexed_dataset import IndexedDataset

__all__ = ["OWNER", "checked_ranks", "count", "is_stream", "usable_cpus"]

OWNER = "Loader"


def is_stream(dataset: Any, has_sampler: bool) -> bool:
    """Check a data set, and return whether it can only be iterated over."""
    if isinstance(dataset, IndexedDataset):
        raise TypeError(
            f"visops.transforms.{OWNER}: dataset is an IndexedDataset, must be the data set in "
            "it: the loader passes the index itself"
        )
    got = f"dataset is a {type(dataset).__name__}, "
    # torch's IterableDataset inherits a __getitem__ that raises.
    if hasattr(dataset, "__getitem__") and not isinstance(dataset, IterableDataset):
        if has_sampler or hasattr(dataset, "__len__"):
            return False
        raise TypeError(f"visops.transforms.{OWNER}: {got}must have __getitem__ and __len__")
    if not hasattr(dataset, "__iter__"):
        raise TypeError(
            f"visops.transforms.{OWNER}: {got}must have __getitem__ and __len__, or __iter__"
        )
    if has_sampler:
        raise TypeError(f"visops.transforms.{OWNER}: {got}whose samples no sampler can choose")
    if isinstance(dataset, Iterator):
        raise TypeError(
            f"visops.transforms.{OWNER}: {got}an iterator, which is used up by one epoch; must "
            "be what it iterates over"
        )
    return True


def count(name: str, value: int | None, default: int) -> int:
    """Return a number of at least 1, or the default for None."""
    if value is None:
        return default
    return whole(OWNER, name, value, 1, "a whole number >= 1")


def usable_cpus() -> int:
    """Return how many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def checked_ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return this rank and their number."""
    if (rank is None) != (world_size is None):
        name = "rank" if rank is None else "world_size"
        other = "world_size" if rank is None else "rank"
        raise ValueError(f"visops.transforms.{OWNER}: {name} is None, must be given beside {other}")
    if rank is None or world_size is None:
        return 0, 1
    size = whole(OWNER, "world_size", world_size, 1, "a whole number >= 1")
    own = as_whole(rank)
    if own is None or not 0 <= own < size:
        fail(OWNER, "rank", rank, f"a whole number from 0 to {size - 1}")
    return own, size
