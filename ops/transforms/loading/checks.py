"""Checks of a loader's arguments."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from torch import distributed, nn
from torch.utils.data import IterableDataset

from ..arguments import fail, whole
from ..chain.effects import Fusable
from ..chain.nesting import Container
from ..chain.source import as_whole
from ..compose import Compose
from .indexed_dataset import IndexedDataset

OWNER = "Loader"


# What arguments of torch's DataLoader are here.
OF_DATALOADER = {
    "num_workers": "use threads=",
    "collate_fn": "use collate=",
    "prefetch_factor": "use prefetch=",
    "generator": "use seed=",
    "pin_memory": "leave it out: where there is a CUDA device, batches are in pinned memory",
    "pin_memory_device": "use device=",
    "in_order": "leave it out: batches are in order",
    **dict.fromkeys(
        ("persistent_workers", "worker_init_fn", "multiprocessing_context", "timeout"),
        "leave it out: there are no worker processes",
    ),
}


def as_dataset(dataset: Any) -> Any:
    """Return torchvision's ``ImageFolder`` of a path, and anything else as it is."""
    if not isinstance(dataset, (str, os.PathLike)):
        return dataset
    if not os.path.isdir(dataset):
        raise FileNotFoundError(
            f"visops.transforms.{OWNER}: dataset is {os.fspath(dataset)!r}, and there is no such "
            "folder; must be a folder with one of images for each class, or a data set"
        )
    from torchvision.datasets import ImageFolder  # torchvision need not be installed

    return ImageFolder(dataset)


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
    if isinstance(dataset, Set):
        raise TypeError(
            f"visops.transforms.{OWNER}: {got}whose samples have another order in each process; "
            "must be a list, such as sorted(...)"
        )
    if isinstance(dataset, Iterator):
        raise TypeError(
            f"visops.transforms.{OWNER}: {got}an iterator, which is used up by one epoch; must "
            "be what it iterates over"
        )
    return True


def check_callables(chain: Any, collate: Any) -> None:
    """Check what transforms a sample, and what collates."""
    name = type(chain).__name__
    got = f"visops.transforms.{OWNER}: chain is a {name}, "
    if not callable(chain):
        raise TypeError(f"{got}must be a Compose")
    if not isinstance(chain, Compose):
        if isinstance(chain, (Fusable, Container)):
            raise TypeError(f"{got}must be a Compose: Compose([{name}(...)])")
        if takes_place(chain) is False:
            raise TypeError(
                f"{got}which takes no index= and epoch=, must be a Compose or another callable "
                "(sample, index=..., epoch=...); transforms of other packages may be in a Compose"
            )
        if getattr(chain, "seed", 0) is None:
            raise ValueError(f"{got}without a seed, must be given one")
    if collate is not None and not callable(collate):
        raise TypeError(
            f"visops.transforms.{OWNER}: collate is a {type(collate).__name__}, must be callable "
            "or None"
        )


def check_samplers(loader: Any, sampler: Any, batch_sampler: Any) -> None:
    """Check what chooses samples, and that nothing else of a loader's arguments does."""
    own, name = (sampler, "sampler") if batch_sampler is None else (batch_sampler, "batch_sampler")
    if own is None:
        return
    if not hasattr(own, "__iter__"):
        raise TypeError(
            f"visops.transforms.{OWNER}: {name} is a {type(own).__name__}, must be iterable"
        )
    if isinstance(own, Iterator):
        raise TypeError(
            f"visops.transforms.{OWNER}: {name} is an iterator, which is used up by one epoch; "
            "must be a sequence or a Sampler"
        )
    excluded = {"shuffle": loader.shuffle, "world_size": loader.world_size > 1}
    if own is batch_sampler:
        size = loader.batch_size is not None
        chosen = {"sampler": sampler is not None, "drop_last": loader.drop_last}
        excluded = {"batch_size": size, **excluded, **chosen}
    for other, given in excluded.items():
        if given:
            raise ValueError(
                f"visops.transforms.{OWNER}: {other} is given beside {name}, must be left out (the "
                f"{name} decides)"
            )


def takes_place(function: Callable[..., Any]) -> bool | None:
    """Return whether a callable takes `index` and `epoch`; None: it doesn't say."""
    try:
        called = function.forward if isinstance(function, nn.Module) else function
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):  # written in C
        return None
    if {"index", "epoch"} <= {own.name for own in parameters}:
        return True
    return None if any(own.kind is own.VAR_KEYWORD for own in parameters) else False


def check_state(state: Any, version: int, own: Mapping[str, Any]) -> None:
    """Check that a state is of a loader with the same sizes."""
    owner = OWNER + ".load_state_dict"
    if not isinstance(state, Mapping):
        raise TypeError(
            f"visops.transforms.{owner}: state is a {type(state).__name__}, must be what "
            "state_dict returned"
        )
    if state.get("version") != version:
        fail(owner, "state['version']", state.get("version"), str(version))
    missing = {"epoch", "batch", "seed", "random", "generators", *own} - set(state)
    if missing:
        raise ValueError(
            f"visops.transforms.{owner}: state has no {sorted(missing)[0]!r}, must be what "
            "state_dict returned"
        )
    for name, value in own.items():
        if state[name] != value:
            fail(owner, f"state[{name!r}]", state[name], f"{value!r}, as of this loader")


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


def process_group() -> tuple[int, int]:
    """Return this process's rank in torch's process group and their number: 0 and 1 without one."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def checked_ranks(
    rank: int | None, world_size: int | None, chosen: bool, streamed: bool
) -> tuple[int, int]:
    """Return this rank and their number: by default the process group's.

    `chosen`: by a sampler. `streamed`: the data set can only be iterated over.
    """
    if (rank is None) != (world_size is None):
        name = "rank" if rank is None else "world_size"
        other = "world_size" if rank is None else "rank"
        raise ValueError(f"visops.transforms.{OWNER}: {name} is None, must be given beside {other}")
    if rank is None or world_size is None:
        group = process_group()
        if streamed and group[1] > 1:
            raise ValueError(
                f"visops.transforms.{OWNER}: rank is None in a process group of {group[1]}, must "
                "be given, with world_size, for an iterable data set (rank=0, world_size=1 if it "
                "gives each process other samples by itself)"
            )
        return (0, 1) if chosen else group
    size = whole(OWNER, "world_size", world_size, 1, "a whole number >= 1")
    own = as_whole(rank)
    if own is None or not 0 <= own < size:
        fail(OWNER, "rank", rank, f"a whole number from 0 to {size - 1}")
    return own, size
