"""Folders of small images, and tiny networks, for the tests of visops.infer."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

needs_pyarrow = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is missing")


def read_table(path: Path) -> Any:
    """Return a Parquet file's table."""
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path)


def photo(seed: int, height: int, width: int) -> np.ndarray:
    """Smooth colours, which JPEG and resizing change little."""
    generator = np.random.default_rng(seed)
    small = Image.fromarray(generator.integers(0, 256, (4, 5, 3)).astype(np.uint8))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))


def save(
    path: Path, seed: int = 0, height: int = 24, width: int = 32, **options: Any
) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = photo(seed, height, width)
    Image.fromarray(pixels).save(path, **options)
    return pixels


def fill(folder: Path) -> Path:
    """Write 13 images of different sizes, 4 unreadable ones, and 2 files that are not images."""
    for i in range(13):
        name = f"{'deep/er/' if i % 3 == 0 else ''}{i:02d}.{'png' if i % 4 == 0 else 'jpg'}"
        save(folder / name, i, 20 + 3 * i, 30 + i)
    whole = (folder / "01.jpg").read_bytes()
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "half.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "text.jpg").write_text("no image")
    (folder / "deep" / "gone.png").symlink_to("nowhere")
    (folder / "notes.txt").write_text("not even called one")
    (folder / "README").write_text("nor this")
    return folder


@contextmanager
def recursion_limit(calls: int) -> Iterator[None]:
    """Lower the recursion limit, so that fewer folders within each other reach it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(calls)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def nested(folder: Path, depth: int) -> Iterator[Path]:
    """A folder `depth` folders below another one, until the end of the block."""
    inner = f"{folder}{'/d' * depth}"
    subprocess.run(["mkdir", "-p", inner], check=True)
    try:
        yield Path(inner)
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)


def records(out: Path) -> dict[str, dict[str, Any]]:
    lines = (out / "results.jsonl").read_bytes().splitlines()
    found = {record["image"]: record for record in map(json.loads, lines)}
    assert len(found) == len(lines)
    return found


def files(out: Path) -> dict[str, bytes]:
    """All files that must not depend on what happened during the run."""
    names = [path for path in out.rglob("*") if path.is_file()]
    kept = {str(path.relative_to(out)): path.read_bytes() for path in names}
    return {
        name: data
        for name, data in kept.items()
        if not name.startswith(("manifest", "summary", "trace"))
    }


class Network(nn.Module):
    """Means of the channels times a matrix: scores of 4 classes."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(3, 4, generator=generator))

    def forward(self, batch: Tensor) -> Tensor:
        return batch.mean((2, 3)) @ self.weight


class Detector(nn.Module):
    """The same boxes for every image, in pixels of its input; scores depend on the image."""

    BOXES = ((4.0, 6, 20, 22), (5, 6, 21, 22), (0, 0, 8, 8), (40, 40, 60, 50))

    def forward(self, batch: Tensor) -> dict[str, Tensor]:
        count = len(batch)
        boxes = torch.tensor(self.BOXES).expand(count, -1, -1)
        mean = batch.mean((1, 2, 3)).sigmoid()
        scores = mean[:, None, None] * torch.tensor([[0.9, 0.1], [0.8, 0.7], [0.3, 0.6], [0, 0.5]])
        return {"boxes": boxes, "scores": scores}


class Masked(nn.Module):
    """Objects with masks that overlap, as torchvision's detectors return them.

    Scores depend on the image; the objects themselves are the same, in inputs of 48 x 64 pixels.
    """

    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.count = count

    def forward(self, batch: Tensor) -> list[dict[str, Tensor]]:
        k, (height, width) = torch.arange(self.count), batch.shape[2:]
        x, y = 3.0 * (k % 16), 2.0 * (k // 16)
        boxes = torch.stack([x, y, x + 15, y + 9], 1)
        masks = torch.zeros(self.count, 1, height, width)
        for i in range(self.count):
            masks[i, 0, int(y[i]) : int(y[i]) + 9, int(x[i]) : int(x[i]) + 15] = 0.9
        order = torch.arange(self.count).flip(0) / (self.count + 1) if self.count else k.float()
        mean = batch.mean((1, 2, 3)).sigmoid()
        return [
            {"boxes": boxes, "scores": (s * (0.2 + order)), "labels": k % 5, "masks": masks}
            for s in mean
        ]


class Refusing(nn.Module):
    """A network that raises if any image of the batch is nearly white."""

    def forward(self, batch: Tensor) -> Tensor:
        if (batch.mean((1, 2, 3)) > 0.98).any():
            raise ArithmeticError("too bright")
        return batch.mean((2, 3))


def comparable(out: Path) -> dict[str, bytes]:
    """Return the outputs without the parts and the plan, whose names tell of earlier models."""
    return {
        name: data
        for name, data in files(out).items()
        if not name.startswith(("parts/", "plan.jsonl"))
    }
