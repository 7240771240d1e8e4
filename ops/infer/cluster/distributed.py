"""One run over the processes of `torchrun`: each rank does its share of the planned batches.

Before any work, rank 0 lists, plans and announces which batches are left. Of n ranks each takes
every n-th batch, so shares are fixed and unpadded, and nothing is done twice. From then on each
rank has its own manifest and waits for no other. When all have finished, rank 0 merges the results.
A killed rank leaves batches behind, which the next run divides anew among any number of ranks.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch

from ..engine.job import Job
from ..engine.output_lock import PLAN
from ..engine.pipeline import Pipeline, conclude, watch
from ..engine.process import Draining
from ..images.listing import Images
from ..store.manifest import committed_batches
from ..store.merge import merge_parts
from ..store.plan import Plan
from ..store.summary import Summary
from .rendezvous import Rank, Rendezvous, torchrun_rank

T = TypeVar("T")

# Network file systems show other machines' files with a delay: NFS within a minute.
VISIBLE_SECONDS = 120.0
# How long to wait for ranks that may have died with their machine.
STALLED_SECONDS = 600.0


def run_rank(
    pipeline: Pipeline,
    images: Images,
    out: str | os.PathLike[str],
    *,
    progress: bool = False,
    rank: Rank | None = None,
) -> Summary:
    """Do this rank's share of what is left of the images.

    Parameters
    ----------
    pipeline : Pipeline
        The same on every rank. If its device is "cuda", each rank takes the GPU with its local
        index.
    images, out : path
        Folders that all machines see under these paths. `images` may be a pattern or a list:
        see :meth:`Pipeline.run`.
    progress : bool
        Show a bar, on rank 0.
    rank : Rank, optional
        By default as `torchrun` sets it.

    Returns
    -------
    Summary
        This rank's summary; on rank 0, the whole run's if all ranks have finished.

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

    rendezvous = Rendezvous(rank)
    digest, pending = rendezvous.agree(decide)
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
                    wait_for_others(rendezvous, draining, job.out)
                summary = conclude(
                    job, done, draining.received, rank.summary, merge=rank.index == 0
                )
                if summary.results is not None:
                    summary.save(job.out)
        finally:
            rendezvous.finish()
        if rank.index > 0 and rank.local == 0:
            # torchrun here may hold the store for all: if it ended, torchrun on the other machines
            # would end their ranks.
            wait_for_others(rendezvous, draining, os.fspath(out))
    return summary


def wait_for_others(
    rendezvous: Rendezvous,
    draining: Draining,
    out: str,
    seconds: float = STALLED_SECONDS,
    poll: float = 0.2,
) -> None:
    """Wait until all ranks have finished, a signal comes, or nothing moves any more.

    Manifests grow, and so do files being merged: if the folder of outputs has not changed for this
    many seconds, the other ranks are dead, or as good as dead.
    """
    seen, since = _sizes(out), time.monotonic()
    while draining.received is None and not rendezvous.others_have_finished():
        time.sleep(poll)
        now = _sizes(out)
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since >= seconds:
            return


def _sizes(folder: str) -> dict[str, int]:
    """Return the sizes of the files directly in a folder."""
    sizes = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                sizes[entry.name] = entry.stat().st_size
            except FileNotFoundError:  # another rank's temporary file
                continue
    return sizes


def merge(out: str | os.PathLike[str], format: str = "jsonl") -> Summary:
    """Merge the parts of a finished run, whichever ranks wrote them.

    Raises
    ------
    FileNotFoundError
        There is no plan.
    RuntimeError
        Some batches are not done: run again to do them.
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
    """Give each rank a GPU; ranks share GPUs in turn if there are more ranks than GPUs."""
    count = torch.cuda.device_count()
    if torch.device(device) != torch.device("cuda") or not count:
        return device
    return f"cuda:{rank.local % count}"


def share(numbers: Sequence[T], rank: Rank) -> list[T]:
    """Return this rank's items: every n-th of n ranks, so that shares differ by at most one."""
    return list(numbers[rank.index :: rank.world])


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def wait_for_file(path: str, digest: str, seconds: float = VISIBLE_SECONDS) -> None:
    """Wait until this machine sees a file as rank 0 wrote it.

    Raises
    ------
    RuntimeError
        It doesn't in time: most likely the folder is not shared.
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
                f"visops.infer: rank 0 wrote {path}, but this machine sees {found} after "
                f"{seconds:.0f} s; all machines must share the folder of outputs"
            )
        time.sleep(0.2)
