"""A run on a cluster with Ray Data: the stages are actors, plan and manifest are unchanged.

The driver lists and plans, and is the only writer of the manifest. Decoding, networks and writing
are each a pool of actors on any of the machines; a planned batch passes through them as one row.
Ray repeats the work of a dead worker or machine. A batch's files have the same bytes whoever writes
them and however often, and the batch counts once its line is in the manifest: so every batch ends
up in the results exactly once.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from ..engine.job import MANIFEST, Job, Processed
from ..engine.pipeline import Pipeline, conclude
from ..engine.process import Draining
from ..engine.stages import StageError
from ..images.listing import Images, find_inputs
from ..store.manifest import Commit, Manifest
from ..store.plan import PlannedBatch
from ..store.summary import StageTimes, Summary
from ..view.report import Progress
from . import ray_ledger

STAGES = ("decode", "collate", "preprocess", "models", "postprocess", "write")
# Give up a batch that this many workers died at.
ATTEMPTS = 3
# Batches submitted at once: Ray's driver holds an object for each.
ROUND = 4096
# For actors on the CPU: they have threads before they can call `keep_freed_memory`.
_ONE_ARENA = {"env_vars": {"MALLOC_ARENA_MAX": "1"}}


@dataclass(frozen=True, slots=True)
class Pools:
    """The maximum number of actors of each kind, and the resources each requests.

    Attributes
    ----------
    decoders, networks, writers : int
    cpus : float
        Cores per decoder.
    gpus, network_cpus : float
        GPUs and cores per network actor. With a GPU it requests no core: decoders could hold all
        cores, and it would wait for ever.
    """

    decoders: int
    networks: int
    writers: int
    cpus: float = 1.0
    gpus: float = 0.0
    network_cpus: float = 1.0

    @classmethod
    def of(
        cls,
        resources: dict[str, float],
        machines: int,
        device: str,
        decoders: int | None = None,
        networks: int | None = None,
        writers: int | None = None,
    ) -> "Pools":
        """Divide a cluster: on CUDA one network actor per GPU, else most of the cores for networks.

        Raises
        ------
        RuntimeError
            The device is CUDA, but Ray reports no GPU.
        ValueError
            A number is below 1, or together they need more than the cluster has.
        """
        for name, number in (
            ("decoders (--workers)", decoders),
            ("networks (--ray-networks)", networks),
            ("writers", writers),
        ):
            if number is not None and number < 1:
                raise ValueError(
                    f"visops.infer: {name} is {number}, must be at least 1 with Ray, where actors "
                    "do all the work"
                )
        cores, gpus = resources.get("CPU", 1.0), resources.get("GPU", 0.0)
        on_gpu = torch.device(device).type == "cuda"
        if on_gpu and gpus < 1:
            raise RuntimeError("visops.infer: device is 'cuda', but Ray's cluster has no GPU")
        if networks is None:
            given = max(1, int(cores) // 4) if decoders is None else decoders
            networks = int(gpus) if on_gpu else max(1, int(cores) - given)
        if decoders is None:
            decoders = max(1, int(cores) - networks)
        writers = machines if writers is None else writers
        cpus = min(1.0, cores / 2)  # both kinds must fit on a single core
        pools = cls(
            decoders, networks, writers, cpus, 1.0 if on_gpu else 0.0, 0.0 if on_gpu else cpus
        )
        for kind, asked, there in (
            ("GPUs", networks * pools.gpus, gpus),
            ("cores", decoders * cpus + networks * pools.network_cpus, cores),
        ):
            if asked > there:
                raise ValueError(
                    f"visops.infer: decoders={decoders} (--workers) and networks={networks} "
                    f"(--ray-networks) need {asked:g} {kind}, Ray's cluster has {there:g}"
                )
        return pools


def run_ray(
    pipeline: Pipeline,
    images: Images,
    out: str | os.PathLike[str],
    *,
    address: str | None = None,
    decoders: int | None = None,
    networks: int | None = None,
    writers: int | None = None,
    progress: bool = False,
) -> Summary:
    """Process what is left of the images on a Ray cluster.

    Parameters
    ----------
    pipeline : Pipeline
        Its models are sent to the workers, on which visops must be installed.
    images, out : path
        Folders that all machines see under these paths. `images` may be a pattern or a list:
        see :meth:`Pipeline.run`.
    address : str, optional
        Address of the cluster; by default RAY_ADDRESS in the environment, else a cluster is started
        on this machine. An existing connection is used and left open.
    decoders, networks, writers : int, optional
        Number of actors that decode, run networks, and write: by default as many as the cluster's
        cores and GPUs allow, and one writer per machine.
    progress : bool
        Show a bar.

    Returns
    -------
    Summary

    Raises
    ------
    ModuleNotFoundError
        Ray is not installed.
    StageError
        A stage raised, or a batch's workers died too often. Batches already begun are finished and
        committed first.
    RuntimeError
        Ray can't continue, for example because its workers lack visops.
    """
    ray = _ray()
    inputs, folder = find_inputs(images), os.path.abspath(out)
    inputs = replace(inputs, root=os.path.abspath(inputs.root))
    options = pipeline.options
    if torch.device(options.device).type == "cuda":
        options = replace(options, device="cuda")  # Ray shows each actor its own GPU only
    with _connected(ray, address), Job.open(inputs, folder, pipeline.models, options) as job:
        machines = sum(node["Alive"] for node in ray.nodes())
        pools = Pools.of(
            ray.cluster_resources(), machines, options.device, decoders, networks, writers
        )
        with _settings(), Draining() as draining:
            with Manifest(os.path.join(folder, MANIFEST)) as lines:
                run = _Run(ray, job, pools, lines)
                draining.bind(run.stop)
                done = run.all(job.pending(), progress)
            return conclude(job, done, draining.received)


class _Run:
    """The driver's side of a run."""

    def __init__(self, ray: Any, job: Job, pools: Pools, lines: Manifest) -> None:
        self._ray, self._job, self._pools, self._lines = ray, job, pools, lines
        self._seen: set[int] = set()
        self.times = [StageTimes(name) for name in STAGES]
        self._error: StageError | None = None
        self._stopping = False
        self.done = Processed()
        self._ledger = _started_ledger(ray)

    def all(self, batches: Sequence[PlannedBatch], progress: bool) -> Processed:
        """Run batches in rounds, and commit those that come back."""
        begun = time.perf_counter()
        total = self._job.plan.inputs
        left = sum(len(batch.entries) for batch in batches)
        bar = Progress(total, total - left, progress)
        try:
            for first in range(0, len(batches), ROUND):
                if self._stopping:
                    break
                with closing(self._rows(batches[first : first + ROUND])) as rows:
                    for row in rows:
                        self._take(row)
                        bar.tick(cast(Any, self))  # has `times`, like a chain of threads
        except BaseException:
            self.stop()  # an existing cluster would carry on
            raise
        finally:
            bar.close()
            self.done.times = [self._job.listing, *self.times]
            self.done.seconds = time.perf_counter() - begun
        if self._error is not None:
            raise self._error
        return self.done

    def stop(self) -> None:
        """Begin no further batch; finish and commit those already begun."""
        if not self._stopping:
            self._stopping = True
            # In a thread: a signal's handler may have interrupted Ray while it held a lock.
            threading.Thread(target=self._ledger.drain.remote, daemon=True).start()

    def _rows(self, batches: Sequence[PlannedBatch]) -> Generator[dict[str, Any]]:
        """Send batches through the actors; yield rows, in any order."""
        from ray.data import ActorPoolStrategy, from_items

        from .ray_stages import Decode, Networks, Write, packed_models, planned_row

        work, pools, ledger = self._job.work, self._pools, self._ledger
        models = packed_models(work.models)

        def pool(size: int, calls: int = 1) -> Any:
            # Ask for the whole pool at the start, but run with whatever the cluster can give.
            return ActorPoolStrategy(
                min_size=1,
                max_size=size,
                initial_size=size,
                max_concurrent_calls_per_actor=calls,
                enable_true_multi_threading=calls > 1,
            )

        rows: Any = from_items(list(map(planned_row, batches)), override_num_blocks=len(batches))
        each = {"batch_size": 1, "batch_format": "pyarrow"}
        rows = rows.map_batches(
            Decode,
            fn_constructor_args=(work.decoder, ledger),
            compute=pool(pools.decoders),
            num_cpus=pools.cpus,
            **each,
        )
        rows = rows.map_batches(
            Networks,
            fn_constructor_args=(self._job.images, models, work.options, ledger),
            compute=pool(pools.networks, calls=2),
            num_cpus=pools.network_cpus,
            num_gpus=pools.gpus,
            runtime_env=None if pools.gpus else _ONE_ARENA,
            **each,
        )
        rows = rows.map_batches(
            Write,
            fn_constructor_args=(self._job.out, ledger),
            compute=pool(pools.writers),
            num_cpus=0,
            **each,
        )
        try:
            yield from rows.iter_rows()
        except self._ray.exceptions.RayError as error:
            about = _last_line(error)
            raise RuntimeError(
                f"visops.infer: Ray ended the run: {type(error).__name__}: {about}"
            ) from error

    def _take(self, row: dict[str, Any]) -> None:
        from .ray_stages import FAILED, outcome

        number, ended = row["number"], outcome(row)
        if isinstance(ended, Commit):
            if number in self._seen:
                return
            self._seen.add(number)
            self._lines.append(ended)
            self.done.commits.append(ended)
            self.done.retried += row["retried"]
            self._count(ended, json.loads(row["seconds"]))
        elif ended is not None and self._error is None:
            stage, cause = ended
            self._error = StageError(stage, number, cause)
        if row["state"] == FAILED:
            self.stop()  # other batches would fail too, unlike when a batch killed its workers

    def _count(self, commit: Commit, seconds: dict[str, float]) -> None:
        """Add a batch to the stages' times: a pool of n actors counts 1/n of their seconds."""
        sizes = {"decode": self._pools.decoders, "write": self._pools.writers}
        for stage, spent in seconds.items():
            times = self.times[STAGES.index(stage)]
            times.batches += 1
            times.images += commit.ok + commit.failed + commit.skipped
            times.busy += spent / sizes.get(stage, self._pools.networks)


def _last_line(error: BaseException) -> str:
    """Return the gist of a Ray error: the last line of its pages of text, if there is any."""
    return next(reversed(str(error).strip().splitlines()), "no reason given")


def _started_ledger(ray: Any) -> Any:
    """Start the ledger on the driver's node, so that it lives as long as the driver."""
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    # Pickled by value, so that its process need not import this package and PyTorch.
    ray.cloudpickle.register_pickle_by_value(ray_ledger)
    try:
        actor = ray.remote(num_cpus=0, scheduling_strategy=here)(ray_ledger.Ledger)
        return actor.remote(ATTEMPTS)
    finally:
        ray.cloudpickle.unregister_pickle_by_value(ray_ledger)


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Connect to a cluster, or start one here; leave an existing connection alone."""
    if ray.is_initialized():
        yield
        return
    ray.init(address=address, log_to_driver=False, logging_level="warning")
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _settings() -> Iterator[None]:
    """Keep Ray Data's progress and logs off the terminal, and let it drop no batch."""
    from ray.data import DataContext

    context = DataContext.get_current()
    changes = {
        "enable_progress_bars": False,
        "print_on_execution_start": False,
        "max_errored_blocks": 0,
    }
    before = {name: getattr(context, name) for name in changes}
    logger = logging.getLogger("ray.data")
    level = logger.level
    for name, value in changes.items():
        setattr(context, name, value)
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
        logger.setLevel(level)


def _ray() -> Any:
    # A library must not report its users' runs by default; setting the variable to 1 allows it.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"visops.infer: --engine ray needs {error.name}; pip install 'ray[data]'",
            name=error.name,
        ) from error
    return ray
