"""Batches from files, by threads of one process."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, Never

import torch
from typing_extensions import TypeVar  # that of typing takes a default from Python 3.13 on

from ..arguments import fail, flag, one_of, reject_names, whole
from ..chain.compile import slow_passes
from ..chain.random import fresh_key
from ..chain.source import as_whole
from ..classes.views import Views
from ..compose import Compose
from .batch import Batch, Blocks, Collate, Collating, Transfer, with_numbers
from .checks import (
    OF_DATALOADER,
    OWNER,
    as_dataset,
    check_callables,
    check_samplers,
    check_state,
    checked_ranks,
    count,
    is_stream,
    process_group,
    usable_cpus,
)
from .epochs import Epochs, EpochSampler, Order, OwnOrder, Progress, SampledOrder, begun
from .iteration import Begun, Iteration, stats_of
from .on_device import OnDevice
from .samples import Samples, draws_apart
from .several import CollatingViews, SampleViews
from .statistics import LoaderStats
from .stream import Stream, StreamOrder
from .threads import Work

_HOLDS = "holds it, but for pixels"


def steps_of(loader: Any) -> list[str]:
    """Return what a loader does with a sample, line by line."""
    name = type(loader.dataset).__name__
    method = "__iter__" if loader.is_stream else "__getitem__"
    lines = [f"  read: {name}.{method}, which holds the interpreter's lock but for its I/O"]
    chain = loader.chain
    if not draws_apart(chain):
        lines.append(
            "  all but decoding in the thread that asks for batches: some of it may draw from "
            "Python's or NumPy's generators"
        )
    if loader.augment_on == "device":
        names = _names(chain.transforms)
        lines.append(f"  decode: without the lock; on {loader.device}, by batches: {names}")
    elif isinstance(chain, Compose):
        lines += _passes(chain)
    elif isinstance(chain, Views):
        slow = [reason for own in chain.chains for _, reason in slow_passes(own)]
        lock = f"{_HOLDS}: {slow[0]}" if slow else "without the lock"
        once = ", each file decoded once" if chain.decodes_once else ""
        lines.append(f"  {len(chain.chains)} views{once}: {lock}")
    else:
        lines.append(f"  {type(chain).__name__}: holds it")
    if loader.collate is not None:
        lines.append("  collate: holds it")
    return lines


def _passes(chain: Compose) -> list[str]:
    slow = {id(part): reason for part, reason in slow_passes(chain)}
    lines = []
    for number, part in enumerate(chain.passes, start=1):
        reason = slow.get(id(part))
        lock = "without the lock" if reason is None else f"{_HOLDS}: {reason}"
        lines.append(f"  pass {number}: {_names(part.transforms)}: {lock}")
    return lines


def _names(transforms: Sequence[Any]) -> str:
    return ", ".join(type(own).__name__ for own in transforms)


_Batch = TypeVar("_Batch", default=Any)
_STATE = 1  # version of state_dict


def _as_device(device: Any) -> torch.device:
    if device is not None and not isinstance(device, (str, int, torch.device)):
        fail(OWNER, "device", device, "a torch.device, its name or None", TypeError)
    return torch.device("cpu" if device is None else device)


class Loader(Generic[_Batch]):
    """Load, transform and collate a data set's samples, by threads of this process.

    It iterates over batches as ``torch.utils.data.DataLoader`` does, and no process is started, no
    sample pickled, no data set copied. If the chain begins with :class:`DecodeJpeg` and its
    transforms run in C++, one call does all that is to be done for a file, from reading it to
    storing the image in its place of the batch, without the interpreter's lock. Other chains run in
    the same threads and hold it longer: ``print(loader)`` says what does.

    Parameters
    ----------
    dataset : map-style or iterable data set, or path
        A folder with one of photos for each class is read as torchvision's ``ImageFolder``; else
        anything with ``__getitem__`` and ``__len__``: a list of paths will do. Of a data set that
        can only be iterated over, such as WebDataset's, one thread at a time reads the next sample,
        whose number is then its index; resuming reads again and drops. Its samples are as
        the chain takes them. A chain that begins with ``DecodeJpeg`` also takes paths (str or
        PathLike) in the places of files: the sample itself, an entry ``"image"`` of a dict, the
        first path of a tuple. Masks under their names in a dict may be paths or content of PNG
        files. ``__getitem__`` runs in the loader's threads, several at a time. torchvision's
        ``ImageFolder`` and ``CocoDetection``, without transforms, are asked for paths instead of
        photos that they decode.
    chain : Compose
        Or another callable, such as :class:`Views`, which gets ``(sample, index=..., epoch=...)``.
    batch_size : int
        Samples per batch. Left out with `batch_sampler`.
    shuffle : bool
        Draw another order for each epoch. Of an iterable data set, the next sample is drawn among
        `buffer_size`.
    buffer_size : int
        See `shuffle`.
    seed : int, optional
        Seeds the order; and the chain's draws, if it has no seed of its own. By default the
        chain's; without that, a number from torch's generator, drawn when iteration first begins.
    sampler : iterable, optional
        Indices of an epoch's samples, instead of `shuffle`.
    batch_sampler : iterable, optional
        Lists of indices, one for each batch.
    drop_last : bool
        Leave out the last batch if it is smaller; with ranks, also the samples by which some would
        have more than others.
    threads : int, optional
        By default one for each CPU that this process may use.
    prefetch : int, optional
        Batches that may be begun, or ready, beyond those that were handed over. With the size of a
        batch, it bounds memory. By default two, or more if they don't give each thread two samples.
    rank, world_size : int, optional
        Load only this rank's share: the samples that ``DistributedSampler`` gives it. By default
        those of torch's process group, if there is one and no sampler; ``rank=0, world_size=1``
        loads everything in every process. For an iterable data set they must be given then.
    pad : bool
        With ranks and without `drop_last`: repeat the first samples at the end, so that all ranks
        have as many. False: every sample is in one rank, as an evaluation wants it.
    device : torch.device or str, optional
        Copy batches there, on a stream of their own, as soon as they are made. By default they stay
        on the CPU, in pinned memory where there is a CUDA device.
    augment_on : {"cpu", "device"}
        Where the chain, which must be a :class:`Compose`, changes images. On the CPU, threads
        transform sample by sample, and finished batches are copied. On `device`, threads only
        decode; what the chain reads of the photos, bytes of all sizes, is copied in one block, and
        one call transforms the batch: for a machine whose CPUs have no time for it. Boxes and masks
        move on the CPU. Draws are the same.
    collate : callable, optional
        Makes a batch of a list of transformed samples. By default what ``Compose.collate`` returns.
        If it has parameters `index` and `epoch`, as :meth:`Mosaic.collate` has, it is given the
        samples' places in the data set and the epoch, so that it draws the same whatever the
        threads.
    on_error : {"raise", "skip"}
        What becomes of a sample that can't be read or decoded: its error is raised when its batch
        is due, with its index and path; or it is left out, its batch is smaller, and
        ``stats().skipped`` lists it. With `drop_last`, and in a distributed run unless `pad` is
        False, batches stay full, and all ranks have as many: the next sample of the order that can
        be loaded takes its place, with draws of its own; of a stream, the next of the batch. Errors
        of the chain, and of a stream, are always raised. If no sample of an epoch, or none of the
        thousand that come next, can be loaded, the first one's error is raised.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong, or two exclude each other.

    Notes
    -----
    A sample's draws follow from seed, epoch and index, as with :class:`IndexedDataset`, and from
    how often it came before in the epoch (:class:`IndexedSampler`): batches have the same bytes for
    any number of threads, and after a resume. Epochs count from 0, one for each iteration that
    hands something over, unless :meth:`set_epoch` says which one comes next, here or at the
    attribute ``sampler``, or at the sampler or stream that was given and has an attribute `epoch`.

    A loop that is left early, an error, or the collection of the iterator ends its threads. In a
    process that was forked, begin a new iteration.

    The memory of a batch is used again once no tensor over it is left.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from PIL import Image
    >>> from visops import transforms
    >>> def photo(side):
    ...     file = io.BytesIO()
    ...     Image.fromarray(np.full((side, 80, 3), side, np.uint8)).save(file, "JPEG")
    ...     return file.getvalue()
    >>> samples = [(photo(60 + i), i % 2) for i in range(10)]  # or paths
    >>> chain = transforms.Compose(
    ...     [transforms.DecodeJpeg(), transforms.RandomResizedCrop(32)], seed=0
    ... )
    >>> loader = transforms.Loader(samples, chain, batch_size=4, shuffle=True)
    >>> len(loader)
    3
    >>> [(tuple(images.shape), len(labels)) for images, labels in loader]
    [((4, 3, 32, 32), 4), ((4, 3, 32, 32), 4), ((2, 3, 32, 32), 2)]
    """

    def __init__(
        self,
        dataset: Any,
        chain: Callable[..., Any],
        batch_size: int | None = None,
        *,
        shuffle: bool = False,
        buffer_size: int = 1000,
        seed: int | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        drop_last: bool = False,
        threads: int | None = None,
        prefetch: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        pad: bool = True,
        device: torch.device | str | None = None,
        augment_on: Literal["cpu", "device"] = "cpu",
        collate: Callable[..., _Batch] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        **others: Never,
    ) -> None:
        reject_names(OWNER, others, OF_DATALOADER)
        dataset = as_dataset(dataset)
        self.is_stream = is_stream(dataset, sampler is not None or batch_sampler is not None)
        check_callables(chain, collate)
        one_of(OWNER, "on_error", on_error, ("raise", "skip"))
        one_of(OWNER, "augment_on", augment_on, ("cpu", "device"))
        if augment_on == "device" and not isinstance(chain, Compose):
            raise TypeError(
                f"visops.transforms.{OWNER}: chain is a {type(chain).__name__}, must be a Compose "
                "for augment_on='device'"
            )
        self.dataset, self.chain, self.augment_on = dataset, chain, augment_on
        self.shuffle, self.pad = flag(OWNER, "shuffle", shuffle), flag(OWNER, "pad", pad)
        self.drop_last = flag(OWNER, "drop_last", drop_last)
        self.buffer_size = count("buffer_size", buffer_size, 1000)
        self._sampler, self.batch_sampler = sampler, batch_sampler
        self.cpus = usable_cpus()
        self.threads = count("threads", threads, self.cpus)
        self.prefetch = count("prefetch", prefetch, 2)
        self._samples_ahead = 2 * self.threads if prefetch is None else 0
        chosen = sampler is not None or batch_sampler is not None
        self.rank, self.world_size = checked_ranks(rank, world_size, chosen, self.is_stream)
        self.device = _as_device(device)
        torch.empty(0, device=self.device)  # an unavailable one is an error here
        self.collate, self.on_error = collate, on_error
        self.seed = None if seed is None else as_whole(seed)
        if seed is not None and self.seed is None:
            fail(OWNER, "seed", seed, "a whole number or None")
        self.batch_size = batch_size
        if batch_sampler is None:
            self.batch_size = whole(OWNER, "batch_size", batch_size, 1, "a whole number >= 1")
        check_samplers(self, sampler, batch_sampler)
        self.order: Order = self._order()
        own_seed = self.seed if self.seed is not None else getattr(chain, "seed", None)
        if self.world_size > 1 and self.shuffle and own_seed is None:
            fail(OWNER, "seed", None, "a whole number, the same in all ranks, to shuffle")
        self._epochs = Epochs(dataset if self.is_stream else self._given_sampler)
        self._drawn: int | None = None  # a seed from torch's generator
        self._was_read = False  # whether a sample was, to learn what its data set draws from
        self._blocks: Blocks | None = None
        self._work: Work | None = (
            None  # of the latest iteration; not the iterator, which must be collected
        )

    def _order(self) -> Order:
        own = self._given_sampler
        if own is None:
            assert self.batch_size is not None
            size, ranks = self.batch_size, (self.rank, self.world_size, self.pad)
            if self.is_stream:
                return StreamOrder(self.dataset, size, self.drop_last, *ranks)
            return OwnOrder(len(self.dataset), size, self.shuffle, self.drop_last, *ranks)
        return SampledOrder(own, self.batch_size, self.drop_last)

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return len(self.order)

    def __iter__(self) -> Iteration[_Batch]:
        return Iteration(self._begin, self.threads)

    def _begin(self) -> Begun:
        """Begin an epoch."""
        self._settle()
        progress = self._epochs.begin(self._seed)
        chain_seed = getattr(self.chain, "seed", None)
        draws = progress.seed if chain_seed is None else chain_seed
        on_device = self.augment_on == "device"
        source = self._source(progress)
        samples = (
            SampleViews(source, self.chain, draws, progress.epoch)
            if isinstance(self.chain, Views)
            else Samples(source, self.chain, draws, progress.epoch, transforms=not on_device)
        )
        if self._blocks is None:
            most = max(self.prefetch, self._samples_ahead) + 2
            self._blocks = Blocks(most, pinned=torch.cuda.is_available())
        transfer = Transfer(self.device)
        collate = with_numbers(self.collate, progress.seed, progress.epoch)
        finish: Callable[[Batch], Any]
        if on_device:
            own = (draws, progress.epoch, collate, transfer, self._blocks)
            finish = OnDevice(self.chain, *own)  # type: ignore[arg-type]
        else:
            finish = self._collating_to(transfer, collate)
        batches = self._batches(progress)
        if samples.draws and not self._was_read:
            first, batches = begun(batches)
            if first:
                samples.try_reading(first[0])
            self._was_read = True
        work = Work(
            batches,
            progress.batch,
            samples,
            finish,
            self._blocks,
            self.prefetch,
            self._samples_ahead,
            self.on_error == "skip",
            self._refills(),
            self.drop_last,
        )
        self._work = work
        return work, progress, transfer.receive

    def _refills(self) -> bool:
        """Return whether other samples take the places of damaged ones."""
        even = self.pad and max(self.world_size, process_group()[1]) > 1
        return self.on_error == "skip" and (self.drop_last or even)

    def _collating_to(self, transfer: Transfer, collate: Collate | None) -> Callable[[Batch], Any]:
        """Return what collates transformed samples, and begins to copy them."""
        chains = self.chain.chains if isinstance(self.chain, Views) else [self.chain]
        each = [Collating.of(own, collate) for own in chains]
        several = isinstance(self.chain, Views)
        collating = CollatingViews(each, collate) if several else each[0]
        return lambda batch: transfer.send(collating(batch))

    def _source(self, progress: Progress) -> Any:
        """Return what samples are read from by index."""
        order = self.order
        if not isinstance(order, StreamOrder):
            return self.dataset
        first = progress.batch * order.batch_size * order.world_size
        buffer = self.buffer_size if self.shuffle else 0
        return Stream(order, first, buffer, progress.seed + progress.epoch)

    def _batches(self, progress: Progress) -> Iterator[Any]:
        """Return the batches that are left of an epoch."""
        epoch, seed = progress.epoch, progress.seed
        refilled = self._refills() and not self.is_stream  # by any sample of the epoch
        first = 0 if refilled else progress.batch
        if self._given_sampler is None:
            return self.order.batches(seed, epoch, first)
        return self._epochs.asked(progress, lambda: self.order.batches(seed, epoch, first))

    def _seed(self) -> int:
        for seed in (self.seed, getattr(self.chain, "seed", None), self._drawn):
            if seed is not None:
                return int(seed)
        self._drawn = fresh_key(None)
        return self._drawn

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration loads."""
        return self._epochs.next

    @property
    def sampler(self) -> EpochSampler:
        """What trainers call ``set_epoch`` of; all else of it is the `sampler` that was given."""
        return EpochSampler(self._sampler, self.set_epoch)

    @property
    def multiprocessing_context(self) -> None:
        """There is none, as there are no workers: who asks would make a ``DataLoader`` of this."""
        raise TypeError(
            f"visops.transforms.{OWNER}: there are no workers, so no DataLoader can be made of it, "
            "as accelerate.skip_first_batches does; to skip batches, must be given "
            "load_state_dict(state), with what state_dict returned"
        )

    @property
    def _given_sampler(self) -> Any:
        return self._sampler if self.batch_sampler is None else self.batch_sampler

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration loads; those after it count on from there.

        An iteration chooses its epoch when its first batch is asked for. The epoch that a sampler
        or a stream was set to, as their attribute `epoch` tells, counts as well.
        """
        number = as_whole(epoch)
        if number is None:
            fail(OWNER + ".set_epoch", "epoch", epoch, "a whole number")
        self._epochs.set(number)

    def state_dict(self) -> dict[str, Any]:
        """Return where the latest iteration is: after the last batch that it has handed over.

        After the last batch of an epoch, that is the beginning of the next epoch.
        """
        self._settle()
        own = self._epochs.now(self._seed)
        return {"version": _STATE, **own.state(), **self._identity()}

    def _settle(self) -> None:
        """End the latest epoch if all its batches are handed over; let its sampler end anyway.

        The sampler's own generator goes on from there, however far threads have read ahead.
        """
        last, work = self._epochs.progress, self._work
        if last is None or work is None or last.ended:
            return
        try:
            count = len(self)
        except TypeError:  # nobody knows
            return
        if last.batch >= count:
            last.ended = self.is_stream or work.exhaust()
        elif work.stopped and self._epochs.drawn_ahead:
            work.drain(count + 1)

    def _identity(self) -> dict[str, Any]:
        """Return what a state and the loader that takes it over have in common."""
        length = None if self.is_stream else len(self.dataset)
        return {"batch_size": self.batch_size, "world_size": self.world_size, "length": length}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration continue where another loader's was.

        Data set, order and chain must be the same, and so must the size of batches and the number
        of ranks; lengths and sizes are checked. Samplers must give their indices in the same order
        again: those with a seed, or torch's, which draw by its generator or their own.
        """
        check_state(state, _STATE, self._identity())
        self._drawn = state["seed"]
        names = ("epoch", "seed", "batch", "random", "generators")
        self._epochs.resume(Progress(*(state[name] for name in names)))

    def stats(self) -> LoaderStats:
        """Return images per second and where the time goes, of the latest iteration.

        Examples
        --------
        >>> import torch
        >>> from visops import transforms
        >>> chain = transforms.Compose([transforms.CenterCrop(8)], seed=0)
        >>> images = [torch.zeros(3, 16, 16)] * 5
        >>> loader = transforms.Loader(images, chain, batch_size=5, threads=2)
        >>> for batch in loader:
        ...     pass
        >>> loader.stats().images
        5
        """
        if self._work is None:
            raise RuntimeError(
                f"visops.transforms.{OWNER}.stats: nothing was loaded yet, must be called during "
                "or after an iteration"
            )
        return stats_of(self._work, self.cpus)

    def __repr__(self) -> str:
        try:
            batches = f", {len(self)} batches"
        except TypeError:
            batches = ""
        size = "" if self.batch_size is None else f" of {self.batch_size}"
        samples = f"{len(self.dataset)} samples" if hasattr(self.dataset, "__len__") else "samples"
        head = f"{samples}{batches}{size}, {self.threads} threads"
        return "\n".join([f"Loader({head}, prefetch={self.prefetch}", *steps_of(self), ")"])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_work": None, "_blocks": None}
