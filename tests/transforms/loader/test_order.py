"""Which samples come in which batch: samplers, ranks, epochs, and resuming."""

import copy
import itertools
import pickle
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)
from torchvision.transforms import v2
from visops import transforms

from .photos import COUNT, FILES, chain, equal

SAMPLES = [(file, index) for index, file in enumerate(FILES)]
INDICES: Any = range(COUNT)
TINY = transforms.Compose([transforms.DecodeJpeg(), transforms.CenterCrop(8)], seed=3)


def labels(loader: Any) -> list[list[int]]:
    return [batch[1].tolist() for batch in loader]


def flat(batches: list[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(batches))


def make(samples: Any = SAMPLES, own: Any = TINY, batch_size: Any = 5, **options: Any) -> Any:
    return transforms.Loader(samples, own, batch_size, **{"threads": 3, **options})


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_in_order(drop_last: bool) -> None:
    loader = make(drop_last=drop_last)
    other: Any = DataLoader(INDICES, 5, drop_last=drop_last)
    assert labels(loader) == [batch.tolist() for batch in other]
    assert len(loader) == len(other)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("world_size", [1, 2, 3, 30])
def test_ranks_have_the_samples_of_a_distributed_sampler(
    world_size: int, shuffle: bool, drop_last: bool
) -> None:
    for rank in {0, 1, world_size - 1} & set(range(world_size)):
        options: Any = {"shuffle": shuffle, "drop_last": drop_last}
        loader = make(rank=rank, world_size=world_size, seed=11, **options)
        sampler: Any = DistributedSampler(INDICES, world_size, rank, seed=11, **options)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            own = list(sampler)
            batches = [own[i : i + 5] for i in range(0, len(own), 5)]
            if drop_last and batches and len(batches[-1]) < 5:
                batches.pop()
            assert len(loader) == len(batches)
            assert labels(loader) == batches


def test_ranks_without_padding_share_every_sample_once() -> None:
    loaders = [make(rank=r, world_size=4, pad=False, shuffle=True, seed=0) for r in range(4)]
    found = [flat(labels(loader)) for loader in loaders]
    assert sorted(flat(found)) == list(range(COUNT))
    assert [len(own) for own in found] == [6, 6, 6, 5]
    assert [len(loader) for loader in loaders] == [2, 2, 2, 1]


def test_shuffling_is_by_seed_and_epoch() -> None:
    loader = make(shuffle=True)
    epochs = [flat(labels(loader)) for _ in range(2)]
    assert all(sorted(own) == list(range(COUNT)) for own in epochs)
    assert epochs[0] != epochs[1] != list(range(COUNT))
    again = make(shuffle=True, threads=1)
    again.set_epoch(1)
    assert flat(labels(again)) == epochs[1]
    assert flat(labels(make(shuffle=True, seed=99))) != epochs[0]


def test_samplers() -> None:
    assert labels(make(sampler=range(20, 10, -3))) == [[20, 17, 14, 11]]
    assert labels(make(sampler=range(7), drop_last=True)) == [[0, 1, 2, 3, 4]]
    batches = [[3, 1], [2], [9, 8, 7]]
    loader = make(batch_size=None, batch_sampler=batches)
    assert labels(loader) == batches
    assert len(loader) == 3
    sampler = BatchSampler(SequentialSampler(range(7)), 3, False)
    assert labels(make(batch_size=None, batch_sampler=sampler)) == list(sampler)
    distributed: Any = DistributedSampler(INDICES, 2, 1, seed=4)
    loader = make(sampler=distributed)
    assert flat(labels(loader)) == list(distributed)
    distributed.set_epoch(1)
    assert flat(labels(loader)) == list(distributed)  # which the loader's epoch has set, too


def test_keys_that_are_no_numbers_need_a_chain_that_draws_without() -> None:
    samples = {"a": SAMPLES[0], "b": SAMPLES[1]}

    def names(sample: Any, index: str, epoch: int) -> tuple[str, int]:
        return index, sample[1] + epoch

    (batch,) = make(samples, names, 2, sampler=["b", "a"])
    assert equal(batch, [("b", "a"), torch.tensor([1, 0])])
    with pytest.raises(TypeError, match="index is 'b', must be a whole number"):
        list(make(samples, TINY, 2, sampler=["b", "a"]))


@pytest.mark.parametrize(
    ("options", "stop"),
    [
        ({}, 5),
        ({"shuffle": True}, 0),
        ({"shuffle": True}, 5),
        ({"shuffle": True, "rank": 1, "world_size": 2, "seed": 8}, 1),
        ({"sampler": RandomSampler(range(COUNT))}, 3),
        ({"sampler": RandomSampler(range(COUNT))}, 0),
        ({"sampler": WeightedRandomSampler([1.0] * COUNT, COUNT)}, 1),
        (
            {
                "batch_size": None,
                "batch_sampler": BatchSampler(RandomSampler(range(COUNT)), 5, False),
            },
            3,
        ),
    ],
)
def test_an_epoch_continues_where_it_was(options: dict[str, Any], stop: int) -> None:
    own = chain(seed=None)
    torch.manual_seed(1)
    whole = [list(make(own=own, **options))]
    torch.manual_seed(1)
    first = make(own=own, **options)
    list(first) if stop == 5 and len(first) < 5 else None
    iterator = iter(first)
    begun = [next(iterator) for _ in range(min(stop, len(first)))]
    state = pickle.loads(pickle.dumps(first.state_dict()))
    del iterator
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = make(own=own, threads=1, **options)
    second.load_state_dict(state)
    assert second.state_dict()["batch"] == state["batch"]
    rest = list(second)
    assert torch.equal(torch.get_rng_state(), before)
    if state["epoch"] == 0:
        assert equal(begun + rest, whole[0])
    assert second.epoch == state["epoch"] + 1


def test_state_between_epochs() -> None:
    loader = make(shuffle=True)
    assert loader.state_dict()["epoch"] == 0
    list(loader)
    state = loader.state_dict()
    assert (state["epoch"], state["batch"]) == (1, 0)
    second, third = labels(loader), labels(loader)
    again = make(shuffle=True)
    again.load_state_dict(state)
    again.set_epoch(1)  # as a loop over epochs does: it is where it was
    assert labels(again) == second
    assert labels(again) == third
    again.load_state_dict({**state, "batch": 2})
    again.set_epoch(1)
    assert labels(again) == second[2:]
    again.load_state_dict({**state, "batch": 2})
    again.set_epoch(4)
    assert len(labels(again)) == 5


BAD: list[tuple[dict[str, Any], type, str]] = [
    ({"batch_size": None}, TypeError, "batch_size is None, must be a whole number >= 1"),
    ({"batch_size": 0}, ValueError, "batch_size is 0, must be a whole number >= 1"),
    ({"threads": 0}, ValueError, "threads is 0, must be a whole number >= 1"),
    ({"prefetch": -1}, ValueError, "prefetch is -1, must be a whole number >= 1"),
    ({"on_error": "ignore"}, ValueError, "on_error is 'ignore', must be 'raise' or 'skip'"),
    ({"seed": 0.5}, ValueError, "seed is 0.5, must be a whole number or None"),
    ({"rank": 0}, ValueError, "world_size is None, must be given beside rank"),
    ({"world_size": 2}, ValueError, "rank is None, must be given beside world_size"),
    ({"rank": 2, "world_size": 2}, ValueError, "rank is 2, must be a whole number from 0 to 1"),
    ({"sampler": [1], "shuffle": True}, ValueError, "shuffle is given beside sampler"),
    ({"sampler": [1], "rank": 0, "world_size": 2}, ValueError, "world_size is given beside"),
    ({"sampler": iter([1])}, TypeError, "sampler is an iterator, which is used up"),
    ({"sampler": 3}, TypeError, "sampler is a int, must be iterable"),
    ({"batch_sampler": [[1]]}, ValueError, "batch_size is given beside batch_sampler"),
    ({"collate": 3}, TypeError, "collate is a int, must be callable or None"),
    ({"samples": iter([])}, TypeError, "dataset is a list_iterator, an iterator, which is used up"),
    (
        {"samples": transforms.IndexedDataset(SAMPLES, TINY)},
        TypeError,
        "dataset is an IndexedDataset, must be the data set in it",
    ),
    ({"own": "chain"}, TypeError, "chain is a str, must be a Compose"),
    (
        {"own": transforms.CenterCrop(8)},
        TypeError,
        r"chain is a CenterCrop, must be a Compose: Compose\(\[CenterCrop",
    ),
    (
        {"own": v2.Compose([v2.CenterCrop(8)])},
        TypeError,
        "chain is a Compose, which takes no index= and epoch=, must be a Compose or",
    ),
    (
        {"own": transforms.Views([transforms.CenterCrop(8)])},
        ValueError,
        "chain is a Views, without a seed, must be given one",
    ),
    (
        {"own": chain(seed=None), "shuffle": True, "rank": 0, "world_size": 2},
        ValueError,
        "seed is None, must be a whole number, the same in all ranks, to shuffle",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD)
def test_bad_arguments(options: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=f"^visops.transforms.Loader: {message}"):
        make(**options)


def test_a_batch_sampler_gives_lists() -> None:
    with pytest.raises(TypeError, match="Loader: batch_sampler gave 4, must give the indices"):
        list(transforms.Loader(SAMPLES, TINY, batch_sampler=[[1], 4]))


def test_bad_states() -> None:
    loader = make()
    state = loader.state_dict()
    with pytest.raises(ValueError, match="version'] is 9, must be 1"):
        loader.load_state_dict({**state, "version": 9})
    with pytest.raises(ValueError, match=r"state\['batch_size'\] is 7, must be 5, as of this"):
        loader.load_state_dict({**state, "batch_size": 7})
    with pytest.raises(ValueError, match=rf"state\['length'\] is 3, must be {COUNT}, as of this"):
        loader.load_state_dict({**state, "length": 3})
    with pytest.raises(ValueError, match="state has no 'seed', must be what state_dict returned"):
        loader.load_state_dict({name: state[name] for name in state if name != "seed"})
    with pytest.raises(TypeError, match="state is a NoneType, must be what state_dict returned"):
        loader.load_state_dict(None)
    with pytest.raises(ValueError, match="set_epoch: epoch is 'a', must be a whole number"):
        loader.set_epoch("a")


def test_copies_have_the_same_batches() -> None:
    loader = make(shuffle=True, own=chain())
    first = list(loader)
    for other in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader)):
        other.set_epoch(0)
        assert equal(list(other), first)


def test_an_empty_data_set() -> None:
    assert list(make([])) == []
    assert len(make([])) == 0
