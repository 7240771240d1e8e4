"""Seeds without an index, and data sets that pass the index: what repeats, and what must not."""

import copy
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info
from visops import transforms as T
from visops.transforms.chain.random import CallCounter, uniforms

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
IMAGE = torch.arange(900.0).reshape(1, 30, 30)


def chain(seed: int | None = 0) -> T.Compose:
    return T.Compose([T.RandomCrop(4)], seed=seed)


class Stock(Dataset[Tensor]):
    """A data set that knows nothing of indices and epochs."""

    def __init__(self, transform: T.Compose) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Tensor:
        return self.transform(IMAGE)  # type: ignore[no-any-return]


class Stream(IterableDataset[Any]):
    """Twelve images, dealt out to the workers in turn."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for i in range(first, 12, step):
            yield IMAGE, i


class Photos(Dataset[Any]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        return IMAGE, i


def loader(dataset: Dataset[Any], workers: int, persistent: bool = False) -> DataLoader[Any]:
    return DataLoader(
        dataset,
        batch_size=2,
        num_workers=workers,
        persistent_workers=persistent,
        multiprocessing_context="fork" if workers else None,
    )


def epochs(loading: DataLoader[Any], count: int = 2) -> list[Tensor]:
    return [torch.cat(list(loading)) for _ in range(count)]


def distinct(images: Tensor) -> int:
    return len({image.numpy().tobytes() for image in images})


def test_seed_alone_makes_calls_repeat_in_order() -> None:
    one, other = chain(), chain()
    state = torch.get_rng_state()
    results = torch.stack([one(IMAGE) for _ in range(8)])
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(7)
    assert torch.equal(torch.stack([other(IMAGE) for _ in range(8)]), results)
    assert distinct(results) > 5
    assert not torch.equal(torch.stack([chain(1)(IMAGE) for _ in range(8)]), results)


def test_samples_of_a_batch_and_an_index_draw_other_numbers() -> None:
    own = chain()
    batch = own(IMAGE.repeat(6, 1, 1, 1))
    indexed = own(IMAGE.repeat(6, 1, 1, 1), index=range(6))
    assert distinct(torch.cat((batch, indexed))) > 10


def test_generator_comes_before_the_seed() -> None:
    first = chain()(IMAGE, generator=torch.Generator().manual_seed(3))
    assert torch.equal(chain(None)(IMAGE, generator=torch.Generator().manual_seed(3)), first)


def test_calls_are_counted_anew_in_each_epoch() -> None:
    own, resumed = chain(), chain()
    first = [own(IMAGE, epoch=0) for _ in range(5)]
    second = [own(IMAGE, epoch=1) for _ in range(5)]
    assert not torch.equal(torch.stack(first), torch.stack(second))
    for image in second:
        assert torch.equal(resumed(IMAGE, epoch=1), image)


def test_numbers_of_calls_are_those_of_the_generator() -> None:
    """Draws of a seed must never change: the key of a call is written out here."""
    from numpy.random import Philox

    worker, epoch, number = 0, 4, 1
    bits = Philox(key=np.array([9, epoch], np.uint64), counter=[0, number, 0, 1 + worker])
    expected = uniforms(int(bits.random_raw()), 0, [0], 2)[0]
    own = T.Compose([T.RandomRotation(1.0), T.RandomRotation(1.0)], seed=9)
    own(IMAGE, epoch=epoch)
    params = own.make_params(IMAGE, epoch=epoch)
    angles = [float(step["angle"][0]) for step in params.steps]
    assert angles == pytest.approx((2.0 * expected - 1.0).tolist(), abs=1e-15)


def test_collate_counts_its_calls() -> None:
    own, again = chain(), chain()
    results = [own.collate([IMAGE, IMAGE]) for _ in range(3)]
    assert distinct(torch.cat(results)) == 6
    for result in results:
        assert torch.equal(again.collate([IMAGE, IMAGE]), result)


@pytest.mark.parametrize("persistent", [False, True])
def test_stock_data_sets_repeat_runs_but_not_epochs(persistent: bool) -> None:
    results = torch.cat(epochs(loader(Stock(chain()), 2, persistent)))
    assert distinct(results) > 20  # of 24: crops may coincide
    torch.manual_seed(5)  # not the loader's seeds decide
    again = torch.cat(epochs(loader(Stock(chain()), 2, persistent)))
    assert torch.equal(again, results)


def test_counts_are_shared_with_processes_and_with_nothing_else() -> None:
    counter = CallCounter()
    sent = pickle.loads(ForkingPickler.dumps(counter))
    copies = [copy.deepcopy(counter), pickle.loads(pickle.dumps(counter))]
    counter._starts[3] = 5
    assert sent._starts[3] == 5
    for own in copies:
        assert own._starts.is_shared()
        assert own._starts[3] == 0
        assert own.next(None) == (0, 0, 0)


def test_threads_never_share_a_number() -> None:
    counter = CallCounter()
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: counter.next(None)[2], range(2000)))
    assert sorted(numbers) == list(range(2000))


def test_a_seed_set_later_counts() -> None:
    own, other = chain(None), chain(5)
    own.seed = 5
    for _ in range(3):
        assert torch.equal(own(IMAGE), other(IMAGE))


def test_copies_go_on_where_the_chain_was() -> None:
    own = chain()
    own(IMAGE)
    copied = copy.deepcopy(own)
    assert torch.equal(copied(IMAGE), own(IMAGE))


@pytest.mark.parametrize("source", [Photos(), Stream()], ids=["map", "iterable"])
def test_indexed_samples_are_the_same_with_any_workers(source: Any) -> None:
    dataset = T.IndexedDataset(source, chain())
    assert isinstance(dataset, IterableDataset) == isinstance(source, IterableDataset)
    expected = torch.stack([chain()(IMAGE, index=i, epoch=3) for i in range(12)])
    dataset.set_epoch(3)
    for workers in (0, 2):
        found = torch.zeros_like(expected)
        for images, labels in loader(dataset, workers):
            found[labels] = images
        assert torch.equal(found, expected)


@pytest.mark.parametrize("source", [Photos(), Stream()], ids=["map", "iterable"])
def test_persistent_workers_see_the_epoch(source: Any) -> None:
    dataset = T.IndexedDataset(source, chain())
    loading = loader(dataset, 1, persistent=True)
    numbers: list[Any] = [torch.tensor(0), np.int64(7), 1]
    for epoch in numbers:
        dataset.set_epoch(epoch)
        assert dataset.epoch == int(epoch)
        images = torch.cat([images for images, _ in loading])
        expected = [chain()(IMAGE, index=i, epoch=int(epoch)) for i in range(12)]
        assert torch.equal(images, torch.stack(expected))


def test_indexed_dataset_reads_like_its_data_set() -> None:
    images = torch.rand(5, 1, 30, 30)
    dataset = T.IndexedDataset(TensorDataset(images, torch.arange(5)), chain())
    assert len(dataset) == 5
    last, label = dataset[-1]
    assert label == 4
    assert torch.equal(last, chain()(images[4], index=4))
    assert torch.equal(dataset[torch.tensor(4)][0], last)
    plain = T.IndexedDataset(list(images), chain())
    assert torch.equal(plain[4], last)
    stream: Any = T.IndexedDataset(iter(images), chain())
    assert torch.equal(next(iter(stream)), plain[0])
    with pytest.raises(IndexError):
        dataset[5]
    sent = pickle.loads(ForkingPickler.dumps(dataset))
    dataset.set_epoch(2)
    assert sent.epoch == 2
    assert torch.equal(sent[1][0], chain()(images[1], index=1, epoch=2))


def test_batches_are_read_at_once_where_the_data_set_can() -> None:
    class Batched(Photos):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [(IMAGE, -i) for i in indices]

    dataset = T.IndexedDataset(Batched(), chain())
    assert [label for _, label in dataset.__getitems__([2, 3])] == [-2, -3]
    assert torch.equal(dataset.__getitems__([3])[0][0], chain()(IMAGE, index=3))


def test_any_callable_gets_the_index_and_the_epoch() -> None:
    dataset = T.IndexedDataset(Photos(), lambda sample, index, epoch: (sample[1], index, epoch))
    dataset.set_epoch(8)
    assert dataset[3] == (3, 3, 8)


@pytest.mark.parametrize(
    ("dataset", "transform", "error", "message"),
    [
        (3, chain(), TypeError, "dataset is a int, must have __getitem__ or __iter__"),
        (Photos(), None, TypeError, "transform is a NoneType, must be a Compose with a seed"),
        (Photos(), chain(None), ValueError, "transform is a Compose without a seed"),
        (Photos(), T.RandomCrop(4), ValueError, "transform is a RandomCrop without a seed"),
    ],
)
def test_wrong_arguments_are_refused(
    dataset: Any, transform: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=rf"^visops\.transforms\.IndexedDataset: {message}"):
        T.IndexedDataset(dataset, transform)


def test_wrong_uses_are_refused() -> None:
    with pytest.raises(TypeError, match=r"set_epoch: epoch is 1\.5, must be a whole number"):
        T.IndexedDataset(Photos(), chain()).set_epoch(1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dataset is iterable and has no samples by index"):
        T.IndexedDataset(Stream(), chain())[0]
