"""The whole run in this process: plan, stages, merge, summary."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ..batch import Batch
from ..models.model import Model, load_model
from ..options import Options
from ..store.manifest import Commit
from ..store.merge import Counts
from ..store.plan import PlannedBatch
from ..store.summary import Summary
from ..view.report import Progress
from .job import MANIFEST, Job, Processed
from .profiling import Trace
from .stages import Chain
from .stopping import Draining
from .work import Work

__all__ = ["Pipeline", "run"]

Models = Mapping[str, Any] | Sequence[Model | str]


class Pipeline:
    """Models and options, for any number of folders.

    Parameters
    ----------
    models : dict of callables, or sequence of Model or names
        Callables get a float32 batch ``[N, 3, h, w]``; with one may come a post-processing, as a
        pair. Names are those of :func:`load_model`.
    options : Options, optional
    **changes
        Fields of `options` to change.
    """

    def __init__(self, models: Models, options: Options | None = None, **changes: Any) -> None:
        self.options = replace(options, **changes) if options is not None else Options(**changes)
        self.models = as_models(models, self.options)
        Work("", self.models, self.options)  # which refuses what doesn't go together

    def run(
        self,
        images: str | os.PathLike[str],
        out: str | os.PathLike[str],
        *,
        progress: bool = False,
        profile: bool = False,
    ) -> Summary:
        """Do what is left to do of a folder of images.

        In the main thread SIGTERM and SIGINT drain: what the stages hold is finished, the summary
        has the signal. A second one kills.

        Parameters
        ----------
        images, out : path
        progress : bool
            Show a bar.
        profile : bool
            Write a trace of the first batches, ``trace.json``.

        Returns
        -------
        Summary

        Raises
        ------
        StageError
            What stopped a stage; what was committed stays.
        ValueError
            `out` was begun with options that give other results.
        """
        with Draining() as draining, Job.open(images, out, self.models, self.options) as job:
            pending = job.pending()
            ended = job.plan.inputs - _inputs(pending)
            done = watch(job, pending, draining, ended=ended, progress=progress, profile=profile)
            return conclude(job, done, draining.received)

    def dry_run(self, images: str | os.PathLike[str], out: str | os.PathLike[str]) -> Summary:
        """List and plan as :meth:`run` does, and write nothing."""
        job = Job.open(images, out, self.models, self.options, dry_run=True)
        committed = job.committed()
        return _counted(job, committed, _inputs(job.pending(committed)))


def run(
    images: str | os.PathLike[str],
    out: str | os.PathLike[str],
    models: Models,
    *,
    progress: bool = False,
    profile: bool = False,
    **options: Any,
) -> Summary:
    """Run models over a folder of images.

    Every file below `images` ends as a record with ``status`` "ok", "failed" or "skipped", and, if
    it isn't ok, a ``reason``. Records are written batch by batch, and are safe once a batch's line
    is in the manifest; a further call does what is left, whatever has ended the first one. All of
    them are in ``results.jsonl`` at the end, in the same bytes for any number of workers and of
    interruptions.

    Parameters
    ----------
    images, out : path
    models : dict of callables, or sequence of Model or names
        See :class:`Pipeline`.
    progress, profile : bool
        See :meth:`Pipeline.run`.
    **options
        Fields of :class:`Options`.

    Returns
    -------
    Summary

    Examples
    --------
    >>> import os, tempfile, torch
    >>> from PIL import Image
    >>> from visops import infer
    >>> folder = tempfile.TemporaryDirectory()
    >>> images, out = f"{folder.name}/images", f"{folder.name}/out"
    >>> os.mkdir(images)
    >>> for name in "abc":
    ...     Image.new("RGB", (64, 48), "red").save(f"{images}/{name}.png")
    >>> network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    >>> summary = infer.run(images, out, {"colour": network}, workers=0)
    >>> summary.counts
    Counts(listed=3, ok=3, failed=0, skipped=0)
    """
    return Pipeline(models, **options).run(images, out, progress=progress, profile=profile)


def watch(
    job: Job,
    batches: Sequence[PlannedBatch],
    draining: Draining,
    manifest: str = MANIFEST,
    *,
    ended: int = 0,
    progress: bool = False,
    profile: bool = False,
) -> Processed:
    """Do batches of a job, draining at signals, with a bar and a trace where they are wanted.

    The bar begins at `ended`, the inputs that earlier runs have ended, and is full with `batches`.
    """
    watchers: list[Progress | Trace] = []

    def starting(chain: Chain[Batch]) -> None:
        draining.bind(chain.stop)
        # Both have threads, and so come after decoding workers have been forked; the trace is to
        # have what stages do from the beginning.
        watchers.append(Progress(ended + _inputs(batches), ended, progress))
        if profile:
            watchers.append(Trace(job.out))

    def tick(chain: Chain[Batch]) -> None:
        for watcher in watchers:
            watcher.tick(chain)

    try:
        return job.process(batches, manifest, starting=starting, tick=tick)
    finally:
        with ExitStack() as closing:
            for watcher in watchers:
                closing.callback(watcher.close)


def conclude(
    job: Job,
    done: Processed,
    signal: int | None = None,
    name: str = "summary.json",
    *,
    merge: bool = True,
) -> Summary:
    """Merge if nothing is left to do and `merge`, count, and write the summary."""
    committed = job.committed()  # once: other processes may be committing
    pending = _inputs(job.pending(committed))
    summary = _counted(job, committed, pending)
    if merge and not pending:
        summary.counts = job.merge(committed)
        summary.results = os.path.join(job.out, f"results.{job.work.options.format}")
    summary.done = sum(commit.ok + commit.failed + commit.skipped for commit in done.commits)
    summary.seconds, summary.stages, summary.retried = done.seconds, done.times, done.retried
    summary.signal = signal
    summary.save(job.out, name)
    return summary


def _counted(job: Job, committed: Mapping[int, Commit], pending: int) -> Summary:
    counts = Counts(listed=job.plan.inputs)
    for commit in committed.values():
        counts.ok += commit.ok
        counts.failed += commit.failed
        counts.skipped += commit.skipped
    return Summary(counts, pending)


def _inputs(batches: Sequence[PlannedBatch]) -> int:
    return sum(len(batch.entries) for batch in batches)


def as_models(models: Models, options: Options) -> list[Model]:
    """Return models for callables by name, names and models."""
    if isinstance(models, Mapping):
        return [_as_model(name, call) for name, call in models.items()]
    if isinstance(models, str):
        models = models.split(",")
    return [
        load_model(model, seed=options.seed) if isinstance(model, str) else model
        for model in models
    ]


def _as_model(name: str, call: Any) -> Model:
    if isinstance(call, Model):
        if call.name != name:
            raise ValueError(
                f"visops.infer: models has under {name!r} a Model of the name {call.name!r}; "
                "give it that name, or models in a list"
            )
        return call
    if isinstance(call, tuple):
        return Model(name, call[0], postprocess=call[1])
    return Model(name, call)
