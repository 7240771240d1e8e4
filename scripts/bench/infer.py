"""Five networks over a folder of photos: visops.infer beside a simple script.

The script processes one photo at a time: decode, preprocess in one pass, run four classifiers and a
torchvision detector, post-process in NumPy, write a JSON file and the photo with its boxes.
visops.infer works in batches of 64, with workers and threads; it also syncs and commits what it
writes. Both must produce the same records. Both keep freed memory, which glibc's malloc would give
back after each large activation.
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from bench.harness import Case, Contender, rows
from bench.harness.report import ROOT
from bench.inference.agreement import compare
from bench.inference.naive import list_files, read_records, run_naive
from bench.inference.networks import DETECTOR, IOU, MOST, SCORE, SIDE, TOP, build_networks
from bench.inference.photos import make_photos
from torch import nn
from visops import infer

CACHE = ROOT / "out" / "inference"  # photos
Records = list[dict[str, Any]]


def model(name: str, network: nn.Module) -> infer.Model:
    """A network with what the library does to its outputs."""
    found: Any = infer.Classification(top_k=TOP)
    if name == DETECTOR:
        found = infer.Detection(score_threshold=SCORE, iou_threshold=IOU, max_detections=MOST)
    return infer.Model(name, network, postprocess=found)


def run_library(
    folder: Path, out: Path, networks: dict[str, nn.Module], batch: int, device: torch.device
) -> Records:
    """As :func:`run_naive`, of the whole folder; returns the records.

    It does more: every file is synced before the batch that it belongs to is committed, so that no
    crash loses or repeats anything.
    """
    summary = infer.run(
        folder,
        out,
        [model(name, network) for name, network in networks.items()],
        batch_size=batch,
        device=str(device),
        preprocess=infer.Preprocess((SIDE, SIDE)),
        channels_last=True,
        annotate="jpeg",
        reduced=False,
        exif=False,
    )
    if summary.exit_code:
        raise RuntimeError(f"visops.infer ended with {summary.counts}, signal: {summary.signal}")
    lines = (out / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def contenders(
    folder: Path, networks: dict[str, nn.Module], batch: int, device: torch.device
) -> list[Contender]:
    """Both ways; a script whose records differ fails the row."""
    files = list_files(folder)
    seen: list[Records] = []

    def into_a_folder(job: Callable[[Path], Records]) -> Callable[[], Records]:
        def call() -> Records:
            out = Path(tempfile.mkdtemp(prefix="infer-", dir=folder.parent))
            try:
                return job(out)
            finally:
                shutil.rmtree(out)

        return call

    def library(out: Path) -> Records:
        return run_library(folder, out, networks, batch, device)

    def script(out: Path) -> Records:
        run_naive(folder, files, out, networks, device)
        return read_records(out)

    def remember(records: Records) -> None:
        seen.append(records)

    def agree(records: Records) -> None:
        found = compare(records, seen[0])
        if found.errors:
            raise RuntimeError("outputs differ from the script's: " + "; ".join(found.errors[:3]))

    return [
        Contender("visops", into_a_folder(library), comparable=remember),
        Contender("one photo at a time", into_a_folder(script), comparable=agree),
    ]


def photos(count: int) -> list[Contender]:
    """JPEG files of many sizes, some of them broken."""
    infer.keep_freed_memory()
    device = torch.get_default_device()
    networks = {name: net.to(device) for name, net in build_networks().items()}
    return contenders(make_photos(CACHE, count), networks, 64, device)


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    table = {f"{count} files": (count,) for count in (64, 512)}
    options: Any = {"memory": False, "workers": True, "on_cuda": True}
    return rows("five networks", photos, table, "^64", **options)
