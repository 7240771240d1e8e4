"""The whole run in this process: plan, stages, merge, summary."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .job import Job, Processed
from .merge import Counts
from .models import Model, load_model
from .options import Options
from .summary import Summary

__all__ = ["Pipeline", "run"]

Models = Mapping[str, Callable[..., Any]] | Sequence[Model | str]


class Pipeline:
    """Models and options, for any number of folders.

    Parameters
    ----------
    models : dict of callables, or sequence of Model or names
        Callables get a float32 batch ``[N, 3, h, w]``. Names are those of :func:`load_model`.
    options : Options, optional
    **changes
        Fields of `options` to change.
    """

    def __init__(self, models: Models, options: Options | None = None, **changes: Any) -> None:
        from dataclasses import replace

        self.options = replace(options, **changes) if options is not None else Options(**changes)
        self.models = as_models(models, self.options)

    def run(self, images: str | os.PathLike[str], out: str | os.PathLike[str]) -> Summary:
        """Do what is left to do of a folder of images.

        Parameters
        ----------
        images, out : path

        Returns
        -------
        Summary
        """
        job = Job.open(images, out, self.models, self.options)
        done = job.process(job.pending())
        return conclude(job, done)


def run(
    images: str | os.PathLike[str], out: str | os.PathLike[str], models: Models, **options: Any
) -> Summary:
    """Run models over a folder of images: see :class:`Pipeline` and :class:`Options`."""
    return Pipeline(models, **options).run(images, out)


def conclude(job: Job, done: Processed, signal: int | None = None) -> Summary:
    """Merge if nothing is left to do, count, and write the summary."""
    pending = sum(len(batch.entries) for batch in job.pending())
    results = None
    if pending:
        counts = Counts(listed=sum(1 for _ in job.plan.entries))
        for commit in job.committed().values():
            counts.ok += commit.ok
            counts.failed += commit.failed
            counts.skipped += commit.skipped
    else:
        counts = job.merge()
        results = os.path.join(job.out, f"results.{job.work.options.format}")
    images = sum(commit.ok + commit.failed + commit.skipped for commit in done.commits)
    summary = Summary(
        counts, pending, images, done.seconds, done.times, done.retried, signal, results
    )
    summary.save(job.out)
    return summary


def as_models(models: Models, options: Options) -> list[Model]:
    """Return models for callables by name, names and models."""
    if isinstance(models, Mapping):
        return [
            call if isinstance(call, Model) else Model(name, call) for name, call in models.items()
        ]
    if isinstance(models, str):
        models = models.split(",")
    return [
        load_model(model, seed=options.seed) if isinstance(model, str) else model
        for model in models
    ]
