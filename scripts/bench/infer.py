"""Five networks over a folder of photos: a simple script, then four changes, in turn and alone.

The script processes one photo at a time: decode, preprocess in one pass, run four classifiers and a
torchvision detector, post-process in NumPy, write a JSON file and the photo with its boxes. The
changes: batches of 64; decoding in a DataLoader's workers; post-processing on the device, with
visops.batched_nms; writing in a pool of threads. The variants take turns on slices of the photos,
so that a busy machine slows all of them down. Each must produce the same records as the script, or
the benchmark ends with an error. More rows keep freed memory, and use channels_last; the last is
visops.infer, which also syncs and commits what it writes.
"""

import argparse
import contextlib
import copy
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `bench` is a package

from bench.harness import results
from bench.harness.report import ROOT, describe, machine_facts, slug
from bench.inference import chart
from bench.inference.agreement import Agreement, compare
from bench.inference.changes import Changes, Limits, run_changed
from bench.inference.clock import Timing
from bench.inference.library import read_library, run_library
from bench.inference.memory import kept_memory
from bench.inference.naive import run_naive
from bench.inference.networks import SIDE, build_networks
from bench.inference.photos import make_photos
from bench.inference.steps import list_files, read_records

Networks = Mapping[str, nn.Module]

COUNT, SLICE = 2048, 256
CACHE = ROOT / "out" / "inference"


@dataclass
class Variant:
    """One way to do the job, and what was found about it."""

    key: str
    group: str
    label: str
    changes: Changes | None = None  # None: the script as it is
    library: bool = False
    keep_memory: bool = False
    slices: list[float] = field(default_factory=list)  # seconds of each
    timing: Timing = field(default_factory=Timing)
    agreement: Agreement = field(default_factory=Agreement)


def all_variants() -> list[Variant]:
    """In the order of the table."""
    four = Changes(batches=True, workers=True, on_device=True, writers=True)
    last = Changes(batches=True, workers=True, on_device=True, writers=True, channels_last=True)
    return [
        Variant("naive", "the script", "one photo at a time"),
        Variant("batches", "alone", "batches of 64", Changes(batches=True)),
        Variant("workers", "alone", "DataLoader workers", Changes(workers=True)),
        Variant("on_device", "alone", "post-processing on the device", Changes(on_device=True)),
        Variant(
            "by_image",
            "alone",
            "post-processing by torchvision.ops",
            Changes(by_image=True),
        ),
        Variant("writers", "alone", "writes by threads", Changes(writers=True)),
        Variant("two", "in turn", "batches, workers", Changes(batches=True, workers=True)),
        Variant(
            "three",
            "in turn",
            "batches, workers, device",
            Changes(batches=True, workers=True, on_device=True),
        ),
        Variant("four", "in turn", "all four", four),
        Variant("memory", "beyond", "all four, freed memory kept", four, keep_memory=True),
        Variant("last", "beyond", "the same, channels last", last, keep_memory=True),
        Variant(
            "library",
            "beyond",
            "visops.infer, synced and committed",
            last,
            library=True,
            keep_memory=True,
        ),
    ]


@contextlib.contextmanager
def slices_of(folder: Path, files: Sequence[str], size: int) -> Iterator[list[Path]]:
    """Folders of `size` files each, linked to those of `folder`, for as long as this lasts."""
    root = folder.with_name(f"{folder.name}.slices-{os.getpid()}")
    try:
        parts = []
        for start in range(0, len(files), size):
            part = root / f"{start:05d}"
            for name in files[start : start + size]:
                (part / name).parent.mkdir(parents=True, exist_ok=True)
                os.link(folder / name, part / name)
            parts.append(part)
        yield parts
    finally:
        shutil.rmtree(root, ignore_errors=True)


def run_variant(
    variant: Variant,
    folder: Path,
    out: Path,
    networks: Networks,
    device: torch.device,
    limits: Limits,
) -> tuple[Timing, list[dict[str, Any]]]:
    """Do a slice; return its times and records."""
    files = list_files(folder)
    with kept_memory() if variant.keep_memory else contextlib.nullcontext():
        if variant.changes is None:
            return run_naive(folder, files, out, networks, device), read_records(out)
        if variant.library:
            timing = run_library(
                folder,
                out,
                networks,
                device,
                channels_last=variant.changes.channels_last,
                limits=limits,
            )
            return timing, read_library(out)
        timing = run_changed(folder, files, out, networks, device, variant.changes, limits)
        return timing, read_records(out)


@torch.inference_mode()
def warm_up(networks: Networks, device: torch.device, batch: int) -> None:
    """First calls choose and compile kernels."""
    for size in {1, batch}:
        for network in networks.values():
            network(torch.zeros(size, 3, SIDE, SIDE, device=device))


def measure(
    variants: Sequence[Variant],
    parts: Sequence[Path],
    networks: Networks,
    device: torch.device,
    limits: Limits,
    write: Callable[[str], object],
) -> None:
    """Run all variants over all slices, and compare what they have written."""
    plain = {name: network.to(device) for name, network in networks.items()}
    last = {
        name: copy.deepcopy(network).to(memory_format=torch.channels_last)
        for name, network in plain.items()
    }
    warm_up(plain, device, limits.batch)
    warm_up(last, device, limits.batch)
    with tqdm(total=len(parts) * len(variants), unit="slice", leave=False, disable=None) as bar:
        for number, part in enumerate(parts):
            shift = number % len(variants)
            found: dict[str, list[dict[str, Any]]] = {}
            for variant in (*variants[shift:], *variants[:shift]):
                bar.set_postfix_str(variant.label)
                out = part.with_name(f"{part.name}-{variant.key}")
                channels_last = variant.changes is not None and variant.changes.channels_last
                chosen = last if channels_last else plain
                timing, found[variant.key] = run_variant(variant, part, out, chosen, device, limits)
                shutil.rmtree(out)
                variant.slices.append(timing.wall)
                variant.timing.add(timing)
                bar.update()
            for variant in variants[1:]:
                agreement = compare(found[variants[0].key], found[variant.key])
                for error in agreement.errors[:3]:
                    write(f"{variant.label}: {error}")
                variant.agreement.add(agreement)


def result_of(
    variants: Sequence[Variant],
    machine: dict[str, Any],
    options: argparse.Namespace,
    images: int,
    limits: Limits,
) -> dict[str, Any]:
    """Everything that was measured, as the JSON file has it."""
    first = variants[0].timing.wall
    rows = []
    for variant in variants:
        timing, agreement = variant.timing, asdict(variant.agreement)
        stage, share = timing.limits()
        agreement["errors"] = len(variant.agreement.errors)
        rows.append(
            {
                "key": variant.key,
                "group": variant.group,
                "label": variant.label,
                "changes": asdict(variant.changes) if variant.changes else None,
                "keep_memory": variant.keep_memory,
                "wall_s": timing.wall,
                "cpu_s": timing.cpu,
                "slices_s": variant.slices,
                "saved": 1 - timing.wall / first,
                "images_per_s": images / timing.wall,
                "stages_s": dict(timing.stages),
                "apart": timing.apart,
                "limits": stage,
                "limits_share": share,
                "agreement": agreement,
            }
        )
    return {
        "op": "infer",
        "description": (__doc__ or "").strip(),
        "machine": machine,
        "device": options.device,
        "threads": torch.get_num_threads(),
        "limits": asdict(limits),
        "images": images,
        "variants": rows,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="infer.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--count", type=int, default=COUNT, help=f"JPEG files, made once (default: {COUNT})"
    )
    parser.add_argument(
        "--slice", type=int, default=SLICE, help=f"files that variants take turns at ({SLICE})"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="that decode")
    parser.add_argument("--writers", type=int, default=os.cpu_count(), help="threads that write")
    parser.add_argument(
        "--threads", type=int, help="of a network's layer (default: torch's, one a core)"
    )
    parser.add_argument(
        "--variants", help="comma-separated keys, such as naive,four,library (default: all)"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help="photos and weights are kept in")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="PATH",
        help="result file (default: docs/benchmarks/infer_<chip>.json, for whole runs only)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    options = _parser().parse_args(argv)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    limits = Limits(options.batch_size, options.workers, options.writers)
    variants = all_variants()
    if options.variants is not None:
        wanted = {"naive", *options.variants.split(",")}
        if unknown := wanted - {variant.key for variant in variants}:
            print(f"no variant {', '.join(sorted(unknown))}", file=sys.stderr)
            return 2
        variants = [variant for variant in variants if variant.key in wanted]
    with kept_memory():  # before there are threads, that all variants have one arena of glibc's
        pass
    machine = machine_facts()
    print(f"{(__doc__ or '').strip()}\n\n{describe(machine)}", flush=True)
    folder = make_photos(options.cache, options.count)
    networks = build_networks(options.cache)
    files = list_files(folder)
    device = torch.device(options.device)
    with slices_of(folder, files, options.slice) as parts:
        measure(variants, parts, networks, device, limits, lambda text: tqdm.write(text))
    result = result_of(variants, machine, options, len(files), limits)
    print(f"\n{chart.text(result)}")
    path = options.json
    if path is None and options.count >= COUNT and options.variants is None:
        chip = slug(machine["cpu" if device.type == "cpu" else "gpu"])
        path = ROOT / "docs" / "benchmarks" / f"infer_{chip}.json"
    if path is not None:
        results.write(path, result)
        print(f"wrote {path}")
    wrong = [variant.label for variant in variants if not variant.agreement.fine]
    if wrong:
        print(f"outputs differ from the script's: {'; '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
