"""A data set whose samples are transformed by their position in it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from ..base import Transform
from ..chain.random import in_shared_memory
from ..chain.source import Repeat, as_whole, place_of, position_of


class IndexedDataset(Dataset[Any]):
    """Apply a transform to a data set's samples, with their index and the epoch.

    Draws are then a function of (seed, epoch, index): the same for any number of workers and
    processes, any order and any batch size. Where a sampler gives samples several times in an
    epoch, :class:`IndexedSampler` around it gives each time draws of its own. Nothing of the data
    set has to change: its attributes (``classes``, ``targets``) are this one's, and a slice gives a
    list of samples.

    Parameters
    ----------
    dataset : Dataset or IterableDataset, or any object with ``__getitem__`` or ``__iter__``
        Samples are as the transform takes them: ``(image, label)``, a dict, an image. Its own
        transform must not be this one. An object with both methods counts as a map, unless it is
        an IterableDataset.
    transform : Compose
        With a seed. Or any other callable, which gets ``(sample, index=index, epoch=epoch)``.

    Attributes
    ----------
    epoch : int
        0 until :meth:`set_epoch` sets another.

    Raises
    ------
    TypeError
        `dataset` or `transform` is something else.
    ValueError
        `transform` has no seed.

    Notes
    -----
    Samples of an iterable data set have no index of their own. Number n of worker w, of W workers,
    gets the index ``n * W + w``: the position in the whole, if the data set deals its samples out
    to the workers in turn. If it doesn't, draws are reproducible for the same number of workers.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> from visops import transforms
    >>> photos = TensorDataset(torch.rand(10, 3, 40, 50), torch.arange(10))
    >>> train = transforms.Compose([transforms.RandomResizedCrop(32)], seed=0)
    >>> dataset = transforms.IndexedDataset(photos, train)
    >>> loader = torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True)
    >>> for epoch in range(2):
    ...     dataset.set_epoch(epoch)
    ...     for images, labels in loader:
    ...         assert images.shape[1:] == (3, 32, 32)
    """

    def __new__(cls, dataset: Any = None, transform: Any = None) -> "IndexedDataset":
        # A DataLoader asks for the type to learn how to read a data set.
        iterable = isinstance(dataset, IterableDataset) or (
            hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__")
        )
        return super().__new__(_IndexedIterable if cls is IndexedDataset and iterable else cls)

    def __init__(self, dataset: Any, transform: Callable[..., Any]) -> None:
        if not hasattr(dataset, "__getitem__") and not hasattr(dataset, "__iter__"):
            raise TypeError(
                f"visops.transforms.IndexedDataset: dataset is a {type(dataset).__name__}, must "
                "have __getitem__ or __iter__"
            )
        if not callable(transform):
            raise TypeError(
                "visops.transforms.IndexedDataset: transform is a "
                f"{type(transform).__name__}, must be a Compose with a seed"
            )
        if isinstance(transform, Transform) or getattr(transform, "seed", 0) is None:
            raise ValueError(
                f"visops.transforms.IndexedDataset: transform is a {type(transform).__name__} "
                "without a seed, must be a Compose with one: Compose([...], seed=0)"
            )
        self.dataset = dataset
        self.transform = transform
        self._epoch = in_shared_memory(torch.zeros((), dtype=torch.int64, device="cpu"))

    @property
    def epoch(self) -> int:
        return int(self._epoch)

    def set_epoch(self, epoch: int | Tensor) -> None:
        """Set the epoch for the draws to come, in running workers as well.

        Call it before iterating over the loader: workers read ahead.
        """
        number = as_whole(epoch)
        if number is None:
            raise TypeError(
                f"visops.transforms.IndexedDataset.set_epoch: epoch is {epoch!r}, must be a whole "
                "number"
            )
        self._epoch.fill_(number)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        return self._transformed(self.dataset[place_of(index)], index)

    def __getattr__(self, name: str) -> Any:
        # What this doesn't have is the data set's: `classes`, `targets`, `coco`, ...
        return attribute_within(self, "dataset", name)

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """Return several samples; a DataLoader calls this with those of a batch."""
        read = getattr(self.dataset, "__getitems__", None)
        places = [place_of(index) for index in indices]
        samples = [self.dataset[i] for i in places] if read is None else read(places)
        return [self._transformed(s, i) for s, i in zip(samples, indices, strict=True)]

    def _transformed(self, sample: Any, index: Any) -> Any:
        position = position_of(index, self)
        return self.transform(sample, index=position, epoch=self.epoch)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._epoch = in_shared_memory(self._epoch)


class IndexedSampler:
    """Give each time that a sampler draws a sample other draws of the transform.

    Weighted samplers and repeated augmentation ask for a sample several times in an epoch; by its
    index alone, all of these would be the same crop. A sampler in this class gives an index that
    also says how often the sample came before in this epoch. :class:`IndexedDataset` reads it;
    :class:`Loader` puts its samplers into this class by itself.

    Parameters
    ----------
    sampler : iterable
        A `sampler`, which gives indices, or a `batch_sampler`, which gives lists of them. Other
        attributes, such as ``set_epoch``, are the sampler's.

    Raises
    ------
    TypeError
        `sampler` can't be iterated over.

    Notes
    -----
    The index of a sample that came n times before is ``index + n * 2**40``. What a transform that
    is no chain gets as `index` is this number, too.

    Where ranks share out the repeats of one sample, none of them sees the others': give each rank a
    chain with a seed of its own.

    Examples
    --------
    >>> from visops import transforms
    >>> sampler = transforms.IndexedSampler([3, 5, 3])
    >>> [index % 2**40 for index in sampler], [index // 2**40 for index in sampler]
    ([3, 5, 3], [0, 0, 1])
    """

    def __init__(self, sampler: Iterable[Any]) -> None:
        if not hasattr(sampler, "__iter__"):
            raise TypeError(
                f"visops.transforms.IndexedSampler: sampler is a {type(sampler).__name__}, must "
                "be iterable"
            )
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        seen: dict[int, int] = {}
        for drawn in self.sampler:
            if isinstance(drawn, (list, range)) or getattr(drawn, "ndim", 0) == 1:
                yield [counted(index, seen) for index in drawn]
            else:
                yield counted(drawn, seen)

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return attribute_within(self, "sampler", name)


def attribute_within(outer: Any, field: str, name: str) -> Any:
    """Return an attribute that an object lacks of what it holds in a field."""
    inner = outer.__dict__.get(field)  # not getattr, as copies ask before they have it
    if inner is None or (name.startswith("__") and name.endswith("__")):
        raise AttributeError(f"{type(outer).__name__!r} object has no attribute {name!r}")
    return getattr(inner, name)


def counted(index: Any, seen: dict[int, int]) -> Any:
    """Return an index that says how often it came before; a key of another type as it is."""
    place = index if type(index) is int else as_whole(index)
    if place is None:
        return index
    times = seen.get(place, 0)
    seen[place] = times + 1
    return Repeat(place, times) if times else index


class _IndexedIterable(IndexedDataset, IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        epoch = self.epoch
        for number, sample in enumerate(self.dataset):
            yield self.transform(sample, index=number * workers + worker, epoch=epoch)

    def __getitem__(self, index: Any) -> Any:
        raise TypeError(
            "visops.transforms.IndexedDataset: dataset is iterable and has no samples by index, "
            "must be iterated over"
        )

    __getitems__ = None  # type: ignore[assignment]
