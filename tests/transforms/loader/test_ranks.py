"""Ranks of a distributed run: whose samples they are, and as many batches for each."""

import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import RandomSampler, WeightedRandomSampler
from visops import transforms

from .photos import COUNT, FILES, equal
from .test_epochs import SAMPLES, Shards, crops, make, place

TINY = transforms.Compose([transforms.DecodeJpeg(), transforms.RandomCrop(8)], seed=3)


def numbers(batches: Any) -> list[int]:
    return [number for _, labels in batches for number in labels.tolist()]


def test_samples_that_pad_ranks_draw_again() -> None:
    loaders = [make(SAMPLES[:3], rank=rank, world_size=5) for rank in range(5)]
    found = [pair for loader in loaders for pair in crops(loader)]
    assert found == [(n % 3, place(n % 3, 0, n // 3)) for n in range(5)]


@pytest.fixture
def group() -> Iterator[None]:
    store = torch.distributed.HashStore()  # type: ignore[attr-defined]
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def be(rank: int) -> None:
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)

    return be


def test_ranks_are_those_of_the_process_group(two_ranks: Callable[[int], None]) -> None:
    for rank in range(2):
        two_ranks(rank)
        loader = make(shuffle=True)
        assert (loader.rank, loader.world_size) == (rank, 2)
        given = make(shuffle=True, rank=rank, world_size=2)
        assert crops(loader) == crops(given)
        assert len(crops(make(rank=0, world_size=1))) == COUNT
        assert numbers(make(sampler=[1, 2])) == [1, 2]
        with pytest.raises(ValueError, match="Loader: rank is None in a process group of 2, must"):
            make(Shards())
        assert len(crops(make(Shards(), rank=0, world_size=1))) == COUNT


def test_a_group_of_one(group: None) -> None:
    assert make().world_size == 1
    assert len(crops(make(Shards()))) == COUNT


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("way", ["drop_last", "rank", "sampler", "batches", "group"])
def test_damaged_samples_leave_batches_full(
    way: str, threads: int, two_ranks: Callable[[int], None]
) -> None:
    damaged = {2, 3, 4, 5, 9, 22}
    samples = [(b"damaged" if n in damaged else FILES[n], n) for n in range(COUNT)]
    options: Any = {
        "drop_last": {"drop_last": True},
        "rank": {"rank": 0, "world_size": 2},
        "sampler": {"sampler": range(COUNT), "drop_last": True},
        "batches": {"batch_sampler": [[0, 1], [2, 3], [22, 9]], "batch_size": None},
        "group": {"sampler": [0, 2, 9]},
    }[way]
    if way in ("batches", "group"):
        two_ranks(0)
    options = {"on_error": "skip", "threads": threads, "batch_size": 2, **options}
    loader = make(samples, TINY, **options)
    batches = list(loader)
    found = numbers(batches)
    if way == "rank":
        order = [*range(0, COUNT, 2)]
    else:
        order = {"batches": [0, 1, 2, 3, 22, 9], "group": [0, 2, 9]}.get(way, [*range(COUNT - 1)])
    expected = []
    for row in range(len(order)):
        rest = [*order[row:], *([22] if way == "sampler" else []), *order[:row]]
        expected.append(next(n for n in rest if n not in damaged))
    assert found == expected
    assert len(batches) == len(loader)
    assert {own.index for own in loader.stats().skipped} == damaged & set(order)
    images = [tuple(image.flatten()[:9].tolist()) for images, _ in batches for image in images]
    assert len(set(images)) > len(images) - 2  # each with draws of its own
    if way != "group":
        again = make(samples, TINY, **options)
        begun = iter(loader)
        next(begun)
        again.load_state_dict(loader.state_dict())
        again.set_epoch(1)
        assert crops(again) == crops(begun)


def test_damaged_samples_of_a_stream() -> None:
    class Files:
        def __iter__(self) -> Iterator[Any]:
            for n in range(10):
                yield b"damaged" if n in (1, 4, 5, 9) else FILES[n], n

    loader = make(Files(), TINY, 3, drop_last=True, on_error="skip")
    assert numbers(loader) == [0, 2, 2, 3, 3, 3, 6, 7, 8]
    with pytest.raises(ValueError, match=r"sample 4: .*is not a JPEG"):
        numbers(make(Files(), TINY, 2, drop_last=True, on_error="skip"))


def test_if_too_much_is_damaged_that_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from visops.transforms.loading import threads

    monkeypatch.setattr(threads, "_TRIES", 4)
    samples = [(b"damaged" if n > 1 else FILES[n], n) for n in range(COUNT)]
    with pytest.raises(ValueError, match=r"sample 2: .*is not a JPEG"):
        numbers(make(samples, TINY, 2, drop_last=True, on_error="skip"))


@pytest.mark.parametrize("seed", range(16))
def test_a_resumed_loader_goes_on_as_an_undisturbed_one(seed: int) -> None:
    """Whatever the order, the damage, the ranks, the epoch and the batch where it stops."""
    rng = random.Random(seed)
    damaged = set(rng.sample(range(COUNT), rng.choice([0, 0, 4])))
    samples = [(b"damaged" if n in damaged else FILES[n], n) for n in range(COUNT)]
    views = transforms.Views([TINY, [transforms.DecodeJpeg(), transforms.Resize((9, 9))]], seed=1)
    size, drop_last, own = rng.randint(1, 6), rng.random() < 0.5, rng.choice([TINY, views])
    orders: list[Callable[[], dict[str, Any]]] = [
        lambda: {"shuffle": True},
        lambda: {"shuffle": True, "rank": 1, "world_size": 2},
        lambda: {"sampler": RandomSampler(range(COUNT), generator=_seeded())},
        lambda: {"sampler": WeightedRandomSampler([1.0, 2.0] * 11, 30, generator=_seeded())},
        lambda: {"sampler": [3, 3, 1, 0, 3, 7, 9, 9]},
    ]
    order = rng.choice(orders)

    def loader() -> Any:
        options = {"on_error": "skip", "drop_last": drop_last, "threads": rng.randint(1, 4)}
        return make(samples, own, size, **order(), **options)

    whole, first, again = loader(), loader(), loader()
    count = len(whole)
    expected = [batch for _ in range(3) for batch in whole]
    stop = rng.randrange(2 * count)
    found: list[Any] = []
    for _ in range(1 + stop // count):
        for batch in first:
            found.append(batch)
            if len(found) == stop + 1:
                break
    again.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    while again.epoch < 3:
        found += again
    assert equal(found, expected)


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(9)
