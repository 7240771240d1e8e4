"""One run over the processes of `torchrun`: each rank does its share of the planned batches.

The ranks talk to each other once, before any work: rank 0 lists, plans and says which batches are
left; everyone takes every world-th of them, so shares are settled, unpadded, and nothing is done
twice. From then on each rank has its own manifest and waits for no other. The one that finishes
last finds all batches in the manifests and merges the results; a rank that was killed leaves
batches that the next run, with any number of ranks, divides anew.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from .job import PLAN, Job
from .manifest import manifest_paths, read_manifests
from .merge import merge_parts
from .pipeline import Pipeline, conclude, watch
from .plan import Plan
from .stopping import Draining
from .summary import Summary

__all__ = ["Rank", "agree", "merge", "run_rank", "share", "torchrun_rank", "wait_for_file"]

T = TypeVar("T")

_calls = itertools.count()

# Rank 0 may need long to list millions of files; the others have nothing else to do.
PLANNING_TIMEOUT = timedelta(hours=6)
# Network file systems show other machines' files after a while: NFS within a minute.
VISIBLE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Rank:
    """Which of the processes this is.

    Attributes
    ----------
    index, world : int
        Of all processes.
    local : int
        Of those on this machine: the number of its GPU.
    """

    index: int
    world: int
    local: int = 0

    @property
    def manifest(self) -> str:
        """The name of this rank's own manifest."""
        return f"manifest.rank-{self.index:05d}.jsonl"

    @property
    def summary(self) -> str:
        """The name of this rank's own summary."""
        return f"summary.rank-{self.index:05d}.json"


def torchrun_rank(environ: Mapping[str, str] = os.environ) -> Rank | None:
    """Return this process's rank; None where it was not started by `torchrun`, or is alone.

    Raises
    ------
    ValueError
        The environment's numbers are no rank.
    """
    if "RANK" not in environ or "WORLD_SIZE" not in environ:
        return None
    numbers = {name: environ.get(name, "0") for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    try:
        index, world, local = map(int, numbers.values())
    except ValueError:
        index, world, local = -1, 0, 0
    if not 0 <= index < world or local < 0:
        given = ", ".join(f"{name}={value}" for name, value in numbers.items())
        raise ValueError(f"visops.infer: {given} in the environment is not a rank")
    return Rank(index, world, local) if world > 1 else None


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
        Of this rank; on the one that finished last also of the whole.

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

    digest, pending = agree(decide, rank, next(_calls)) if rank.world > 1 else decide()
    if job is None:
        wait_for_file(path, digest)
        job = Job.open(images, out, pipeline.models, options, create=False)
    batches = [job.plan.batches[number] for number in share(pending, rank)]
    with Draining() as draining:
        show = progress and rank.index == 0
        done = watch(job, batches, draining, rank.manifest, progress=show)
    summary = conclude(job, done, draining.received, rank.summary)
    if summary.results is not None:
        summary.save(job.out)
    return summary


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
    commits = read_manifests(manifest_paths(folder))
    left = [batch.number for batch in plan.batches if batch.number not in commits]
    if left:
        raise RuntimeError(
            f"visops.infer: {len(left)} of {len(plan.batches)} batches in {folder} are not done, "
            f"batch {left[0]} first; run it again with --images and --models"
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


def agree(
    decide: Callable[[], T], rank: Rank, call: int = 0, environ: Mapping[str, str] = os.environ
) -> T:
    """Let rank 0 decide, and return its decision, of what JSON can hold, on every rank.

    Calls have numbers: different ones in a program, the same one on all ranks.

    It goes through the store that ranks meet at, with no process group: that would connect every
    rank with every other one, for one message. An exception on rank 0 is raised on all of them, so
    that none waits for what never comes.
    """
    store = _store(rank, call, environ)
    if rank.index > 0:
        done, value = json.loads(store.get("decision"))
        if store.add("heard", 1) == rank.world - 1:
            store.set("all have heard", "")
        if not done:
            raise RuntimeError(f"visops.infer: rank 0 could not plan: {value}")
        return value
    error: Exception | None = None
    try:
        said: tuple[bool, Any] = (True, decide())
    except Exception as raised:
        said, error = (False, f"{type(raised).__name__}: {raised}"), raised
    store.set("decision", json.dumps(said))
    if rank.world > 1:
        # This process may be what holds the store: it must not end before.
        store.wait(["all have heard"], PLANNING_TIMEOUT)
    if error is not None:
        raise error
    return said[1]


def _store(rank: Rank, call: int, environ: Mapping[str, str]) -> Any:
    """Connect to the store of the environment: torchrun's, or one that rank 0 opens."""
    try:
        host, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    except (KeyError, ValueError):
        raise RuntimeError(
            "visops.infer: ranks need MASTER_ADDR and MASTER_PORT in the environment; "
            "torchrun sets them"
        ) from None
    opened = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host,
        port,
        rank.world,
        is_master=rank.index == 0 and not opened,
        timeout=PLANNING_TIMEOUT,
        wait_for_workers=False,
        multi_tenant=True,
    )
    # torchrun's store outlives a restart of its ranks; a program may run several folders.
    restart = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"visops.infer/{restart}/{call}", store)  # type: ignore[attr-defined]


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
