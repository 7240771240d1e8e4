"""A whole run in this process: plan, stages, merge, summary."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

from ..batch import Batch
from ..images.listing import Images
from ..models.model import Model, load_models
from ..options import Options
from ..store.manifest import Commit
from ..store.merge import QUARANTINE, Counts
from ..store.plan import PlannedBatch
from ..store.summary import Summary
from ..view.report import Progress
from .job import MANIFEST, Job, Processed
from .process import Draining, Trace
from .stages import Chain
from .work import Work

Models = Mapping[str, Any] | Sequence[Model | str] | Model


class Pipeline:
    """Models and options, to run on any number of folders.

    Parameters
    ----------
    models : dict of callables, or sequence of Model or names
        Callables take a float32 batch ``[N, 3, h, w]``; a pair adds a post-processing. Names are
        those of :func:`load_model`.
    options : Options, optional
    weights : str, optional
        Those of torchvision's models among `models`: see :func:`load_model`.
    **changes
        Fields of `options` to change.
    """

    def __init__(
        self,
        models: Models,
        options: Options | None = None,
        *,
        weights: str | None = None,
        **changes: Any,
    ) -> None:
        check_names(changes)
        self.options = replace(options, **changes) if options is not None else Options(**changes)
        self.models = as_models(models, self.options, weights)
        Work("", self.models, self.options)  # refuses incompatible options

    def run(
        self,
        images: Images,
        out: str | os.PathLike[str],
        *,
        progress: bool = False,
        profile: bool = False,
    ) -> Summary:
        """Process what is left of the images.

        In the main thread SIGTERM and SIGINT drain the run: the stages finish what they hold, and
        the summary records the signal. A second signal kills the process.

        Parameters
        ----------
        images : path, or sequence of path
            A folder, below which every file is an input; a pattern such as ``"photos/**/*.jpg"``; a
            ``.csv`` or ``.txt`` file that lists paths, relative to its own folder; or a list.
        out : path
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
            What stopped a stage; committed batches stay.
        ValueError
            `out` belongs to options that give other results.
        RuntimeError
            All images failed, for one reason; their records are written.
        """
        with Draining() as draining, Job.open(images, out, self.models, self.options) as job:
            pending = job.pending()
            ended = job.plan.inputs - _inputs(pending)
            done = watch(job, pending, draining, ended=ended, progress=progress, profile=profile)
            return conclude(job, done, draining.received)

    def dry_run(self, images: Images, out: str | os.PathLike[str]) -> Summary:
        """List and plan as :meth:`run` does, but write nothing."""
        job = Job.open(images, out, self.models, self.options, dry_run=True)
        committed = job.committed()
        return _counted(job, committed, _inputs(job.pending(committed)))


def run(
    images: Images,
    out: str | os.PathLike[str],
    models: Models,
    *,
    weights: str | None = None,
    progress: bool = False,
    profile: bool = False,
    **options: Any,
) -> Summary:
    """Run models over a folder or a list of images.

    Every input ends as a record with ``status`` "ok", "failed" or "skipped" and,
    unless it is ok, a ``reason``. Records are written batch by batch, and are safe once the batch's
    line is in the manifest; another call does what is left, however the first one ended. At the end
    ``results.jsonl`` holds all records, with the same bytes for any number of workers and
    interruptions.

    Parameters
    ----------
    images, out : path
        `images` may also be a pattern or a list: see :meth:`Pipeline.run`.
    models : dict of callables, or sequence of Model or names
    weights : str, optional
        See :class:`Pipeline`.
    progress, profile : bool
        See :meth:`Pipeline.run`, which says what is raised, too.
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
    return Pipeline(models, weights=weights, **options).run(
        images, out, progress=progress, profile=profile
    )


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
    """Run batches of a job, draining on signals, with a bar and a trace on request.

    The bar starts at `ended`, the inputs that earlier runs finished, and ends after `batches`.
    """
    watchers: list[Progress | Trace] = []

    def starting(chain: Chain[Batch]) -> None:
        draining.bind(chain.stop)
        # Both start threads, so the decoding workers must have been forked before; and the trace
        # must start before the stages do.
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
    """Merge if `merge` and nothing is left; count, and write the summary."""
    committed = job.committed()  # read once: other processes may be committing
    pending = _inputs(job.pending(committed))
    summary = _counted(job, committed, pending)
    if merge and not pending:
        summary.counts = job.merge(committed)
        summary.results = os.path.join(job.out, f"results.{job.work.options.format}")
    summary.done = sum(commit.ok + commit.failed + commit.skipped for commit in done.commits)
    summary.seconds, summary.stages, summary.retried = done.seconds, done.times, done.retried
    summary.starting, summary.signal = done.starting, signal
    summary.save(job.out, name)
    if summary.results is not None:
        _refuse_if_all_failed(job.out, summary.counts)
    return summary


def _refuse_if_all_failed(out: str, counts: Counts) -> None:
    """Raise if several images have all failed for one reason: that is no matter of images."""
    if counts.ok > 0 or counts.failed < 2:
        return
    path = os.path.join(out, QUARANTINE)
    with open(path, encoding="utf-8") as file:
        reasons = {json.loads(line)["reason"] for line in file}
    if len(reasons) == 1:
        raise RuntimeError(
            f"visops.infer: all {counts.failed} images failed for one reason, as {path} says: "
            f"{reasons.pop()}"
        )


def _counted(job: Job, committed: Mapping[int, Commit], pending: int) -> Summary:
    counts = Counts(listed=job.plan.inputs)
    for commit in committed.values():
        counts.ok += commit.ok
        counts.failed += commit.failed
        counts.skipped += commit.skipped
    return Summary(counts, pending)


def _inputs(batches: Sequence[PlannedBatch]) -> int:
    return sum(len(batch.entries) for batch in batches)


# What other programs, and the command, call them.
_INSTEAD = {
    "size": "preprocess=visops.infer.Preprocess(size=(height, width))",
    "transform": "preprocess",
    "transforms": "preprocess",
    "num_workers": "workers",
    "amp": "autocast='bfloat16'",
}


def check_names(options: Mapping[str, Any]) -> None:
    """Refuse names that no option has, with what may have been meant."""
    names = [field.name for field in fields(Options)]
    for name in options:
        if name not in names:
            close = get_close_matches(name, names, n=1)
            instead = _INSTEAD.get(name, close[0] if close else f"one of {', '.join(names)}")
            raise TypeError(f"visops.infer: there is no option {name!r}; use {instead}")


def as_models(models: Models, options: Options, weights: str | None = None) -> list[Model]:
    """Return a Model for each callable, name or Model."""
    if isinstance(models, str):
        models = models.split(",")
    if isinstance(models, Model):
        models = [models]
    if not isinstance(models, (Mapping, Sequence)):
        kind = type(models).__name__
        raise TypeError(
            f"visops.infer: models is a {kind}, must be a name, a Model, or a dict of networks by "
            f'the names that their results get: {{"{kind.lower()}": network}}'
        )
    named = not isinstance(models, Mapping) and any(isinstance(model, str) for model in models)
    if weights is not None and not named:
        raise ValueError(
            f"visops.infer: weights is {weights!r}, must be None where no model is given by name"
        )
    if isinstance(models, Mapping):
        return [_as_model(name, call) for name, call in models.items()]
    names = [model for model in models if isinstance(model, str)]
    loaded = iter(load_models(names, weights, options.seed))
    return [next(loaded) if isinstance(model, str) else model for model in models]


def _as_model(name: str, call: Any) -> Model:
    if isinstance(call, Model):
        if call.name != name:
            raise ValueError(
                f"visops.infer: models[{name!r}] is a Model named {call.name!r}; use the same "
                "name, or pass the models in a list"
            )
        return call
    if isinstance(call, tuple):
        return Model(name, call[0], postprocess=call[1])
    return Model(name, call)
