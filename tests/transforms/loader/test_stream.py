"""Iterable data sets: read one sample after another, loaded by several threads."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from bad_input import check
from torch.utils.data import DistributedSampler, IterableDataset
from visops import transforms

from transforms.loader.photos import COUNT, FILES, chain, equal

RANKS = (1, 2, 3)


class Files(IterableDataset):  # type: ignore[type-arg]
    """Photos and their numbers, in order."""

    def __init__(self, count: int = COUNT, fails_at: int | None = None) -> None:
        self.count, self.fails_at = count, fails_at
        self.read, self.epochs = 0, []  # type: ignore[var-annotated]

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def __iter__(self) -> Iterator[Any]:
        for index in range(self.count):
            if index == self.fails_at:
                raise RuntimeError("shard 3 ends early")
            self.read += 1
            yield FILES[index % COUNT], index


class Sized(Files):
    def __len__(self) -> int:
        return self.count


def numbers(loader: transforms.Loader) -> list[list[int]]:
    return [labels.tolist() for _, labels in loader]


def in_order(loader: transforms.Loader) -> list[int]:
    return [number for batch in numbers(loader) for number in batch]


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_batches_are_those_of_a_list(threads: int) -> None:
    options: dict[str, Any] = {"batch_size": 5, "threads": threads}
    listed = [(FILES[i], i) for i in range(COUNT)]
    streamed = transforms.Loader(Files(), chain(), **options)
    for _ in range(2):  # epochs
        list(streamed)
    assert streamed.dataset.epochs == [0, 1]
    mapped = transforms.Loader(listed, chain(), **options)
    mapped.set_epoch(1)
    streamed.set_epoch(1)
    assert equal(list(streamed), list(mapped))
    dropped = transforms.Loader(Files(), chain(), drop_last=True, **options)
    assert numbers(dropped) == [list(range(i, i + 5)) for i in range(0, 20, 5)]


def test_lengths() -> None:
    for count in (0, 1, 5, 23):
        for world in RANKS:
            for rank in range(world):
                for drop in (False, True):
                    for pad in (False, True):
                        loader = transforms.Loader(
                            Sized(count),
                            chain(),
                            4,
                            drop_last=drop,
                            rank=rank,
                            world_size=world,
                            pad=pad,
                            threads=2,
                        )
                        assert len(loader) == len(numbers(loader))
    with pytest.raises(TypeError):
        len(transforms.Loader(Files(), chain(), 4))
    assert repr(transforms.Loader(Files(), chain(), 4)).startswith("Loader(samples of 4, ")


@pytest.mark.parametrize("count", [0, 1, 2, 5, 23, 24])
@pytest.mark.parametrize("world", RANKS)
def test_ranks_share_as_distributed_samplers_do(world: int, count: int) -> None:
    def share(rank: int, **options: Any) -> list[int]:
        loader = transforms.Loader(
            Files(count), chain(), 2, rank=rank, world_size=world, threads=3, **options
        )
        return in_order(loader)

    for rank in range(world):
        assert share(rank, pad=False) == list(range(rank, count, world))
        if count > 0:
            numbered: Any = range(count)
            padded: Any = DistributedSampler(numbered, world, rank, shuffle=False)
            assert share(rank) == list(padded)
        even = [i for i in range(rank, count, world) if i < count // world * world]
        assert share(rank, drop_last=True) == even[: len(even) // 2 * 2]


def test_shuffling_draws_from_a_buffer() -> None:
    def order(epoch: int, buffer: int, threads: int = 3, count: int = 100) -> list[int]:
        loader = transforms.Loader(
            Files(count), chain(), 8, shuffle=True, buffer_size=buffer, threads=threads
        )
        loader.set_epoch(epoch)
        return in_order(loader)

    first = order(0, 20)
    assert sorted(first) == list(range(100))
    assert first == order(0, 20, threads=1)
    assert first != order(1, 20)
    assert first != list(range(100))
    assert all(number < place + 20 + 1 for place, number in enumerate(first))
    assert order(0, 1) == list(range(100))
    # Any of the buffer may come first, as often as the others.
    counts = Counter(order(epoch, 5, threads=1, count=6)[0] for epoch in range(200))
    assert set(counts) == set(range(5))
    assert min(counts.values()) > 20


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("world", [1, 2])
def test_resuming_continues_in_the_epoch(world: int, shuffle: bool) -> None:
    def loader() -> transforms.Loader:
        return transforms.Loader(
            Files(), chain(), 3, shuffle=shuffle, buffer_size=7, rank=0, world_size=world, threads=3
        )

    whole = loader()
    list(whole)
    batches = iter(whole)
    next(batches)
    next(batches)
    state = whole.state_dict()
    rest = list(batches)
    again = loader()
    again.load_state_dict(state)
    assert equal(list(again), rest)
    assert len(rest) > 0


def test_errors_of_the_data_set_come_in_their_turn() -> None:
    loader = transforms.Loader(Files(fails_at=13), chain(), 4, threads=3)
    batches = iter(loader)
    seen = [next(batches)[1].tolist() for _ in range(3)]
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    with pytest.raises(RuntimeError, match="shard 3 ends early") as caught:
        next(batches)
    assert "visops.transforms.Loader: sample 13" in caught.value.__notes__
    # More than one sample is gone with it.
    skipping = transforms.Loader(Files(fails_at=13), chain(), 4, threads=3, on_error="skip")
    with pytest.raises(RuntimeError, match="shard 3 ends early"):
        list(skipping)
    for rank in range(2):  # each gets it once
        own = transforms.Loader(Files(fails_at=13), chain(), 4, rank=rank, world_size=2)
        with pytest.raises(RuntimeError, match="shard 3"):
            list(own)


def test_reading_ahead_is_bounded() -> None:
    dataset = Files(10_000)
    batches = iter(transforms.Loader(dataset, chain(), 4, threads=3, prefetch=2))
    next(batches)
    work: Any = batches.work
    while len(work.open) < 2 or not all(batch.ready for batch in work.open.values()):
        time.sleep(0.001)
    assert dataset.read == 4 * (1 + 2)
    del batches


def test_other_samples_and_chains() -> None:
    """Plain iterables, dicts, and chains without files."""

    class Pairs:
        def __iter__(self) -> Iterator[Any]:
            return ({"image": torch.full((3, 8, 8), float(i)), "label": i} for i in range(5))

    flips = transforms.Compose([transforms.RandomHorizontalFlip()], seed=1)
    found = list(transforms.Loader(Pairs(), flips, 2))
    assert [batch["label"].tolist() for batch in found] == [[0, 1], [2, 3], [4]]
    assert [len(batch["image"]) for batch in found] == [2, 2, 1]


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (iter([1]), {}, "dataset is a list_iterator, an iterator, which is used up by one epoch"),
    (
        {"a.jpg"},
        {},
        "dataset is a set, whose samples have another order in each process; must be a",
    ),
    (3, {}, "dataset is a int, must have __getitem__ and __len__, or __iter__"),
    (Files(), {"sampler": [1]}, "dataset is a Files, whose samples no sampler can choose"),
]


@pytest.mark.parametrize(("dataset", "options", "message"), BAD)
def test_bad_input(dataset: Any, options: dict[str, Any], message: str) -> None:
    check(
        TypeError,
        "transforms.Loader: " + message,
        lambda: transforms.Loader(dataset, chain(), 4, **options),
    )
    check(
        ValueError,
        "transforms.Loader: buffer_size is 0, must be a whole number >= 1",
        lambda: transforms.Loader(Files(), chain(), 4, buffer_size=0),
    )
