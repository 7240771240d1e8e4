"""Images, a network and a run shared by the tests of `visops.infer` over many processes."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from visops.infer import Pipeline, Preprocess
from visops.infer.engine.job import Job
from visops.infer.frames import Frame
from visops.infer.images.decode import Decoder
from visops.infer.store.manifest import Commit
from visops.infer.store.merge import Counts

COUNT = 42
BATCH = 4
CRASHES = "0/003.jpg"


@contextmanager
def interrupted_merge(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Send SIGTERM to this process when merging starts; it must survive."""
    before = Job.merge

    def interrupted(job: Job, committed: dict[int, Commit]) -> Counts:
        os.kill(os.getpid(), signal.SIGTERM)
        return before(job, committed)

    monkeypatch.setattr(Job, "merge", interrupted)
    died = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the signal would have killed it"))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, died)


def convolutions() -> nn.Sequential:
    """A few convolutions, with the same weights each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(3, 8, 3, 2),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 7),
        )


class Small(nn.Module):
    """A small network. If `marker` names a missing file, the process dies once.

    It creates the file first, so that the next process at this batch lives, and writes into it how
    many arenas its malloc may have.

    Parameters
    ----------
    marker : str, optional
    after : int
        Batches to process before.
    white : bool
        Die at a white image, every time.
    seconds : float
        Minimum duration of a batch.
    """

    def __init__(
        self,
        marker: str | None = None,
        after: int = 2,
        *,
        white: bool = False,
        seconds: float = 0.0,
    ) -> None:
        super().__init__()
        self.body = convolutions()
        self.marker, self.left, self.white, self.seconds = marker, after, white, seconds

    def forward(self, batch: Tensor) -> Tensor:
        time.sleep(self.seconds)
        self.left -= 1
        if self.marker is not None and self.left < 0 and not os.path.exists(self.marker):
            Path(self.marker).write_text(os.environ.get("MALLOC_ARENA_MAX", "many"))
            os.kill(os.getpid(), signal.SIGKILL)
        if self.white and bool((batch.amax((2, 3)) - batch.amin((2, 3)) < 1e-3).all(1).any()):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.body(batch)


def make_white(path: Path) -> None:
    """Make an image white."""
    Image.new("RGB", (40, 30), "white").save(path)


class Crashing(Decoder):
    """A decoder that crashes at one image."""

    def image(self, path: str, room: int | None = None) -> tuple[Tensor, Frame]:
        if path == CRASHES:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().image(path, room)


def make_images(folder: Path, count: int = COUNT) -> Path:
    """Write small images of several sizes and formats, a damaged one, and a text file."""
    generator = np.random.default_rng(7)
    for index in range(count):
        height, width = generator.integers(20, 70, 2)
        pixels = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
        path = folder / f"{index % 3}" / f"{index:03d}.{('png', 'jpg')[index % 2]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    (folder / "0" / "006.png").write_bytes(b"\x89PNG no more than that")
    (folder / "notes.txt").write_text("no image")
    return folder


def pipeline(network: nn.Module | None = None, **options: Any) -> Pipeline:
    """The same pipeline everywhere, so that runs can resume each other."""
    chosen: dict[str, Any] = {
        "batch_size": BATCH,
        "workers": 0,
        "preprocess": Preprocess((32, 32)),
        **options,
    }
    return Pipeline({"small": network or Small()}, **chosen)


def outputs(out: Path) -> dict[str, bytes]:
    """The files that must be equal in all finished runs, byte for byte."""
    return {name: (out / name).read_bytes() for name in ("results.jsonl", "quarantine.jsonl")}


def committed(out: Path) -> list[int]:
    """Batches in the order of the manifest's lines."""
    lines = (out / "manifest.jsonl").read_text().splitlines()
    return [json.loads(line)["batch"] for line in lines]
