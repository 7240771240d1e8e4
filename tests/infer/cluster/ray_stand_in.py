"""A run on Ray without Ray: its actors in this process, one batch after another."""

import importlib.util
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from visops.infer import PlannedBatch
from visops.infer.cluster.ray_ledger import Ledger
from visops.infer.images.decode import Decoder

HAS_RAY = importlib.util.find_spec("ray") is not None


class _Pickler(pickle.Pickler):
    """Stands in for cloudpickle's."""

    def reducer_override(self, value: Any) -> Any:
        return NotImplemented


def _modules() -> dict[str, ModuleType]:
    """Return as much of Ray's modules as the actors and the driver import."""
    ray, cloudpickle, data = map(ModuleType, ("ray", "ray.cloudpickle", "ray.data"))
    context = SimpleNamespace(
        enable_progress_bars=True, print_on_execution_start=True, max_errored_blocks=0
    )
    vars(cloudpickle)["CloudPickler"] = _Pickler
    vars(data)["DataContext"] = SimpleNamespace(get_current=lambda: context)
    vars(ray).update(cloudpickle=cloudpickle, data=data)
    return {module.__name__: module for module in (ray, cloudpickle, data)}


_STAND_INS = _modules()


def stand_in_for_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `import ray` work where Ray is not installed, and `ray.get` in this process."""
    if not HAS_RAY:
        for name, module in _STAND_INS.items():
            monkeypatch.setitem(sys.modules, name, module)
    import ray

    monkeypatch.setattr(ray, "get", lambda value: value, raising=False)


class Handle:
    """A handle of an actor that lives in this process."""

    def __init__(self, actor: object) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(remote=getattr(self._actor, name))


class Here:
    """Stands in for Ray, with one actor of each kind, and batches in turn.

    Attributes
    ----------
    meanwhile : dict
        Functions to call before the batch with a number.
    repeat : set
        Batches whose rows come twice.
    decoder : type
        The decoder's class.
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
