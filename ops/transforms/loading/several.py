"""Several views of each sample: a file is read once and decoded once, and each view has its batch.

NOTE [ Views in a loader ]
Where every chain runs in C++, one call reads, decodes and makes all views of a file. Else the file
is decoded once, and each chain runs on it as in a call. A batch has one for each view beside it,
whose memory that view's images go to; what doesn't move is the same in all of them, and is handed
over once.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from torch import Tensor

from ..._native import FilePass
from ..chain.compile import FileChain
from ..chain.decode_ahead import decode_ahead
from ..chain.execute import run_passes
from ..chain.source import Source
from ..classes.views import Views
from ..sample.batches import MOVABLE
from ..sample.images import restored_image
from .batch import Batch, Collating, Item
from .samples import Samples, source_of
from .sources import File, with_content, with_masks
from .statistics import Times


class SampleViews(Samples):
    """Reads samples and makes their views; the arguments are those of `Samples`."""

    def __init__(self, dataset: Any, chain: Views, seed: int, epoch: int) -> None:
        super().__init__(dataset, chain, seed, epoch)
        self.parts = [Samples(dataset, own, int(own.seed or 0), epoch) for own in chain.chains]
        self.kinds = self.parts[0].kinds
        passes = [part.native for part in self.parts]
        if chain.decodes_once and all(passes):
            self.native = passes

    def _by_file(
        self, sample: Any, file: File, index: Any, batch: Batch, row: int, times: Times
    ) -> Item | None:
        if type(index) is not int:
            return None
        begin, worked = perf_counter(), times.working
        natives: list[FileChain] = self.native
        seeds = [part.seed for part in self.parts]
        views = batch.views(len(self.parts))
        images = [None if own.block is None else own.block[row] for own in views]
        while True:
            slots = [_slot(image) for image in images]
            found = FilePass.load_together(
                [own.native for own in natives], *source_of(file), seeds, self.epoch, index, slots
            )
            if found is None:
                return None
            stored, made, seconds = found
            times.add(*seconds)
            if stored:
                break
            for number, (height, width, _) in enumerate(made):
                shape, dtype = (natives[number].channels, height, width), natives[number].dtype
                image = images[number]
                if image is None or image.shape[1:] != shape[1:]:
                    form = self.parts[number].chain.memory_format
                    image = views[number].slot_or_own(row, shape, dtype, form)
                images[number] = image
        for part, own, image, (_, _, plans) in zip(self.parts, views, images, made, strict=True):
            item = part.item_of(sample, file, plans, times)
            item.image, item.index = image, index
            own.items[row] = item
        times.python += perf_counter() - begin - (times.working - worked)
        return Item([], None)

    def _by_chain(
        self, sample: Any, file: File | None, index: Any, batch: Batch, row: int, times: Times
    ) -> Item:
        if file is not None:
            sample = with_content(sample, file)
        sample = with_masks(sample, self.kinds, times)
        split = [part.chain.split(sample) for part in self.parts]
        leaves = [own for own, _ in split]
        sources = [Source(part.seed, None, None, index, self.epoch, None) for part in self.parts]
        chains = [part.chain for part in self.parts]
        begin = perf_counter()
        if self.chain.decodes_once:
            decode_ahead(chains, leaves, sources)
        times.decoding += perf_counter() - begin

        def run() -> None:
            for part, own, source, (values, rebuild) in zip(
                self.parts, batch.views(len(self.parts)), sources, split, strict=True
            ):
                run_passes(part.chain, values, source)
                item = part.with_image(Item(values, rebuild), own, row)
                item.index = index
                own.items[row] = item

        if self.later:
            return Item([], None, result=run)
        begin = perf_counter()
        run()
        times.transforming += perf_counter() - begin
        return Item([], None)


class CollatingViews:
    """How samples' views become a batch: as `Collating`, of which it takes one for each view."""

    def __init__(self, views: Sequence[Collating], collate: Callable[..., Any] | None) -> None:
        self.views, self.collate = views, collate

    def __call__(self, batch: Batch) -> Any:
        """Return a batch of the samples that were not skipped; there is at least one."""
        batches = batch.views(len(self.views))
        for own in batches:
            own.items = [
                i if kept else None for i, kept in zip(own.items, batch.items, strict=True)
            ]
        if self.collate is not None:
            alone = [
                [view.alone(item) for item in own.items if item is not None]
                for view, own in zip(self.views, batches, strict=True)
            ]
            indices = [item.index for item in batch.items if item is not None]
            return self.collate(list(zip(*alone, strict=True)), indices)
        made = [view.together(own) for view, own in zip(self.views, batches, strict=True)]
        leaves, rebuild = made[0]
        if any(leaf.kind in MOVABLE or leaf.per_box for leaf in leaves):
            return tuple(rebuild(own) for own, rebuild in made)
        columns = [[leaf for leaf in own if leaf.kind == "image"] for own, _ in made]
        for views in zip(*columns, strict=True):
            images = [restored_image(leaf) for leaf in views]
            views[0].kind, views[0].value, views[0].like = "other", images, images
        return rebuild(leaves)


def _slot(image: Tensor | None) -> tuple[Any, int, int]:
    if image is None:
        return None, 0, 0
    return (image.data_ptr(), image.stride()), image.shape[1], image.shape[2]
