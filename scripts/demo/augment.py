"""The demo of the transforms: photos with boxes and masks through real DataLoaders."""

import hashlib
import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from bench.harness import interleave, set_threads
from torch.utils.data import DataLoader, Dataset, default_collate
from tqdm import tqdm
from visops import transforms

from demo.chains import Chain, Sample, make_chains, visops_chain
from demo.objects import Scene

BATCH = 32
LENGTH = 1_000_000  # of the data set, which repeats its photos: a loader is timed, not emptied
ROUNDS = 2


class Photos(Dataset[Sample]):
    """JPEG files in memory, with their annotations; every item has been through `transform`."""

    def __init__(self, scenes: Sequence[Scene], transform: Callable[[Sample, int], Any]) -> None:
        self.files = []
        for scene in scenes:
            bgr = cv2.cvtColor(scene.photo, cv2.COLOR_RGB2BGR)
            self.files.append(cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 92])[1])
        self.scenes = scenes
        self.transform = transform

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> Any:
        position = index % len(self.files)
        bgr: Any = cv2.imdecode(self.files[position], cv2.IMREAD_COLOR)
        photo = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
        return self.transform({**self.scenes[position].sample(), "image": photo}, index)


def keep(sample: Sample, index: int) -> Sample:
    """Leave the transforms to `collate`, which finds the index in the sample."""
    return {**sample, "index": index}


def drop(sample: Sample, index: int) -> int:
    """Drop the photo, which leaves only the time of decoding."""
    return index


def collate(samples: list[Sample]) -> Sample:
    """Images and masks as tensors; boxes, labels and points, of varying number, as lists."""
    dense = {key: default_collate([s[key] for s in samples]) for key in ("image", "mask")}
    return dense | {key: [s[key] for s in samples] for key in ("boxes", "labels", "keypoints")}


def one_thread(_: int) -> None:
    """Give each worker one thread."""
    torch.set_num_threads(1)
    cv2.setNumThreads(0)


def loader(
    scenes: Sequence[Scene],
    transform: Callable[[Sample, int], Any],
    collate_fn: Callable[[list[Any]], Any],
    workers: int,
) -> DataLoader[Any]:
    """A DataLoader as in any training script."""
    return DataLoader(
        Photos(scenes, transform),
        batch_size=BATCH,
        num_workers=workers,
        collate_fn=collate_fn,
        worker_init_fn=one_thread,
    )


def loader_rates(loaders: Sequence[DataLoader[Any]], seconds: float) -> list[float]:
    """Images per second of each loader: the best of a few rounds, taken in turn.

    A loader whose turn is over fills its queue and rests; those batches are not counted.
    """
    iterators = [iter(batches) for batches in loaders]
    best = [0.0] * len(loaders)
    for _ in tqdm(range(ROUNDS), desc="loading", unit="round", leave=False, disable=None):
        for index, iterator in enumerate(iterators):
            for _ in range((loaders[index].prefetch_factor or 0) * loaders[index].num_workers + 1):
                next(iterator)
            start, count = time.perf_counter(), 0
            while time.perf_counter() - start < seconds:
                next(iterator)
                count += 1
            best[index] = max(best[index], count * BATCH / (time.perf_counter() - start))
    return best


@dataclass
class Row:
    """One line of the table."""

    name: str
    how: str
    alone: float | None  # images per second, of the chain on one thread
    loaded: float  # images per second, out of the loader


def measure(
    scenes: Sequence[Scene], chains: Sequence[Chain], workers: int, min_time: float
) -> list[Row]:
    """Time every chain alone and in a loader."""
    set_threads(1)
    samples = [scene.sample() for scene in scenes]
    calls: list[Callable[[], Any]] = [
        lambda chain=chain: [chain.call(sample, 0) for sample in samples]  # type: ignore[misc]
        for chain in chains
    ]
    fused = visops_chain()
    calls.append(lambda: fused.collate(samples))
    seconds = [timing.minimum for timing in interleave(calls, min_time=min_time)]
    rates = [len(samples) / value for value in seconds]

    entries: list[tuple[str, str, float | None, Any, Any]] = [
        ("visops, collate", "Compose.collate: one call for a batch", rates[-1], keep, fused.collate)
    ]
    entries += [
        (chain.name, chain.how, rate, chain.call, collate)
        for chain, rate in zip(chains, rates, strict=False)
    ]
    entries.append(
        ("(decoding alone)", "no loader is faster than this", None, drop, default_collate)
    )
    loaded = loader_rates([loader(scenes, *entry[3:], workers) for entry in entries], min_time)
    return [Row(*entry[:3], speed) for entry, speed in zip(entries, loaded, strict=True)]


def print_rows(rows: Sequence[Row], workers: int) -> None:
    """The table, and the ratios to the first row."""
    heads = ("chain alone, 1 thread", f"DataLoader, {workers} worker{'s' if workers > 1 else ''}")
    print(f"\n{'images/s (visops = 1)':<24}" + "".join(f"{head:>24}" for head in heads))
    first = rows[0]
    assert first.alone is not None
    for row in rows:
        alone = "" if row.alone is None else f"{row.alone:>9,.0f} ({row.alone / first.alone:.2f})"
        loaded = f"{row.loaded:>9,.0f} ({row.loaded / first.loaded:.2f})"
        print(f"{row.name:<24}{alone:>24}{loaded:>24}   {row.how}")


def digests(scenes: Sequence[Scene], workers: int) -> str:
    """A hash of every byte of the first two batches."""
    fused = visops_chain()
    found = hashlib.sha256()
    for batch in itertools.islice(loader(scenes, keep, fused.collate, workers), 2):
        for key in ("image", "mask", "boxes", "labels", "keypoints"):
            values = batch[key] if isinstance(batch[key], list) else [batch[key]]
            for value in values:
                found.update(np.ascontiguousarray(np.asarray(value)).tobytes())
    return found.hexdigest()[:16]


def save_preview(scene: Scene, path: Path) -> None:
    """What the chain does to the first photo."""
    figure = transforms.preview(visops_chain(), scene.sample(), 11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def run(scenes: Sequence[Scene], output: Path, min_time: float) -> None:
    """Run this part of the demo."""
    workers = max(1, min(2, len(os.sched_getaffinity(0))))
    chain = visops_chain()
    print(chain)
    save_preview(scenes[0], output)
    sizes = sorted({f"{s.photo.shape[1]}×{s.photo.shape[0]}" for s in scenes})
    print(
        f"\n{len(scenes)} photos ({', '.join(sizes)}) with boxes, a mask and key points.\n"
        "The chains of all libraries have the same ranges and give float32 images with targets; "
        f"the loaders\ndecode JPEG and give batches of {BATCH}."
    )
    chains, missing = make_chains()
    print_rows(measure(scenes, chains, workers, min_time), workers)
    if missing:
        print(f"Not installed, so not compared: {', '.join(missing)}.")
    found = {count: digests(scenes, count) for count in (0, 1, 2)}
    same = len(set(found.values())) == 1
    print(
        "\nSeed and index decide alone: with 0, 1 and 2 workers the first 64 samples have "
        + (f"the same bytes ({found[0]})." if same else f"DIFFERENT bytes: {found}.")
    )
    print(f"Preview: {output}")
