"""Which epoch is loaded under samplers and trainers, and what repeats draw."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    WeightedRandomSampler,
)
from visops import transforms

from .photos import COUNT

PHOTO = torch.arange(3 * 40 * 40, dtype=torch.float32).reshape(3, 40, 40)
SAMPLES = [(PHOTO, index) for index in range(COUNT)]
CROP = transforms.Compose([transforms.RandomCrop(8)], seed=4)
Batch = tuple[torch.Tensor, torch.Tensor]


def make(samples: Any = SAMPLES, own: Any = CROP, batch_size: Any = 5, **options: Any) -> Any:
    return transforms.Loader(samples, own, batch_size, **{"threads": 3, **options})


def crops(batches: Any) -> list[tuple[int, float]]:
    """Each sample's number, and what its crop begins with."""
    pairs = (
        (image, label)
        for images, labels in batches
        for image, label in zip(images, labels, strict=True)
    )
    return [(int(label), float(image[0, 0, 0])) for image, label in pairs]


def place(index: int, epoch: int, times: int = 0) -> float:
    return float(CROP(PHOTO, index=index + times * 2**40, epoch=epoch)[0, 0, 0])


# What is drawn again


REPEATS: dict[str, Callable[[], dict[str, Any]]] = {
    "sampler": lambda: {"sampler": [3, 7, 3, 3, 7, 1, 3], "batch_size": 5},
    "batches": lambda: {"batch_sampler": [[3, 7, 3], (3, 7), [1, 3]], "batch_size": None},
    "weights": lambda: {
        "sampler": WeightedRandomSampler([1.0] * 4, 40, generator=torch.Generator().manual_seed(0))
    },
}


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("kind", REPEATS)
def test_repeats_have_draws_of_their_own(kind: str, threads: int) -> None:
    loader = make(**REPEATS[kind](), threads=threads)
    for epoch in range(2):
        seen: dict[int, int] = {}
        for number, value in crops(loader):
            assert value == place(number, epoch, seen.get(number, 0))
            seen[number] = seen.get(number, 0) + 1
        assert max(seen.values()) > 2


def test_other_callables_and_collates_get_the_repeat() -> None:
    views = transforms.Views([CROP, CROP], seed=0)
    loader = make(own=views, sampler=[2, 2], batch_size=2)
    one, two = views((PHOTO, 2), index=2), views((PHOTO, 2), index=2 + 2**40)
    ((images, labels),) = loader
    assert labels.tolist() == [2, 2]
    for found, (first, _), (second, _) in zip(images, one, two, strict=True):
        assert torch.equal(found, torch.stack([first, second]))
    places: list[Any] = []

    def collate(samples: Any, *, index: Any, epoch: int) -> Any:
        places.extend(index)
        return samples

    list(make(sampler=[2, 2, -1], batch_size=3, collate=collate))
    assert places == [2, 2 + 2**40, COUNT - 1]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batches", [False, True])
def test_an_indexed_sampler_tells_repeats_apart(batches: bool, workers: int) -> None:
    order = [3, 7, 3, 3]
    own: Any = BatchSampler(order, 2, False) if batches else order  # type: ignore[arg-type]
    sampler = transforms.IndexedSampler(own)
    options: Any = {"batch_sampler" if batches else "sampler": sampler}
    dataset = transforms.IndexedDataset(SAMPLES, CROP)
    loader: Any = DataLoader(dataset, num_workers=workers, **options)
    expected = [(3, place(3, 0)), (7, place(7, 0)), (3, place(3, 0, 1)), (3, place(3, 0, 2))]
    for _ in range(2):
        assert crops(loader) == expected
    assert pickle.loads(pickle.dumps(list(sampler))) == list(sampler)
    assert dataset[3][0][0, 0, 0] == place(3, 0)


def test_an_indexed_sampler_is_like_its_sampler() -> None:
    own: Any = DistributedSampler(range(COUNT), 2, 1)  # type: ignore[arg-type]
    sampler = transforms.IndexedSampler(own)
    sampler.set_epoch(3)
    assert (own.epoch, len(sampler)) == (3, len(own))
    assert list(transforms.IndexedSampler(["a", "a"])) == ["a", "a"]
    with pytest.raises(TypeError, match="IndexedSampler: sampler is a int, must be iterable"):
        transforms.IndexedSampler(3)  # type: ignore[arg-type]


# Whose epoch it is


class Shards:
    """A stream whose order follows from its epoch."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        for number in range(COUNT):
            yield PHOTO, (number + self.epoch) % COUNT


def _distributed() -> Any:
    return DistributedSampler(range(COUNT), 2, 0, seed=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["sampler", "batch sampler", "stream"])
def test_an_epoch_that_was_set_wins(kind: str) -> None:
    own = Shards() if kind == "stream" else _distributed()
    if kind == "stream":
        loader = make(own)
    elif kind == "sampler":
        loader = make(sampler=own)
    else:
        loader = make(batch_sampler=BatchSampler(own, 5, False), batch_size=None)

    def expected(epoch: int) -> list[tuple[int, float]]:
        if kind == "stream":
            return [((n + epoch) % COUNT, place(n, epoch)) for n in range(COUNT)]
        other = _distributed()
        other.set_epoch(epoch)
        return [(n, place(n, epoch)) for n in other]

    for epoch in (5, 7, 2):
        own.set_epoch(epoch)
        assert loader.epoch == epoch
        assert crops(loader) == expected(epoch)
        assert own.epoch == epoch
    assert crops(loader) == expected(3)  # counts on
    loader.set_epoch(9)
    assert crops(loader) == expected(9)
    assert own.epoch == 9
    loader.sampler.set_epoch(4)
    assert crops(loader) == expected(4)
    own.set_epoch(6)
    again = make(own) if kind == "stream" else make(sampler=own)
    assert crops(again) == expected(6)


def test_an_iteration_that_gives_nothing_does_not_count() -> None:
    loader = make(shuffle=True)
    first = [crops(loader) for _ in range(3)]
    again = make(shuffle=True)
    for epoch in range(3):
        iter(again)
        batches = iter(again)
        assert again.epoch == epoch
        assert crops(batches) == first[epoch]


def test_an_epoch_that_gave_nothing_is_tried_again() -> None:
    samples: list[Any] = [None, *SAMPLES[1:]]
    loader = make(samples, shuffle=True, batch_size=COUNT)
    with pytest.raises(TypeError):
        next(iter(loader))
    samples[0] = SAMPLES[0]
    assert loader.epoch == 0
    assert crops(loader) == crops(make(shuffle=True, batch_size=COUNT))
    assert loader.epoch == 1


# Trainers: the order in which they call


class Lightning:
    """The calls of lightning.pytorch.Trainer.fit 2.6 with a loader, and its checkpoints."""

    def __init__(self, loader: Any, state: Any = None, processed: int = 0) -> None:
        self.loader, self.processed, self.seen = loader, processed, []  # type: ignore[var-annotated]
        if state is not None:
            loader.load_state_dict(state)
        self.batches, self.resumed = iter(loader), state is not None  # setup_data
        self.limit = len(loader)

    def _set_epoch(self) -> None:
        batch_sampler = getattr(self.loader.batch_sampler, "sampler", None)
        for sampler in (self.loader.sampler, batch_sampler):
            set_epoch = getattr(sampler, "set_epoch", None)
            if callable(set_epoch):
                set_epoch(self.processed)

    def epoch(self, stop: int | None = None, done: int = 0) -> dict[str, Any]:
        """Train one epoch, of which so many batches are done; stop after a batch, or at its end."""
        self._set_epoch()
        if self.processed > 0 and not self.resumed:
            self.batches = iter(self.loader)
        self.resumed = False
        for number in range(done, self.limit):
            self.seen.append(crops([next(self.batches)]))
            if number + 1 == stop:
                return self.loader.state_dict()  # type: ignore[no-any-return]
        self.processed += 1
        return self.loader.state_dict()  # type: ignore[no-any-return]


SAMPLERS: dict[str, Callable[[], dict[str, Any]]] = {
    "shuffle": lambda: {"shuffle": True},
    "random": lambda: {"sampler": RandomSampler(range(COUNT))},
    "generator": lambda: {
        "sampler": RandomSampler(range(COUNT), generator=torch.Generator().manual_seed(5))
    },
    "replacing": lambda: {
        "sampler": RandomSampler(
            range(COUNT), replacement=True, generator=torch.Generator().manual_seed(5)
        )
    },
    "batches": lambda: {
        "batch_size": None,
        "batch_sampler": BatchSampler(
            RandomSampler(range(COUNT), generator=torch.Generator().manual_seed(5)), 5, False
        ),
    },
    "distributed": lambda: {"sampler": _distributed()},
    "no seed": lambda: {"shuffle": True, "own": transforms.Compose([transforms.RandomCrop(8)])},
}


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("stop", [2, "last step", "end", "end without its state"])
def test_a_resumed_run_trains_what_an_undisturbed_one_does(kind: str, stop: int | str) -> None:
    if stop == "end without its state" and kind not in ("shuffle", "distributed"):
        pytest.skip("Lightning loads no state of a loader at the end of an epoch")
    torch.manual_seed(7)
    whole = Lightning(make(**SAMPLERS[kind]()))
    for _ in range(4):
        whole.epoch()

    torch.manual_seed(7)
    loader = make(**SAMPLERS[kind]())
    first = Lightning(loader)
    first.epoch()
    state: Any = first.epoch(
        None if str(stop)[:3] == "end" else len(loader) if stop == "last step" else int(stop)
    )
    done = len(first.seen) - len(loader)
    over = done == len(loader)

    torch.manual_seed(7 if kind == "random" else 8)
    again = make(**SAMPLERS[kind]())
    state = pickle.loads(pickle.dumps(state))
    if stop == "end without its state":
        state = None
    second = Lightning(again, state, processed=2 if over else 1)
    if not over:
        second.epoch(done=done)
    epochs = 2 if kind != "random" else 1 - (not over)  # whose generator is the user's
    for _ in range(epochs):
        second.epoch()
    found = first.seen + second.seen
    assert found == whole.seen[: len(found)]
    assert again.epoch == second.processed


def test_epochs_after_a_resume_keep_a_seed_that_was_drawn() -> None:
    own = transforms.Compose([transforms.RandomCrop(8)])
    loader = make(own=own, shuffle=True)
    whole = [crops(loader) for _ in range(3)]
    loader.set_epoch(0)
    batches = iter(loader)
    next(batches)
    again = make(own=own, shuffle=True)
    again.load_state_dict(loader.state_dict())
    assert [crops(again) for _ in range(3)] == [whole[0][5:], *whole[1:]]


def test_the_way_of_hugging_face() -> None:
    """Its trainer asks for `set_epoch`, a length and an iterator, and goes through epochs again."""
    whole = make(shuffle=True)
    expected = [crops(whole) for _ in range(3)]
    loader = make(shuffle=True)
    for _ in range(1):  # done already, before a resume
        for _batch in loader:
            break
    for epoch in range(1, 3):
        loader.set_epoch(epoch)
        assert len(loader) == 5
        batches = iter(loader)
        assert crops(next(batches) for _ in range(len(loader))) == expected[epoch]


def test_the_way_of_accelerate() -> None:
    """It goes on with a stream one batch ahead, and sets epochs at what samplers there are."""
    whole = make(Shards())
    expected = [crops(whole) for _ in range(3)]
    stream = Shards()
    loader = make(stream)
    for epoch in range(3):
        loader.dataset.set_epoch(epoch)
        batches = iter(loader)
        found, current = [], next(batches)
        for following in batches:
            found.append(current)
            current = following
        assert crops([*found, current]) == expected[epoch]


@pytest.mark.parametrize("samples", [SAMPLES, Shards()], ids=["list", "stream"])
def test_no_data_loader_is_made_of_it(samples: Any) -> None:
    """As accelerate's `skip_first_batches` does, which would lose the chain."""
    loader = make(samples)
    assert not hasattr(loader, "worker_init_fn")  # Lightning asks for it
    with pytest.raises(TypeError, match=r"no workers, so .* must be given load_state_dict\(state"):
        {name: getattr(loader, name, None) for name in ("num_workers", "multiprocessing_context")}
