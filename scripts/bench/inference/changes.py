"""The same loop with four changes, each of which can be made alone."""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from .clock import Timing, whole
from .loops import classify, detect
from .networks import DETECTOR
from .on_device import classify_batch, detect_batch
from .per_image import detect_image
from .steps import SUFFIX, decode, preprocess, skipped, to_device, write

Record = dict[str, Any]

AHEAD = 256  # maximum number of photos waiting to be written


@dataclass(frozen=True)
class Changes:
    """Which of the four changes are made, and two more.

    `by_image` is the third change with torchvision's operators, which take an image at a time;
    `channels_last` is how networks have their pixels in memory.
    """

    batches: bool = False
    workers: bool = False
    on_device: bool = False
    writers: bool = False
    channels_last: bool = False
    by_image: bool = False


@dataclass(frozen=True)
class Limits:
    """Sizes for the changes that are made."""

    batch: int = 64
    workers: int = 2
    writers: int = 2


@dataclass
class Batch:
    """Decoded photos in one block of memory, which is faster to send than many."""

    pixels: Tensor  # uint8
    shapes: list[tuple[int, ...]]
    names: list[str]
    failed: list[tuple[str, str]]  # name and reason
    seconds: float  # of decoding

    def pin_memory(self) -> "Batch":
        """Pin the pixels: called by the loader's thread while the device is busy."""
        self.pixels = self.pixels.pin_memory()
        return self

    def photos(self, pixels: Tensor) -> list[Tensor]:
        """Return views of all photos, in the batch's pixels or a copy of them."""
        sizes = [torch.Size(shape).numel() for shape in self.shapes]
        parts = pixels.split(sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


class Batches(Dataset[Batch]):
    """Decodes batch by batch; a broken file is a value, not an exception."""

    def __init__(self, folder: Path, names: Sequence[str], size: int) -> None:
        self._folder = folder
        self._batches = [names[i : i + size] for i in range(0, len(names), size)]

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Batch:
        began = time.perf_counter()
        photos: list[Tensor] = []
        batch = Batch(torch.empty(0, dtype=torch.uint8), [], [], [], 0.0)
        for name in self._batches[index]:
            photo = decode(self._folder / name)
            if isinstance(photo, str):
                batch.failed.append((name, photo))
            else:
                photos.append(photo)
                batch.names.append(name)
        if photos:
            batch.pixels = torch.cat([photo.reshape(-1) for photo in photos])
        batch.shapes = [tuple(photo.shape) for photo in photos]
        batch.seconds = time.perf_counter() - began
        return batch


def _load(batches: Batches, workers: int, timing: Timing, device: torch.device) -> Iterator[Batch]:
    if workers == 0:
        for index in range(len(batches)):
            with timing.stage("decode"):
                batch = batches[index]
            yield batch
        return
    loader = DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=2 if len(batches) < AHEAD else 8,
        pin_memory=device.type == "cuda",
    )
    for batch in loader:
        timing.stages["decode"] += batch.seconds
        yield batch


def _results(
    outputs: Mapping[str, Any],
    networks: Mapping[str, nn.Module],
    batch: Batch,
    changes: Changes,
) -> list[Record]:
    """Return the results of each network, per photo."""
    sizes = [(shape[2], shape[1]) for shape in batch.shapes]
    found: dict[str, list[Record]] = {}
    for name, output in outputs.items():
        if name == DETECTOR:
            logits, shifts = output["logits"], output["shifts"]
            anchors: Any = networks[name].anchors
            if changes.by_image:
                rows = zip(logits, shifts, sizes, strict=True)
                found[name] = [
                    detect_image(row, shift, anchors, *size) for row, shift, size in rows
                ]
            elif changes.on_device:
                found[name] = detect_batch(logits, shifts, anchors, sizes)
            else:
                arrays = logits.cpu().numpy(), shifts.cpu().numpy()
                fixed = anchors.cpu().numpy()
                found[name] = [
                    detect(row, shift, fixed, *size)
                    for row, shift, size in zip(*arrays, sizes, strict=True)
                ]
        elif changes.on_device or changes.by_image:
            found[name] = classify_batch(output)
        else:
            found[name] = [classify(row) for row in output.cpu().numpy()]
    return [{name: rows[i] for name, rows in found.items()} for i in range(len(batch.names))]


class Writer:
    """Writes directly, or in threads; then it waits if too much is pending."""

    def __init__(self, out: Path, threads: int, timing: Timing) -> None:
        self._out, self._timing = out, timing
        self._pool = ThreadPoolExecutor(threads) if threads else None
        self._pending: deque[Future[float]] = deque()

    def _write(self, record: Record, photo: Tensor | None) -> float:
        began = time.perf_counter()
        write(self._out, record, photo)
        return time.perf_counter() - began

    def __call__(self, record: Record, photo: Tensor | None = None) -> None:
        """Write a record, or queue it."""
        if self._pool is None:
            self._timing.stages["write"] += self._write(record, photo)
            return
        self._pending.append(self._pool.submit(self._write, record, photo))
        while len(self._pending) > AHEAD:
            self._timing.stages["write"] += self._pending.popleft().result()

    def close(self) -> None:
        """Wait until everything is written."""
        if self._pool is not None:
            self._timing.stages["write"] += sum(future.result() for future in self._pending)
            self._pool.shutdown()


@torch.inference_mode()
def run_changed(
    folder: Path,
    files: Sequence[str],
    out: Path,
    networks: Mapping[str, nn.Module],
    device: torch.device,
    changes: Changes,
    limits: Limits = Limits(),
) -> Timing:
    """As :func:`bench.inference.naive.run_naive`, with some changes."""
    timing = Timing(device=device)
    if changes.workers:
        timing.apart["decode"] = limits.workers
    if changes.writers:
        timing.apart["write"] = limits.writers
    with whole(timing):
        writer = Writer(out, limits.writers if changes.writers else 0, timing)
        for name in files:
            if not name.endswith(SUFFIX):
                writer(skipped(name))
        names = [name for name in files if name.endswith(SUFFIX)]
        batches = Batches(folder, names, limits.batch if changes.batches else 1)
        workers = limits.workers if changes.workers else 0
        for batch in _load(batches, workers, timing, device):
            for name, reason in batch.failed:
                writer({"image": name, "status": "failed", "reason": reason})
            if not batch.names:
                continue
            with timing.stage("preprocess"):
                pixels = preprocess(
                    batch.photos(to_device(batch.pixels, device)), changes.channels_last
                )
            with timing.stage("models"):
                outputs = {name: network(pixels) for name, network in networks.items()}
            with timing.stage("post-process"):
                results = _results(outputs, networks, batch, changes)
            rows = zip(batch.names, results, batch.photos(batch.pixels), strict=True)
            for name, found, photo in rows:
                writer({"image": name, "status": "ok", "outputs": found}, photo)
        writer.close()
    return timing
