"""One run over the processes of `torchrun`: each rank does its share of the planned batches.

Before any work, rank 0 lists, plans and says which batches are left; everyone takes every world-th
of them, so shares are settled, unpadded, and nothing is done twice. From then on each rank has its
own manifest, and its work waits for no other's. Once all have said that they are through, rank 0
merges the results. A rank that was killed leaves batches that the next run, with any number of
ranks, divides anew.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch

from ..engine.job import PLAN, Job
from ..engine.pipeline import Pipeline, conclude, watch
from ..engine.stopping import Draining
from ..store.manifest import committed_batches
from ..store.merge import merge_parts
from ..store.plan import Plan
from ..store.summary import Summary
from .meeting import Meeting, Rank, torchrun_rank

__all__ = ["Rank", "merge", "run_rank", "share", "torchrun_rank", "wait_for_file"]

T = TypeVar("T")

# Network file systems show other machines' files after a while: NFS within a minute.
VISIBLE_SECONDS = 120.0
# A rank that ends without a word, with its machine, is not waited for longer than this.
STALLED_SECONDS = 600.0


def run_rank(
    pipeline: Pipeline,
    images: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    progress: bool = False,
    rank: Rank | None = None,
) -> Summary:
    """Do this rank's share of what is left to do of a folder of images.

    Parameters
    ----------
    pipeline : Pipeline
        The same on every rank. Where its device is "cuda", each rank takes the GPU of its number
        on the machine.
    images, out : path
        Folders that all machines see under these names.
    progress : bool
        Show a bar, on rank 0.
    rank : Rank, optional
        By default what `torchrun` says.

    Returns
    -------
    Summary
        Of this rank; on rank 0, where all have come to their ends, also of the whole.

    Raises
    ------
    RuntimeError
        Rank 0 could not plan, or this machine doesn't see the plan.
    """
    rank = rank or torchrun_rank() or Rank(0, 1)
    options = replace(pipeline.options, device=_device(pipeline.options.device, rank))
    path = os.path.join(out, PLAN)
    job: Job | None = None

    def decide() -> list[Any]:
        nonlocal job
        job = Job.open(images, out, pipeline.models, options)
        return [digest_of(path), [batch.number for batch in job.pending()]]

    meeting = Meeting(rank)
    digest, pending = meeting.agree(decide)
    with Draining() as draining:
        try:
            if job is None:
                wait_for_file(path, digest)
                job = Job.open(images, out, pipeline.models, options, create=False)
            with job:
                batches = [job.plan.batches[number] for number in share(pending, rank)]
                show = progress and rank.index == 0
                done = watch(job, batches, draining, rank.manifest, progress=show)
                if rank.index == 0:
                    wait_for_others(meeting, draining, job.out)
                summary = conclude(
                    job, done, draining.received, rank.summary, merge=rank.index == 0
                )
                if summary.results is not None:
                    summary.save(job.out)
        finally:
            meeting.finish()
        if rank.index > 0 and rank.local == 0:
            # torchrun on this machine may be what holds the store of all: were it to end, its likes
            # on the other machines would end their ranks.
            wait_for_others(meeting, draining, os.fspath(out))
    return summary


def wait_for_others(
    meeting: Meeting,
    draining: Draining,
    out: str,
    seconds: float = STALLED_SECONDS,
    poll: float = 0.2,
) -> None:
    """Wait until all ranks have finished, or a signal comes, or nothing moves any more.

    Manifests grow, and files that are being merged: a folder of outputs that has not changed for
    so many seconds is of ranks that are dead, or as good as that.
    """
    seen, since = _sizes(out), time.monotonic()
    while draining.received is None and not meeting.others_have_finished():
        time.sleep(poll)
        now = _sizes(out)
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since >= seconds:
            return


def _sizes(folder: str) -> dict[str, int]:
    """Return the files right in a folder, and how large they are."""
    sizes = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                sizes[entry.name] = entry.stat().st_size
            except FileNotFoundError:  # another rank's temporary file
                continue
    return sizes


def merge(out: str | os.PathLike[str], format: str = "jsonl") -> Summary:
    """Merge the parts of a finished run, by whatever ranks.

    Raises
    ------
    FileNotFoundError
        There is no plan.
    RuntimeError
        Batches are not done: another run does them.
    """
    folder = os.fspath(out)
    plan = Plan.load(os.path.join(folder, PLAN))
    if plan is None:
        raise FileNotFoundError(f"visops.infer: there is no {PLAN} in {folder}: nothing to merge")
    commits = committed_batches(folder, plan)
    left = plan.pending(commits)
    if left:
        raise RuntimeError(
            f"visops.infer: {len(left)} of {len(plan.batches)} batches in {folder} are not done, "
            f"batch {left[0].number} first; run it again with --images and --models"
        )
    counts = merge_parts(folder, plan, commits, format)
    return Summary(counts, results=os.path.join(folder, f"results.{format}"))


def _device(device: str, rank: Rank) -> str:
    """Give each rank a GPU: those of a machine in turn, where there are more ranks than that."""
    count = torch.cuda.device_count()
    if torch.device(device) != torch.device("cuda") or not count:
        return device
    return f"cuda:{rank.local % count}"


def share(numbers: Sequence[T], rank: Rank) -> list[T]:
    """Return what this rank does: every world-th item, so that shares differ by one at most."""
    return list(numbers[rank.index :: rank.world])


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def wait_for_file(path: str, digest: str, seconds: float = VISIBLE_SECONDS) -> None:
    """Wait until this machine sees a file as rank 0 has written it.

    Raises
    ------
    RuntimeError
        It doesn't: the folder is most likely not shared.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            if digest_of(path) == digest:
                return
            found = "another file of that name"
        except FileNotFoundError:
            found = "no such file"
        if time.monotonic() >= end:
            raise RuntimeError(
                f"visops.infer: rank 0 has written {path}, this machine sees {found} after "
                f"{seconds:.0f} s; the folder of outputs must be one that all machines share"
            )
        time.sleep(0.2)
