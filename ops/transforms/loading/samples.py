"""Loads samples: what one thread does with one index.

NOTE [ A sample's way ]
A sample goes through its chain as in a call of it, but for the memory that its image comes out in:
that is the batch's. One call of C++ does it where it can, with a JPEG file also reading and
decoding, without the interpreter's lock. What is beside a file moves in a second call, by the plans
of the first, or in Python by the same plans. Whatever C++ doesn't take, such as PNG files, damaged
files and chains with passes in Python, runs by torch's operators, which also says what is wrong.

Samples that are transformed by batches, on_device.py, go the same ways as far as decoding.
"""

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from ..._native import FilePass, Pipeline
from ..chain.compile import file_pass, first_file_pass
from ..chain.decode_ahead import Decoded, decode_ahead
from ..chain.execute import follow_image, run_passes
from ..chain.foreign import draws_alone
from ..chain.nesting import Container
from ..chain.random import drawing_apart, other_states
from ..chain.source import Source, as_whole, place_of, position_of
from ..compose import Compose
from ..sample.coco import is_about_annotations
from ..sample.files import DamagedFileError, Encoded, File, find_file, with_content
from ..sample.images import image_sizes
from ..sample.leaf import Leaf
from ..sample.names import MOVING, PLAIN_ATOMS, named_kinds
from ..sample.split import Rebuild, split_sample
from ..targets.mirrored import followers
from .batch import Batch, Item
from .sources import (
    UnreadableError,
    buffer_of,
    may_draw,
    reader_of,
    with_masks,
)
from .statistics import Times
from .stream import Stream, StreamEndedError

_MOST_FORMS = 64


class Samples:
    """Reads and transforms samples.

    Parameters
    ----------
    dataset : Any
        With ``__getitem__``.
    chain : Compose or callable
    seed, epoch : int
        What draws depend on, beside the index.
    transforms : bool
        Whether samples are transformed here; else they are only decoded, for on_device.py.

    Attributes
    ----------
    in_order : bool
        Whether something of the chain may draw from Python's or NumPy's generators. Whoever asks
        for batches then runs it, one after another.
    later : bool
        Whether that is sample by sample: `transform`.
    draws : bool
        Whether reading may draw.
    """

    def __init__(
        self, dataset: Any, chain: Any, seed: int, epoch: int, transforms: bool = True
    ) -> None:
        self.seed, self.epoch, self.chain = seed, epoch, chain
        self.in_order = not draws_apart(chain)
        self.later = transforms and self.in_order
        self.transforms = transforms = transforms and not self.in_order
        self.dataset = dataset
        self.is_chain = isinstance(chain, Compose)
        self.takes_files = bool(getattr(chain, "reads_files", False))
        self.read: Callable[[Any], Any] = reader_of(dataset, self.takes_files)
        self.pipeline: Pipeline | None = None  # what takes samples in one call
        self.native: FilePass | None = None  # the same for files
        self.ahead: FilePass | None = None  # what only decodes
        self.parts: list[Samples] = [self]  # those of views
        self.kinds = named_kinds(getattr(chain, "keys", None))
        if self.is_chain:
            assert chain.passes  # forms them, once for all threads
            if not transforms:
                self.ahead = first_file_pass(chain)
            elif self.takes_files:
                self.native = file_pass(chain)
            else:
                self.pipeline = chain.pipeline
        self._forms: dict[Any, tuple[list[Leaf], Rebuild] | None] = {}
        self.draws = may_draw(dataset, self.takes_files)
        self._tried: dict[int, Any] = {}

    def try_reading(self, drawn: Any) -> None:
        """Read the first sample while no thread runs; refuse what draws as threads can't.

        Raises
        ------
        ValueError
            It draws from Python's or NumPy's generators, of which a process has one each.
        """
        before = other_states()
        try:
            sample = self._read_apart(drawn)
        except Exception:
            return  # raised again where it is due
        self._tried[id(drawn)] = sample
        if isinstance(self.dataset, Stream):
            return  # it may shuffle when it begins, and did so here
        now = other_states()
        for name, old, new in zip(("Python's", "NumPy's"), before, now, strict=True):
            if old != new:
                raise ValueError(
                    f"visops.transforms.Loader: dataset is a {type(self.dataset).__name__} that "
                    f"draws from {name} global generator, which threads share with the caller; "
                    "must draw by torch's functions, which have a generator for each sample here, "
                    "or by one of its own, such as numpy.random.default_rng((seed, index))"
                )

    def load(
        self,
        batch: Batch,
        row: int,
        drawn: Any,
        times: Times,
        read: Callable[[Any], Any] | None = None,
    ) -> None:
        """Load the sample of an index, as a sampler gives it, into a row of a batch.

        `read` is called instead of the data set's ``__getitem__``.
        """
        file: File | None = None
        begin = perf_counter()
        try:
            sample = (read or self._read)(drawn)
            if batch.samples is not None:
                batch.samples[row] = sample
            file = find_file(sample, self.kinds) if self.takes_files else None
        except StreamEndedError:
            raise
        except Exception as error:
            if isinstance(self.dataset, Stream):
                raise  # with it goes all that would have come after it
            raise UnreadableError(None) from error
        finally:
            times.reading += perf_counter() - begin
        position = drawn if type(drawn) is int and drawn >= 0 else position_of(drawn, self.dataset)
        item = None
        try:
            if file is not None and self.native is not None:
                item = self._by_file(sample, file, position, batch, row, times)
            elif file is None and self.pipeline is not None:
                sample = with_masks(sample, self.kinds, times)
                item = self._in_one_call(sample, position, batch, row, times)
            elif file is not None and self.ahead is not None:
                item = self._decoded(sample, file, position, times)
            if item is None:
                item = self._by_chain(sample, file, position, batch, row, times)
        except ValueError as error:
            if is_about_annotations(error):
                error = DamagedFileError(str(error))
            if not isinstance(error, DamagedFileError):
                raise
            error.path = None if file is None else file.path
            raise error from None
        item.index = position
        batch.items[row] = item
        times.images += 1

    def _read(self, drawn: Any) -> Any:
        if not self.draws:
            return self.read(place_of(drawn))
        if self._tried and id(drawn) in self._tried:
            return self._tried.pop(id(drawn))
        return self._read_apart(drawn)

    def _read_apart(self, drawn: Any) -> Any:
        with self._drawing(drawn):
            return self.read(place_of(drawn))

    def _drawing(self, index: Any) -> AbstractContextManager[Any]:
        return drawing_apart(self.seed, self.epoch, _number_of(index))

    def transform(self, batch: Batch, row: int) -> None:
        """Transform a sample that was only read and decoded."""
        item = batch.items[row]
        assert item is not None
        if not self.is_chain:
            item.result = item.result()
            return
        leaves = item.leaves if item.image is None else item.own_leaves()
        source = Source(self.seed, None, None, item.index, self.epoch, None)
        run_passes(self.chain, leaves, source)
        batch.items[row] = made = self.with_image(Item(leaves, item.rebuild), batch, row)
        made.index = item.index

    def _by_file(
        self, sample: Any, file: File, index: Any, batch: Batch, row: int, times: Times
    ) -> Item | None:
        """Load a sample whose image is a JPEG file; None: it is something else, or damaged."""
        if type(index) is not int:
            return None
        begin, worked = perf_counter(), times.working
        batches = self._batches_of(batch)
        images = [None if own.block is None else own.block[row] for own in batches]
        natives, seeds = self._file_passes
        given = *source_of(file), seeds, self.epoch, index
        try:
            found = FilePass.load(natives, *given, images, self._memory(batches, row, images))
        except OSError as error:
            raise UnreadableError(file.path) from error
        if found is None:
            return None
        every, seconds = found
        times.add(*seconds)
        made = []
        for part, image, plans in zip(self.parts, images, every, strict=True):
            assert image is not None
            item = part._plain_item(sample, file.key, partial(part._split, sample, file))
            if item is None:
                item = part._moved_item(sample, file, plans, image, times)
            item.image = image
            made.append(item)
        times.python += perf_counter() - begin - (times.working - worked)
        return self._stored(made, batches, row, index)

    @cached_property
    def _file_passes(self) -> tuple[list[Any], list[int]]:
        """What makes the images of files for each part, and its seed."""
        return [part.native for part in self.parts], [part.seed for part in self.parts]

    def _batches_of(self, batch: Batch) -> list[Batch]:
        """Return the batches that a sample's images go to."""
        return [batch]

    def _stored(self, made: list[Item], batches: list[Batch], row: int, index: Any) -> Item:
        """Store a sample's views; return what is the sample in the batch of all."""
        return made[0]

    def _memory(
        self, batches: list[Batch], row: int, images: list[Tensor | None]
    ) -> Callable[[int, tuple[int, int, int], torch.dtype], Tensor]:
        """Return what gives memory to an image that is the first of its batch, or unlike others."""

        def memory(number: int, shape: tuple[int, int, int], dtype: torch.dtype) -> Tensor:
            form = self.parts[number].chain.memory_format
            image = images[number] = batches[number].slot_or_own(row, shape, dtype, form)
            return image

        return memory

    def _in_one_call(
        self, sample: Any, index: Any, batch: Batch, row: int, times: Times
    ) -> Item | None:
        """Load a sample whose image is decoded by one call of C++; None: Python has to."""
        if self.pipeline is None or type(index) is not int:
            return None
        begin = perf_counter()
        image = None if batch.block is None else batch.block[row]
        given = self.seed, self.epoch, index, image, self._memory([batch], row, [image])
        found = self.pipeline.load(self.chain, sample, *given)
        if found is not None:
            sample, image = found
            split = partial(self._split_decoded, sample)
            key = _place_of(image, sample)
            item = None if key is _NESTED else self._plain_item(sample, key, split)
            item = Item([], None, result=sample, split=split) if item is None else item
            item.image = image
        times.transforming += perf_counter() - begin
        return None if found is None else item

    def _plain_item(
        self, sample: Any, key: Any, split: Callable[[], tuple[list[Leaf], Rebuild]]
    ) -> Item | None:
        """Return a sample that holds nothing that moves but what is at `key`, or None."""
        cls = type(sample)
        if key is None:
            values: list[Any] = [None]
            form: Any = None
        elif cls is tuple or cls is list:
            values = list(sample)
            values[key] = None
            types = tuple(map(type, values))
            form = cls, key, types
        elif cls is dict:
            values = list(sample.values())
            values[list(sample).index(key)] = None
            types = tuple(map(type, values))
            form = tuple(sample), key, types
        else:
            return None
        if form is not None and not PLAIN_ATOMS.issuperset(types):
            return None
        if form not in self._forms:
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            self._forms[form] = self._plain_form(sample, len(values), split)
        known = self._forms[form]
        return None if known is None else Item(known[0], known[1], values)

    def _plain_form(
        self, sample: Any, count: int, split: Callable[[], tuple[list[Leaf], Rebuild]]
    ) -> tuple[list[Leaf], Rebuild] | None:
        if isinstance(sample, dict) and any(self.kinds.get(key) in MOVING for key in sample):
            return None
        leaves, rebuild = split()
        alike = len(leaves) == count and not followers(leaves, self.chain.options)
        return (leaves, rebuild) if alike else None

    def _split(self, sample: Any, file: File) -> tuple[list[Leaf], Rebuild]:
        return self.chain.split(with_content(sample, file))

    def _split_decoded(self, sample: Any) -> tuple[list[Leaf], Rebuild]:
        """Split a sample whose image is a tensor [C, H, W]."""
        reading = self.chain.reading._replace(layout="CHW")
        return split_sample(sample, self.chain.keys, reading)

    def _moved_item(
        self, sample: Any, file: File, plans: list[Any], image: Tensor, times: Times
    ) -> Item:
        """Return a sample whose targets have moved as its image did."""
        chain = self.chain
        sample = with_masks(sample, self.kinds, times)
        begin = perf_counter()
        if chain.pipeline is not None:
            empty = with_content(sample, replace(file, content=b""))
            whole = partial(with_content, sample, file)
            result = chain.pipeline.follow(chain, empty, plans, image, whole)
            if result is not None:
                times.transforming += perf_counter() - begin
                split = partial(self._split_decoded, result)
                return Item([], None, result=result, split=split)
        leaves, rebuild = self._split_beside(sample, file, plans[0].source_sizes[0].tolist())
        begin = perf_counter()
        follow_image(chain, leaves, plans)
        times.transforming += perf_counter() - begin
        return Item(leaves, rebuild)

    def _split_beside(
        self, sample: Any, file: File, size: Sequence[int]
    ) -> tuple[list[Leaf], Rebuild]:
        """Split a sample whose image is read already; a tensor of its size stands for it."""
        stand_in = torch.empty(1, dtype=torch.uint8, device="cpu").expand(3, *size)
        whole = with_content(sample, replace(file, content=stand_in))
        leaves, rebuild = self._split_decoded(whole)
        image_sizes(leaves)  # refuses targets of other sizes
        return leaves, rebuild

    def _decoded(self, sample: Any, file: File, index: Any, times: Times) -> Item | None:
        """Decode what a sample's first pass reads of a JPEG file; None as for `_by_file`."""
        if type(index) is not int:
            return None
        assert self.ahead is not None
        begin, worked = perf_counter(), times.working
        try:
            found = self.ahead.decode(*source_of(file), self.seed, self.epoch, index)
        except OSError as error:
            raise UnreadableError(file.path) from error
        if found is None:
            return None
        pixels, part, size, seconds = found
        times.reading += seconds[0]
        times.decoding += seconds[1]
        item = self._plain_item(sample, file.key, partial(self._split, sample, file))
        if item is None:
            whole = with_masks(sample, self.kinds, times)
            item = Item(*self._split_beside(whole, file, size))
        item.image = Encoded(Decoded(pixels, part), size, pixels.shape[2])
        item.result = lambda: with_masks(with_content(sample, file), self.kinds, times)
        times.python += perf_counter() - begin - (times.working - worked)
        return item

    def _by_chain(
        self, sample: Any, file: File | None, index: Any, batch: Batch, row: int, times: Times
    ) -> Item:
        """Load a sample as a call of the chain does."""
        chain = self.chain
        if file is not None:
            begin = perf_counter()
            try:
                sample = with_content(sample, file)
            except OSError as error:
                raise UnreadableError(file.path) from error
            finally:
                times.reading += perf_counter() - begin
        begin, worked = perf_counter(), times.working
        try:
            if self.is_chain or self.takes_files:
                sample = with_masks(sample, self.kinds, times)
            if not self.is_chain:
                if self.in_order:
                    made = partial(chain, sample, index=index, epoch=self.epoch)
                    return Item([], None, result=made)
                with self._drawing(index):
                    return Item([], None, result=chain(sample, index=index, epoch=self.epoch))
            leaves, rebuild = chain.split(sample)
            source = Source(self.seed, None, None, index, self.epoch, None)
            if not self.transforms:
                decode_ahead([chain], [leaves], [source])
                return Item(leaves, rebuild, result=lambda: sample)
            run_passes(chain, leaves, source)
        finally:
            times.transforming += perf_counter() - begin - (times.working - worked)
        return self.with_image(Item(leaves, rebuild), batch, row)

    def with_image(self, item: Item, batch: Batch, row: int) -> Item:
        """Store the image of a transformed sample in the batch, if it fits there."""
        images = [leaf for leaf in item.leaves if leaf.kind == "image"]
        value = images[0].value
        if len(images) == 1 and isinstance(value, Tensor) and value.dim() == 3:
            shape: Any = tuple(value.shape)
            item.image = batch.slot(row, shape, value.dtype, self.chain.memory_format)
            if item.image is None:
                item.image = value
            else:
                item.image.copy_(value)
        return item


_NESTED = object()


def _place_of(image: Tensor, sample: Any) -> Any:
    """Return the key of an image among a sample's own entries; None: the sample is the image."""
    if sample is image:
        return None
    entries = sample.items() if isinstance(sample, dict) else enumerate(sample)
    return next((key for key, value in entries if value is image), _NESTED)


def draws_apart(chain: Any) -> bool:
    """Return whether a chain's draws can be kept apart from the caller's in a thread."""
    if not isinstance(chain, Compose):
        return all(map(draws_apart, getattr(chain, "chains", ())))
    return all(draws_alone(part.transforms[0]) for part in _foreign(chain.passes))


def _foreign(passes: Sequence[Any]) -> Iterator[Any]:
    """Return the passes of other libraries' transforms, also within containers."""
    for part in passes:
        if part.kind == "foreign":
            inner = part.transforms[0]
            yield from _foreign(inner.passes()) if isinstance(inner, Container) else [part]


def _number_of(index: Any) -> int:
    """Return a number for an index; keys get one by their names."""
    number = as_whole(index)
    return zlib.crc32(repr(index).encode()) if number is None else number


def source_of(file: File) -> tuple[Any, bool]:
    """Return a file's path as bytes or its content, and whether it is a path."""
    if file.content is None:
        return os.fsencode(file.path), True  # type: ignore[arg-type]
    return buffer_of(file.content), False
