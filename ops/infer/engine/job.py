"""A job: one folder of images, one folder of outputs; what is planned, done and left to do."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field

from ..batch import Batch
from ..images.listing import Images, find_inputs
from ..images.loading import DecodedBatches
from ..models.model import Model
from ..options import Options
from ..store.durable import make_folders
from ..store.manifest import Commit, Manifest, committed_batches
from ..store.merge import Counts, merge_parts, require_formats
from ..store.plan import Plan, PlannedBatch, normalised
from ..store.reuse import carry_over, find_kept
from ..store.summary import StageTimes
from .output_lock import PLAN, OutputsLock, check_folders, clean, settled_plan
from .stages import Chain, Stage, StageError
from .work import Work
from .writers import Committer

MANIFEST = "manifest.jsonl"


@dataclass
class Processed:
    """What one call of :meth:`Job.process` did."""

    times: list[StageTimes] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    seconds: float = 0.0
    starting: float = 0.0
    retried: int = 0


class Job:
    """The state of a run, all of it on the disk.

    Several processes can work on one job: :meth:`open` it in each, in the first one with `create`,
    :meth:`process` different batches with different manifests, and :meth:`merge` once. Until all
    of them have called :meth:`close`, or ended, no other process can open it with `create`.

    Attributes
    ----------
    out : str
    plan : Plan
    work : Work
        The stages' functions.
    listing : StageTimes
        Times of the stage "list".
    """

    def __init__(
        self,
        images: str,
        out: str,
        plan: Plan,
        work: Work,
        listing: StageTimes,
        lock: OutputsLock | None = None,
    ) -> None:
        self.images, self.out = images, out
        self.plan, self.work, self.listing = plan, work, listing
        self._lock = lock

    @classmethod
    def open(
        cls,
        images: Images,
        out: str | os.PathLike[str],
        models: Sequence[Model],
        options: Options,
        *,
        create: bool = True,
        dry_run: bool = False,
    ) -> "Job":
        """List the images and make the plan, or extend the one in `out` with new images.

        Parameters
        ----------
        images : path, or sequence of path
            As :meth:`Pipeline.run` takes them.
        out : path
        models : sequence of Model
        options : Options
        create : bool
            False uses the existing plan, and lists nothing.
        dry_run : bool
            Write nothing.

        Raises
        ------
        ValueError
            `out` belongs to other images, or to options that give other results; or it is the
            folder of images.
        RuntimeError
            Another run is using `out`.
        ModuleNotFoundError
            The package that writes the format of the results is not installed.
        """
        inputs, folder = find_inputs(images), os.fspath(out)
        root = inputs.root
        work = Work(root, models, options)
        wanted = normalised(_results_depend_on(models, options))
        require_formats(folder, options.format)
        if create:
            check_folders(inputs, folder)
        elif not os.path.exists(path := os.path.join(folder, PLAN)):
            # Before the lock, which would create the folder's first file.
            raise FileNotFoundError(f"visops.infer: there is no plan yet: no file {path}")
        settings = inputs, folder, wanted, options.batch_size
        if dry_run:
            plan, listing, _ = settled_plan(*settings, create=create, alone=True)
            return cls(root, folder, plan, work, listing)
        if create:
            make_folders(os.path.join(folder, "parts"))
        lock = OutputsLock(folder, shared=not create)
        try:
            plan, listing, changed = settled_plan(*settings, create=create, alone=lock.alone)
            if lock.alone:
                clean(folder)
            if changed:
                plan.save(os.path.join(folder, PLAN))
            if plan.earlier:
                plan.batches = find_kept(folder, plan)
                if create and options.annotate is None:  # else pictures are drawn anew
                    carry_over(folder, plan, MANIFEST)
            lock.share()
        except BaseException:
            lock.close()
            raise
        return cls(root, folder, plan, work, listing, lock)

    def close(self) -> None:
        """Let other runs use the outputs."""
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def committed(self) -> dict[int, Commit]:
        """Return the batches that any manifest lists as done and whose parts exist."""
        return committed_batches(self.out, self.plan)

    def pending(self, committed: Mapping[int, Commit] | None = None) -> list[PlannedBatch]:
        """Return the batches that are not in `committed`, by default as of now."""
        return self.plan.pending(self.committed() if committed is None else committed)

    def process(
        self,
        batches: Sequence[PlannedBatch],
        manifest: str = MANIFEST,
        *,
        starting: Callable[[Chain[Batch]], None] | None = None,
        tick: Callable[[Chain[Batch]], None] | None = None,
        wait: float = 0.5,
    ) -> Processed:
        """Run batches, with one thread per stage, and commit each to a manifest.

        Parameters
        ----------
        batches : sequence of PlannedBatch
        manifest : str
            Name of a file in the outputs, ``manifest*.jsonl``, that no other process writes.
        starting : callable, optional
            Called with the chain before it starts, for example to stop it at a signal later.
        tick : callable, optional
            Called with the chain every `wait` seconds, and at the end.
        """
        options, work = self.work.options, self.work
        begun = time.perf_counter()
        done = Processed()
        if not batches:
            return done
        # Workers are forks of this process: start them first, while there are no threads.
        with (
            closing(
                DecodedBatches(batches, work.decoder, options.workers, options.prefetch)
            ) as source,
            Manifest(os.path.join(self.out, manifest)) as lines,
        ):
            work.load()
            with ThreadPoolExecutor(options.writer_threads, "visops.infer writer") as pool:
                committer = Committer(self.out, lines, pool, options.room)

                def postprocess(batch: Batch) -> Batch:
                    done.retried += batch.retried
                    return work.postprocess(batch)

                chain = Chain(
                    ("decode", source),
                    [
                        Stage("collate", work.collate),
                        Stage("preprocess", work.preprocess),
                        Stage("models", work.forward),
                        Stage("postprocess", postprocess),
                        Stage("write", committer.add, committer.finish),
                    ],
                    room=options.room,
                    size=lambda batch: len(batch.plan.entries),
                    number=lambda batch: batch.number,
                )
                ended = False
                try:
                    if starting is not None:
                        starting(chain)
                    done.starting = time.perf_counter() - begun
                    chain.start()
                    while not ended:
                        ended = chain.wait(wait)
                        if tick is not None:
                            tick(chain)
                except BaseException:
                    chain.stop()
                    with suppress(StageError):  # already raised, or a later one
                        chain.wait()  # stages finish their batches while the manifest is open
                    raise
                finally:
                    done.times = [self.listing, *chain.times]
                    done.commits = committer.commits
                    done.starting += chain.times[0].starting
                    done.seconds = time.perf_counter() - begun - done.starting
        return done

    def merge(self, committed: Mapping[int, Commit] | None = None) -> Counts:
        """Merge all parts into one file, once nothing is pending."""
        commits = self.committed() if committed is None else committed
        return merge_parts(self.out, self.plan, commits, self.work.options.format)


def _results_depend_on(models: Sequence[Model], options: Options) -> dict[str, object]:
    """Return all settings that results depend on."""
    fingerprints = {model.name: model.fingerprint() for model in models}
    if len(fingerprints) != len(models):
        names = [model.name for model in models]
        raise ValueError(f"visops.infer: models are named {names}, names must differ")
    return {**options.results_depend_on(), "models": fingerprints}
