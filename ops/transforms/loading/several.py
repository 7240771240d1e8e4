"""Several views of each sample: a file is read once and decoded once, and each view has its batch.

NOTE [ Views in a loader ]
Where every chain runs in C++, one call reads, decodes and makes all views of a file, and one call
each makes those of a decoded image. Else a file is decoded once, and each chain runs on it by
torch's operators. A batch has one for each view beside it,
whose memory that view's images go to; what doesn't move is the same in all of them, and is handed
over once.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from ..chain.decode_ahead import decode_ahead
from ..chain.execute import run_passes
from ..chain.source import Source
from ..classes.views import Views
from ..sample.batches import MOVABLE
from ..sample.files import File, with_content
from ..sample.images import restored_image
from .batch import Batch, Collating, Item
from .samples import Samples
from .sources import with_masks
from .statistics import Times


class SampleViews(Samples):
    """Reads samples and makes their views; the arguments are those of `Samples`."""

    def __init__(self, dataset: Any, chain: Views, seed: int, epoch: int) -> None:
        super().__init__(dataset, chain, seed, epoch)
        self.parts = [Samples(dataset, own, int(own.seed or 0), epoch) for own in chain.chains]
        self.kinds = self.parts[0].kinds
        natives = [part.native for part in self.parts]
        self.native = natives[0] if chain.decodes_once and all(natives) else None
        self.pipeline = None

    def _batches_of(self, batch: Batch) -> list[Batch]:
        return batch.views(len(self.parts))

    def _stored(self, made: list[Item], batches: list[Batch], row: int, index: Any) -> Item:
        for item, own in zip(made, batches, strict=True):
            item.index = index
            own.items[row] = item
        return Item([], None)

    def _by_chain(
        self, sample: Any, file: File | None, index: Any, batch: Batch, row: int, times: Times
    ) -> Item:
        if file is not None:
            sample = with_content(sample, file)
        sample = with_masks(sample, self.kinds, times)
        batches = self._batches_of(batch)
        if not self.later and all(part.pipeline is not None for part in self.parts):
            pairs = zip(self.parts, batches, strict=True)
            made = [part._in_one_call(sample, index, own, row, times) for part, own in pairs]
            taken = [item for item in made if item is not None]
            if len(taken) == len(batches):
                return self._stored(taken, batches, row, index)
        split = [part.chain.split(sample) for part in self.parts]
        leaves = [own for own, _ in split]
        sources = [Source(part.seed, None, None, index, self.epoch, None) for part in self.parts]
        chains = [part.chain for part in self.parts]
        begin = perf_counter()
        if self.chain.decodes_once:
            decode_ahead(chains, leaves, sources)
        times.decoding += perf_counter() - begin

        def run() -> None:
            made = []
            for part, own, source, (values, rebuild) in zip(
                self.parts, batches, sources, split, strict=True
            ):
                run_passes(part.chain, values, source)
                made.append(part.with_image(Item(values, rebuild), own, row))
            self._stored(made, batches, row, index)

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
