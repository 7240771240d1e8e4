"""Runs of `visops.infer` that end in the middle, for test_kills.py and test_faults.py.

A fork server that has imported torch starts each process in a few milliseconds.
"""

import hashlib
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch
from visops.infer import Pipeline, Preprocess
from waiting import LIMIT

from infer.folders import Masked
from infer.networks import BATCH, Small

# Files in the outputs that may differ between runs: they hold times.
TIMES = ("summary.json",)


def pipeline(network: Callable[..., Any] | None = None, **options: Any) -> Pipeline:
    """A small network, a picture of each image, and options for small images.

    With masks, a detector beside it.
    """
    chosen = {
        "batch_size": BATCH,
        "workers": 0,
        "preprocess": Preprocess((32, 32)),
        "annotate": "png",
        **options,
    }
    models: dict[str, Any] = {"small": network or Small()}
    if "masks" in chosen:
        models["masked"] = Masked()
    return Pipeline(models, **chosen)


def tree(out: Path) -> dict[str, str]:
    """The digest of each file of a finished run that must be the same in every run."""
    return {
        os.fsdecode(os.path.relpath(path, out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name not in TIMES
    }


def process(target: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Start a function of this module in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["visops.infer", "torchvision.io"])
    child = context.Process(target=target, args=arguments)
    child.start()
    return child


def finished(child: ForkServerProcess) -> int:
    """Wait for a process; its exit status, or minus the signal that ended it."""
    child.join(LIMIT)
    assert child.exitcode is not None, "the run hangs"
    return child.exitcode


def begin() -> None:
    """Set up a process of this module."""
    torch.set_num_threads(1)
    # Otherwise these processes would start their workers through a fork server too, which is slow.
    multiprocessing.set_start_method("fork", force=True)


def whole_run(images: Path, out: Path, options: dict[str, Any]) -> None:
    """Run to the end; the exit status is the summary's."""
    begin()
    sys.exit(pipeline(**options).run(images, out).exit_code)


def slow_run(images: Path, out: Path, options: dict[str, Any], seconds: float) -> None:
    """The same with a slow network, as leader of its own process group."""
    begin()
    os.setsid()
    sys.exit(pipeline(Slow(seconds), **options).run(images, out).exit_code)


class Slow(Small):
    """A slower network that the check on resumption takes for the same."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return super().forward(batch)


# The plan compares names.
Slow.__module__, Slow.__qualname__ = Small.__module__, Small.__qualname__


def die_at(images: Path, out: Path, options: dict[str, Any], step: int) -> None:
    """Run, and die just before the `step`-th operation on the disk; exit with 0 if there are fewer.

    Operations are: opening a file below `out` for writing, syncing, renaming, removing.
    """
    begin()
    left = step
    sync = os.fsync

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted_sync(fd: Any) -> None:
        count()
        sync(fd)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        changes = event in ("os.rename", "os.remove", "os.mkdir") or (
            event == "open"
            and isinstance(arguments[2], int)
            and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if changes and os.fsdecode(arguments[0]).startswith(str(out)):
            count()

    run = pipeline(writer_threads=1, **options)
    os.fsync = counted_sync
    sys.addaudithook(hook)
    sys.exit(run.run(images, out).exit_code)


def limited_run(
    images: Path, out: Path, options: dict[str, Any], largest: int, message: Path
) -> None:
    """Run with a limit on file sizes; write what it raises to `message`, and exit with 3."""
    begin()
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, most))
    try:
        pipeline(**options).run(images, out)
    except Exception as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        message.write_text(f"{type(error).__name__}: {error}")
        sys.exit(3)


def kill_group(child: ForkServerProcess, alone: bool) -> None:
    """Send SIGKILL to a process and, unless `alone`, to its workers."""
    assert child.pid is not None
    with suppress(ProcessLookupError):
        if alone:
            os.kill(child.pid, signal.SIGKILL)
        else:
            os.killpg(child.pid, signal.SIGKILL)


def read(out: Path) -> list[dict[str, Any]]:
    lines = (out / "results.jsonl").read_bytes().splitlines()
    return [json.loads(line) for line in lines]


def committed(out: Path) -> list[int]:
    """Batches in the manifest; check that their files are there."""
    try:
        lines = (out / "manifest.jsonl").read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    found = [json.loads(line) for line in lines]
    for line in found:
        records = (out / line["part"]).read_bytes().splitlines()
        assert len(records) == line["ok"] + line["failed"] + line["skipped"]
    return [line["batch"] for line in found]
