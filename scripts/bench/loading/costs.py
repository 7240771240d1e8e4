"""What a table of ratios leaves out: threads and stages, the first batch, memory."""

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from bench.harness import results
from bench.harness.report import ROOT, describe, machine_facts, slug
from bench.loading import files, ours
from bench.render import stages
from torch.utils.data import DataLoader
from visops import transforms as V

SIZE = (480, 640)
MANY = 1_000_000  # paths in the list of a data set
WORKERS = 8
THREADS = (1, 2, 4, 16)


def first_batch() -> dict[str, float]:
    """Return the seconds from the construction of a loader to its first batch, the least of 3."""
    paths, own = files.paths_of(SIZE), ours.chain()

    def by_loader() -> Any:
        return iter(V.Loader(paths, own, files.BATCH, threads=files.THREADS))

    def by_workers(start: str) -> Callable[[], Any]:
        dataset = V.IndexedDataset(ours.Loaded(paths, ours.contents), own)
        options: Any = {"num_workers": files.THREADS, "multiprocessing_context": start}
        return lambda: iter(DataLoader(dataset, files.BATCH, **options))

    makers = {
        "Loader": by_loader,
        "DataLoader, 2 workers, fork": by_workers("fork"),
        "DataLoader, 2 workers, spawn": by_workers("spawn"),
    }
    times: dict[str, list[float]] = {name: [] for name in makers}
    for _ in range(3):
        for name, make in makers.items():
            begin = time.perf_counter()
            iterator = make()
            next(iterator)
            times[name].append(time.perf_counter() - begin)
            del iterator
    return {name: min(own_times) for name, own_times in times.items()}


def read(sample: tuple[str, int]) -> tuple[bytes, int]:
    return Path(sample[0]).read_bytes(), sample[1]


class Many(ours.Loaded):
    """A list of a million paths, as ImageFolder holds them; reads files itself, or not."""

    def __init__(self, paths: Sequence[str], reads: bool) -> None:
        # Each with a string of its own, as from a listing of a folder.
        samples = [(f"{paths[i % len(paths)]}", i) for i in range(MANY)]
        super().__init__(samples, read if reads else tuple)


def _proportional(process: int) -> int:
    """Bytes of memory of a process, of which shared pages count as shares."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    lines = [line.split() for line in text.splitlines()]
    return next(int(line[1]) for line in lines if line[0] == "Pss:") * 1024


def _measure(kind: str, paths: Sequence[str], connection: Any) -> None:
    own, dataset = ours.chain(), Many(paths, kind != "Loader")
    batches: Any
    if kind == "Loader":
        batches = iter(V.Loader(dataset, own, files.BATCH, shuffle=True, threads=WORKERS))
    else:
        indexed = V.IndexedDataset(dataset, own)
        batches = iter(DataLoader(indexed, files.BATCH, shuffle=True, num_workers=WORKERS))
    for _ in range(24):
        next(batches)
    children = [child.pid for child in multiprocessing.active_children()]
    connection.send(sum(_proportional(p) for p in [os.getpid(), *filter(None, children)]))
    del batches


def memory() -> dict[str, int]:
    """Return the bytes of all processes, in a fresh one each, after 24 batches."""
    context = multiprocessing.get_context("spawn")
    paths, found = files.paths_of(SIZE), {}
    for kind in ("Loader", "DataLoader"):
        receiver, sender = context.Pipe(False)
        process = context.Process(target=_measure, args=(kind, paths, sender))
        process.start()
        found[f"{kind}, {WORKERS} {'threads' if kind == 'Loader' else 'workers'}"] = receiver.recv()
        process.join()
    return found


def by_threads() -> list[dict[str, Any]]:
    """Return the best of 5 epochs for each number of threads, which take turns."""
    paths, own = files.paths_of(SIZE), ours.chain()
    loaders = {n: V.Loader(paths, own, files.BATCH, threads=n) for n in THREADS}
    best: dict[int, Any] = {}
    for _ in range(5):
        for number, loader in loaders.items():
            loader.set_epoch(0)
            for _batch in loader:
                pass
            stats = loader.stats()
            if number not in best or stats.seconds < best[number].seconds:
                best[number] = stats
    return [
        {
            "threads": number,
            "images_per_s": round(stats.images_per_second, 1),
            "shares": {name: round(share, 4) for name, share in stats.shares.items()},
        }
        for number, stats in best.items()
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure, print and write all."""
    parser = argparse.ArgumentParser("loading.costs", description=__doc__)
    parser.add_argument(
        "--json", type=Path, help="result file (default: docs/benchmarks/loader_stages_<chip>.json)"
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    machine = machine_facts()
    print(describe(machine), flush=True)
    result = {
        "op": "loader_stages",
        "description": __doc__,
        "machine": machine,
        "size": f"{SIZE[1]}×{SIZE[0]}",
        "epochs": by_threads(),
        "first_batch_s": first_batch(),
        "paths": MANY,
        "memory_bytes": memory(),
    }
    print(f"\n{stages(result)}")
    name = f"loader_stages_{slug(machine['cpu'])}.json"
    path = options.json or ROOT / "docs" / "benchmarks" / name
    results.write(path, result)
    print(f"wrote {path}")
    return 0
