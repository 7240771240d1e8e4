"""Everything of a run on Ray but Ray: its actors, in this process, one batch after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from visops.infer import PlannedBatch
from visops.infer.cluster.ray_ledger import Ledger
from visops.infer.images.decode import Decoder


class Handle:
    """An actor's handle, of an object that is right here."""

    def __init__(self, actor: object) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(remote=getattr(self._actor, name))


class Here:
    """Stands for Ray, with one actor of each kind in this process, and batches in turn.

    Attributes
    ----------
    meanwhile : dict
        What is called before a batch of a number comes.
    repeat : set
        Batches whose rows come twice.
    decoder : type
        What decodes.
    """

    def __init__(self) -> None:
        self.ledger = Ledger(attempts=2)
        self.meanwhile: dict[int, Callable[[], object]] = {}
        self.repeat: set[int] = set()
        self.decoder: type[Decoder] = Decoder

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, bool]]:
        return [{"Alive": True}]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def rows(self, run: Any, batches: Sequence[PlannedBatch]) -> Iterator[dict[str, Any]]:
        import pyarrow as pa
        from visops.infer.cluster.ray_stages import (
            Decode,
            Networks,
            Write,
            packed_models,
            planned_row,
        )

        job, ledger = run._job, Handle(self.ledger)
        work = job.work
        actors = [
            Decode(self.decoder(**vars(work.decoder)), ledger),
            Networks(job.images, packed_models(work.models), work.options, ledger),
            Write(job.out, ledger),
        ]
        for batch in batches:
            self.meanwhile.get(batch.number, lambda: None)()
            table = pa.Table.from_pylist([planned_row(batch)])
            for actor in actors:
                table = actor(table)
            for _ in range(1 + (batch.number in self.repeat)):
                yield table.to_pylist()[0]
