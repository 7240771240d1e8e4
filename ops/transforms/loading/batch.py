"""Batches while their samples are loaded, and what becomes of these."""

import dataclasses
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._native import lend
from ..chain.operator_calls import reject_sizes
from ..chain.options import OutputTypes
from ..chain.random import drawing_apart
from ..sample.batches import Split, batch_leaves, split_samples
from ..sample.files import Encoded
from ..sample.leaf import AS_THEY_ARE, Leaf, Reading
from ..sample.split import Rebuild, split_sample
from .checks import takes_place

# Memory of batches, and their way to a device.
#
# NOTE on reuse. Fresh pages are zeroed by the system when they are touched first: for batches of 64
# images that takes as long as decoding a few of them. A batch is therefore a tensor over memory of
# a pool. It holds a NumPy view of it, which is collected when the last tensor over that memory is,
# be it a slice that a user kept; then the memory goes back. Where there is a GPU, torch's own
# allocator of pinned memory does the same, and also knows of copies that still run.
#
# NOTE on copies. The thread that finishes a batch copies it, so copies overlap with loading and
# with what the consumer's stream computes. The consumer's stream waits for the copy, not the CPU;
# and memory of the batch is not given to another before that stream is done with it.


class Blocks:
    """A pool of memory for batches.

    Parameters
    ----------
    most : int
        How many blocks are kept while they are unused.
    pinned : bool
        Whether to take page-locked memory from torch.
    """

    def __init__(self, most: int, pinned: bool) -> None:
        self.pinned = pinned
        self._free: deque[np.ndarray] = deque(maxlen=most)

    def __call__(
        self, shape: tuple[int, ...], dtype: torch.dtype, memory_format: torch.memory_format
    ) -> Tensor:
        """Return an uninitialised batch [B, C, H, W]."""
        last = memory_format is torch.channels_last
        stored = (shape[0], *shape[2:], shape[1]) if last else shape
        if self.pinned:
            block = torch.empty(stored, dtype=dtype, device="cpu", pin_memory=True)
        else:
            size = math.prod(shape) * dtype.itemsize
            block = self._memory(size).view(dtype).view(stored)
        return block.permute(0, 3, 1, 2) if last else block

    def _memory(self, size: int) -> Tensor:
        return torch.from_numpy(lend(self._take(size), size, self._free.append))

    def _take(self, size: int) -> np.ndarray:
        while True:
            try:
                owner = self._free.pop()
            except IndexError:
                # Linux gives NumPy's large arrays huge pages, which are touched sooner.
                return np.empty(size, np.uint8)
            if size <= owner.size <= 4 * size + 4096:
                return owner


@dataclasses.dataclass(slots=True)
class Sent:
    """A batch on its way, and the event that says that it has arrived."""

    value: Any
    event: Any
    source: Any  # pinned memory stays as it is until then


class Transfer:
    """Sends batches to a device, and receives them.

    Parameters
    ----------
    device : torch.device
        The CPU: nothing is copied.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream: Any = torch.cuda.Stream(device) if device.type == "cuda" else None

    def send(self, value: Any) -> Any:
        """Begin to copy; called by the loader's threads."""
        if self.device.type == "cpu":
            return value
        return self.run(lambda: (moved(value, self.device), value))

    def run(self, make: Callable[[], tuple[Any, Any]]) -> Any:
        """Begin what makes a batch on the device: the batch, and what it is made of."""
        if self.stream is None:
            return make()[0]
        with torch.cuda.stream(self.stream):
            value, source = make()
            event = torch.cuda.Event()
            event.record(self.stream)
        return Sent(value, event, source)

    def receive(self, sent: Any) -> Any:
        """Return a batch to the consumer, whose current stream waits for it."""
        if not isinstance(sent, Sent):
            return sent
        current = torch.cuda.current_stream(self.device)
        current.wait_event(sent.event)
        for tensor in _tensors(sent.value):
            tensor.record_stream(current)
        return sent.value


def moved(value: Any, device: torch.device) -> Any:
    """Return a batch whose tensors are on a device; what is no tensor stays as it is."""
    return _mapped(value, lambda tensor: tensor.to(device, non_blocking=True))


def _tensors(value: Any) -> list[Tensor]:
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    _mapped(value, note)
    return found


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(inner, change) for inner in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(inner, change) for inner in value)
    return value


# A function of samples and their places in the data set.
Collate = Callable[[list[Any], Sequence[Any]], Any]


def with_numbers(collate: Callable[..., Any] | None, seed: int, epoch: int) -> Collate | None:
    """Return a function of samples and places; None: there is no `collate`.

    What draws at random gets places and epoch, if it takes them: a call's number would depend on
    which thread is the first. Torch's functions draw from a generator of the batch.
    """
    if collate is None:
        return None
    takes_numbers = _takes_numbers(collate)

    def collated(samples: list[Any], index: Sequence[Any]) -> Any:
        numbered = all(type(position) is int for position in index)  # not the keys of a data set
        with drawing_apart(seed, epoch, -2 - index[0] if numbered else -1):
            if not (numbered and takes_numbers):
                return collate(samples)
            return collate(samples, index=index, epoch=epoch)

    return collated


def _takes_numbers(collate: Callable[..., Any]) -> bool:
    owner = getattr(collate, "__self__", None)
    if getattr(owner, "seed", 0) is None:  # a transform without a seed draws from torch's generator
        return False
    return takes_place(collate) is True


@dataclass(slots=True)
class Item:
    """A loaded sample.

    Attributes
    ----------
    leaves : list of Leaf
        Its values after the chain. Those of a `plain` sample stand for those of all such samples.
    rebuild : callable
        Puts them together.
    plain : sequence, optional
        The values of a sample that has nothing to move but its image, one for each leaf.
    image : Tensor or Encoded, optional
        ``[C, H, W]``, in the batch's memory or of its own. Of a sample that is still to be
        transformed: its file, read.
    result : Any
        Without leaves: what a transform that is no chain has returned. Of a sample that is still to
        be transformed: a function that returns it as it was read.
    split : callable, optional
        Splits `result`, a sample that a chain has transformed in one call, if leaves are needed.
    index : Any
        What its draws depend on: its place in the data set.
    """

    leaves: list[Leaf]
    rebuild: Rebuild | None
    plain: Sequence[Any] | None = None
    image: Tensor | Encoded | None = None
    result: Any = None
    index: Any = None
    split: Callable[[], Split] | None = None

    def divide(self) -> None:
        """Split a sample that is whole."""
        if self.split is not None:
            (self.leaves, self.rebuild), self.split, self.result = self.split(), None, None

    def own_leaves(self) -> list[Leaf]:
        """Return leaves that hold this sample's values."""
        leaves = self.leaves
        if self.plain is not None:
            pairs = zip(leaves, self.plain, strict=True)
            leaves = [dataclasses.replace(leaf, value=own, like=own) for leaf, own in pairs]
        for index, leaf in enumerate(leaves):
            if leaf.kind == "image" and self.image is not None:
                layout = "CHW" if isinstance(self.image, Tensor) else "HWC"
                leaves[index] = dataclasses.replace(leaf, value=self.image, layout=layout)
        return leaves


class Batch:
    """The samples of one batch, which threads load.

    Attributes
    ----------
    number : int
        The batch's place in the epoch.
    indices : sequence
        The samples' indices in the data set.
    items : list of Item
        None: not loaded, or skipped.
    missing : int
        Samples that are still to be loaded; guarded by the lock of the threads' work.
    error : tuple of int and BaseException, optional
        The first by place: which, and what.
    is_short : bool
        Whether an iterable data set has ended before it was full.
    skipped : list of tuple of int and BaseException
        Rows that could not be loaded, and why.
    samples : list, optional
        What was read of a stream, which gives nothing twice, for rows that could not be loaded.
    """

    def __init__(self, number: int, indices: Sequence[Any], blocks: Blocks) -> None:
        self.number, self.indices, self.blocks = number, indices, blocks
        self.items: list[Item | None] = [None] * len(indices)
        self.begun = 0
        self.missing = len(indices)
        self.error: tuple[int, BaseException] | None = None
        self.result: Any = None
        self.ready = self.is_short = False
        self.block: Tensor | None = None
        self.skipped: list[tuple[int, BaseException]] = []
        self.samples: list[Any] | None = None
        self._lock = threading.Lock()
        self._views: list[Batch] = []

    def views(self, count: int) -> "list[Batch]":
        """Return a batch for each of several views of its samples: their items and memory."""
        with self._lock:
            if not self._views:
                self._views = [Batch(self.number, self.indices, self.blocks) for _ in range(count)]
        return self._views

    def slot(
        self,
        row: int,
        shape: tuple[int, int, int],
        dtype: torch.dtype,
        memory_format: torch.memory_format,
    ) -> Tensor | None:
        """Return where a sample's image goes, or None if the batch's others are not like it."""
        block = self.block
        if block is None:
            with self._lock:
                if self.block is None:
                    self.block = self.blocks((len(self.items), *shape), dtype, memory_format)
                block = self.block
        fits = block.shape[1:] == shape and block.dtype == dtype
        return block[row] if fits else None

    def slot_or_own(
        self,
        row: int,
        shape: tuple[int, int, int],
        dtype: torch.dtype,
        memory_format: torch.memory_format,
    ) -> Tensor:
        """Return where a sample's image goes: memory of its own if it is not like the others."""
        slot = self.slot(row, shape, dtype, memory_format)
        return torch.empty(shape, dtype=dtype, device="cpu") if slot is None else slot

    def fail(self, row: int, error: BaseException) -> None:
        """Note a sample's error."""
        with self._lock:
            if self.error is None or row < self.error[0]:
                self.error = row, error


@dataclass(frozen=True)
class Collating:
    """How samples become a batch.

    Attributes
    ----------
    output_types : OutputTypes
        The types of the results.
    collate : callable, optional
        That of the user, of samples and their places; None: as ``Compose.collate``.
    keys : mapping, optional
        The chain's, for what its samples hold.
    reading : Reading
        Likewise.
    """

    output_types: OutputTypes
    collate: Collate | None
    keys: Mapping[str, Sequence[str]] | None
    reading: Reading

    @classmethod
    def of(cls, chain: Any, collate: Collate | None) -> "Collating":
        """Return how samples of a chain, or of another callable, become a batch."""
        output_types, reading = (
            getattr(chain, "output_types", OutputTypes()),
            getattr(chain, "reading", AS_THEY_ARE),
        )
        return cls(output_types, collate, getattr(chain, "keys", None), reading)

    def __call__(self, batch: Batch) -> Any:
        """Return a batch of the samples that were not skipped; there is at least one."""
        items = [item for item in batch.items if item is not None]
        if self.collate is not None:
            return self.collate([self.alone(item) for item in items], [i.index for i in items])
        if items[0].rebuild is None and items[0].split is None:
            return torch.utils.data.default_collate([item.result for item in items])
        leaves, rebuild = self.together(batch)
        return rebuild(leaves)

    def together(self, batch: Batch) -> tuple[list[Leaf], Rebuild]:
        """Return the samples' leaves as those of a batch, and what puts them together."""
        rows = [index for index, item in enumerate(batch.items) if item is not None]
        items = [item for item in batch.items if item is not None]
        for item in items:
            item.divide()
        first = items[0]
        rebuild: Rebuild = first.rebuild  # type: ignore[assignment]
        if first.plain is not None and all(item.leaves is first.leaves for item in items):
            leaves = self._plain(items)
        else:
            own = [item.own_leaves() for item in items]
            if any(len(each) != len(own[0]) for each in own):
                split = self._split_again(items, own)
                own, rebuild = [each for each, _ in split], split[0][1]
            leaves = batch_leaves(own, stack=False)
        for leaf in leaves:
            if leaf.kind == "image" and items[0].image is not None:
                leaf.value, leaf.layout = _stacked(batch, rows, items), "CHW"
            elif leaf.kind == "image":
                leaf.value = torch.stack(leaf.value)
        self.output_types.apply(leaves)
        return leaves, rebuild

    def _split_again(self, items: list[Item], own: list[list[Leaf]]) -> list[Split]:
        """Split samples of different leaves together: annotations of some may be missing."""
        pairs = zip(items, own, strict=True)
        samples = [item.rebuild(leaves) for item, leaves in pairs]  # type: ignore[misc]
        return split_samples(samples, lambda sample: split_sample(sample, self.keys, self.reading))

    def alone(self, item: Item) -> Any:
        """Return one sample."""
        if self.output_types.image:
            item.divide()
        if item.rebuild is None:
            return item.result
        leaves = item.own_leaves()
        self.output_types.apply(leaves)
        return item.rebuild(leaves)

    def _plain(self, items: list[Item]) -> list[Leaf]:
        first = items[0]
        values: list[list[Any]] = [item.plain for item in items]  # type: ignore[misc]
        columns = zip(*values, strict=True)
        leaves = []
        for leaf, column in zip(first.leaves, columns, strict=True):
            if leaf.kind == "image":
                leaves.append(dataclasses.replace(leaf, batch=len(items), like=[None] * len(items)))
            else:
                own = [[dataclasses.replace(leaf, value=value)] for value in column]
                leaves += batch_leaves(own, stack=False)
        return leaves


def _stacked(batch: Batch, rows: list[int], items: list[Item]) -> Tensor:
    """Return the images as a batch, which they are already unless some were skipped."""
    images: list[Tensor] = [item.image for item in items]  # type: ignore[misc]
    sizes = np.array([image.shape[1:] for image in images], np.int64)
    if (sizes != sizes[0]).any():
        reject_sizes(sizes)
    block = batch.block
    if block is None or any(image.dtype != block.dtype for image in images):
        return torch.stack(images)
    return block if len(rows) == len(batch.items) else block[rows]
