"""What a benchmark measured: its rows, their table on the terminal, and the machine."""

import dataclasses
import datetime
import importlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from . import results

ROOT = Path(__file__).resolve().parents[3]
LABEL = 32  # characters of a row's label
PACKAGES = ("torch", "torchvision", "cv2", "kornia", "numpy", "visops")
MORE_PACKAGES = ("albumentations", "PIL", "scipy", "simplejpeg")  # named where they are loaded

# Every generation calls itself "AMD EPYC" in a virtual machine; family and model tell them apart.
ZEN = (
    ("Zen", 23, range(0x00, 0x30)),
    ("Zen 2", 23, range(0x30, 0xB0)),
    ("Zen 3", 25, (*range(0x00, 0x10), *range(0x20, 0x60))),
    ("Zen 4", 25, (*range(0x10, 0x20), *range(0x60, 0xB0))),
    ("Zen 5", 26, (*range(0x00, 0x50), *range(0x60, 0x80))),
)


@dataclass
class Cell:
    """One contender in one case. Times are in seconds."""

    name: str
    min_s: float | None = None
    median_s: float | None = None
    ratio: float | None = None  # its minimum over ours: above 1, we are faster
    max_abs: float | None = None  # difference of its output from ours
    mean_abs: float | None = None
    extra_bytes: int | None = None
    bound: bool = False  # not a peer: a part of our own work, or another form of it

    @property
    def verdict(self) -> str:
        """One word for the table."""
        if self.min_s is None:  # not timed, because its output differed too much
            return "DIFFERS"
        return "LOST" if self.ratio is not None and self.ratio < 1.0 and not self.bound else ""


@dataclass
class Row:
    """One case at one thread count; the first cell is ours."""

    group: str
    label: str
    device: str
    threads: int
    cells: list[Cell]
    facts: dict[str, Any] = field(default_factory=dict)


def _version(package: str) -> str | None:
    try:
        module = importlib.import_module(package)
    except ImportError:
        return None
    return str(getattr(module, "__version__", "unknown"))


def _cpu_model() -> dict[str, str]:
    facts = {"cpu": platform.processor() or platform.machine()}
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return facts
    for key, name in (("cpu", "model name"), ("cpu_family", "cpu family"), ("cpu_model", "model")):
        found = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
        if found:
            facts[key] = found.group(1).strip()
    facts["cpu"] = chip_name(facts["cpu"], facts.get("cpu_family"), facts.get("cpu_model"))
    return facts


def chip_name(brand: str, family: str | None = None, model: str | None = None) -> str:
    """A processor's name without trademarks, filler and clock, but with its generation."""
    short = re.sub(r"\((R|TM|C)\)|\b(Processor|CPU)\b|@.*$", " ", brand, flags=re.IGNORECASE)
    name = " ".join(short.split())
    if name.startswith("AMD ") and family is not None and model is not None:
        for generation, zen_family, models in ZEN:
            if int(family) == zen_family and int(model) in models:
                return f"{name} {generation}"
    return name


def _commit() -> str | None:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def machine_facts() -> dict[str, Any]:
    """Everything a reader needs to judge the figures."""
    import visops

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    packages = (*PACKAGES, *(package for package in MORE_PACKAGES if package in sys.modules))
    return {
        **_cpu_model(),
        "cores": os.cpu_count(),
        "isa": visops.build_info()["cpu"],
        "gpu": gpu,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in packages},
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def describe(machine: dict[str, Any]) -> str:
    """The facts in three lines."""
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items() if v)
    chip = machine["cpu"]
    if "cpu_family" in machine:
        chip += f" (family {machine['cpu_family']}, model {machine.get('cpu_model')})"
    return (
        f"{chip}, {machine['cores']} cores, visops kernels: {machine['isa']}"
        f"{', GPU: ' + machine['gpu'] if machine['gpu'] else ''}\n"
        f"{versions}, Python {machine['python']}\n"
        f"{machine['date']}, commit {machine['commit']}, load {machine['load_average']}"
        f"{', ' + machine['clock'] if 'clock' in machine else ''}"
    )


def duration(seconds: float) -> str:
    """The time in a suitable unit, to three digits."""
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
    unit, scale = next((u for u in units if seconds >= u[1]), units[-1])
    value = seconds / scale
    return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f} {unit}"


def mebibytes(count: int | None) -> str:
    """Extra memory, as the tables show it."""
    return "" if count is None else f"+{count / 2**20:.0f}M" if count else "+0"


def rate(seconds: float, images: int) -> str:
    """Images per second."""
    return f"{images / seconds:.0f}/s"


def cell_text(cell: Cell, ours: bool, images: int | None = None) -> str:
    """``min / median images/s ×ratio +memory verdict``."""
    if cell.min_s is None or cell.median_s is None:
        return f"not timed: output differs by {cell.max_abs:.3g} (mean {cell.mean_abs:.2g})"
    parts = [f"{duration(cell.min_s):>7} / {duration(cell.median_s):>7}"]
    if images is not None:
        parts.append(f"{rate(cell.min_s, images):>7}")
    if not ours:
        parts.append(f"×{cell.ratio:<5.2f}")
    parts.append(f"{mebibytes(cell.extra_bytes):>5}")
    if not ours:
        parts.append(f"{cell.verdict:<4}")
    return " ".join(parts)


class Table:
    """Prints rows as they arrive; a new group starts a new table."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._group: tuple[str, str] | None = None

    def add(self, row: Row) -> None:
        """Print one row, preceded by the table's head if it is the first."""
        images = row.facts.get("images")
        texts = [cell_text(cell, i == 0, images) for i, cell in enumerate(row.cells)]
        if self._group != (row.device, row.group):
            self._group = (row.device, row.group)
            more = 0 if images is None else 8
            columns = "  ".join(
                f"{cell.name:<{more + (37 if i else 23)}}" for i, cell in enumerate(row.cells)
            )
            self._write(
                f"\n{row.group} on {row.device}: minimum / median of a call, ratio of minima, "
                f"memory beyond the output\n{'':<{LABEL}}thr  {columns}"
            )
        self._write(f"{row.label:<{LABEL}}{row.threads:>3}  " + "  ".join(texts))


def summary(rows: Sequence[Row]) -> str:
    """Every comparison that was lost, or not made."""
    lines = []
    for title, verdict in (
        ("lost (ratio below 1)", "LOST"),
        ("not timed, the output differs", "DIFFERS"),
    ):
        found = [(row, cell) for row in rows for cell in row.cells[1:] if cell.verdict == verdict]
        lines.append(f"{title}: {len(found)}")
        for row, cell in found:
            ratio = "" if cell.ratio is None else f" ×{cell.ratio:.2f}"
            lines.append(
                f"  {row.device}, {row.group}, {row.label}, threads {row.threads}: "
                f"{cell.name}{ratio}"
            )
    return "\n".join(lines)


def slug(name: str) -> str:
    """A chip's name, fit for a file name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def default_path(op: str, machine: dict[str, Any], rows: Sequence[Row]) -> Path:
    """The result file of a whole run."""
    on_gpu = any(row.device != "cpu" for row in rows)
    return ROOT / "docs" / "benchmarks" / f"{op}_{slug(machine['gpu' if on_gpu else 'cpu'])}.json"


def write_json(
    path: Path, op: str, description: str, machine: dict[str, Any], rows: Sequence[Row]
) -> None:
    """Write a result file: see `results`."""
    result = {
        "op": op,
        "description": description.strip(),
        "machine": machine,
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    results.write(path, result)
